"""A report as one self-contained page: the ledger, its plots, and a browser of single problems. Internal."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..._files import write_file
from ...faces.views.console import safe
from ...faces.views.documents import LONGEST_SHOWN, colours, data_uri, html_environment, part, policy
from ...faces.views.wording import REJECTED_WORDS, STOP_WORDS, who_of
from ...state.threads.diffs import diff_words
from ..analysis.round_rates import drafts_right
from ..analysis.sentences import finding_in_words, percent, points
from .plots import draw_plots, write_plots

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from jinja2 import Template

    from ..analysis.ledger import Group, Ledger, MethodRow, Run
    from ..run.result_record import Iteration, ResultRecord

__all__ = ["LONGEST_COMPARED", "LONGEST_SHOWN", "OUTCOMES", "Forest", "Line", "forest", "problems_data", "write_report"]

LONGEST_COMPARED = 10_000
"""Characters up to which two texts are compared word by word; a report holds every draft of every problem."""

MARGIN = 5.0
"""Left and right of the axis, in percent of the width, so that its outermost numbers have room."""
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
        groups=[_group(group, ledger) for group in ledger.groups],
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
    write_file(written, page)
    return written


def _template() -> Template:
    environment = html_environment(extra="evals")
    environment.filters |= {
        "percent": lambda share: "–" if share is None else percent(share),
        "between": lambda ends: f"{100 * ends[0]:.1f}–{percent(ends[1])}",
        "points": points,
        "p": lambda value: "<0.001" if value < 0.001 else f"{value:.2g}",
        "finding": lambda row: finding_in_words(row.headline.finding, row.power),
    }
    return environment.from_string(part(__package__, "page.html.j2"))


def _group(group: Group, ledger: Ledger) -> dict[str, Any]:
    """Return the page's data of a group: its heading, its methods, and the forest plot of their headlines."""
    rows = [row for row in ledger.methods if row.label in group.methods]
    return {
        "title": group.title,
        "problems": group.problems,
        "recommendation": group.recommendation,
        "rows": rows,
        "forest": forest(rows),
    }


def _facts(run: Run) -> dict[str, str]:
    """Return the values of `run.json`, each on one line."""
    values = {key: value for key, value in run.info.model_dump(mode="json").items() if value not in (None, {}, "")}
    words = {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for key, value in values.items()
    }
    return {"folder": str(run.folder), **words}


OUTCOMES = {"fixed": "fixed", "broken": "broken", "kept_right": "kept right", "kept_wrong": "kept wrong"}
"""Outcomes of the first draft, by the gold answer → the words for them."""


def problems_data(runs: Iterable[tuple[str, Run]]) -> dict[str, Any]:
    """Return plain data: `questions` (each text once), `outcomes` (the words for them) and `problems`.

    The problems stand in the order of the first run that has them, and each beside its twins of other methods. Control
    characters are made visible, and texts longer than `LONGEST_SHOWN` are cut, which the page says.

    Args:
        runs: Each with the label of its row in the ledger.
    """
    questions: dict[str, int] = {}
    places: dict[tuple[str, str], int] = {}
    problems: list[tuple[int, dict[str, Any]]] = []
    for label, run in runs:
        run_id = (run.info.model_extra or {}).get("run_id")
        for record in run.records:
            question = questions.setdefault(_shown(record.question), len(questions))
            place = places.setdefault((run.info.dataset_sha256, record.question_id), len(places))
            outcome = _outcome(record, right=run.verdicts[record.question_id])
            problems.append(
                (
                    place,
                    {
                        "method": safe(label),
                        "question": question,
                        "outcome": outcome,
                        "thread": safe(f"{run_id}/{record.question_id}") if run_id else None,
                        **_problem(record),
                    },
                )
            )
    ordered = [problem for _, problem in sorted(problems, key=lambda pair: pair[0])]
    return {"questions": list(questions), "outcomes": OUTCOMES, "problems": ordered}


def _outcome(record: ResultRecord, *, right: bool) -> str:
    """Return the outcome under which the ledger counts a record: a draft without a verdict, or none, is wrong."""
    was_right = drafts_right(record)[:1] == [True]
    if right:
        return "kept_right" if was_right else "fixed"
    return "broken" if was_right else "kept_wrong"


def _problem(record: ResultRecord) -> dict[str, Any]:
    return {
        "id": safe(record.question_id),
        "truth": _optional(record.ground_truth),
        "predicted": _optional(record.predicted_answer),
        "stop": safe(STOP_WORDS.get(record.stop_reason) or str(record.stop_reason)),
        "accepted_by": _optional(record.accepted_by),
        "tokens": record.total_tokens,
        "oracle": record.oracle,
        "error": _optional(record.error),
        "without_texts": not record.question
        and not any(step.solution or step.feedback for step in record.iterations_log),
        "steps": list(_steps(record.iterations_log)),
    }


def _steps(log: Iterable[Iteration]) -> Iterator[dict[str, Any]]:
    draft: str | None = None
    for one in log:
        whole = (one.feedback or "") if one.type == "feedback" else one.solution
        text, changes, notes = _shown(whole), None, []
        if len(whole) > LONGEST_SHOWN:
            notes.append(f"Cut after {LONGEST_SHOWN:,} of {len(whole):,} characters; results.jsonl has the rest.")
        if one.type == "refinement" and not one.rejected and draft is not None:
            if max(len(draft), len(text)) <= LONGEST_COMPARED:
                changes = _changes(draft, text)
            else:
                notes.append(f"Not compared word by word: longer than {LONGEST_COMPARED:,} characters.")
        if one.type != "feedback" and not one.rejected:
            draft = text
        yield {
            "kind": one.type,
            "title": _title(one),
            "by": safe(who_of({"by": one.by, "refiner": one.refiner})),
            "text": "" if changes else text,
            "changes": changes,
            "answer": _optional(one.predicted_answer),
            "correct": one.is_correct,
            "accepted": one.accepted,
            "score": one.score,
            "tokens": one.tokens_used,
            "rejected": REJECTED_WORDS.get(one.rejected, safe(one.rejected)),
            "note": " ".join(notes),
        }


def _title(step: Iteration) -> str:
    if step.type == "feedback":
        return f"Feedback on revision {step.iteration}" if step.iteration else "Feedback on the first draft"
    return f"Revision {step.iteration}" if step.iteration else "First draft"


def _shown(text: str) -> str:
    return safe(text[:LONGEST_SHOWN])


def _optional(text: str | None) -> str | None:
    return None if text is None else _shown(text)


@lru_cache(maxsize=512)
def _changes(before: str, after: str) -> tuple[tuple[str, str], ...]:
    return tuple((change.kind, change.text) for change in diff_words(before, after).changes)


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
    """Methods without a baseline beside them."""


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
        raise ImportError(f'plots need an extra: pip install ".[evals]" in a checkout ({error})') from None
    ends = [100 * end for _, test in compared for end in test.diff_ci95]
    ticks = [float(tick) for tick in MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(min(0, *ends), max(0, *ends))]

    def place(points: float) -> float:
        return round(MARGIN + (100 - 2 * MARGIN) * (points - ticks[0]) / (ticks[-1] - ticks[0]), 2)

    lines = tuple(
        Line(row, place(100 * (test.diff or 0.0)), *(place(100 * end) for end in test.diff_ci95))
        for row, test in sorted(compared, key=lambda pair: pair[0].baseline)
    )
    named = tuple((place(tick), f"{tick:+g}".replace("-", "−") if tick else "0") for tick in ticks)
    return Forest(lines, named, place(0), others)
