"""Shared axes of a report's figures: colours, panels, points with intervals, and names."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ..console import shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ....evals.analysis.ledger import Ledger, MethodRow, Proportion

__all__ = ["FAINT", "GOOD", "WARM", "brief", "panels", "percent", "point", "short_labels", "span", "title_of"]

# Places in matplotlib's colour cycle, which a theme sets; shapes, hatches and words say the same without them.
GOOD, WARM, FAINT = "C0", "C1", "C2"

WIDTH = 8.6
"""Of every figure, in inches."""

COLUMNS = 3


def short_labels(ledger: Ledger) -> dict[str, str]:
    """Return for each label what names it among the methods of its own dataset and model."""
    found: dict[str, str] = {}
    for group in ledger.groups:
        names = [label.partition(" · ")[0] for label in group.methods]
        several = Counter(names)
        found |= {
            label: name if several[name] == 1 else label for label, name in zip(group.methods, names, strict=True)
        }
    return found


def title_of(row: MethodRow, ledger: Ledger) -> str:
    """Return the title of a method's panel; with several datasets, its own on a line below."""
    name = brief(short_labels(ledger)[row.label], 28)
    return f"{name}\n{brief(row.dataset, 28)}" if len(ledger.groups) > 1 else name


def brief(text: str, width: int = 42) -> str:
    """Return a name on one line, cut where it is long."""
    return shortened(text, width)


def panels(figure: Figure, count: int, *, height: float, columns: int = COLUMNS) -> Sequence[Axes]:
    """Return axes for so many panels, row by row.

    Args:
        figure: Gets its size.
        count: How many, at least 1.
        height: Of one row, in inches.
        columns: At most so many beside each other.
    """
    across = min(columns, count)
    down = -(-count // across)
    figure.set_size_inches(WIDTH, height * down + 0.3)
    found: list[Any] = list(figure.subplots(down, across, squeeze=False).flat)
    for unused in found[count:]:
        unused.remove()
    return found[:count]


def point(
    axes: Axes,
    place: float,
    share: Proportion,
    *,
    marker: str,
    color: str,
    hollow: bool = False,
    sideways: bool = False,
) -> None:
    """Draw a share in percent with its interval, at a place on the x axis; `sideways`, on the y axis."""
    value, (low, high) = percent(share.rate), map(percent, share.ci95)
    error = [[max(value - low, 0)], [max(high - value, 0)]]
    style: dict[str, Any] = {"fmt": marker, "color": color, "capsize": 2.5, "elinewidth": 1.2, "markersize": 7}
    if hollow:
        style["fillstyle"] = "none"
    if sideways:
        axes.errorbar([value], [place], xerr=error, **style)
    else:
        axes.errorbar([place], [value], yerr=error, **style)


def span(shares: Sequence[float]) -> tuple[float, float]:
    """Return the ends, in percent, of an axis that shows all these shares."""
    low, high = percent(min(shares, default=0)), percent(max(shares, default=1))
    return max(low - 6, -3), min(high + 6, 103)


def percent(share: float | None) -> float:
    """Return a share in percent; 0 where there is none."""
    return 100 * (share or 0.0)
