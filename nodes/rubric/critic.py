"""Critic that scores a draft on a rubric's dimensions, with a threshold by the task's complexity. Internal."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from numbers import Real
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.language_models import BaseChatModel
from langgraph.cache.base import BaseCache

from ...models.specs import as_model
from ...state.critique import Critique, DualCritic
from ...state.dual import Do, adrive, at_once, do, drive
from ...state.usage import NO_USAGE, Usage, add_usage
from ..runtime.meter import METER
from .judges import JUDGE_PROMPT, DimensionJudge, FunctionJudge, ModelJudge, RubricJudge
from .rubrics import VOTES, Judgement, QualityAssessment, Rubric, Vote, vote_on

if TYPE_CHECKING:
    from ...state.events import Event

__all__ = ["Adaptive", "Panel", "RubricCritic", "explained", "rubric_critic", "task_complexity", "threshold_by_task"]


def task_complexity(task: str) -> float:
    """Return the complexity of a task, 0 (one plain wish) to 1, by its length and the number of its demands.

    A demand is a question, a line of a list, a number, or a word that adds a condition. A rough guess by design: it
    costs nothing and gives the same for the same task.
    """
    words = len(task.split())
    demands = sum(len(pattern.findall(task)) for pattern in DEMANDS)
    return 0.5 * min(1.0, words / MANY_WORDS) + 0.5 * min(1.0, demands / MANY_DEMANDS)


def threshold_by_task(task: str, threshold: float) -> float:
    """Return the threshold for this task: a little higher for a simple one, lower for a complex one.

    A short answer to one question can be flawless; where a dozen things are asked for, the same threshold would spend
    every round on the last of them.

    Args:
        task: What is asked for.
        threshold: That of a task of middling complexity, 0–1.
    """
    shifted = threshold + SPREAD * (0.5 - task_complexity(task))
    return min(1.0, max(0.0, round(shifted, 3)))


Panel = BaseChatModel | str | Sequence[BaseChatModel | str]
Adaptive = bool | Callable[[str, float], float]
"""`(task, threshold) -> threshold`; `True` is `threshold_by_task`."""


class RubricCritic(DualCritic):
    """A critic that asks all judges of a rubric concurrently; see `rubric_critic`."""

    def __init__(
        self,
        rubric: Rubric,
        judges: Sequence[tuple[RubricJudge, int | None]],
        *,
        vote: Vote,
        threshold: float,
        adapt: Callable[[str, float], float] | None,
        cache: BaseCache[Any] | None,
        name: str,
    ) -> None:
        self.name = name
        self.rubric = rubric
        self.threshold = threshold
        self.judges = judges
        self.vote = vote
        self._adapt = adapt
        self._cache = cache

    @property
    def oracle(self) -> bool:
        """True if a judge knows the gold answer."""
        return any(judge.oracle for judge, _ in self.judges)

    def logic(self, task: str, draft: str, history: Sequence[Event]) -> Generator[Do, Any, Critique]:
        """Judge the draft, all judges side by side; an error is raised only after all have answered."""
        start = perf_counter()
        logics = [self._judged(at, task, draft, history) for at in range(len(self.judges))]
        replies: list[dict[str, Judgement]] = yield at_once([Do(drive, adrive, (logic,)) for logic in logics])
        seconds = perf_counter() - start
        assessment = self._assessment(task, replies)
        judgements = [judgement for reply in replies for judgement in reply.values()]
        unread = bool(assessment.assessment_details.get("partial"))
        return Critique(
            explained(assessment),
            accepted=True if assessment.meets_threshold else (None if unread else False),
            score=assessment.proven_score,
            usage=_usage(judgements, seconds),
            oracle=any(judgement.oracle for judgement in judgements),
            evidence={"assessment": assessment.model_dump()},
        )

    def _assessment(self, task: str, replies: Sequence[dict[str, Judgement]]) -> QualityAssessment:
        """Return the assessment that the judges' replies, in the order of `judges`, add up to."""
        shared: dict[str, Judgement] = {}
        ballots: dict[int, tuple[str, dict[str, Judgement]]] = {}
        for (_, seat), reply in zip(self.judges, replies, strict=True):
            shared |= reply if seat is None else {}
        for (judge, seat), reply in zip(self.judges, replies, strict=True):
            if seat is not None:
                ballots.setdefault(seat, (judge.name, dict(shared)))[1].update(reply)
        threshold = self._adapt(task, self.threshold) if self._adapt else self.threshold
        panel = list(ballots.values()) or [("functions", shared)]
        return vote_on(self.rubric, panel, vote=self.vote, threshold=threshold)

    def _judged(
        self, at: int, task: str, draft: str, history: Sequence[Event]
    ) -> Generator[Do, Any, dict[str, Judgement]]:
        """Return the answer of one judge, from the cache where it stands there."""
        judge, cache = self.judges[at][0], self._cache
        if cache is None:
            return (yield from judge.judge(task, draft, history))
        # By its place too: two judges of one name, or one that stands there twice, answer separately.
        key = (NAMESPACE, f"{at}-{judge.key(task, draft, history)}")
        if hits := (yield do(cache, "get", [key])):
            return {name: Judgement(**{**fields, "cached": True, "usage": None}) for name, fields in hits[key].items()}
        reply = yield from judge.judge(task, draft, history)
        if all(judgement.score is not None for judgement in reply.values()):
            value = {name: judgement.model_dump() for name, judgement in reply.items()}
            yield do(cache, "set", {key: (value, None)})
        return reply


def rubric_critic(
    rubric: Rubric,
    *,
    judge: Panel | None = None,
    judges: Mapping[str, BaseChatModel | DimensionJudge] | None = None,
    vote: Vote = "mean",
    together: bool = False,
    threshold: float | None = None,
    adaptive: Adaptive = False,
    cache: BaseCache[Any] | Literal[False] | None = None,
    prompt: str = JUDGE_PROMPT,
    name: str = "rubric",
) -> RubricCritic:
    """Return a critic that accepts a draft whose weighted overall score reaches the threshold.

    It is no verifier, since it asks models; a draft is kept by its score all the same. A judgement that can't be read
    accepts nothing and counts 0 in the draft's score. What was judged before, same question and same judge, is not
    asked again.

    Args:
        rubric: The dimensions with their weights.
        judge: A model that judges what `judges` leaves open, or several that vote.
        judges: For a dimension, a model or a function `(task, draft) -> score | (score, suggestion) | Critique`. A
            critique with `accepted=False` is a veto; its `oracle` and `usage` count. A function whose attribute
            `oracle` is true knows the gold answer.
        vote: How several models in `judge` are counted: see `vote_on`.
        together: Whether a model judges all its dimensions in one call. Default: one call each, all at once.
        threshold: The overall score that is enough, 0–1; default: the rubric's.
        adaptive: Whether the threshold follows the task's complexity, or a function of your own
            `(task, threshold) -> threshold`.
        cache: Where judgements are kept, as any cache of LangGraph; default: memory, as long as this critic lives.
            `False`: nowhere.
        prompt: Template over `task` and `draft`; RUBRIC stands where the dimensions are put.
        name: How events name it.

    Raises:
        ValueError: At build: a dimension has no judge or is unknown, or an argument makes no sense.
        TypeError: At build: a judge is neither a model nor a function of (task, draft), `adaptive` is no bool or
            function, the threshold no number, or `cache` no cache.
    """
    if not isinstance(rubric, Rubric):
        raise TypeError(f"a rubric is a Rubric(dimensions=[…]), not {rubric!r:.200}")
    named = dict(judges or {})
    panel: list[Any] = [] if judge is None else [judge] if isinstance(judge, BaseChatModel | str) else list(judge)
    panel = [as_model(one) if isinstance(one, str) else one for one in panel]
    if unknown := sorted(named.keys() - set(rubric.names)):
        raise ValueError(f"judges={unknown!r}: the rubric has no such dimension, only {', '.join(rubric.names)}")
    if wrong := [one for one in panel if not isinstance(one, BaseChatModel)]:
        raise TypeError(f"judge is a chat model, or several, not {wrong[0]!r}; functions stand in judges=")
    unjudged = [one for one in rubric.dimensions if one.name not in named]
    if unjudged and not panel:
        raise ValueError(
            f"nobody judges {unjudged[0].name!r}: give judge= a model, or judges={{{unjudged[0].name!r}: …}}"
        )
    _check(vote, threshold, adaptive, cache)
    if cache is None:
        from langgraph.cache.memory import InMemoryCache

        cache = InMemoryCache()
    return RubricCritic(
        rubric,
        _seats(rubric, named, panel, prompt, together=together),
        vote=vote,
        threshold=rubric.threshold if threshold is None else threshold,
        adapt=threshold_by_task if adaptive is True else adaptive or None,
        cache=cache or None,
        name=name,
    )


def _seats(
    rubric: Rubric,
    named: Mapping[str, BaseChatModel | DimensionJudge],
    panel: Sequence[BaseChatModel],
    prompt: str,
    *,
    together: bool,
) -> list[tuple[RubricJudge, int | None]]:
    """Return the judges of single dimensions, then those of the panel, each with its place there."""
    seats: list[tuple[RubricJudge, int | None]] = []
    for dimension in rubric.dimensions:
        judge = named.get(dimension.name)
        if isinstance(judge, BaseChatModel):
            seats.append((ModelJudge(judge, [dimension], prompt=prompt), None))
        elif judge is not None:
            seats.append((FunctionJudge(dimension.name, judge), None))  # type: ignore[arg-type]  # a tuple of one
    unjudged = [one for one in rubric.dimensions if one.name not in named]
    groups = [unjudged] if together and unjudged else [[one] for one in unjudged]
    models = ((ModelJudge(model, group, prompt=prompt), seat) for seat, model in enumerate(panel) for group in groups)
    return [*seats, *models]


def _check(vote: object, threshold: object, adaptive: object, cache: object) -> None:
    """Raise ValueError or TypeError unless each makes sense as an argument of `rubric_critic`."""
    if vote not in VOTES:
        raise ValueError(f"vote must be one of {', '.join(VOTES)}, not {vote!r}")
    if threshold is not None and not _is_number(threshold):
        raise TypeError(f"threshold must be a number between 0 and 1, not {threshold!r}")
    if isinstance(threshold, int | float) and not 0 <= threshold <= 1:
        raise ValueError(f"threshold must be between 0 and 1, not {threshold!r}")
    if not (isinstance(adaptive, bool) or callable(adaptive)):
        raise TypeError(f"adaptive must be True, False or a function (task, threshold), not {adaptive!r}")
    if not (cache is None or cache is False or isinstance(cache, BaseCache)):
        raise TypeError(f"cache must be a cache of LangGraph, None (memory) or False (none), not {cache!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def explained(assessment: QualityAssessment) -> str:
    """Return the assessment in words for the refiner: the worst dimensions first, then the unjudged."""
    details = assessment.assessment_details
    scores, threshold = assessment.dimension_scores, details["threshold"]
    overall = "none" if assessment.overall_score is None else f"{assessment.overall_score:.2f}"
    lines = [f"Overall score {overall}; {threshold:.2f} is wanted."]
    if blocking := details.get("blocking"):
        lines += [f"Whatever the overall score is, this must be mended first: {', '.join(blocking)}."]
    names = [*details["weak"], *details.get("blocking", [])]
    names = names or [name for name, score in scores.items() if score < threshold] or list(scores)
    lines += [
        f"- {name} ({scores[name]:.2f}): {text}" for name, text in details["suggestions"].items() if name in names
    ]
    lines += [f"- {name} has no score: {why}" for name, why in details.get("unreadable", {}).items()]
    return "\n".join(lines)


def _usage(judgements: Sequence[Judgement], seconds: float) -> Usage | None:
    """Return the cost of judging where a judge counts it itself: on top of the metered usage."""
    counted: list[Any] = [
        {**judgement.usage, "seconds": 0.0} for judgement in judgements if judgement.usage is not None
    ]
    if not counted:
        return None
    meter = METER.get()
    return add_usage(
        [*([meter.usage(seconds=0.0)] if meter is not None else []), *counted, {**NO_USAGE, "seconds": seconds}]
    )


NAMESPACE = ("redraft", "rubric")
SPREAD = 0.15
"""From the simplest task to the most complex one."""
MANY_WORDS = 120
MANY_DEMANDS = 10
DEMANDS = (
    re.compile(r"\?"),
    re.compile(r"^[^\S\n]*+(?:[-*•]|\d++[.)])\s", re.MULTILINE),
    re.compile(r"\d+(?:[.,]\d+)*"),
    re.compile(
        r"\b(?:and|but|also|must|should|without|unless|except|compare|each|every|under|within)\b", re.IGNORECASE
    ),
)
