"""The forest plot of a report: one line a method with its difference to a baseline and the interval. Internal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..analysis.ledger import MethodRow

__all__ = ["Forest", "Line", "forest"]

MARGIN = 5.0
"""Left and right of the axis, in percent of the width, so that its outermost numbers have room."""


@dataclass(frozen=True)
class Line:
    """A method, and where its mark and interval stand, in percent of the width."""

    row: MethodRow
    at: float
    low: float
    high: float


@dataclass(frozen=True)
class Forest:
    """The lines on one axis, refining methods first."""

    lines: tuple[Line, ...]
    ticks: tuple[tuple[float, str], ...]
    """Places in percent of the width, and the differences there in points; empty without lines."""
    zero: float
    others: tuple[MethodRow, ...]
    """Methods that are held against nothing."""


def forest(rows: Sequence[MethodRow]) -> Forest:
    """Return the forest plot of the methods of one dataset and model.

    Raises:
        ImportError: The extra `evals` is not installed.
    """
    compared = [(row, row.headline.paired) for row in rows if row.headline]
    others = tuple(row for row in rows if not row.headline)
    if not compared:
        return Forest((), (), 0, others)
    try:
        from matplotlib.ticker import MaxNLocator
    except ImportError as error:
        raise ImportError(f'plots need an extra: pip install "redraft[evals]" ({error})') from None
    ends = [100 * end for _, test in compared for end in test.diff_ci95]
    ticks = [float(one) for one in MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(min(0, *ends), max(0, *ends))]

    def place(points: float) -> float:
        return round(MARGIN + (100 - 2 * MARGIN) * (points - ticks[0]) / (ticks[-1] - ticks[0]), 2)

    lines = tuple(
        Line(row, place(100 * (test.diff or 0.0)), *(place(100 * end) for end in test.diff_ci95))
        for row, test in sorted(compared, key=lambda one: one[0].baseline)
    )
    named = tuple((place(one), f"{one:+g}".replace("-", "−") if one else "0") for one in ticks)
    return Forest(lines, named, place(0), others)
