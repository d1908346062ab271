"""Plots of a report: what accuracy cost, what rounds changed, and who judged well. Internal.

The same ledger gives the same bytes, in light and in dark.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..._files import write_file
from ...faces.views.console import shortened
from ...faces.views.theme import darkened, light_figures
from ..analysis.paired import proportion
from ..analysis.sentences import percent as in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..analysis.ledger import Group, Ledger, MethodRow, Proportion

__all__ = ["Plot", "draw_plots", "write_plots"]


# Places in matplotlib's colour cycle, which a theme sets; shapes, hatches and words say the same without them.
GOOD, WARM, FAINT = "C0", "C1", "C2"

WIDTH = 8.6
"""Of every figure, in inches."""

COLUMNS = 3
NAME_WIDTH = 42
"""Characters of a name; a longer one is cut."""


def title_of(row: MethodRow, ledger: Ledger) -> str:
    """Return the title of a method's panel; with several datasets, its own on a line below."""
    name = shortened(row.name, 28)
    return f"{name}\n{shortened(row.dataset, 28)}" if len(ledger.groups) > 1 else name


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
    places: list[Any] = list(figure.subplots(down, across, squeeze=False).flat)
    for unused in places[count:]:
        unused.remove()
    return places[:count]


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


HEIGHT = 3.0
"""Of a row of panels, in inches."""

MOST_NAMED = 6
"""Rounds for whose number of problems there is room below the axis."""


# Each of these draws a plot, and returns what it shows as alternative text.


def draw_rounds(figure: Figure, ledger: Ledger) -> str:
    """Draw for each round how many drafts its revisions fixed (up) and broke (down), a panel a method."""
    from matplotlib.ticker import MaxNLocator

    methods = _with_rounds(ledger)
    last = max(len(row.rounds) for row in methods)
    rounds = [played.revised for row in methods for played in row.rounds]
    up = max(1, *(played.fixed for played in rounds), *(played.broken / 2 for played in rounds))
    down = max(1, *(played.broken for played in rounds), *(played.fixed / 4 for played in rounds))
    room = 0.16 * (up + down)  # for the numbers
    places = panels(figure, len(methods), height=HEIGHT)
    for axes, row in zip(places, methods, strict=True):
        axes.set_title(title_of(row, ledger), loc="left")
        numbers = [played.round for played in row.rounds]
        for word, counts, sign, above, colour, hatch in (
            ("fixed", [played.revised.fixed for played in row.rounds], 1, "bottom", GOOD, ""),
            ("broken", [played.revised.broken for played in row.rounds], -1, "top", WARM, "///"),
        ):
            axes.bar(numbers, [sign * count for count in counts], 0.6, color=colour, hatch=hatch, label=word)
            for number, count in zip(numbers, counts, strict=True):
                axes.annotate(
                    f"{count}", (number, sign * count), (0, 4 * sign), textcoords="offset points", ha="center",
                    va=above,
                )  # fmt: skip
        axes.axhline(0, color=FAINT, linewidth=0.8)
        axes.set_ylim(-down - room, up + room)
        axes.set_xlim(0.4, last + 0.6)
        crowded = last > MOST_NAMED
        axes.set_xticks(
            numbers, [f"{played.round}" + f"\nof {played.revised.n}" * (not crowded) for played in row.rounds]
        )
        axes.yaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
        axes.yaxis.set_major_locator(MaxNLocator(7, integer=True))
        axes.set_xlabel("round" if crowded else "round, of the problems revised in it")
        axes.set_ylabel("problems")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, handles=places[0].get_legend_handles_labels()[0])
    return "; ".join(
        f"{row.label}, round {played.round}: fixed {played.revised.fixed} and broke {played.revised.broken} "
        f"of {played.revised.n}"
        for row in methods
        for played in row.rounds
    )


def draw_curve(figure: Figure, ledger: Ledger) -> str:
    """Draw the answers that are right had a run ended after each round, with the best one marked, a panel a method."""
    from matplotlib.ticker import MaxNLocator

    methods = _with_rounds(ledger)
    curves = [[row.first_draft, *(played.delivered for played in row.rounds)] for row in methods]
    low, high = span([end for curve in curves for share in curve for end in share.ci95])
    for axes, row, curve in zip(panels(figure, len(methods), height=HEIGHT), methods, curves, strict=True):
        axes.set_title(title_of(row, ledger), loc="left")
        for place, share in enumerate(curve):
            point(axes, place, share, marker="o", color=GOOD)
        axes.plot(range(len(curve)), [percent(share.rate) for share in curve], "o-", color=GOOD)
        best = curve[row.best_round]
        axes.plot([row.best_round], [percent(best.rate)], "*", color=WARM, markersize=16, zorder=4, label="best round")
        where = f"after round {row.best_round}" if row.best_round else "first draft"
        axes.set_xlabel(f"round; best: {where}, {best.k} of {best.n}")
        axes.set_ylim(low, high)
        axes.set_xlim(-0.4, len(curve) - 0.6)
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        axes.set_ylabel("answers that are right, %")
    figure.legend(loc="outside lower center", frameon=False, handles=axes.get_legend_handles_labels()[0])
    return "; ".join(
        f"{row.label}: {row.first_draft.k} right at first, then "
        + ", ".join(f"{played.delivered.k}" for played in row.rounds)
        + f" of {row.n}; best after {f'round {row.best_round}' if row.best_round else 'the first draft'}"
        for row in methods
    )


def draw_critics(figure: Figure, ledger: Ledger) -> str:
    """Draw how often each critic accepts right and wrong drafts, with 95% intervals; far apart is good."""
    critics = ledger.critics
    (axes,) = panels(figure, 1, height=1.2 + 0.5 * len(critics))
    for place, row in enumerate(critics):
        good, bad = proportion(row.false_reject.n - row.false_reject.k, row.false_reject.n), row.false_accept
        if good.rate is not None and bad.rate is not None:
            axes.plot([percent(bad.rate), percent(good.rate)], [place, place], color=FAINT, linewidth=0.8, zorder=1)
        for share, up, colour, shape in ((good, -0.13, GOOD, "o"), (bad, 0.13, WARM, "X")):
            if share.rate is not None:
                point(axes, place + up, share, marker=shape, color=colour, sideways=True)
    axes.plot([], [], "o", color=GOOD, label="of the right drafts")
    axes.plot([], [], "X", color=WARM, label="of the wrong drafts")
    axes.set_yticks(range(len(critics)), [shortened(f"{row.critic} ({row.method})", NAME_WIDTH) for row in critics])
    axes.set_ylim(len(critics) - 0.5, -0.5)
    axes.set_xlim(-3, 103)
    axes.set_xlabel("accepted, %, with 95% interval")
    axes.grid(visible=False, axis="y")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return "; ".join(
        f"{row.critic} ({row.method}) accepted {row.right - row.false_reject.k} of {row.right} right"
        f" and {row.false_accept.k} of {row.wrong} wrong drafts"
        for row in critics
    )


def _with_rounds(ledger: Ledger) -> list[MethodRow]:
    return [row for row in ledger.methods if row.rounds]


LOG_FROM = 3
"""Tokens are drawn on a logarithmic axis where the dearest method costs this many times the cheapest."""


def draw_frontier(figure: Figure, ledger: Ledger) -> str:
    """Draw each method's accuracy over its tokens, with 95% intervals, and join those that no other one beats.

    Each dataset has a panel of its own.
    """
    drawn = []
    for axes, group in zip(panels(figure, len(ledger.groups), height=4, columns=1), ledger.groups, strict=True):
        rows = [row for row in ledger.methods if row.label in group.methods and row.n]
        if len(ledger.groups) > 1:
            axes.set_title(shortened(group.title, 80), loc="left")
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
    for axes, rows, best in drawn:
        _name_points(axes, rows, best)
    return "; ".join(
        f"{row.label}: {in_words(row.accuracy.rate)} right at {row.tokens:,.0f} tokens a problem"
        for row in ledger.methods
    )


def _draw_group(axes: Axes, group: Group, rows: Sequence[MethodRow]) -> list[MethodRow]:
    """Draw the methods of one dataset and return those on the frontier."""
    from matplotlib.ticker import LogLocator, NullLocator

    for row in rows:
        shape, colour = ("D", WARM) if row.oracle else ("o", FAINT) if row.baseline else ("s", GOOD)
        point(axes, row.tokens, row.accuracy, marker=shape, color=colour, hollow=row.oracle)
    best = [row for name in group.frontier for row in rows if row.label == name]
    corners = [row.tokens for row in best], [percent(row.accuracy.rate) for row in best]
    axes.plot(*corners, ":", color=FAINT, drawstyle="steps-post", zorder=1)
    axes.margins(x=0.12)
    tokens = [row.tokens for row in rows]
    if tokens and min(tokens) > 0 and max(tokens) >= LOG_FROM * min(tokens):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    else:
        axes.set_xlim(left=0, right=1.2 * max(tokens, default=0) or 1)
    axes.set_xlabel("tokens a problem, input and output of all calls")
    axes.set_ylabel("problems answered right, %")
    axes.set_ylim(*span([end for row in rows for end in row.accuracy.ci95]))
    return best


def _name_points(axes: Axes, rows: Sequence[MethodRow], best: Sequence[MethodRow]) -> None:
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
                shortened(row.name, NAME_WIDTH),
                where,
                (dx, dy),
                textcoords="offset points",
                ha=side,
                va="center",
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
"""Offsets of a name from its point, in points, the best first."""


@dataclass(frozen=True)
class Plot:
    """One plot, drawn."""

    name: str
    """Its file's name, without an ending."""
    title: str
    caption: str
    """Tells how to read it."""
    described: str
    """Alternative text: what it shows."""
    svg: bytes
    dark_svg: bytes
    png: bytes


def draw_plots(ledger: Ledger) -> list[Plot]:
    """Return the plots that a ledger has something for: `curve`, `frontier`, `rounds`, `critics`.

    Raises:
        ImportError: The extra `evals` is not installed.
    """
    refining = any(row.rounds for row in ledger.methods)
    wanted = {"curve": refining, "rounds": refining, "critics": bool(ledger.critics)}
    plots = []
    for name, title, caption, draw in PLOTS:
        if wanted.get(name, True):
            described, svg, png = _drawn(draw, ledger)
            plots.append(Plot(name, title, caption, described, svg, darkened(svg), png))
    return plots


def write_plots(plots: list[Plot], folder: Path) -> None:
    """Write each plot as `NAME.svg` and `NAME.png`."""
    folder.mkdir(parents=True, exist_ok=True)
    for plot in plots:
        write_file(folder / f"{plot.name}.svg", plot.svg)
        write_file(folder / f"{plot.name}.png", plot.png)


def _drawn(draw: Callable[[Figure, Ledger], str], ledger: Ledger) -> tuple[str, bytes, bytes]:
    """Return a figure in words, as SVG and as PNG, without a date and a version."""
    with light_figures():
        from matplotlib.figure import Figure

        figure = Figure(layout="constrained")
        described = draw(figure, ledger)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out once for both
        svg, png = BytesIO(), BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        figure.savefig(png, format="png", dpi=160, metadata={"Software": None})
        return described, svg.getvalue(), png.getvalue()


PLOTS: list[tuple[str, str, str, Callable[[Figure, Ledger], str]]] = [
    (
        "curve",
        "Right answers round by round",
        "Had the run ended after a round, its answer would have been the best draft so far; 0 is the first draft. Bars "
        "are Wilson's 95% intervals, the star marks the first of the best rounds.",
        draw_curve,
    ),
    (
        "frontier",
        "What accuracy cost",
        "Up is better, left is cheaper. Bars are Wilson's 95% intervals: where they overlap widely, look at the paired "
        "test in the tables.",
        draw_frontier,
    ),
    (
        "rounds",
        "What each round changed",
        "Drafts that a round's revisions turned from wrong to right (up) and from right to wrong (down).",
        draw_rounds,
    ),
    (
        "critics",
        "What each critic accepted",
        "How often each critic accepted right and wrong drafts. The further apart, the more its acceptance says.",
        draw_critics,
    ),
]
