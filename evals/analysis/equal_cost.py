"""Equal-cost comparison: the baseline nearest in tokens, cut to as many, and the Pareto frontier. Internal."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from pydantic import Field

from ...nodes.writing.voting import majority_text
from ..datasets.scorers import VOTED_ANSWERS
from ..run.result_record import worth_of
from .paired import Paired, Row, paired
from .round_rates import attempt_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...state.summary import Attempt
    from ..run.result_record import ResultRecord
    from ..run.run_folder import Run
    from .method_row import MethodRow

__all__ = [
    "SLACK",
    "EqualCostRow",
    "Matched",
    "frontier",
    "match_tokens",
    "mean_tokens",
    "nearest_baseline",
    "prefixes_of",
    "shared_ids",
]

SLACK = 1.05
"""Tokens within this factor pass for equal cost."""


class EqualCostRow(Row):
    """A refining method beside the baseline that spends nearest its tokens, on the problems that both have."""

    label: str = Field(description="The refining method.")
    oracle: bool = Field(description="A gold answer had a say in its results.")
    baseline: str = Field(description="Label of the baseline.")
    samples: float | None = Field(
        description="Samples a problem that it was cut to, so that both cost the same; null: as it ran."
    )
    tokens: float = Field(ge=0, description="Tokens a problem of the method.")
    baseline_tokens: float = Field(ge=0, description="Tokens a problem of the baseline.")
    token_ratio: float | None = Field(description="Tokens of the baseline as a multiple of the method's.")
    near: bool = Field(description="Whether the two are within 5% of each other: else cost is not equal.")
    paired: Paired = Field(description="The baseline's answers (before) against the method's (after).")
    p_corrected: float = Field(
        default=1.0, description="Its p by Holm's method among the group's refining methods; an oracle's as it is."
    )


def nearest_baseline(row: MethodRow, run: Run, others: Sequence[tuple[MethodRow, Run]]) -> EqualCostRow | None:
    """Return the method beside the baseline of equal cost; `None` where no baseline has its problems.

    A sampling baseline that spent more is cut to the method's tokens, see `match_tokens`. Of
    several of equal cost the one that is right most often counts; where there is none, the nearest in tokens.

    Args:
        row: The refining method's row.
        run: Its run.
        others: Rows and runs on the same dataset and model.
    """
    candidates: list[tuple[tuple[float, int, int], EqualCostRow]] = []
    for other, other_run in others:
        ids = shared_ids(run, other_run)
        if not other.baseline or other.oracle or not ids:
            continue
        own, theirs, before = mean_tokens(run, ids), mean_tokens(other_run, ids), other_run.verdicts
        if run.info.kind == "log" and not (own and theirs):
            continue  # the log has no tokens, which is not the same as 0
        samples = None
        if theirs > SLACK * own and (cut := match_tokens(other_run, ids, own)):
            samples, theirs = cut.samples, cut.tokens
            before = {name: value == 1 for name, value in cut.verdicts.items()}
        apart = _apart(own, theirs)
        near = apart <= math.log(SLACK) + 1e-9
        verdicts = [before[name] for name in ids]
        beside = EqualCostRow(
            label=row.label,
            oracle=row.oracle,
            baseline=other.label,
            samples=samples,
            tokens=own,
            baseline_tokens=theirs,
            token_ratio=theirs / own if own else None,
            near=near,
            paired=paired(verdicts, [run.verdicts[name] for name in ids]),
        )
        # The one that is hardest to beat, of those that cost the same; of equally near ones that with more problems.
        candidates.append(((0, -sum(verdicts), -len(ids)) if near else (apart, 0, -len(ids)), beside))
    return min(candidates, key=lambda candidate: candidate[0])[1] if candidates else None


def _apart(tokens: float, others: float) -> float:
    """Return the distance of two costs, as the logarithm of their ratio; no tokens are near to no tokens only."""
    if tokens and others:
        return abs(math.log(others / tokens))
    return 0.0 if tokens == others else math.inf


def frontier(rows: Sequence[MethodRow]) -> list[str]:
    """Return the labels of the methods that no other one beats, the cheapest first.

    One beats another when it gets at least as much right with at most its tokens, and is better in one of the two.
    Methods that know the gold answers take no part, nor do empty runs.

    Args:
        rows: Rows on the same dataset and model.
    """
    taking_part = [row for row in rows if not row.oracle and row.n]

    def worth(row: MethodRow) -> tuple[float, float]:
        return row.accuracy.rate or 0.0, -row.tokens

    def beaten(row: MethodRow) -> bool:
        own = worth(row)
        return any(
            # Equals don't beat each other: else neither would be on the frontier.
            worth(other) != own and all(a >= b for a, b in zip(worth(other), own, strict=True))
            for other in taking_part
        )

    return [row.label for row in sorted(taking_part, key=lambda row: row.tokens) if not beaten(row)]


def shared_ids(run: Run, other: Run) -> list[str]:
    """Return the problems that both runs have, in the order of the first."""
    theirs = {record.question_id for record in other.records}
    return [record.question_id for record in run.records if record.question_id in theirs]


def mean_tokens(run: Run, ids: Sequence[str]) -> float:
    """Return the tokens a problem of a run on some of its problems; 0 without any."""
    tokens = {record.question_id: record.total_tokens for record in run.records}
    return sum(tokens[name] for name in ids) / len(ids) if ids else 0.0


@dataclass(frozen=True)
class Matched:
    """A baseline as it would have done with fewer samples."""

    samples: float
    """Samples that a problem had at most, on average."""
    tokens: float
    """Mean tokens a problem."""
    verdicts: dict[str, float]
    """By the problem's id, the score of its answer; 1 is right."""


def match_tokens(run: Run, ids: Sequence[str], tokens: float) -> Matched | None:
    """Return a majority or best-of-N with as many samples as these tokens pay for, or `None` for any other run.

    Every problem has as many samples as all can have; one more has a part of them, in the order of the SHA-256 of their
    ids, for which the mean stays within `SLACK` of `tokens`.

    Args:
        run: The baseline.
        ids: The problems that it is compared on.
        tokens: Mean tokens a problem of the other method.
    """
    records = {record.question_id: record for record in run.records}
    steps = {name: prefixes_of(records[name], run.info.method, run.info.kind) for name in ids}
    if not steps or not all(steps.values()):
        return None
    count = dict.fromkeys(ids, 1)

    def mean() -> float:
        return fmean(steps[name][min(count[name], len(steps[name])) - 1][0] for name in ids)

    order = sorted(ids, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    spent = mean() * len(ids)
    for number in range(2, max(map(len, steps.values())) + 1):
        for name in order:
            # A problem that was accepted earlier draws no further sample.
            extra = steps[name][number - 1][0] - steps[name][number - 2][0] if number <= len(steps[name]) else 0
            if spent + extra > SLACK * tokens * len(ids):
                break
            spent += extra
            count[name] = number
        else:
            continue
        break
    verdicts = {name: steps[name][min(count[name], len(steps[name])) - 1][1] for name in ids}
    return Matched(fmean(count.values()), mean(), verdicts)


def prefixes_of(record: ResultRecord, method: str, kind: str) -> list[tuple[int, float]]:
    """Return, for one sample, two, and so on, the tokens that they took and the score of the answer."""
    answer = VOTED_ANSWERS.get(kind) if method.startswith("majority-") else None
    if answer is None:
        return _best_so_far(record) if method.startswith("best-of-") else []
    samples = record.iterations_log[0].samples if record.iterations_log else []
    texts, spent = [sample.text for sample in samples], 0
    prefixes: list[tuple[int, float]] = []
    for number, sample in enumerate(samples, start=1):
        if sample.tokens_used is None:  # a server that counts no tokens
            return []
        spent += sample.tokens_used
        winner = samples[texts.index(majority_text(texts[:number], answer))]
        prefixes.append((spent, worth_of(winner)))
    return prefixes


def _best_so_far(record: ResultRecord) -> list[tuple[int, float]]:
    prefixes: list[tuple[int, float]] = []
    best: Attempt | None = None
    spent, worth = 0, 0.0
    log = record.iterations_log
    for draft in [step for step in log if step.type != "feedback"]:
        feedback = [step for step in log if step.type == "feedback" and step.iteration == draft.iteration]
        spent += draft.tokens_used + sum(step.tokens_used for step in feedback)
        if not draft.rejected:
            attempt = attempt_of(record, draft)
            if best is None or attempt.rank > best.rank:
                best, worth = attempt, worth_of(draft)
        prefixes.append((spent, worth))
    return prefixes
