"""Registry of the formats of logs, and the reading of one into runs. Internal."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..run.result_record import Iteration, ResultRecord
from ..run.run_folder import Run, RunInfo
from .deepeval import is_deepeval, read_deepeval
from .fields import Naming, chosen_id, chosen_right, problem_id, read_verdicts, refuse
from .inspect_ai import is_inspect, read_inspect
from .langfuse import is_langfuse, read_langfuse
from .langsmith import is_langsmith, read_langsmith
from .lm_eval import is_lm_eval, read_lm_eval
from .openai_evals import is_openai_evals, read_openai_evals
from .phoenix import is_phoenix, read_phoenix
from .promptfoo import is_promptfoo, read_promptfoo
from .sources import open_source
from .tables import is_table, read_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .entries import Entry, Log
    from .sources import Source

__all__ = ["FORMATS", "Format", "Naming", "ReadLog", "read_log"]

MOST_NAMED = 6


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
    """Given, and of use: the verdicts were numbers, or several runs of each problem."""
    runs: tuple[Run, ...]
    """One, or one for each prompt and model in the file."""

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
        found = [run for run in self.runs if method in (None, run.info.method)]
        if len(found) == 1:
            return found[0]
        there = ", ".join(repr(run.info.method) for run in self.runs)
        what = "holds several methods" if method is None else f"holds no method {method!r}"
        raise ValueError(f"{self.path} {what}; name one (--method, method=): there are {there}")


def read_log(path: Path | str, naming: Naming | None = None) -> ReadLog:
    """Return a log of any known format as runs; the fields are those named, or the only ones possible.

    Args:
        path: The file.
        naming: What the user says of its fields.

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
    matching = [one for one in FORMATS.values() if one.matches(source)]
    if not matching and not is_table(source):
        raise ValueError(f"{path} is a zip file and no Inspect log: it has no header.json")
    log = (matching[0].read if matching else read_table)(source)
    if not log.entries:
        raise ValueError(f"{path} has no results ({log.format})")
    id_field = chosen_id(log, naming)
    right_field = chosen_right(log, naming)
    verdicts = read_verdicts(log, right_field, naming)
    problems = _problems(log, id_field, verdicts)
    numbers = any(not isinstance(one, bool) for one in verdicts) or any(_trials(one) for one in problems.values())
    by_method: dict[str, list[ResultRecord]] = {}
    models: dict[str, str] = {}
    for (method, name), drafts in problems.items():
        right = [one.right for one in drafts] if not _trials(drafts) else [_several(log, name, drafts, naming)]
        verdict = [_at_least(one, naming.right_from) for one in right]
        by_method.setdefault(method, []).append(_record(name, drafts, verdict, log.told_the_score))
        models.setdefault(method, drafts[-1].entry.model)
    runs = tuple(_run(log, method, records, models[method]) for method, records in by_method.items())
    return ReadLog(path, log.format, id_field, right_field, naming.right_from if numbers else None, runs)


class _Draft(NamedTuple):
    entry: Entry
    right: float | bool


def _problems(log: Log, id_field: str, verdicts: Iterable[float | bool]) -> dict[tuple[str, str], list[_Draft]]:
    """Return the drafts of each problem of each method, in the order of their rounds."""
    found: dict[tuple[str, str], list[_Draft]] = {}
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
        found.setdefault((entry.method, name), []).append(_Draft(entry, right))
    refuse(log, wrong)
    for (_, name), drafts in found.items():
        if len(drafts) > 1 and _trials(drafts) and any(one.entry.round is not None for one in drafts):
            raise ValueError(f"{log.path}: {name!r} has rounds and several runs of them; export one run at a time")
        if any(one.entry.round is None for one in drafts) and len({one.entry.round for one in drafts}) > 1:
            raise ValueError(f"{log.path}: {name!r} has drafts with a round and without")
        drafts.sort(key=lambda one: one.entry.round or 0)
    return found


def _trials(drafts: list[_Draft]) -> bool:
    return len({one.entry.trial for one in drafts}) > 1


def _several(log: Log, name: str, drafts: list[_Draft], naming: Naming) -> float:
    if naming.right_from is None:
        raise ValueError(
            f"{log.path}: {name!r} was run {len(drafts)} times: say from which share of right ones on it counts as "
            "right (--right-from 0.5, right_from=)"
        )
    return sum(float(one.right) for one in drafts) / len(drafts)


def _at_least(right: float | bool, limit: float | None) -> bool:
    if isinstance(right, bool):
        return right
    return right >= limit if limit is not None else bool(right)


def _record(name: str, drafts: list[_Draft], right: list[bool], oracle: bool) -> ResultRecord:
    entries = [one.entry for one in drafts]
    if len(right) != len(entries):  # several runs of one problem: their mean is the verdict, the last one the text
        entries = [replace(entries[-1], tokens=round(sum(one.tokens for one in entries) / len(entries)))]
    last = entries[-1]
    costs = [one.cost_usd for one in entries if one.cost_usd is not None]
    return ResultRecord(
        question_id=name,
        question=last.task,
        predicted_answer=None,
        ground_truth=last.gold,
        is_correct=right[-1],
        is_correct_per_feedback=False,
        final_solution=last.text,
        num_iterations=len(entries) - 1,
        total_tokens=sum(max(one.tokens, 0) for one in entries),
        cost_usd=sum(costs) if costs else None,
        stop_reason=None,
        accepted_by=None,
        oracle=oracle,
        seconds=max(sum(one.seconds for one in entries), 0.0),
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
    rounds = max(one.num_iterations for one in records)
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
