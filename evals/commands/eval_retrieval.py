"""`redraft eval --retrieval`: searches over questions whose sources are known. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..._files import write_file
from ...faces.problems import BadInputError, bad_input
from ...faces.views.console import Screen, plain_table
from ...faces.views.wording import percent

if TYPE_CHECKING:
    from pathlib import Path

    from ..analysis.paired import Proportion
    from ..analysis.retrieval import RetrievalLedger

__all__ = ["evaluate_retrieval"]


def evaluate_retrieval(
    questions: Path,
    *,
    folder: Path | None,
    methods: str | None,
    embedding: str | None,
    rerank: str | None,
    limit: int | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Measure searches over a folder, print the ledger, and write it to `out`/retrieval.json where that is given."""
    from ..analysis.retrieval import (
        RETRIEVAL_METHODS,
        known_questions,
        measured,
        retrieval_ledger,
        retrieval_methods,
    )

    if folder is None:
        raise BadInputError("--retrieval needs a --dir: the folder that is searched")
    screen = Screen(as_json=as_json)
    with bad_input():
        known = known_questions(questions)[:limit]
        names = [name.strip() for name in methods.split(",")] if methods else list(RETRIEVAL_METHODS)
        options: dict[str, Any] = {"embeddings": embedding} if embedding else {}
        if rerank:
            options["rerank"] = None if rerank == "none" else rerank
        searches = retrieval_methods(folder, names, **options)
        runs = {name: measured(search, known) for name, search in searches.items()}
        pairs = [("unrefined", "refined")] if {"unrefined", "refined"} <= runs.keys() else []
        ledger = retrieval_ledger(runs, known, refining=pairs)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_file(out / "retrieval.json", ledger.model_dump_json(indent=1) + "\n")
    screen.result(ledger.model_dump(mode="json"), lambda screen: show_retrieval(screen, ledger))


def show_retrieval(screen: Screen, ledger: RetrievalLedger) -> None:
    """Print a table of the methods, what refining changed, and how far the confidence can be trusted."""
    from rich.text import Text

    columns = ("method", "hit@1", "95%", "hit@5", "95%", "MRR", "nDCG@5", "queries", "ms")
    table = plain_table(*columns, right=columns[1:])
    for row in ledger.methods:
        table.add_row(
            Text(row.method, style="bold"),
            *(part for hit in (row.hit1, row.hit5) for part in (_rate(hit), _interval(hit))),
            f"{row.mrr:.3f}",
            f"{row.ndcg:.3f}",
            f"{row.queries:.1f}",
            f"{row.ms:,.0f}",
        )
    screen.put(table)
    screen.line((f"{ledger.questions} questions with known sources, {ledger.off_topic} without", "dim"))
    for change in ledger.refining:
        pair = change.hit5
        times = f", at {change.times:.1f} times the time" if change.times is not None else ""
        screen.line(
            f"refining found {pair.fixed} and lost {pair.broken} of {pair.n} among the first five "
            f"(p = {pair.mcnemar_p:.3g}){times}"
        )
    for trust in ledger.confidence:
        parts = [f"{trust.method}: confidence"]
        if trust.auc is not None and trust.error is not None:
            parts.append(f"tells hits from misses with AUC {trust.auc:.2f}, calibration error {trust.error:.2f};")
        parts.append(f"{trust.withheld.k} of {trust.withheld.n} hits withheld")
        if trust.off_topic.n:
            parts.append(f"and {trust.off_topic.k} of {trust.off_topic.n} questions without a source")
        screen.line(" ".join(parts))


def _rate(share: Proportion) -> str:
    return "" if share.rate is None else f"{share.rate:.3f}"


def _interval(share: Proportion) -> str:
    return f"{percent(share.ci95[0])}–{percent(share.ci95[1])}"
