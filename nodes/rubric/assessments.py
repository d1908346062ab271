"""Quality assessments and refinement metadata, computed from the record of a run."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from ...state.summary import Attempt, attempts, best_draft, rounds, run_options
from .rubrics import QualityAssessment

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["assessment_of", "refinement_metadata"]


def assessment_of(attempt: Attempt) -> QualityAssessment | None:
    """Return the assessment of a draft, or `None` where no rubric judged it.

    A score that a person gave joins it: the overall score is then the mean of both, and whether it is enough is what
    the person said.
    """
    found = [given for one in attempt.critiques if (given := one.get("evidence", {}).get("assessment"))]
    if not found:
        return None
    assessment = QualityAssessment(**found[-1])
    people = [one for one in attempt.critiques if one["kind"] == "human"]
    if not people:
        return assessment
    person = people[-1]
    scores = [score for score in (assessment.proven_score, person.get("score")) if score is not None]
    said = {"score": person.get("score"), "accepted": person.get("accepted"), "said": person["text"]}
    return assessment.model_copy(
        update={
            "overall_score": fmean(scores) if scores else None,
            "meets_threshold": person.get("accepted") is True,
            "assessment_details": {**assessment.assessment_details, "person": said},
        }
    )


def refinement_metadata(out: Mapping[str, Any]) -> dict[str, Any]:
    """Return what refining did to the answer, as plain data.

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
                "dimension_scores": found.dimension_scores if found else {},
                "suggestions": found.improvement_suggestions if found else [],
            }
            for draft, found in assessed
        ],
        "quality_dimensions_improved": [name for name, score in after.items() if score > before.get(name, 1.0)],
    }


def _scores(attempt: Attempt) -> dict[str, float]:
    found = assessment_of(attempt)
    return found.dimension_scores if found else {}
