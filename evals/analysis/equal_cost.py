"""Equal-cost comparison: the baseline nearest in tokens, and the Pareto frontier of accuracy over tokens. Internal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pydantic import Field

from .paired import Paired, Row, paired
from .token_matching import SLACK, match_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..run.run_folder import Run
    from .method_row import MethodRow

__all__ = ["EqualCostRow", "frontier", "mean_tokens", "nearest_baseline", "shared_ids"]

NEAR = SLACK
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

    A sampling baseline that spent more is cut to the method's tokens, see `redraft.evals.analysis.token_matching`. Of
    several of equal cost the one that is right most often counts; where there is none, the nearest in tokens.

    Args:
        row: The refining method's row.
        run: Its run.
        others: Rows and runs on the same dataset and model.
    """
    found: list[tuple[tuple[float, int, int], EqualCostRow]] = []
    for other, other_run in others:
        ids = shared_ids(run, other_run)
        if not other.baseline or other.oracle or not ids:
            continue
        own, theirs, before = mean_tokens(run, ids), mean_tokens(other_run, ids), other_run.verdicts
        if run.info.kind == "log" and not (own and theirs):
            continue  # the log tells no tokens, which is not the same as none
        samples = None
        if theirs > NEAR * own and (cut := match_tokens(other_run, ids, own)):
            samples, theirs, before = cut.samples, cut.tokens, cut.verdicts
        apart = _apart(own, theirs)
        near = apart <= math.log(NEAR) + 1e-9
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
        found.append(((0, -sum(verdicts), -len(ids)) if near else (apart, 0, -len(ids)), beside))
    return min(found, key=lambda one: one[0])[1] if found else None


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
    theirs = {one.question_id for one in other.records}
    return [one.question_id for one in run.records if one.question_id in theirs]


def mean_tokens(run: Run, ids: Sequence[str]) -> float:
    """Return the tokens a problem of a run on some of its problems; 0 without any."""
    tokens = {one.question_id: one.total_tokens for one in run.records}
    return sum(tokens[name] for name in ids) / len(ids) if ids else 0.0
