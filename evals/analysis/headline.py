"""The headline of a method: its difference to the baseline of equal tokens, with its interval. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from .method_row import Headline
from .paired import finding

if TYPE_CHECKING:
    from .equal_cost import EqualCostRow
    from .method_row import MethodRow
    from .paired import Paired

__all__ = ["headline", "headline_test"]


def headline_test(row: MethodRow, equal_cost: EqualCostRow | None) -> Paired | None:
    """Return the comparison that a method's headline shows; `None` where there is nothing to hold it against."""
    if equal_cost and equal_cost.near:
        return equal_cost.paired
    if row.vs_zero_shot or row.baseline:
        return row.vs_zero_shot
    found = equal_cost.paired if equal_cost else row.overall
    return found if found.n else None


def headline(
    row: MethodRow, equal_cost: EqualCostRow | None, p_corrected: float | None, names: dict[str, str]
) -> Headline | None:
    """Return a method's headline, or `None` where there is nothing to hold it against.

    Args:
        row: The method.
        equal_cost: It beside the nearest baseline, if there is one.
        p_corrected: The p of its `headline_test`, corrected; `None` where it has none.
        names: Label → short name of the group's methods.
    """
    test = headline_test(row, equal_cost)
    if test is None or p_corrected is None:
        return None
    how: Literal["equal tokens", "zero-shot", "nearest tokens", "first draft"]
    if equal_cost and equal_cost.near:
        cut = "" if equal_cost.samples is None else f", cut to {equal_cost.samples:.1f} samples,"
        how, against = "equal tokens", f"{names[equal_cost.baseline]}{cut} at equal tokens"
    elif row.vs_zero_shot:
        times = f" at {row.token_ratio:.1f}× its tokens" if row.token_ratio else ""
        how, against = "zero-shot", f"zero-shot{times}"
        if not row.baseline:
            why = "no baseline has as many" if times else "tokens are unknown"
            against += f" ({why})"
    elif equal_cost:
        times = f" with {equal_cost.token_ratio:.1f}× the tokens" if equal_cost.token_ratio else ""
        how, against = "nearest tokens", f"{names[equal_cost.baseline]}{times} (none has as many)"
    else:
        how, against = "first draft", "its own first drafts (no baseline was run)"
    return Headline(
        how=how,
        against=against,
        paired=test,
        p_corrected=p_corrected,
        finding=finding(test.diff or 0.0, test.diff_ci95, p_corrected, wanted=row.power.wanted),
    )
