"""Rubrics: weighted dimensions, the assessments that scores add up to, and votes of several judges. Internal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ...state.limits import limits_in_force
from ...state.stopping import rounds_allowed
from ...state.summary import Attempt, attempts, best_draft, current_run, rounds, run_options, usage_total

if TYPE_CHECKING:
    from ...state.events import Event

__all__ = [
    "VOTES",
    "Dimension",
    "Judgement",
    "QualityAssessment",
    "Rubric",
    "Vote",
    "assess",
    "assessment_of",
    "refinement_metadata",
    "refinement_metrics",
    "vote_on",
]


class _Plain(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Dimension(_Plain):
    """One thing that a draft is judged on."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    """Lower case, as it stands in events and forms."""
    weight: float = Field(gt=0)
    """Its share in the overall score; weights need not add up to 1."""
    description: str = ""
    """The question that a judge is asked about it."""
    required: bool = False
    """No draft is accepted while this is weak, however good the rest is: for what a program checks, above all."""


class Rubric(_Plain):
    """The dimensions that a draft is judged on, and what is enough.

    Raises:
        ValueError: There is no dimension, two have one name, or a number makes no sense.
    """

    dimensions: tuple[Dimension, ...] = Field(min_length=1)
    threshold: float = Field(default=0.8, ge=0, le=1)
    """A draft is accepted from this overall score up, 0–1."""
    weak_below: float = Field(default=0.6, ge=0, le=1)
    """Every dimension with a score below gets a suggestion, 0–1."""

    @model_validator(mode="after")
    def _names_differ(self) -> Rubric:
        if twice := sorted({name for name in self.names if self.names.count(name) > 1}):
            raise ValueError(f"each dimension needs a name of its own; {twice!r} stand there twice")
        if not math.isfinite(sum(one.weight for one in self.dimensions)):
            raise ValueError("the weights add up to more than a float can hold; make them smaller")
        return self

    @property
    def names(self) -> list[str]:
        return [dimension.name for dimension in self.dimensions]

    @property
    def weights(self) -> dict[str, float]:
        """Weights by name, which add up to 1."""
        whole = sum(dimension.weight for dimension in self.dimensions)
        return {dimension.name: dimension.weight / whole for dimension in self.dimensions}


class Judgement(_Plain):
    """One judge's score and reasons for one dimension of one draft."""

    score: float | None = Field(default=None, ge=0, le=1)
    """0–1, or `None` when the judgement could not be read."""
    suggestion: str = ""
    """The change that would raise the score."""
    reason: str = ""
    """The grounds of the score; without a score, why there is none."""
    by: str = ""
    cached: bool = False
    """It was given before for the same question, and cost nothing now."""
    refused: bool = False
    """True if the judge does not accept the draft, whatever the score."""
    oracle: bool = False
    """True if the judge knows the gold answer."""
    usage: dict[str, Any] | None = None
    """The cost of judging, where the judge counts it itself."""


class QualityAssessment(_Plain):
    """The quality of a draft, dimension by dimension."""

    overall_score: float | None = Field(ge=0, le=1)
    """The weighted mean of the scores that could be read, 0–1; `None` when none could."""
    dimension_scores: dict[str, float]
    """0–1, of the dimensions whose judgement could be read."""
    improvement_suggestions: list[str]
    """One for every weak dimension, the one worth most (weight × what it lacks) first."""
    meets_threshold: bool
    """True if the overall score is enough; never while a dimension has no score, a required one is weak, or a judge
    refuses the draft."""
    assessment_details: dict[str, Any]
    """`threshold`, `weights` (they add up to 1), `judged_by`, `reasons`, `suggestions`, `weak` (dimensions), `cached`
    and, where they apply, `blocking` (required dimensions that are weak, and those whose judge refuses), `unreadable`
    (dimension → why), `partial` (the overall score leaves those out), `vote` and `votes`, and `person`."""

    @property
    def proven_score(self) -> float | None:
        """The overall score with 0 for what could not be read: no draft gets ahead because its judge stumbled."""
        if self.overall_score is None:
            return None
        weights = self.assessment_details["weights"]
        total = sum(weights[name] * score for name, score in self.dimension_scores.items())
        return self.overall_score if not self.assessment_details.get("partial") else min(1.0, total)


def assess(rubric: Rubric, judgements: Mapping[str, Judgement], *, threshold: float | None = None) -> QualityAssessment:
    """Return the assessment that judgements of one draft add up to.

    Args:
        rubric: What is judged, and with what weights.
        judgements: By dimension. One that is missing or has no score accepts nothing.
        threshold: In place of the rubric's.

    Raises:
        ValueError: The threshold is not in 0–1.
    """
    wanted = rubric.threshold if threshold is None else threshold
    if not 0 <= wanted <= 1:
        raise ValueError(f"threshold must be between 0 and 1, not {wanted!r}")
    weights = rubric.weights
    complete = {name: judgements.get(name, Judgement(reason="nobody judged it")) for name in rubric.names}
    scores = {name: one.score for name, one in complete.items() if one.score is not None}
    overall = _mean(scores, weights) if scores else None
    suggestions = _suggestions(rubric, complete, weights)
    weak = [name for name in suggestions if scores[name] < rubric.weak_below]
    blocking = [
        one.name
        for one in rubric.dimensions
        if one.name in scores and (complete[one.name].refused or (one.required and one.name in weak))
    ]
    details = {"threshold": wanted, "weights": weights, "suggestions": suggestions, "weak": weak, **_judged(complete)}
    if blocking:
        details["blocking"] = blocking
    return QualityAssessment(
        overall_score=overall,
        dimension_scores=scores,
        improvement_suggestions=[f"{name}: {suggestions[name]}" for name in weak],
        # A mean of tenths may fall short of the threshold by a rounding error.
        meets_threshold=overall is not None
        and len(scores) == len(complete)
        and not blocking
        and round(overall, 9) >= wanted,
        assessment_details=details,
    )


def _mean(scores: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Return the weighted mean of the scores that there are."""
    return min(1.0, sum(weights[name] * scores[name] for name in scores) / sum(weights[name] for name in scores))


def _judged(judgements: Mapping[str, Judgement]) -> dict[str, Any]:
    """Return the judge of each dimension with its reason, and the judgements that can't be read."""
    unreadable = {name: judgement.reason for name, judgement in judgements.items() if judgement.score is None}
    return {
        "judged_by": {name: judgement.by for name, judgement in judgements.items()},
        "reasons": {
            name: judgement.reason
            for name, judgement in judgements.items()
            if judgement.reason and name not in unreadable
        },
        "cached": [name for name, judgement in judgements.items() if judgement.cached],
        **({"unreadable": unreadable, "partial": True} if unreadable else {}),
    }


def _suggestions(rubric: Rubric, judgements: Mapping[str, Judgement], weights: Mapping[str, float]) -> dict[str, str]:
    """Return a suggestion for each dimension that falls short, first where the overall score loses most."""
    lost = {
        name: (weights[name] * (judgement.score - 1), name)
        for name, judgement in judgements.items()
        if judgement.score is not None and (judgement.score < 1 or judgement.refused)
    }
    short = sorted((dimension for dimension in rubric.dimensions if dimension.name in lost), key=lambda d: lost[d.name])
    return {dimension.name: judgements[dimension.name].suggestion.strip() or _wish(dimension) for dimension in short}


def _wish(dimension: Dimension) -> str:
    return f"This falls short: {dimension.description}" if dimension.description else "This falls short."


Vote = Literal["mean", "median", "majority"]
VOTES: tuple[str, ...] = get_args(Vote)


def vote_on(
    rubric: Rubric, ballots: Sequence[tuple[str, Mapping[str, Judgement]]], *, vote: Vote, threshold: float
) -> QualityAssessment:
    """Return the assessment of all judges together.

    With `mean` and `median` each dimension gets that of its scores, and one that any judge left unreadable has none.
    With `majority` it gets the median of what could be read, and the draft is accepted when more than half of the
    judges find it good enough by themselves; one that could not be read says no.

    Args:
        rubric: What was judged.
        ballots: (judge, its judgements by dimension), one or more.
        vote: How they are counted.
        threshold: What is good enough, 0–1.
    """
    if len(ballots) == 1:
        return assess(rubric, ballots[0][1], threshold=threshold)
    alone = [(name, assess(rubric, judgements, threshold=threshold)) for name, judgements in ballots]
    together = {
        name: _combined([judgements.get(name, Judgement()) for _, judgements in ballots], vote) for name in rubric.names
    }
    assessment = assess(rubric, together, threshold=threshold)
    votes: list[dict[str, Any]] = [
        {"by": name, "overall_score": ballot.overall_score, "meets_threshold": ballot.meets_threshold}
        for name, ballot in alone
    ]
    meets = assessment.meets_threshold
    if vote == "majority":
        meets = 2 * sum(ballot.meets_threshold for _, ballot in alone) > len(alone)
    details = {**assessment.assessment_details, "vote": vote, "votes": votes}
    return assessment.model_copy(update={"meets_threshold": meets, "assessment_details": details})


def _combined(judgements: Sequence[Judgement], vote: Vote) -> Judgement:
    """Return the panel's judgement of one dimension, with the suggestion of its strictest member."""
    read = [judgement for judgement in judgements if judgement.score is not None]
    by = ", ".join(dict.fromkeys(judgement.by for judgement in judgements if judgement.by))
    if not read or (vote != "majority" and len(read) < len(judgements)):
        trouble = next((judgement.reason for judgement in judgements if judgement.score is None), "nobody judged it")
        return Judgement(reason=trouble, by=by)
    scores = [judgement.score for judgement in read if judgement.score is not None]
    strictest = min(read, key=lambda judgement: judgement.score or 0.0)
    return Judgement(
        score=min(1.0, max(0.0, fmean(scores) if vote == "mean" else median(scores))),
        suggestion=strictest.suggestion,
        reason=strictest.reason,
        by=by,
        cached=all(judgement.cached for judgement in judgements),
        refused=any(judgement.refused for judgement in judgements),
    )


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
        "average_iterations": _mean_or_none([rounds(events) for events in records]),
        "early_termination_rate": _mean_or_none(
            [
                out.get("stop_reason") == "accepted" and rounds(events) < rounds_allowed(limits_in_force(events))
                for out, events in zip(outputs, records, strict=True)
            ]
        ),
        "refinement_rate": _mean_or_none([rounds(events) > 0 for events in records]),
        "quality_improvement": _mean_or_none(gains),
        "compared_runs": len(gains),
        "processing_overhead": {
            "seconds": _mean_or_none(seconds),
            "tokens": _mean_or_none(tokens),
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


def _mean_or_none(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
