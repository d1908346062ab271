"""Runs for the ledger and the diagnosis, from folders of our own results and from logs of other tools. Internal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..run.run_folder import INFO, RESULTS, find_runs
from .registry import read_log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..run.run_folder import Run
    from .fields import Naming

__all__ = ["read_runs"]

PLAIN = "zero-shot"
"""The method under which a run that refined nothing is held against the others."""


def read_runs(
    paths: Sequence[Path | str], naming: Naming | None = None, *, baseline: str | None = None
) -> tuple[list[Run], list[str]]:
    """Return the runs in some folders and logs, and sentences on the fields by which the logs were read.

    A log with rounds and no baseline of its data set and model beside it brings one along: its own first drafts.

    Args:
        paths: Folders as `find_runs` takes them, and files as `read_log` does.
        naming: Choice of the logs' fields by the user.
        baseline: The method, or the file's name without its ending, that refined nothing; it becomes `zero-shot`.

    Raises:
        ValueError: As `find_runs` and `read_log`; two logs are the same file, or nothing is called `baseline`.
        OSError: A file can't be opened.
    """
    runs: list[Run] = []
    sentences: list[str] = []
    for path in map(Path, paths):
        if path.is_dir() or (path.name == RESULTS and path.with_name(INFO).is_file()):
            runs += find_runs([path if path.is_dir() else path.parent])
            continue
        log = read_log(path, naming)
        if any(run.folder == log.runs[0].folder for run in runs):
            raise ValueError(f"{path} is given twice")
        runs += log.runs
        sentences.append(log.sentence)
        if not any(record.total_tokens for run in log.runs for record in run.records):
            sentences.append(f"{path.name}: it tells no tokens, so nothing can be said of equal cost")
    if baseline is not None:
        names = [(run.info.method, run.folder.stem) for run in runs]
        if not any(baseline in name for name in names):
            there = ", ".join(repr(method) for method, _ in names)
            raise ValueError(f"there is no method {baseline!r} to be the baseline; there are {there}")
        runs = [
            replace(run, info=run.info.model_copy(update={"method": PLAIN})) if baseline in name else run
            for run, name in zip(runs, names, strict=True)
        ]
        sentences.append(f"{baseline} is taken as the baseline, {PLAIN}")
    plain = {(run.info.dataset_sha256, run.info.model) for run in runs if run.info.method == PLAIN}
    for run in list(runs):
        played = run.info.kind == "log" and any(record.num_iterations for record in run.records)
        if played and (run.info.dataset_sha256, run.info.model) not in plain:
            plain.add((run.info.dataset_sha256, run.info.model))
            runs.insert(0, _first_drafts(run))
            sentences.append(f"{run.folder.name}: its first drafts are the baseline, {PLAIN}")
    return runs, sentences


def _first_drafts(run: Run) -> Run:
    """Return the run as it would have been without any revision."""
    records = [
        record.model_copy(
            update={
                "is_correct": first.is_correct,
                "final_solution": first.solution,
                "num_iterations": 0,
                "total_tokens": first.tokens_used,
                "cost_usd": None,
                "seconds": first.seconds,
                "oracle": False,
                "iterations_log": [first],
            }
        )
        for record in run.records
        for first in record.iterations_log[:1]
    ]
    info = run.info.model_copy(update={"method": PLAIN, "oracle": False, "limits": {}})
    return replace(run, folder=Path(f"{run.folder}#first drafts"), info=info, records=tuple(records))
