"""A sampling baseline that begins with the compared method's own first draft; asks no model.

    python benchmarks/stronger_baseline.py evals/results/gsm8k_test evals/results/humaneval

`majority-N` and `best-of-N` draw every sample at the sampling temperature, and `adaptive` its first draft at
temperature 0, which is right more often. Here the recorded first draft of `adaptive` stands before the recorded
samples, and the baseline is cut to equal tokens as in `redraft report`. It was thought of when the results were known.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from redraft.evals.analysis.equal_cost import match_tokens, mean_tokens, shared_ids
from redraft.evals.analysis.paired import paired
from redraft.evals.run.result_record import Sample
from redraft.evals.run.run_folder import Run, find_runs
from rows import share


def main() -> None:
    """Print a line for each folder: the method, the baseline as recorded, and the stronger one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+", help="each with `adaptive` and a majority-N or best-of-N")
    for folder in parser.parse_args().folders:
        runs = find_runs([folder])
        method = next(run for run in runs if run.info.method == "adaptive")
        baseline = next(run for run in runs if run.info.method.startswith(("majority-", "best-of-")))
        ids = shared_ids(method, baseline)
        tokens = mean_tokens(method, ids)
        right = {record.question_id: record.is_correct is True for record in method.records}
        print(f"{folder.name}: adaptive {share(right.values())} at {tokens:,.0f} tokens a problem")
        for name, run in {
            "as recorded": baseline,
            "after that first draft": with_first_draft(method, baseline),
        }.items():
            cut = match_tokens(run, ids, tokens)
            if cut is None:
                raise SystemExit(f"{baseline.info.method} has no samples to cut")
            change = paired([cut.verdicts[one] for one in ids], [right[one] for one in ids])
            print(f"  {baseline.info.method} {name}, {cut.samples:.1f} drafts at most: {share(cut.verdicts.values())}")
            print(f"    at {cut.tokens:,.0f} tokens; adaptive alone was right on {change.fixed}, it alone on", end=" ")
            print(f"{change.broken}, p = {change.mcnemar_p:.2g}")


def with_first_draft(method: Run, baseline: Run) -> Run:
    """Return the baseline with the method's first draft before each problem's samples."""
    firsts = {record.question_id: record for record in method.records}
    majority = baseline.info.method.startswith("majority-")
    longer = [(vote if majority else trial)(firsts[record.question_id], record) for record in baseline.records]
    return Run(baseline.folder, baseline.info, tuple(longer))


def vote(first: Any, record: Any) -> Any:
    """Return a record of majority-N with another vote before its votes."""
    draft, log = first.iterations_log[0], record.iterations_log[0]
    sample = Sample(
        text=draft.solution,
        vote=draft.predicted_answer,
        predicted_answer=draft.predicted_answer,
        is_correct=draft.is_correct,
        tokens_used=draft.tokens_used,
        cut_off=draft.cut_off,
    )
    return record.model_copy(
        update={"iterations_log": [log.model_copy(update={"samples": [sample, *log.samples]})]},
    )


def trial(first: Any, record: Any) -> Any:
    """Return a record of best-of-N with another draft tried before its drafts, which end it if it is accepted."""
    log = [step for step in first.iterations_log if step.iteration == 0]
    judged = [step for step in log if step.type == "feedback"]
    # A draft that no test can judge stands, in best-of-N too.
    if judged and not any(step.accepted for step in judged):
        log += [step.model_copy(update={"iteration": step.iteration + 1}) for step in record.iterations_log]
    return record.model_copy(update={"iterations_log": log})


if __name__ == "__main__":
    main()
