"""Recomputing a run's output from its record alone: no model is called, and an edited record is noticed. Internal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ..events import Event, Record, broken_links
from ..stopping import decide, error_of
from ..summary import RunSummary, accepted_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..schema import RefineOutput

__all__ = ["Replay", "replay_record"]


@dataclass(frozen=True)
class Replay:
    """The output recomputed from the record, and its differences from the result."""

    output: RefineOutput
    """Folded from the record."""
    matches: bool
    differences: tuple[str, ...]
    """One sentence for each thing in which record and result disagree."""


def replay_record(values: Mapping[str, Any], *, reopened: bool = False, **own: Any) -> Replay:
    """Return the output recomputed from the record in a thread's state, compared with the output in that state.

    Args:
        values: The state's values, as `graph.get_state(config).values` has them. The limits are read off the record.
        reopened: A run that had stopped goes on, and the record does not say so yet: its result was cleared.
        own: Values of keys that the user added to the state, which no record holds.

    Raises:
        ValueError: The state holds no record: the thread was not made by a graph of ours, or has not begun.
    """
    events: list[Event] = list(values.get("events") or [])
    if not events:
        raise ValueError("this thread holds no record of a refinement run, so there is nothing to replay")
    differences = [
        f"event {index} ({events[index]['kind']}, round {events[index]['round']}) was changed after it was written"
        for index in broken_links(events, values.get("head") or "")
    ]
    # Folded anew: nothing that was read off the record before is believed.
    summary, verdicts, read = RunSummary(), list[str](), 0
    for index, event in enumerate(events):
        if event["kind"] == "task":
            verdicts.clear()
        elif event["kind"] == "verdict":
            summary.take(events[read:index])
            read, best = index, summary.answer
            place = f"best draft at the verdict of round {event['round']}"
            verdicts += _difference(place, event.get("best"), best.round if best else None)
    summary.take(events[read:])
    run = events[summary.start :]
    if "task" in values and run[0]["kind"] == "task":
        differences += _difference("task", values["task"], run[0]["text"])
    differences += verdicts
    output = _output(events, summary)
    # Between two checks the record is ahead of the result; what was last read off it is compared at the next one.
    if run[-1]["kind"] == "verdict":
        cleared = ("answer", "stop_reason") if reopened and values.get("stop_reason") is None else ()
        listed = {"requirements": [], **values}  # which earlier releases had none of
        for key in ("answer", "stop_reason", "rounds", "score", "accepted_by", "oracle", "requirements"):
            if listed.get(key) or key not in cleared:
                differences += _difference(key, listed.get(key), output[key])
        recorded = {**ADDED_LATER, **(values.get("usage") or {})}
        for key, value in output["usage"].items():
            differences += _difference(f"usage.{key}", recorded.get(key), value)
    return Replay(cast("RefineOutput", {**output, **own}), not differences, tuple(differences))


ADDED_LATER = {"uncounted_calls": 0}
"""Usage that threads of format 1 may lack."""


def _output(events: list[Event], summary: RunSummary) -> RefineOutput:
    best, last = summary.answer, events[-1]
    reason: str | None = None
    if last["kind"] == "verdict":
        reason = last.get("stop_reason")
        if not summary.options.get("custom_check"):
            before = Record(events[summary.start : -1])
            reason = decide(before, summary.limits, out_of_steps=last.get("out_of_steps", False))
    return {
        "answer": (best.text if best else summary.said) if reason else "",
        "stop_reason": reason,
        "rounds": summary.rounds,
        "score": best.score if best else None,
        "accepted_by": accepted_by(best),
        "oracle": summary.oracle,
        "requirements": summary.requirements,
        "usage": summary.usage.copy(),
        "error": error_of(events, reason),
        "events": events,
    }


def _difference(name: str, recorded: Any, recomputed: Any) -> list[str]:
    if recorded == recomputed:
        return []
    return [f"{name}: the run says {_short(recorded)}, the record says {_short(recomputed)}"]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
