"""Copies results of `redraft eval` without their texts, so that they can be published beside a report.

What was right, what was accepted by whom, and what it cost stays; questions, solutions, feedback and gold answers,
which follow the data, are left out. `redraft report` gives the same ledger for both.

    python benchmarks/without_texts.py results evals/results
"""

from __future__ import annotations

import argparse
from pathlib import Path

from redraft.evals import read_results, write_run_info
from redraft.evals.run.run_folder import read_run_info

__all__ = ["main"]

OF_RECORD = {"question": "", "final_solution": "", "predicted_answer": None, "ground_truth": None}
OF_STEP = {"solution": "", "predicted_answer": None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="a folder of redraft eval")
    parser.add_argument("target", type=Path, help="where to; folders are made as in the source")
    given = parser.parse_args()
    for info in sorted(given.source.rglob("run.json")):
        folder = given.target / info.parent.relative_to(given.source)
        write_run_info(folder, read_run_info(info.parent))
        lines = []
        for record in read_results(info.parent / "results.jsonl").values():
            steps = [
                step.model_copy(update={**OF_STEP, "feedback": None if step.feedback is None else ""})
                for step in record.iterations_log
            ]
            lines.append(record.model_copy(update={**OF_RECORD, "iterations_log": steps}).model_dump_json() + "\n")
        (folder / "results.jsonl").write_text("".join(lines), encoding="utf-8")
        print(f"{folder}: {len(lines)} results")


if __name__ == "__main__":
    main()
