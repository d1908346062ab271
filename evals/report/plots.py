"""The plots of a report as files: the same bytes for the same ledger, in light and in dark. Internal."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING

from ..._files import write_file
from ...faces.views.theme import darkened, light_figures
from .figures import draw_calibration, draw_critics, draw_curve, draw_frontier, draw_rounds

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from matplotlib.figure import Figure

    from ..analysis.ledger import Ledger, Proportion

__all__ = ["Plot", "draw_plots", "write_plots"]


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
    """Return the plots that a ledger has something for: `curve`, `frontier`, `rounds`, `calibration`, `critics`.

    Raises:
        ImportError: The extra `evals` is not installed.
    """
    refining = any(row.rounds for row in ledger.methods)
    wanted = {"curve": refining, "rounds": refining, "calibration": refining, "critics": bool(ledger.critics)}
    plots = []
    for name, title, caption, draw, describe in PLOTS:
        if wanted.get(name, True):
            svg, png = _drawn(draw, ledger)
            plots.append(Plot(name, title, caption, describe(ledger), svg, darkened(svg), png))
    return plots


def write_plots(plots: list[Plot], folder: Path) -> None:
    """Write each plot as `NAME.svg` and `NAME.png`."""
    folder.mkdir(parents=True, exist_ok=True)
    for plot in plots:
        write_file(folder / f"{plot.name}.svg", plot.svg)
        write_file(folder / f"{plot.name}.png", plot.png)


def _drawn(draw: Callable[[Figure, Ledger], None], ledger: Ledger) -> tuple[bytes, bytes]:
    """Return a figure as SVG and as PNG; without a date and a version, the same ledger gives the same bytes."""
    with light_figures():
        from matplotlib.figure import Figure

        figure = Figure(layout="constrained")
        draw(figure, ledger)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out once for both
        svg, png = BytesIO(), BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        figure.savefig(png, format="png", dpi=160, metadata={"Software": None})
        return svg.getvalue(), png.getvalue()


def _describe_curve(ledger: Ledger) -> str:
    return "; ".join(
        f"{row.label}: {row.first_draft.k} right at first, then "
        + ", ".join(f"{played.delivered.k}" for played in row.rounds)
        + f" of {row.n}; best after {f'round {row.best_round}' if row.best_round else 'the first draft'}"
        for row in ledger.methods
        if row.rounds
    )


def _describe_frontier(ledger: Ledger) -> str:
    return "; ".join(
        f"{row.label}: {_share(row.accuracy)} right at {row.tokens:,.0f} tokens a problem" for row in ledger.methods
    )


def _describe_rounds(ledger: Ledger) -> str:
    return "; ".join(
        f"{row.label}, round {played.round}: fixed {played.revised.fixed} and broke {played.revised.broken} "
        f"of {played.revised.n}"
        for row in ledger.methods
        for played in row.rounds
    )


def _describe_calibration(ledger: Ledger) -> str:
    return "; ".join(
        f"{row.label}, round {played.round}: {_share(played.measured)} measured, "
        f"{100 * played.predicted:.1f}% predicted"
        for row in ledger.methods
        for played in row.rounds
    )


def _describe_critics(ledger: Ledger) -> str:
    return "; ".join(
        f"{row.critic} ({row.method}) accepted {row.right - row.false_reject.k} of {row.right} right"
        f" and {row.false_accept.k} of {row.wrong} wrong drafts"
        for row in ledger.critics
    )


def _share(share: Proportion) -> str:
    return "none" if share.rate is None else f"{100 * share.rate:.1f}%"


PLOTS: list[tuple[str, str, str, Callable[[Figure, Ledger], None], Callable[[Ledger], str]]] = [
    (
        "curve",
        "Right answers round by round",
        "Had the run ended after a round, its answer would have been the best draft so far; 0 is the first draft. Bars "
        "are Wilson's 95% intervals, the star marks the first of the best rounds.",
        draw_curve,
        _describe_curve,
    ),
    (
        "frontier",
        "What accuracy cost",
        "Up is better, left is cheaper. Bars are Wilson's 95% intervals: where they overlap widely, look at the paired "
        "test in the tables.",
        draw_frontier,
        _describe_frontier,
    ),
    (
        "rounds",
        "What each round changed",
        "Drafts that a round's revisions turned from wrong to right (up) and from right to wrong (down).",
        draw_rounds,
        _describe_rounds,
    ),
    (
        "calibration",
        "Drafts round by round, predicted and measured",
        "The prediction takes the rates of accepting, fixing and breaking as the same in every round; where the two "
        "part, they are not.",
        draw_calibration,
        _describe_calibration,
    ),
    (
        "critics",
        "What each critic accepted",
        "How often each critic accepted right and wrong drafts. The further apart, the more its acceptance says.",
        draw_critics,
        _describe_critics,
    ),
]
