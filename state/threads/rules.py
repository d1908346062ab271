"""The rules of forking and resuming: what is written before a thread goes on. Pure; `Thread` writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..events import CRITIQUE_KINDS, DRAFT_KINDS, Event, digest, record
from ..limits import Limits, limits_in_force, merged_limits
from ..stopping import decide, since_verdict
from ..summary import attempts, current_run

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from langgraph.checkpoint.base import CheckpointTuple
    from langgraph.types import StateSnapshot

    from ..events import Event

__all__ = [
    "ForkPoint",
    "before_check",
    "before_refine",
    "begun",
    "fork_at_checkpoint",
    "fork_at_round",
    "killed_in_mid_step",
    "last_writer",
    "next_step",
    "restart",
    "task_again",
    "values_of_last_run",
]

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
