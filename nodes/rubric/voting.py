"""Several judges of one draft: how their judgements become one assessment."""

from __future__ import annotations

from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Literal, get_args

from .rubrics import Judgement, QualityAssessment, Rubric, assess

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["VOTES", "Vote", "vote_on"]

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
    found = assess(rubric, together, threshold=threshold)
    votes: list[dict[str, Any]] = [
        {"by": name, "overall_score": one.overall_score, "meets_threshold": one.meets_threshold} for name, one in alone
    ]
    meets = found.meets_threshold
    if vote == "majority":
        meets = 2 * sum(one.meets_threshold for _, one in alone) > len(alone)
    details = {**found.assessment_details, "vote": vote, "votes": votes}
    return found.model_copy(update={"meets_threshold": meets, "assessment_details": details})


def _combined(judgements: Sequence[Judgement], vote: Vote) -> Judgement:
    """Return the panel's judgement of one dimension, with the suggestion of its strictest member."""
    read = [one for one in judgements if one.score is not None]
    by = ", ".join(dict.fromkeys(one.by for one in judgements if one.by))
    if not read or (vote != "majority" and len(read) < len(judgements)):
        trouble = next((one.reason for one in judgements if one.score is None), "nobody judged it")
        return Judgement(reason=trouble, by=by)
    scores = [one.score for one in read if one.score is not None]
    strictest = min(read, key=lambda one: one.score or 0.0)
    return Judgement(
        score=min(1.0, max(0.0, fmean(scores) if vote == "mean" else median(scores))),
        suggestion=strictest.suggestion,
        reason=strictest.reason,
        by=by,
        cached=all(one.cached for one in judgements),
        refused=any(one.refused for one in judgements),
    )
