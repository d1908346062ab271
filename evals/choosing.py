"""Choice of a method on one's own problems: candidates raced row by row, and dropped when behind. Internal."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import permutations
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import Field

from ..state.dual import finish
from ..state.stopping import rounds_allowed
from .analysis.anytime import Bets
from .analysis.differences import graded
from .analysis.equal_cost import prefixes_of
from .analysis.method_row import is_baseline
from .analysis.paired import CHANCE, Interval, Row
from .analysis.round_rates import answers_worth, tokens_by_round
from .analysis.sentences import p_in_words, percent, points
from .evaluation import kept_in, own_methods, playing, prepared
from .run.methods import Method, preset_method
from .run.own_graph import own_graph, parts_of

if TYPE_CHECKING:
    from .datasets.dataset import Problem
    from .run.result_record import ResultRecord

__all__ = ["Candidate", "Choice", "Race", "achoose", "choose"]

MARGIN, AT_ONCE = 0.05, 4
CLOSE = 0.01
"""Candidates this close to the best count as equal where nothing was decided: the cheapest of them is taken."""
HELD_OUT = 3
"""One row of so many is kept for the report."""


class Candidate(Row):
    """A method in the race, as far as it was played."""

    name: str
    n: int = Field(ge=0, description="Rows that it was played on.")
    mean: float = Field(ge=0, le=1, description="Mean score on them.")
    tokens: float = Field(ge=0, description="Tokens a row.")
    tokens_per_right: float | None = Field(description="Tokens for each right answer; null where it had none.")
    dropped: str = Field(description="Why it was dropped, and after how many rows; empty where it was not.")


class Choice(Row):
    """The method that was chosen, with what the choice rests on."""

    chosen: str
    decided: bool = Field(description="Whether these rows could tell; else it is the cheapest of those that are close.")
    candidates: list[Candidate]
    rows: int = Field(ge=0, description="Rows that the choice rests on.")
    tokens: int = Field(ge=0, description="Tokens that choosing took.")
    held_out: int = Field(ge=0, description="Rows of the report, none of which took part in the choice.")
    before: float | None = Field(description="Mean score of one call on them.")
    after: float | None = Field(description="Mean score of the chosen method on them.")
    diff_ci95: Interval = Field(description="95% interval of after - before.")
    p: float = Field(description="Two-sided, of their difference.")
    sentence: str


class Race:
    """Candidates compared pair by pair after each row, with p-values that hold whenever one looks.

    One is dropped when another is shown to be better, or a cheaper one shown to be worse by less than `margin`. The
    chance that anything is shown that is not so is at most `alpha`, over all pairs (Bonferroni); see
    `redraft.evals.analysis.anytime`.

    Args:
        names: The candidates.
        margin: A difference that is not worth paying for.
        alpha: The chance of a wrong claim.
    """

    def __init__(self, names: Sequence[str], *, margin: float = MARGIN, alpha: float = CHANCE) -> None:
        pairs = list(permutations(names, 2))
        self.alive = list(names)
        self.dropped: dict[str, str] = {}
        self.scores: dict[str, list[float]] = {name: [] for name in names}
        self.tokens: dict[str, list[float]] = {name: [] for name in names}
        self._alpha = alpha / max(2 * len(pairs), 1)
        self._ahead = {pair: Bets() for pair in pairs}
        self._level = {pair: Bets(-margin) for pair in pairs}

    def add(self, played: Mapping[str, tuple[float, float]]) -> None:
        """Play a row: the tokens and the score of each candidate that is left."""
        for name in self.alive:
            for column, value in zip((self.tokens, self.scores), played[name], strict=True):
                column[name].append(value)
        for one, other in permutations(self.alive, 2):
            change = played[one][1] - played[other][1]
            self._ahead[one, other].add(change)
            self._level[one, other].add(change)
        for name in [*self.alive]:
            rivals = [one for one in self.alive if one != name]
            better = [one for one in rivals if self._ahead[one, name].p <= self._alpha]
            level = [
                one for one in rivals if self.cost(one) <= self.cost(name) and self._level[one, name].p <= self._alpha
            ]
            if better or level:
                why = f"{better[0]} is better" if better else f"{level[0]} costs less, and is not worse by the margin"
                self.dropped[name] = f"{why} (after {len(self.scores[name])} rows)"
                self.alive.remove(name)

    def cost(self, name: str) -> float:
        """Return the tokens a row of a candidate so far."""
        return fmean(self.tokens[name])

    def choice(self) -> str:
        """Return the candidate to take: of those left the best, or the cheapest that is close to it."""
        means = {name: fmean(self.scores[name]) for name in self.alive}
        return min((one for one in means if means[one] >= max(means.values()) - CLOSE), key=self.cost)


class Entry(NamedTuple):
    """A method that is played, and the candidates that one play of it shows."""

    method: Method
    candidates: tuple[tuple[str, int], ...]
    """Each with the rounds, or samples, after which its answer is taken."""

    def rounds(self, at: int) -> int | None:
        """Return how many rounds a play takes to show a candidate; `None`: its own number."""
        return None if self.method.name.startswith("majority-") or at == MOST else at

    def points(self, record: ResultRecord, kind: str) -> dict[str, tuple[float, float]]:
        """Return the tokens and the score of each candidate on a row."""
        name = self.method.name
        steps = prefixes_of(record, name, kind) if is_baseline(name) else []
        steps = steps or [*zip(tokens_by_round(record), answers_worth(record), strict=True)]
        steps = steps or [(record.total_tokens, 0.0)]  # it failed before there was a draft
        points: dict[str, tuple[float, float]] = {one: steps[min(at, len(steps) - 1)] for one, at in self.candidates}
        if ONE_CALL in points:  # nobody judges it
            drafts = [step.tokens_used for step in record.iterations_log if step.type == "initial_generation"]
            points[ONE_CALL] = (sum(drafts), points[ONE_CALL][1])
        return points


def choose(graph: Any, dataset: Any, **options: Any) -> Choice:
    """Return which method to use on problems like these: one call, a longer one, samples, a vote, or refining.

    The candidates are played against each other on two thirds of the rows, one after the other, and dropped as soon as
    these show that they are not worth it. The last third says what the chosen one is worth beside one call. How often
    the graph refines is among the candidates, and so is how many samples are drawn: one play shows them all.

    Args:
        graph: As in `evaluate`.
        dataset: As in `evaluate`.
        options: As of `achoose`.

    Raises:
        ValueError: As in `evaluate`, or there are fewer than six rows.

    Example:
        >>> from redraft.evals import choose
        >>> rows = [{"task": str(number)} for number in range(9)]
        >>> choose(lambda task: task, rows, score=lambda row, answer: True, also={"no": lambda task: "no"}).chosen
        'one-call'
    """
    return finish(achoose(graph, dataset, **options))


async def achoose(
    graph: Any,
    dataset: Any,
    *,
    also: Mapping[str, Any] | None = None,
    margin: float = MARGIN,
    alpha: float = CHANCE,
    budget_tokens: int | None = None,
    seed: int = 0,
    out: Any = None,
    concurrency: int = AT_ONCE,
    on_progress: Callable[[int, int, Sequence[str], int], None] = lambda *_: None,
    **settings: Any,
) -> Choice:
    """Do what `choose` does, on the event loop that is running.

    Args:
        graph: As in `choose`.
        dataset: As in `choose`.
        also: Further candidates by names of yours: graphs, agents or functions.
        margin: A difference of the mean score that is not worth paying for.
        alpha: The chance that something is claimed that is not so.
        budget_tokens: Choosing ends once these are spent.
        seed: Orders the rows.
        out: As in `evaluate`.
        concurrency: As in `evaluate`.
        on_progress: Called with the rows played, those that there are, the candidates left and the tokens spent.
        settings: `score`, `verifiers`, `critics`, `question_field`, `limits` and `rate_limits`, as in `evaluate`.
    """
    made, data, settings = prepared(graph, dataset, **settings)
    if len(data.problems) < 2 * HELD_OUT:
        raise ValueError(f"{len(data.problems)} rows are too few to choose by: give at least {2 * HELD_OUT}")
    fields = _fields(made, data.kind, also)
    race = Race([name for one in fields for name, _ in one.candidates], margin=margin, alpha=alpha)
    problems = sorted(data.problems, key=lambda one: hashlib.sha256(f"{seed}:{one.id}".encode()).digest())
    choosing, report = problems[: -(len(problems) // HELD_OUT)], problems[-(len(problems) // HELD_OUT) :]
    spent = 0
    with kept_in(out) as root:
        async with AsyncExitStack() as stack:

            async def playing_of(method: Method) -> Any:
                folder, keep = root / method.name, out is not None
                return await stack.enter_async_context(
                    playing(method, data, folder, keep=keep, concurrency=concurrency, **settings)
                )

            plays = {one.method.name: await playing_of(one.method) for one in fields}
            for start in range(0, len(choosing), concurrency):
                block = choosing[start : start + concurrency]
                points: dict[str, dict[str, tuple[float, float]]] = {problem.id: {} for problem in block}
                for one in fields:
                    if wanted := [at for name, at in one.candidates if name in race.alive]:
                        records = await plays[one.method.name](block, rounds=one.rounds(max(wanted)))
                        spent += sum(records[problem.id].total_tokens for problem in block)
                        for problem in block:
                            points[problem.id] |= one.points(records[problem.id], data.kind)
                for problem in block:
                    race.add(points[problem.id])
                on_progress(start + len(block), len(choosing), race.alive, spent)
                if len(race.alive) == 1 or (budget_tokens is not None and spent >= budget_tokens):
                    break
            chosen = race.choice()
            reported = await _reported(fields, plays, chosen, report, data.kind)
    return _choice(race, chosen, spent, reported, alpha)


async def _reported(
    fields: Sequence[Entry], plays: Mapping[str, Any], chosen: str, problems: Sequence[Problem], kind: str
) -> dict[str, list[float]]:
    """Return the scores of one call and of the chosen method on the problems that were kept aside."""
    reported = {}
    for name in (ONE_CALL, chosen):
        one, at = next((one, at) for one in fields for known, at in one.candidates if known == name)
        # Both may be seen in one play.
        most = max(at, dict(one.candidates).get(chosen, 0))
        records = await plays[one.method.name](problems, rounds=one.rounds(most))
        reported[name] = [one.points(records[problem.id], kind)[name][1] for problem in problems]
    return reported


def _fields(graph: Any, kind: str, also: Mapping[str, Any] | None) -> list[Entry]:
    """Return what is played: the graph once for all its rounds, a baseline once for all numbers of samples."""
    own, *others = own_methods(graph, kind)
    parts = parts_of(graph)
    most = rounds_allowed(parts.limits) if parts else 0
    refining = [(f"{own.name}-{number}", number) for number in range(1, most + 1)]
    fields = [Entry(own, ((ONE_CALL, 0), *refining))]
    for method in others:
        sizes = [size for size in SAMPLES if size <= (method.rounds or 0) + 1]
        vote = method.name.startswith("majority-")
        if vote:
            sizes = [size for size in VOTES if size <= int(method.name.rpartition("-")[2])]
        named = [(f"{'vote' if vote else 'samples'}-{size}", size - 1) for size in sizes] or [(method.name, 0)]
        fields.append(Entry(method, tuple(named)))
    for name, other in (also or {}).items():
        method = preset_method(name, own_graph(other))
        fields.append(Entry(method, ((name, MOST),)))
    return fields


def _choice(race: Race, chosen: str, spent: int, reported: Mapping[str, list[float]], alpha: float) -> Choice:
    candidates = []
    for name, scores in race.scores.items():
        right, cost = sum(scores), race.cost(name)
        candidates.append(
            Candidate(
                name=name,
                n=len(scores),
                mean=right / len(scores),
                tokens=cost,
                tokens_per_right=cost * len(scores) / right if right else None,
                dropped=race.dropped.get(name, ""),
            )
        )
    before, after = reported[ONE_CALL], reported[chosen]
    interval, p = graded(before, after)
    rows, decided = max(one.n for one in candidates), len(race.alive) == 1
    how = (
        "is ahead"
        if decided
        else f"is taken: {rows} rows can't tell it from {', '.join(one for one in race.alive if one != chosen)}"
    )
    worth = (
        f"On {len(after)} other rows it got {percent(fmean(after))} against {percent(fmean(before))} with one call: "
        f"{points(fmean(after) - fmean(before))} points ({points(interval)}; {p_in_words(p)})."
    )
    return Choice(
        chosen=chosen,
        decided=decided,
        candidates=sorted(candidates, key=lambda one: (bool(one.dropped), -one.mean)),
        rows=rows,
        tokens=spent,
        held_out=len(after),
        before=fmean(before),
        after=fmean(after),
        diff_ci95=interval,
        p=p,
        sentence=f"{chosen} {how}. {worth}",
    )


MOST = 10**6
ONE_CALL = "one-call"
SAMPLES, VOTES = (2, 4, 8, 16), (3, 5, 9, 15)
"""Numbers of samples, and of votes, that are candidates."""
