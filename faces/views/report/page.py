"""A report as one self-contained page: the ledger, its plots, and a browser of single problems."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ....evals.analysis.paired import could_be_chance
from ..documents import colours, data_uri, html_environment, part, policy
from .axes import short_labels
from .plots import draw_plots, write_plots
from .problems import OUTCOMES, problems_data

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jinja2 import Template

    from ....evals.analysis.ledger import Ledger, MethodRow, Run
    from ....evals.analysis.paired import Interval

__all__ = ["write_report"]

PAGE = "report.html"
PLOTS = "plots"


def write_report(ledger: Ledger, runs: Sequence[Run], out: Path) -> Path:
    """Return the path of `report.html`, which opens in any browser without a network.

    Beside it, `plots/` has each plot as SVG and PNG. The same ledger and runs give the same bytes.

    Args:
        ledger: What `build_ledger` made of the runs.
        runs: The runs, whose problems can be looked at one by one.
        out: The folder to write into; it is made where there is none.

    Raises:
        ImportError: The extra `evals` is not installed.
        ValueError: A run is not in the ledger.
    """
    labels = {row.run: row.label for row in ledger.methods}
    if unknown := [str(run.folder) for run in runs if str(run.folder) not in labels]:
        raise ValueError(f"the ledger has no row for the run in {unknown[0]!r}; build it from the same runs")
    labelled = [(labels[str(run.folder)], run) for run in runs]
    template = _template()
    plots = draw_plots(ledger)
    script, styles = part(__package__, "page.js"), colours() + part(__package__, "page.css")
    page = template.render(
        ledger=ledger,
        short=short_labels(ledger),
        runs=[(label, _facts(run)) for label, run in labelled],
        plots=[(plot, data_uri(plot.svg), data_uri(plot.dark_svg)) for plot in plots],
        problems=problems_data(labelled),
        outcomes=OUTCOMES,
        script=script,
        style=styles,
        policy=policy(style=styles, script=script),
    )
    write_plots(plots, out / PLOTS)
    written = out / PAGE
    written.write_text(page, encoding="utf-8", newline="\n")
    return written


def _template() -> Template:
    environment = html_environment(extra="evals")
    environment.filters |= {
        "percent": _percent,
        "between": _between,
        "points": _points,
        "p": _p,
        "shift": _shift,
    }
    return environment.from_string(part(__package__, "page.html.j2"))


def _facts(run: Run) -> dict[str, str]:
    """Return what `run.json` says, each value on one line."""
    told = {key: value for key, value in run.info.model_dump(mode="json").items() if value not in (None, {}, "")}
    words = {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for key, value in told.items()
    }
    return {"folder": str(run.folder), **words}


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}%"


def _between(ends: Interval) -> str:
    return f"{100 * ends[0]:.1f}–{100 * ends[1]:.1f}%"


def _points(ends: float | Interval | None) -> str:
    """Return a difference in percentage points, always with its sign."""
    if ends is None:
        return "–"
    if isinstance(ends, tuple):
        return f"{_points(ends[0])} to {_points(ends[1])}"
    rounded = round(100 * ends, 1)
    return f"{rounded:+.1f}".replace("-", "−") if rounded else "0.0"


def _p(value: float) -> str:
    return "<0.001" if value < 0.001 else f"{value:.2g}"


def _shift(row: MethodRow) -> str:
    """Return `helped` or `harmed` where that is unlikely to be chance, else nothing."""
    if row.oracle or could_be_chance(row.overall) or not row.overall.diff:
        return ""
    return "helped" if row.overall.diff > 0 else "harmed"
