"""Where a thread goes on: what must be written before it runs, and what it is run with. Pure; `Thread.ready` writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .events import DRAFT_KINDS
from .folds import current_run
from .forks import ForkPoint, before_check, before_refine, fork_at_checkpoint
from .limits import Limits, limits_in_force, merged_limits
from .stopping import since_verdict

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from langgraph.checkpoint.base import CheckpointTuple
    from langgraph.types import StateSnapshot

    from .events import Event

__all__ = ["begun", "killed_in_mid_step", "last_writer", "next_step", "restart", "task_again", "values_of_last_run"]


def killed_in_mid_step(stored: CheckpointTuple, snapshot: StateSnapshot) -> bool:
    """Return whether a node's writes are saved but not the checkpoint that follows.

    `get_state` shows such a thread as finished, and `update_state` would drop the writes. Running it with an interrupt
    before every node applies them and runs nothing.
    """
    return not snapshot.next and bool(stored.pending_writes)


def begun(snapshot: StateSnapshot) -> bool:
    """Return whether the task that the thread was last given is past `prepare`, so that state and record are its."""
    return not {"__start__", "prepare"} & set(snapshot.next)


def restart(
    stored: CheckpointTuple, snapshot: StateSnapshot, limits: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """Return the input that gives a task which waits for `prepare` other limits; `None` runs on.

    Raises:
        ValueError: A limit makes no sense, among the new ones or among those that wait with the task.
    """
    if limits is None or begun(snapshot):
        return None
    waiting: Mapping[str, Any] = snapshot.values
    if "__start__" in snapshot.next:  # those values are still the last task's
        waiting = stored.checkpoint["channel_values"]["__start__"]
    merged_limits(waiting.get("limits"), limits)
    # What neither names is left out: `prepare` takes it from the thread or the graph.
    changed = limits if isinstance(limits, Limits) else {**(waiting.get("limits") or {}), **limits}
    given = {"messages": waiting["messages"]} if waiting.get("messages") else {}
    return {"task": waiting.get("task"), **given, "limits": dict(changed)}


def next_step(snapshot: StateSnapshot, limits: Mapping[str, Any] | None, nodes: Container[str]) -> ForkPoint | None:
    """Return what must be written before the thread can run on, or `None` when it just runs on.

    Raises:
        ValueError: A limit makes no sense.
    """
    values: Mapping[str, Any] = snapshot.values
    if not begun(snapshot):
        return None
    changed = {"limits": merged_limits(values.get("limits"), limits)} if limits is not None else {}
    if snapshot.next:
        if not changed:
            return None
        return ForkPoint(changed, fork_at_checkpoint(values, snapshot.next, limits=limits, nodes=nodes).as_node)
    if not values.get("stop_reason") and (cut_off := last_writer(values["events"], nodes)):
        return ForkPoint({"stop_reason": None, **changed}, cut_off)
    reopened = {"stop_reason": None, "answer": "", **changed}
    again = values.get("stop_reason") == "failed" or (changed and values.get("stop_reason") != "accepted")
    if again and _unfinished(values["events"]):
        return ForkPoint(reopened, "prepare")
    if values.get("stop_reason") == "failed":
        return ForkPoint(reopened, _before_failure({**values, **changed}, values.get("limits"), nodes))
    if not changed or values.get("stop_reason") == "accepted":
        return None
    return ForkPoint(reopened, "feedback")


def _before_failure(values: Mapping[str, Any], earlier_limits: Mapping[str, Any] | None, nodes: Container[str]) -> str:
    """Return the node before the one that failed; a `check` that says `failed` of its own accord is asked again."""
    run = current_run(values["events"])
    failures = [event.get("node") for event in since_verdict(run[:-1]) if event["kind"] == "failure"]
    failed = failures[-1] if failures else "check"
    if failed == "refine":
        return before_refine(values["events"], earlier_limits, values["limits"], nodes)
    if failed == "human":
        return "feedback"
    if failed == "check":
        return before_check(nodes)
    return "generate" if all(event["kind"] != "revision" for event in run) else "refine"


def last_writer(events: Sequence[Event], nodes: Container[str]) -> str | None:
    """Return the node that wrote last in a run that has no next one and no end: an async task that was cancelled after
    its result was stored leaves such a thread."""
    last = events[-1]
    node = last.get("node") if last["kind"] == "failure" else WRITERS.get(last["kind"])
    return node if node in nodes else None


WRITERS = {
    "task": "prepare",
    "draft": "generate",
    "critique": "feedback",
    "human": "human",
    "verdict": "check",
    "revision": "refine",
}


def _unfinished(events: Sequence[Event]) -> bool:
    """Return whether an agent stopped before it had finished the first draft, which is then written anew.

    Where a person said what to make of it as it is, that counts.
    """
    said = [event for event in current_run(events) if event["kind"] in (*DRAFT_KINDS, "human")]
    return bool(said) and "incomplete" in said[-1]


def values_of_last_run(snapshot: StateSnapshot) -> Mapping[str, Any]:
    """Return the state's values, without the task and limits of a run that has not begun: those of the last one that
    did are in the record."""
    values: Mapping[str, Any] = snapshot.values
    events = values.get("events")
    if begun(snapshot) or not events:
        return values
    return {**values, "task": current_run(events)[0]["text"], "limits": limits_in_force(events)}


def task_again(snapshot: StateSnapshot) -> dict[str, Any]:
    """Return the input that runs the thread's last begun task once more, with the limits in force.

    Raises:
        ValueError: No task has begun.
    """
    values = values_of_last_run(snapshot)
    if not values.get("events"):
        raise ValueError("no task of this thread has begun, so none can run once more; resume() begins it")
    given = {"messages": values["conversation"]} if values.get("conversation") else {}
    return {"task": values["task"], **given, "limits": values["limits"]}
