"""The figure of what accuracy cost: each method's accuracy over its tokens."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from .axes import FAINT, GOOD, WARM, brief, panels, percent, point, short_labels, span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ....evals.analysis.ledger import Group, Ledger, MethodRow

__all__ = ["draw_frontier"]

LOG_FROM = 3
"""Tokens are drawn on a logarithmic axis where the dearest method costs this many times the cheapest."""


def draw_frontier(figure: Figure, ledger: Ledger) -> None:
    """Draw each method's accuracy over its tokens, with 95% intervals, and join those that no other one beats.

    Each dataset has a panel of its own.
    """
    drawn = []
    for axes, group in zip(panels(figure, len(ledger.groups), height=4, columns=1), ledger.groups, strict=True):
        rows = [row for row in ledger.methods if row.label in group.methods and row.n]
        if len(ledger.groups) > 1:
            axes.set_title(brief(f"{group.dataset} · {group.model}", 80), loc="left")
        drawn.append((axes, rows, _draw_group(axes, group, rows)))
    last = drawn[-1][0]
    for words, shape, colour, fill, shown in (
        ("refines", "s", GOOD, "full", any(not row.oracle and not row.baseline for row in ledger.methods)),
        ("baseline", "o", FAINT, "full", any(not row.oracle and row.baseline for row in ledger.methods)),
        ("knows the gold answers", "D", WARM, "none", any(row.oracle for row in ledger.methods)),
    ):
        if shown:
            last.plot([], [], marker=shape, linestyle="", color=colour, fillstyle=fill, label=words)
    last.plot([], [], ":", color=FAINT, label="the most right for the tokens")
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    figure.draw_without_rendering()  # only then is known where things are
    names = short_labels(ledger)
    for axes, rows, best in drawn:
        _name_points(axes, rows, best, names)


def _draw_group(axes: Axes, group: Group, rows: Sequence[MethodRow]) -> list[MethodRow]:
    """Draw the methods of one dataset and return those on the frontier."""
    for row in rows:
        shape, colour = ("D", WARM) if row.oracle else ("o", FAINT) if row.baseline else ("s", GOOD)
        point(axes, row.tokens, row.accuracy, marker=shape, color=colour, hollow=row.oracle)
    best = [row for name in group.frontier for row in rows if row.label == name]
    corners = [row.tokens for row in best], [percent(row.accuracy.rate) for row in best]
    axes.plot(*corners, ":", color=FAINT, drawstyle="steps-post", zorder=1)
    axes.margins(x=0.12)
    tokens = [row.tokens for row in rows]
    if tokens and min(tokens) > 0 and max(tokens) >= LOG_FROM * min(tokens):
        _log_axis(axes)
    else:
        axes.set_xlim(left=0, right=1.2 * max(tokens, default=0) or 1)
    axes.set_xlabel("tokens a problem, input and output of all calls")
    axes.set_ylabel("problems answered right, %")
    axes.set_ylim(*span([end for row in rows for end in row.accuracy.ci95]))
    return best


def _log_axis(axes: Axes) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def _name_points(axes: Axes, rows: Sequence[MethodRow], best: Sequence[MethodRow], names: Mapping[str, str]) -> None:
    """Write each method's name beside its point, where it covers least of the points, names and lines."""
    from matplotlib.transforms import Bbox

    def place(tokens: float, share: float | None) -> Any:
        return axes.transData.transform((tokens, percent(share)))

    taken = []
    for row in rows:
        (x, y), (_, low), (_, high) = (place(row.tokens, share) for share in (row.accuracy.rate, *row.accuracy.ci95))
        taken += [Bbox([(x - 6, y - 6), (x + 6, y + 6)]), Bbox([(x - 3, low), (x + 3, high)])]
    for one, then in pairwise(best):
        (x0, y0), (x1, y1) = (place(row.tokens, row.accuracy.rate) for row in (one, then))
        taken += [Bbox([(x0, y0 - 1), (x1, y0 + 1)]), Bbox([(x1 - 1, y0), (x1 + 1, y1)])]
    inside = axes.get_window_extent()
    for row in rows:
        where = (row.tokens, percent(row.accuracy.rate))
        tried = []
        for number, (dx, dy) in enumerate(OFFSETS):
            side = "left" if dx > 0 else "right"
            text = axes.annotate(
                brief(names[row.label]), where, (dx, dy), textcoords="offset points", ha=side, va="center"
            )
            box = text.get_window_extent()
            covered = sum(_area(Bbox.intersection(box, other)) for other in taken)
            outside = box.width * box.height - _area(Bbox.intersection(box, inside))
            tried.append((covered + 2 * outside, number, text, box))
        _, _, kept, box = min(tried, key=lambda one: one[:2])
        for *_, text, _ in tried:
            if text is not kept:
                text.remove()
        taken.append(box)


def _area(box: Any) -> float:
    return 0.0 if box is None else float(box.width * box.height)


OFFSETS = [
    (sign * across, up)
    for across, up in ((9, 8), (9, -8), (9, 0), (9, 18), (9, -18), (9, 30), (9, -30))
    for sign in (1, -1)
]
"""Where a name may stand from its point, in points, the best first."""
