"""Where a fork starts: the values and the node that a new thread is written with. Pure; `Thread.fork` writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .events import CRITIQUE_KINDS, DRAFT_KINDS, Event, digest, record
from .folds import attempts, current_run
from .limits import merged_limits
from .stopping import decide

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

__all__ = ["ForkPoint", "before_check", "before_refine", "fork_at_checkpoint", "fork_at_round"]

NODE_BEFORE = {"generate": "prepare", "human": "feedback", "check": "feedback"}
"""The node that has just run when this one is next; before `feedback` it is `generate` or `refine`."""


@dataclass(frozen=True)
class ForkPoint:
    """What a new thread is written with, as `update_state(config, values, as_node=…)` takes it."""

    values: dict[str, Any]
    as_node: str


def fork_at_round(
    values: Mapping[str, Any],
    number: int,
    *,
    feedback: str | None = None,
    draft: str | None = None,
    limits: Mapping[str, Any] | None = None,
) -> ForkPoint:
    """Return a fork at the draft of one round.

    Args:
        values: State values whose record reaches that round.
        number: 0 is the first draft, n the n-th revision.
        feedback: Replaces that draft's critiques, and with them its acceptance.
        draft: Replaces that draft; it is judged anew.
        limits: Changed limits; those not named stay.

    Raises:
        ValueError: There is no such draft, a text is blank, or a limit makes no sense.
    """
    events: list[Event] = list(values.get("events") or [])
    rounds = [attempt.round for attempt in attempts(events)]
    if number not in rounds:
        raise ValueError(f"there is no draft of round {number}; this run has drafts of rounds {rounds}")
    start = len(events) - len(current_run(events))
    index = max(
        position
        for position, event in enumerate(events)
        if position >= start and event["kind"] in DRAFT_KINDS and event["round"] == number and not event.get("rejected")
    )
    return _fork(values, events, index, feedback=feedback, draft=draft, limits=limits)


def fork_at_checkpoint(
    values: Mapping[str, Any],
    following: Sequence[str],
    *,
    feedback: str | None = None,
    draft: str | None = None,
    limits: Mapping[str, Any] | None = None,
    nodes: Container[str] = (),
) -> ForkPoint:
    """Return a fork at one checkpoint.

    Where a revision is due and the new limits leave no room for it, the fork stands before `check`, which says so.

    Args:
        values: State values at the checkpoint.
        following: The nodes that are next there.
        feedback: Replaces the critiques of the latest draft there.
        draft: Replaces the latest draft there.
        limits: Changed limits; those not named stay.
        nodes: Those of the graph.

    Raises:
        ValueError: The run has not begun there, or there is no draft whose feedback could be replaced.
    """
    events: list[Event] = list(values.get("events") or [])
    upcoming = following[0] if following else None
    if not events or upcoming in {"__start__", "prepare"}:
        raise ValueError("the run has not begun at this checkpoint; use rerun() to start its task anew")
    found = attempts(events)
    if found and (feedback is not None or draft is not None or upcoming is None):
        return fork_at_round(values, found[-1].round, feedback=feedback, draft=draft, limits=limits)
    if feedback is not None or draft is not None:
        raise ValueError("there is no draft yet at this checkpoint")
    fresh = _fresh(values, events, limits)
    if upcoming == "refine":
        as_node = before_refine(events, values.get("limits"), fresh["limits"], nodes)
    elif upcoming == "feedback":
        as_node = "generate" if events[-1]["kind"] == "draft" else "refine"
    elif upcoming in NODE_BEFORE:
        as_node = NODE_BEFORE[upcoming]
    else:
        raise ValueError(f"the next node there is {upcoming!r}, which is not one of the loop's")
    return ForkPoint(fresh, as_node)


def before_refine(
    events: Sequence[Event], current: Mapping[str, Any] | None, limits: Mapping[str, Any], nodes: Container[str]
) -> str:
    """Return the node to write as where a revision is due: the one before `check` if changed limits rule it out."""
    return before_check(nodes) if limits != current and decide(events, limits) else "check"


def before_check(nodes: Container[str]) -> str:
    """Return the node that `check` follows in a graph with these nodes."""
    return "human" if "human" in nodes else "feedback"


def _fork(
    values: Mapping[str, Any],
    events: list[Event],
    index: int,
    *,
    feedback: str | None,
    draft: str | None,
    limits: Mapping[str, Any] | None,
) -> ForkPoint:
    for name, text in (("feedback", feedback), ("draft", draft)):
        if text is not None and not text.strip():
            raise ValueError(f"{name} is blank; leave it out to keep what there is")
    original = events[index]
    kept = events[: index if draft is not None else index + 1]
    news: list[dict[str, Any]] = []
    if draft is not None:
        edited = {key: value for key, value in original.items() if key not in {"prev", "usage"}}
        news.append({**edited, "by": "human", "text": draft})
    elif feedback is None:
        for event in events[index + 1 :]:
            if event["kind"] not in CRITIQUE_KINDS:
                break
            kept.append(event)
    if feedback is not None:
        news.append(
            {
                "kind": "human",
                "round": original["round"],
                "by": "human",
                "text": feedback,
                "accepted": False,
                "score": None,
            }
        )
    added = record({"head": digest(kept[-1]) if kept else ""}, *news).get("events", [])
    branch = [*kept, *added]
    judged = branch[-1]["kind"] in CRITIQUE_KINDS
    writer = "generate" if original["kind"] == "draft" else "refine"
    return ForkPoint(_fresh(values, branch, limits), "feedback" if judged else writer)


def _fresh(values: Mapping[str, Any], events: list[Event], limits: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        **values,
        "events": events,
        "head": digest(events[-1]),
        "limits": merged_limits(values.get("limits"), limits),
        "stop_reason": None,
        "answer": "",
    }
