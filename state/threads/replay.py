"""Recomputing a run's output from its record alone: no model is called, and an edited record is noticed. Internal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ..events import Event, append_events, broken_links
from ..limits import limits_in_force
from ..stopping import decide
from ..summary import accepted_by, best_draft, current_run, oracle_touched, rounds, run_options, usage_total

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


def replay_record(values: Mapping[str, Any], *, reopened: bool = False) -> Replay:
    """Return the output recomputed from the record in a thread's state, compared with the output in that state.

    Args:
        values: The state's values, as `graph.get_state(config).values` has them. The limits are read off the record.
        reopened: A run that had stopped goes on, and the record does not say so yet: what it came to was cleared.

    Raises:
        ValueError: The state holds no record: the thread was not made by a graph of ours, or has not begun.
    """
    events = append_events([], [values.get("events") or []])  # nothing that was read off it before is believed
    if not events:
        raise ValueError("this thread holds no record of a refinement run, so there is nothing to replay")
    run = current_run(events)
    output = _recompute(events, run)
    differences = [
        f"event {index} ({events[index]['kind']}, round {events[index]['round']}) was changed after it was written"
        for index in broken_links(events, values.get("head") or "")
    ]
    if "task" in values and run[0]["kind"] == "task":
        differences += _difference("task", values["task"], run[0]["text"])
    differences += _verdict_differences(run)
    # Between two checks the record is ahead of the result; what was last read off it is compared at the next one.
    if run[-1]["kind"] == "verdict":
        cleared = ("answer", "stop_reason") if reopened and values.get("stop_reason") is None else ()
        for key in ("answer", "stop_reason", "rounds", "score", "accepted_by", "oracle"):
            if key in cleared and not values.get(key):
                continue
            differences += _difference(key, values.get(key), output[key])
        recorded = {**ADDED_LATER, **(values.get("usage") or {})}
        for key, value in output["usage"].items():
            differences += _difference(f"usage.{key}", recorded.get(key), value)
    return Replay(output, not differences, tuple(differences))


ADDED_LATER = {"uncounted_calls": 0}
"""What threads of format 1 may lack."""


def _recompute(events: Sequence[Event], run: Sequence[Event]) -> RefineOutput:
    options = run_options(events)
    best = best_draft(events, keep=options.get("keep", "best"))
    reason: str | None = None
    if run[-1]["kind"] == "verdict":
        last = run[-1]
        if options.get("custom_check"):
            reason = last.get("stop_reason")
        else:
            reason = decide(
                append_events([], [run[:-1]]), limits_in_force(run), out_of_steps=last.get("out_of_steps", False)
            )
    return cast(
        "RefineOutput",
        {
            "answer": best.text if best and reason else "",
            "stop_reason": reason,
            "rounds": rounds(events),
            "score": best.score if best else None,
            "accepted_by": accepted_by(best),
            "oracle": oracle_touched(events),
            "usage": usage_total(events),
            "events": list(events),
        },
    )


def _verdict_differences(run: Sequence[Event]) -> list[str]:
    """Compare every verdict with the drafts and critiques before it."""
    differences = []
    before = append_events([], [])
    for event in run:
        if event["kind"] == "verdict":
            best = best_draft(before, keep=run_options(before).get("keep", "best"))
            differences += _difference(
                f"best draft at the verdict of round {event['round']}", event.get("best"), best.round if best else None
            )
        before = append_events(before, [[event]])
    return differences


def _difference(what: str, recorded: Any, recomputed: Any) -> list[str]:
    if recorded == recomputed:
        return []
    return [f"{what}: the run says {_short(recorded)}, the record says {_short(recomputed)}"]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
