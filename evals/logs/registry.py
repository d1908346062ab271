"""Registry of the formats of logs, and the reading of logs, and of folders of our own results, into runs. Internal."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from ..run.result_record import Iteration, ResultRecord
from ..run.run_folder import INFO, RESULTS, Run, RunInfo, find_runs
from .entries import (
    TRIAL_FIELDS,
    Entry,
    Log,
    Naming,
    as_text,
    chosen_id,
    chosen_right,
    flattened,
    problem_id,
    read_verdicts,
    refuse,
    round_of,
)
from .harness_logs import (
    is_deepeval,
    is_inspect,
    is_lm_eval,
    is_openai_evals,
    is_promptfoo,
    read_deepeval,
    read_inspect,
    read_lm_eval,
    read_openai_evals,
    read_promptfoo,
)
from .platform_exports import (
    is_langfuse,
    is_langsmith,
    is_phoenix,
    read_langfuse,
    read_langsmith,
    read_phoenix,
)
from .sources import Source, open_source

__all__ = [
    "FORMATS",
    "Format",
    "Naming",
    "ReadLog",
    "read_log",
    "read_runs",
]

PLAIN = "zero-shot"
"""The method under which a run that refined nothing is held against the others."""
ID_FIELDS = (
    *("question_id", "id", "task_id", "problem_id", "example_id", "sample_id", "qid", "uid"),
    *("doc_id", "index", "idx"),
)
CORRECT_FIELDS = ("is_correct", "correct", "passed", "pass", "success", "solved", "resolved")
SCORE_FIELDS = ("score", "accuracy", "acc", "exact_match", "verdict", "grade", "label")
"""Taken only where none of the former is there."""

TASKS, TEXTS = ("question", "task", "prompt", "input"), ("final_solution", "answer", "output", "response", "completion")
MODELS = ("model", "model_name")


class Format(NamedTuple):
    """One tool's format."""

    matches: Callable[[Source], bool]
    """By what is in the file, never by its name."""
    read: Callable[[Source], Log]


FORMATS: dict[str, Format] = {
    "inspect_ai": Format(is_inspect, read_inspect),
    "lm_eval": Format(is_lm_eval, read_lm_eval),
    "openai_evals": Format(is_openai_evals, read_openai_evals),
    "promptfoo": Format(is_promptfoo, read_promptfoo),
    "deepeval": Format(is_deepeval, read_deepeval),
    "langsmith": Format(is_langsmith, read_langsmith),
    "phoenix": Format(is_phoenix, read_phoenix),
    "langfuse": Format(is_langfuse, read_langfuse),
}


@dataclass(frozen=True)
class ReadLog:
    """A log as it was read, and by which fields."""

    path: Path
    format: str
    id_field: str
    right_field: str
    right_from: float | None
    """Set where it counted: the verdicts were numbers, or each problem had several runs."""
    runs: tuple[Run, ...]
    """One, or one for each prompt and model in the file."""
    notes: tuple[str, ...] = ()
    """What the file can't say, for people."""

    @property
    def sentence(self) -> str:
        """The fields taken, for people: `a.eval: Inspect log, id from 'id', right or wrong from 'match'`."""
        at_least = "" if self.right_from is None else f" where it is {self.right_from:g} or more"
        return (
            f"{self.path.name}: {self.format}, id from {self.id_field!r}, "
            f"right or wrong from {self.right_field!r}{at_least}"
        )

    def run(self, method: str | None = None) -> Run:
        """Return the one run of the log, or that of a method.

        Raises:
            ValueError: It has several and none is named, or none of that name.
        """
        matches = [run for run in self.runs if method in (None, run.info.method)]
        if len(matches) == 1:
            return matches[0]
        there = ", ".join(repr(run.info.method) for run in self.runs)
        what = "holds several methods" if method is None else f"holds no method {method!r}"
        raise ValueError(f"{self.path} {what}; name one (--method, method=): there are {there}")


def read_log(path: Path | str, naming: Naming | None = None) -> ReadLog:
    """Return a log of any known format as runs; the fields are those named, or the only ones possible.

    Args:
        path: The file.
        naming: Choice of its fields by the user.

    Raises:
        ValueError: The file can't be read, or it is not clear what names a problem or says right; the message names
            file, place and candidates.
        OSError: It can't be opened.
    """
    path, naming = Path(path), naming or Naming()
    try:
        return _read(path, naming)
    except (AttributeError, TypeError, KeyError, IndexError, OverflowError, RecursionError) as error:
        # Readers take the shapes that the tools write; what has another one is no log of theirs.
        raise ValueError(f"{path} has the form of no log that is known: {type(error).__name__}: {error}") from error


def _read(path: Path, naming: Naming) -> ReadLog:
    source = open_source(path)
    matching = [log_format for log_format in FORMATS.values() if log_format.matches(source)]
    if not matching and source.kind == "zip":
        raise ValueError(f"{path} is a zip file and no Inspect log: it has no header.json")
    log = (matching[0].read if matching else _read_table)(source)
    if not log.entries:
        raise ValueError(f"{path} has no results ({log.format})")
    id_field = chosen_id(log, naming)
    right_field = chosen_right(log, naming)
    verdicts = read_verdicts(log, right_field, naming)
    problems = _problems(log, id_field, verdicts)
    numbers = any(not isinstance(value, bool) for value in verdicts) or any(map(_trials, problems.values()))
    by_method: dict[str, list[ResultRecord]] = {}
    models: dict[str, str] = {}
    for (method, name), drafts in problems.items():
        right = [draft.right for draft in drafts] if not _trials(drafts) else [_several(log, name, drafts, naming)]
        least = 1 if naming.right_from is None else naming.right_from
        verdict = [value if isinstance(value, bool) else value >= least for value in right]
        by_method.setdefault(method, []).append(_record(name, drafts, verdict, log.told_the_score))
        models.setdefault(method, drafts[-1].entry.model)
    runs = tuple(_run(log, method, records, models[method]) for method, records in by_method.items())
    right_from = naming.right_from if numbers else None
    return ReadLog(path, log.format, id_field, right_field, right_from, runs, tuple(log.notes))


def _read_table(source: Source) -> Log:
    """Read a table of anyone's results; every plain field may be named as id or verdict, and known names are found."""
    entries = []
    for where, row in source.rows():
        flat = flattened(row)
        entries.append(
            Entry(
                where,
                flat,
                flat,
                round=round_of(flat),
                trial=round_of(flat, TRIAL_FIELDS),
                task=_first(row, TASKS),
                text=_first(row, TEXTS),
                model=_first(row, MODELS),
                tokens=max(round_of(flat, ("total_tokens", "tokens")) or 0, 0),
                error=as_text(row.get("error")) or None,
            )
        )
    first: dict[str, Any] = entries[0].scores if entries else {}
    right = next((names for names in (CORRECT_FIELDS, SCORE_FIELDS) if any(name in first for name in names)), ())
    kind = {"csv": "CSV", "jsonl": "JSONL"}.get(source.kind, "JSON")
    return Log(source.path, f"{kind} with an id and a verdict", entries, ID_FIELDS, right)


def _first(row: dict[str, Any], names: tuple[str, ...]) -> str:
    return next((as_text(row[name]) for name in names if row.get(name) is not None), "")


class _Draft(NamedTuple):
    entry: Entry
    right: float | bool


def _problems(log: Log, id_field: str, verdicts: Iterable[float | bool]) -> dict[tuple[str, str], list[_Draft]]:
    """Return the drafts of each problem of each method, in the order of their rounds."""
    problems: dict[tuple[str, str], list[_Draft]] = {}
    seen: dict[tuple[Any, ...], str] = {}
    wrong: list[str] = []
    for entry, right in zip(log.entries, verdicts, strict=True):
        try:
            name = problem_id(entry, id_field)
        except ValueError as error:
            wrong.append(str(error))
            continue
        key = (entry.method, name, entry.round, entry.trial)
        if key in seen:
            wrong.append(f"{entry.where}: field {id_field!r}: {name!r} stands in {seen[key]} already")
        seen.setdefault(key, entry.where)
        problems.setdefault((entry.method, name), []).append(_Draft(entry, right))
    refuse(log, wrong)
    for (_, name), drafts in problems.items():
        if len(drafts) > 1 and _trials(drafts) and any(draft.entry.round is not None for draft in drafts):
            raise ValueError(f"{log.path}: {name!r} has rounds and several runs of them; export one run at a time")
        if any(draft.entry.round is None for draft in drafts) and len({draft.entry.round for draft in drafts}) > 1:
            raise ValueError(f"{log.path}: {name!r} has drafts with a round and without")
        drafts.sort(key=lambda draft: draft.entry.round or 0)
    return problems


def _trials(drafts: list[_Draft]) -> bool:
    return len({draft.entry.trial for draft in drafts}) > 1


def _several(log: Log, name: str, drafts: list[_Draft], naming: Naming) -> float:
    if naming.right_from is None:
        raise ValueError(
            f"{log.path}: {name!r} was run {len(drafts)} times: say from which share of right ones on it counts as "
            "right (--right-from 0.5, right_from=)"
        )
    return sum(float(draft.right) for draft in drafts) / len(drafts)


def _record(name: str, drafts: list[_Draft], right: list[bool], oracle: bool) -> ResultRecord:
    entries = [draft.entry for draft in drafts]
    if len(right) != len(entries):  # several runs of one problem: their mean is the verdict, the last one the text
        entries = [replace(entries[-1], tokens=round(sum(entry.tokens for entry in entries) / len(entries)))]
    last = entries[-1]
    costs = [entry.cost_usd for entry in entries if entry.cost_usd is not None]
    return ResultRecord(
        question_id=name,
        question=last.task,
        predicted_answer=None,
        ground_truth=last.gold,
        is_correct=right[-1],
        is_correct_per_feedback=False,
        final_solution=last.text,
        num_iterations=len(entries) - 1,
        total_tokens=sum(max(entry.tokens, 0) for entry in entries),
        cost_usd=sum(costs) if costs else None,
        stop_reason=None,
        accepted_by=None,
        oracle=oracle,
        seconds=max(sum(entry.seconds for entry in entries), 0.0),
        error=last.error,
        iterations_log=[
            Iteration(
                iteration=number,
                type="refinement" if number else "initial_generation",
                solution=entry.text,
                predicted_answer=None,
                feedback=None,
                tokens_used=max(entry.tokens, 0),
                is_correct=verdict,
                by=entry.model,
                seconds=max(entry.seconds, 0.0),
            )
            for number, (entry, verdict) in enumerate(zip(entries, right, strict=True))
        ],
    )


def _run(log: Log, method: str, records: list[ResultRecord], model: str) -> Run:
    dataset = log.dataset or "log"
    rounds = max(record.num_iterations for record in records)
    info = RunInfo(
        dataset=dataset,
        # A log holds no file of the data set: runs on sets of one name are held against each other by their ids.
        dataset_sha256=hashlib.sha256(f"log {dataset}".encode()).hexdigest(),
        kind="log",
        n=max(log.asked, len(records)),
        method=method or log.method or log.path.stem,
        oracle=log.told_the_score,
        model=model,
        limits={"max_rounds": rounds} if rounds else {},
    )
    folder = log.path if not method else Path(f"{log.path}#{method}")
    return Run(folder, info, tuple(records))


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
        sentences += [log.sentence, *(f"{path.name}: {note}" for note in log.notes)]
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
    for run in _without_baseline(runs):
        runs.insert(0, _first_drafts(run))
        sentences.append(f"{run.folder.name}: its first drafts are the baseline, {PLAIN}")
    return runs, sentences


def _without_baseline(runs: Sequence[Run]) -> list[Run]:
    """Return the logs with rounds that have no baseline of their data set and model beside them, the first of each."""
    with_baseline = {(run.info.dataset_sha256, run.info.model) for run in runs if run.info.method == PLAIN}
    first: dict[tuple[str, str], Run] = {}
    for run in runs:
        key = (run.info.dataset_sha256, run.info.model)
        if key not in with_baseline and run.info.kind == "log" and any(record.num_iterations for record in run.records):
            first.setdefault(key, run)
    return list(first.values())


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
