"""Where a pipeline's thread goes on: its steps stand in a row of their own, not in the loop's. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..limits import Limits, merged_limits
from ..summary import current_run
from .rules import ForkPoint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langgraph.types import StateSnapshot

__all__ = ["PIPELINE", "next_pipeline_step", "restart_pipeline"]

PIPELINE = {"begin", "check"}
"""The nodes by which a pipeline is known, beside the channel `at`."""


def next_pipeline_step(snapshot: StateSnapshot, limits: Mapping[str, Any] | None) -> ForkPoint | None:
    """Return what must be written before the thread can run on, or `None` when it just runs on, or is at its end.

    It is written as the step that was finished last, whose way on leads to the one that failed, or that a budget or a
    caller's `recursion_limit` left no room for.

    Raises:
        ValueError: A limit makes no sense.
    """
    values: Mapping[str, Any] = snapshot.values
    if not begun_pipeline(snapshot):
        return None
    changed = {"limits": merged_limits(values.get("limits"), limits)} if limits is not None else {}
    at, kept = values.get("at") or "begin", {"task": values.get("task"), "resuming": True, **changed}
    if snapshot.next:
        return ForkPoint(kept, at) if changed else None
    reason = str(values.get("stop_reason"))
    out_of_steps = current_run(values["events"])[-1].get("out_of_steps", False)
    if reason == "failed" or out_of_steps or (changed and reason.endswith("_budget")):
        return ForkPoint({"stop_reason": None, "answer": "", **kept}, at)
    return None


def restart_pipeline(snapshot: StateSnapshot, waiting: Any, limits: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the input that gives a pipeline which has not begun other limits; `None` runs on.

    Args:
        snapshot: Where the thread stands.
        waiting: The input that waits to be taken in, where one does.
        limits: The changed limits.

    Raises:
        ValueError: A limit makes no sense.
    """
    if limits is None or begun_pipeline(snapshot):
        return None
    given: Mapping[str, Any] = snapshot.values if waiting is None else waiting
    merged_limits(given.get("limits"), limits)
    changed = limits if isinstance(limits, Limits) else {**(given.get("limits") or {}), **limits}
    task = {"task": given["task"]} if given.get("task") else {}
    return {**task, "limits": dict(changed)}


def begun_pipeline(snapshot: StateSnapshot) -> bool:
    """Return whether the pipeline that was given last is past its first node."""
    return not {"__start__", "begin"} & set(snapshot.next)
