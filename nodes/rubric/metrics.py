"""Refinement metrics: gain and cost over many runs, computed from their outputs."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from ...state.limits import limits_in_force
from ...state.stopping import rounds_allowed
from ...state.summary import attempts, best_draft, current_run, rounds, run_options, usage_total

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...state.events import Event

__all__ = ["refinement_metrics"]


def refinement_metrics(outputs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the metrics of a system that refines.

    Args:
        outputs: What its runs returned. Those without a draft count as runs and have no quality.

    Returns:
        `runs`; `average_iterations`; `early_termination_rate`, the share of runs accepted with rounds to spare;
        `refinement_rate`, the share revised at least once; `quality_improvement`, the mean of the answer's score less
        the first draft's, where both have one, and `compared_runs`, how many these are; `processing_overhead`, what
        came after the first drafts: `seconds` and `tokens` for a run on average, and `share`, their part of all
        seconds. A mean or share over no run is `None`.
    """
    records = [out.get("events") or [] for out in outputs]
    gains = [gain for events in records if (gain := _gain(events)) is not None]
    seconds = [_after_first(events, "seconds") for events in records]
    tokens = [_after_first(events, "total_tokens") for events in records]
    spent = sum(usage_total(events)["seconds"] for events in records)
    return {
        "runs": len(records),
        "average_iterations": _mean([rounds(events) for events in records]),
        "early_termination_rate": _mean([_ended_early(out) for out in outputs]),
        "refinement_rate": _mean([rounds(events) > 0 for events in records]),
        "quality_improvement": _mean(gains),
        "compared_runs": len(gains),
        "processing_overhead": {
            "seconds": _mean(seconds),
            "tokens": _mean(tokens),
            "share": sum(seconds) / spent if spent else None,
        },
    }


def _gain(events: Sequence[Event]) -> float | None:
    drafts = attempts(events)
    best = best_draft(events, keep=run_options(events).get("keep", "best"))
    if best is None or best.score is None or drafts[0].score is None:
        return None
    return best.score - drafts[0].score


def _ended_early(out: Mapping[str, Any]) -> bool:
    events = out.get("events") or []
    return out.get("stop_reason") == "accepted" and rounds(events) < rounds_allowed(limits_in_force(events))


def _after_first(events: Sequence[Event], what: str) -> float:
    run: Sequence[Mapping[str, Any]] = current_run(events)
    first = next((index for index, event in enumerate(run) if event["kind"] == "draft"), len(run))
    return float(sum(event["usage"][what] for event in run[first + 1 :]))


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
