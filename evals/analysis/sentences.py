"""Plain sentences about rows of the ledger, honest when nothing was gained. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .paired import Paired, could_be_chance

if TYPE_CHECKING:
    from .equal_cost import EqualCostRow
    from .method_row import MethodRow

__all__ = ["change_in_words", "percent", "verdict"]


def verdict(row: MethodRow, equal_cost: EqualCostRow | None) -> str:
    """Return what a run showed: a refining method by what it fixed and broke, a baseline by what it got right.

    Args:
        row: The method, with its tokens held against zero-shot's where there is such a run.
        equal_cost: It beside the nearest baseline; `None` for a baseline, or where there is none.
    """
    name = f"{row.label}, with the gold answers in hand," if row.oracle else row.label
    if not row.n:
        return f"{name} has no results."
    if row.baseline:
        return f"{_baseline(row, name)}."
    cost = f"at {row.token_ratio:.1f}× the tokens of zero-shot" if row.token_ratio else _tokens(row)
    sentence = f"{name} {change_in_words(row.overall)} {cost}"
    return f"{sentence}; {_beside(equal_cost)}." if equal_cost else f"{sentence}."


def change_in_words(change: Paired) -> str:
    """Return what was fixed and broken, and whether that means anything: `fixed 12 and broke 2 of 200 (p = 0.013)`."""
    counts = f"fixed {change.fixed} and broke {change.broken} of {change.n}"
    if not change.fixed and not change.broken:
        return f"{counts}, so it did not help,"
    counted = f"{counts} ({_p(change)})"
    if change.fixed > change.broken:
        return f"{counted}, which could be chance," if could_be_chance(change) else counted
    if change.fixed == change.broken or could_be_chance(change):
        return f"{counted}, so it did not help,"
    return f"{counted}, so it did harm,"


def percent(share: float | None) -> str:
    """Return a share as a percentage with one decimal."""
    return "none" if share is None else f"{100 * share:.1f}%"


def _baseline(row: MethodRow, name: str) -> str:
    change = row.vs_zero_shot
    low, high = (100 * end for end in row.accuracy.ci95)
    got = f"{name} got {row.accuracy.k} of {row.n} right ({percent(row.accuracy.rate)}, 95% {low:.1f}–{high:.1f}%)"
    if change is None or change.diff is None:
        return f"{got} {_tokens(row)}"
    cost = f"at {row.token_ratio:.1f}× its tokens" if row.token_ratio else _tokens(row)
    same = f"on the same {change.n}"
    if not change.diff:
        return f"{got}, as many as zero-shot {same}, {cost}"
    points = f"{abs(100 * change.diff):.1f} points {'above' if change.diff > 0 else 'below'} zero-shot"
    chance = ", which could be chance," if could_be_chance(change) else ""
    return f"{got}, {points} {same} ({_p(change)}){chance} {cost}"


def _beside(row: EqualCostRow) -> str:
    both = row.paired
    where = "at equal cost" if row.near else f"at {row.token_ratio:.1f}× its tokens" if row.token_ratio else "beside it"
    name = row.baseline if row.samples is None else f"{row.baseline}, cut to {row.samples:.1f} samples,"
    reached = f"{name} {where} reached {percent(both.before)} against its {percent(both.after)}"
    if not both.diff:
        return reached
    return f"{reached} ({_p(both)}{', which could be chance' if could_be_chance(both) else ''})"


def _tokens(row: MethodRow) -> str:
    return f"at {row.tokens:,.0f} tokens a problem"


def _p(change: Paired) -> str:
    return "p < 0.001" if change.mcnemar_p < SMALL else f"p = {change.mcnemar_p:.2g}"


SMALL = 0.001
