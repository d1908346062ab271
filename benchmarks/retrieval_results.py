"""The retrieval section of evals/RESULTS.md, written from the files of `redraft eval --retrieval … --out`.

`python benchmarks/retrieval_results.py NAME=FOLDER/retrieval.json …` prints a table for each, as Markdown.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from redraft.evals.analysis.retrieval import RetrievalLedger

if TYPE_CHECKING:
    from redraft.evals.analysis.paired import Proportion


def main() -> None:
    """Print the tables."""
    for given in sys.argv[1:]:
        name, _, path = given.partition("=")
        print("\n".join(section(name, RetrievalLedger.model_validate_json(Path(path).read_text(encoding="utf-8")))))


def section(name: str, ledger: RetrievalLedger) -> list[str]:
    """Return a ledger as Markdown."""
    lines = [
        f"### {name}: {ledger.questions} questions, {ledger.off_topic} off topic",
        "",
        "| method | hit@1 | hit@5 | MRR | nDCG@5 | queries |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| `{row.method}` | {rate(row.hit1)} | {rate(row.hit5)} | {row.mrr:.3f} | {row.ndcg:.3f} | {row.queries:.2f} |"
        for row in ledger.methods
    ]
    for change in ledger.refining:
        pair = change.hit5
        lines += [
            "",
            f"Refining found {pair.fixed} and lost {pair.broken} among the first five (p = {pair.mcnemar_p:.2g}).",
        ]
    for trust in ledger.confidence:
        off, kept = trust.off_topic, trust.withheld
        lines.append(
            f"- `{trust.method}`: AUC {trust.auc or 0:.2f}, calibration error {trust.error or 0:.2f}; nothing found "
            f"was said of {off.k} of {off.n} off-topic questions, and of {kept.k} of {kept.n} hits."
        )
    return [*lines, ""]


def rate(share: Proportion) -> str:
    """Return a share with its interval."""
    return f"{share.rate or 0:.3f} ({share.ci95[0]:.2f}–{share.ci95[1]:.2f})"


if __name__ == "__main__":
    main()
