"""Quality assessments, refinement metadata and metrics, computed from the records of runs. Internal."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from ...state.limits import limits_in_force
from ...state.stopping import rounds_allowed
from ...state.summary import Attempt, attempts, best_draft, current_run, rounds, run_options, usage_total
from .rubrics import QualityAssessment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...state.events import Event

__all__ = ["assessment_of", "refinement_metadata", "refinement_metrics"]


def assessment_of(attempt: Attempt) -> QualityAssessment | None:
    """Return the assessment of a draft, or `None` where no rubric judged it.

    A score that a person gave joins it: the overall score is then the mean of both, and whether it is enough is what
    the person said.
    """
    assessments = [fields for one in attempt.critiques if (fields := one.get("evidence", {}).get("assessment"))]
    if not assessments:
        return None
    assessment = QualityAssessment(**assessments[-1])
    people = [one for one in attempt.critiques if one["kind"] == "human"]
    if not people:
        return assessment
    person = people[-1]
    scores = [score for score in (assessment.proven_score, person.get("score")) if score is not None]
    verdict = {"score": person.get("score"), "accepted": person.get("accepted"), "said": person["text"]}
    return assessment.model_copy(
        update={
            "overall_score": fmean(scores) if scores else None,
            "meets_threshold": person.get("accepted") is True,
            "assessment_details": {**assessment.assessment_details, "person": verdict},
        }
    )


def refinement_metadata(out: Mapping[str, Any]) -> dict[str, Any]:
    """Return the refinement of an answer as plain data.

    Args:
        out: The output of a run, or its state.

    Returns:
        `refinement_iteration` (how often the draft was revised), `quality_score` (that of the answer, 0–1, or `None`),
        `refinement_status` (`off` where refining was switched off, else the stop reason: `accepted`, `max_rounds` …),
        `refinement_history` (for each draft its `iteration`, `score`, `dimension_scores` and `suggestions`) and
        `quality_dimensions_improved` (those with a higher score in the answer than in the first draft).
    """
    events = out.get("events") or []
    drafts = attempts(events)
    options = run_options(events)
    best = best_draft(events, keep=options.get("keep", "best"))
    assessed = [(draft, assessment_of(draft)) for draft in drafts]
    # A run that is switched off ends in a check of its own; a judge that failed, or a budget, ends it otherwise.
    judged = any(draft.judged for draft in drafts)
    off = not judged and bool(options.get("custom_check")) and out.get("stop_reason") == "max_rounds"
    before = _scores(drafts[0]) if drafts else {}
    after = _scores(best) if best else {}
    return {
        "refinement_iteration": rounds(events),
        "quality_score": best.score if best else None,
        "refinement_status": "off" if off else out.get("stop_reason"),
        "refinement_history": [
            {
                "iteration": draft.round,
                "score": draft.score,
                "dimension_scores": assessment.dimension_scores if assessment else {},
                "suggestions": assessment.improvement_suggestions if assessment else [],
            }
            for draft, assessment in assessed
        ],
        "quality_dimensions_improved": [name for name, score in after.items() if score > before.get(name, 1.0)],
    }


def _scores(attempt: Attempt) -> dict[str, float]:
    assessment = assessment_of(attempt)
    return assessment.dimension_scores if assessment else {}


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
        "early_termination_rate": _mean(
            [
                out.get("stop_reason") == "accepted" and rounds(events) < rounds_allowed(limits_in_force(events))
                for out, events in zip(outputs, records, strict=True)
            ]
        ),
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


def _after_first(events: Sequence[Event], what: str) -> float:
    run: Sequence[Mapping[str, Any]] = current_run(events)
    first = next((index for index, event in enumerate(run) if event["kind"] == "draft"), len(run))
    return float(sum(event["usage"][what] for event in run[first + 1 :]))


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
