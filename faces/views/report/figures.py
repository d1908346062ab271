"""The figures of a report on rounds and critics: what rounds changed, what was predicted, who judged well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .axes import FAINT, GOOD, WARM, brief, panels, percent, point, span, title_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ....evals.analysis.ledger import Ledger, MethodRow, Proportion

__all__ = ["draw_calibration", "draw_critics", "draw_rounds"]

HEIGHT = 3.0
"""Of a row of panels, in inches."""

MOST_NAMED = 6
"""Rounds for whose number of problems there is room below the axis."""


def draw_rounds(figure: Figure, ledger: Ledger) -> None:
    """Draw for each round how many drafts its revisions fixed (up) and broke (down), a panel a method."""
    from matplotlib.ticker import MaxNLocator

    methods = _with_rounds(ledger)
    last = max(len(row.rounds) for row in methods)
    rounds = [one.revised for row in methods for one in row.rounds]
    up = max(1, *(one.fixed for one in rounds), *(one.broken / 2 for one in rounds))
    down = max(1, *(one.broken for one in rounds), *(one.fixed / 4 for one in rounds))
    room = 0.16 * (up + down)  # for the numbers
    places = panels(figure, len(methods), height=HEIGHT)
    for axes, row in zip(places, methods, strict=True):
        axes.set_title(title_of(row, ledger), loc="left")
        numbers = [one.round for one in row.rounds]
        for counts, sign, colour, hatch in (
            ([one.revised.fixed for one in row.rounds], 1, GOOD, ""),
            ([one.revised.broken for one in row.rounds], -1, WARM, "///"),
        ):
            word = "fixed" if sign > 0 else "broken"
            axes.bar(numbers, [sign * count for count in counts], 0.6, color=colour, hatch=hatch, label=word)
            for number, count in zip(numbers, counts, strict=True):
                axes.annotate(
                    f"{count}", (number, sign * count), (0, 4 * sign), textcoords="offset points", ha="center",
                    va="bottom" if sign > 0 else "top",
                )  # fmt: skip
        axes.axhline(0, color=FAINT, linewidth=0.8)
        axes.set_ylim(-down - room, up + room)
        axes.set_xlim(0.4, last + 0.6)
        crowded = last > MOST_NAMED
        axes.set_xticks(numbers, [f"{one.round}" + f"\nof {one.revised.n}" * (not crowded) for one in row.rounds])
        axes.yaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
        axes.yaxis.set_major_locator(MaxNLocator(7, integer=True))
        axes.set_xlabel("round" if crowded else "round, of the problems revised in it")
        axes.set_ylabel("problems")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, handles=places[0].get_legend_handles_labels()[0])


def draw_calibration(figure: Figure, ledger: Ledger) -> None:
    """Draw the accuracy after each round, measured with 95% intervals and as the rates predict it, a panel a method."""
    methods = _with_rounds(ledger)
    last = max(len(row.rounds) for row in methods)
    bounds = [end for row in methods for one in row.rounds for end in one.measured.ci95]
    low, high = span([*bounds, *(end for row in methods for end in row.first_draft.ci95)])
    for number, (axes, row) in enumerate(zip(panels(figure, len(methods), height=HEIGHT), methods, strict=True)):
        axes.set_title(title_of(row, ledger), loc="left")
        rounds = [0, *(one.round for one in row.rounds)]
        measured = [row.first_draft, *(one.measured for one in row.rounds)]
        predicted = [row.first_draft.rate, *(one.predicted for one in row.rounds)]
        for place, share in zip(rounds, measured, strict=True):
            point(axes, place, share, marker="o", color=GOOD)
        axes.plot(rounds, [percent(share.rate) for share in measured], "o-", color=GOOD, label="measured, 95% interval")
        axes.plot(
            rounds, [percent(share) for share in predicted], "D--", color=WARM, fillstyle="none", markersize=11,
            zorder=4, label="predicted",
        )  # fmt: skip
        axes.set_ylim(low, high)
        axes.set_xticks(rounds, ["first\ndraft", *map(str, rounds[1:])])
        axes.set_xlim(-0.4, last + 0.4)
        axes.set_xlabel("round")
        axes.set_ylabel("drafts that are right, %")
        if not number:
            figure.legend(
                loc="outside lower center", ncols=2, frameon=False, handles=axes.get_legend_handles_labels()[0]
            )


def draw_critics(figure: Figure, ledger: Ledger) -> None:
    """Draw how often each critic accepts right and wrong drafts, with 95% intervals; far apart is good."""
    critics = ledger.critics
    (axes,) = panels(figure, 1, height=1.2 + 0.5 * len(critics))
    for place, row in enumerate(critics):
        good, bad = _turned(row.false_reject), row.false_accept
        if good.rate is not None and bad.rate is not None:
            axes.plot([percent(bad.rate), percent(good.rate)], [place, place], color=FAINT, linewidth=0.8, zorder=1)
        for share, up, colour, shape in ((good, -0.13, GOOD, "o"), (bad, 0.13, WARM, "X")):
            if share.rate is not None:
                point(axes, place + up, share, marker=shape, color=colour, sideways=True)
    axes.plot([], [], "o", color=GOOD, label="of the right drafts")
    axes.plot([], [], "X", color=WARM, label="of the wrong drafts")
    axes.set_yticks(range(len(critics)), [brief(f"{row.critic} ({row.method})") for row in critics])
    axes.set_ylim(len(critics) - 0.5, -0.5)
    axes.set_xlim(-3, 103)
    axes.set_xlabel("accepted, %, with 95% interval")
    axes.grid(visible=False, axis="y")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)


def _with_rounds(ledger: Ledger) -> list[MethodRow]:
    return [row for row in ledger.methods if row.rounds]


def _turned(share: Proportion) -> Proportion:
    """Return the share of the others."""
    low, high = share.ci95
    rate = None if share.rate is None else 1 - share.rate
    return share.model_copy(update={"k": share.n - share.k, "rate": rate, "ci95": (1 - high, 1 - low)})
