"""Training data from recorded runs: accepted drafts, and pairs with rejected ones, in TRL's formats. Internal.

The formats are those that TRL calls standard: `prompt`, `chosen` and `rejected` as plain texts for preferences, and
`prompt` and `completion` for supervised fine-tuning (https://huggingface.co/docs/trl/dataset_formats).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .._files import write_file
from ..faces.sessions import any_reader, every_row, known_id, opened
from ..faces.views.drafts import read_events
from ..state import Thread
from ..state.summary import Attempt, accepted_by, attempts, current_run
from .run.run_folder import find_runs

if TYPE_CHECKING:
    from .run.result_record import ResultRecord

__all__ = ["JudgedDraft", "judged_drafts", "preferences", "sft", "write_training_data"]


class JudgedDraft(NamedTuple):
    """A draft that was accepted or rejected."""

    prompt: str
    """The task, and what people asked for beside it."""
    text: str
    accepted_by: str | None
    """`None` where it was rejected."""
    rejected_by: str
    oracle: bool
    """A critic that knows the gold answer had a say."""
    source: str
    """Its thread, or its folder of results and problem."""


def write_training_data(
    names: Sequence[str], *, db: str, preferences_file: Path | None, sft_file: Path | None, oracle: bool
) -> dict[str, dict[str, Any]]:
    """Write pairs and accepted drafts to new JSONL files, and return each file and its number of rows by its kind.

    Args:
        names: Threads, and folders of `redraft eval` or above them; none: all threads of the database.
        db: As `open_checkpointer` takes it.
        preferences_file: Where the pairs go.
        sft_file: Where the accepted drafts go.
        oracle: Drafts that a critic with the gold answer judged count too.

    Raises:
        ValueError: A file is there already, or would have no row.
        OSError: A folder has no results, or a file can't be written.
    """
    drafts = list(judged_drafts(names, db))
    usable = [draft for draft in drafts if oracle or not draft.oracle]
    wanted = {"preferences": (preferences_file, preferences), "sft": (sft_file, sft)}
    files = [(kind, file, list(rows(usable))) for kind, (file, rows) in wanted.items() if file is not None]
    for kind, file, rows in files:
        if file.exists():
            raise ValueError(f"{str(file)!r} is there already: it would be lost; name another")
        if not rows:
            oracles = f"{len(drafts) - len(usable)} by an oracle, which counts with --oracle"
            raise ValueError(f"nothing to write for {kind}: of {len(drafts)} judged drafts {oracles}")
    for _, file, rows in files:
        write_file(file, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), private=True)
    return {kind: {"file": str(file), "rows": len(rows)} for kind, file, rows in files}


def judged_drafts(names: Sequence[str], db: str) -> Iterator[JudgedDraft]:
    """Yield the drafts of threads and of folders of results that everyone accepted, or somebody rejected."""
    folders = [name for name in names if Path(name).is_dir()]
    for run in find_runs(folders):
        for record in run.records:
            yield from _judged(record.question, _attempts(record), f"{run.folder}#{record.question_id}")
    if folders and len(folders) == len(names):
        return
    with opened(db, read_only=True) as saver:
        ids = [known_id(saver, name) for name in names if name not in folders]
        for thread_id in ids or [row.thread_id for row in every_row(saver.runs)]:
            events = read_events(Thread(any_reader(saver, thread_id), thread_id))
            task = next((event["text"] for event in current_run(events) if event["kind"] == "task"), "")
            yield from _judged(task, attempts(events), thread_id)


def preferences(drafts: Iterable[JudgedDraft]) -> Iterator[dict[str, str]]:
    """Yield a row for each rejected draft, with the accepted one of its run, or else the first one of its task."""
    accepted: dict[str, dict[str, JudgedDraft]] = {}
    rejected: dict[tuple[str, str], JudgedDraft] = {}
    for draft in drafts:
        if draft.accepted_by is None:
            rejected.setdefault((draft.prompt, draft.text), draft)
        else:
            accepted.setdefault(draft.prompt, {}).setdefault(draft.source, draft)
    for (prompt, text), draft in rejected.items():
        by_source = accepted.get(prompt, {})
        chosen = by_source.get(draft.source) or next(iter(by_source.values()), None)
        if chosen is not None and chosen.text.split() != text.split():
            yield {
                "prompt": prompt,
                "chosen": chosen.text,
                "rejected": text,
                "accepted_by": str(chosen.accepted_by),
                "rejected_by": draft.rejected_by,
                "source": chosen.source,
            }


def sft(drafts: Iterable[JudgedDraft]) -> Iterator[dict[str, str]]:
    """Yield a row for each accepted draft of a task, each text once."""
    accepted: dict[tuple[str, str], JudgedDraft] = {}
    for draft in drafts:
        if draft.accepted_by is not None:
            accepted.setdefault((draft.prompt, draft.text), draft)
    for (prompt, text), draft in accepted.items():
        who = str(draft.accepted_by)
        yield {"prompt": prompt, "completion": text, "accepted_by": who, "source": draft.source}


def _judged(task: str, drafts: Iterable[Attempt], source: str) -> Iterator[JudgedDraft]:
    for draft in drafts:
        objections = [one["by"] for one in draft.deciding if one.get("accepted") is False]
        # A verdict that can't be read, and a judge that may not say, are no rejection.
        if draft.accepted or objections:
            prompt = "\n\n".join((task, *draft.requirements))
            oracle = any(one.get("oracle") for one in draft.critiques)
            yield JudgedDraft(prompt, draft.text, accepted_by(draft), ", ".join(objections), oracle, source)


def _attempts(record: ResultRecord) -> Iterator[Attempt]:
    """Yield the drafts of a result with their critiques; where an oracle had a say in any, it counts for all."""
    log = record.iterations_log
    # A first draft that is written anew stands for the one before.
    drafts = {step.iteration: step for step in log if step.type != "feedback" and not step.rejected}
    for number, draft in drafts.items():
        critiques: list[Any] = [
            {**step.model_dump(include={"by", "accepted", "score", "verifier"}), "kind": "critique"}
            for step in log
            if step.type == "feedback" and (step.iteration, step.solution) == (number, draft.solution)
        ]
        if record.oracle:
            critiques = [{**critique, "oracle": True} for critique in critiques]
        yield Attempt(number, draft.solution, draft.by, None, tuple(critiques))
