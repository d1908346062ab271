"""The tasks of a batch and their results, in a file that a second start goes on with. Internal."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from ..._files import add_line, appended, locked, write_file
from ...state.threads.kind import differences
from ...state.usage import Usage  # noqa: TC001  (whoever validates a `ManyResult` reads its annotations)
from ..arguments import checked_count

if TYPE_CHECKING:
    from io import FileIO

__all__ = ["Batch", "BatchProgress", "GivenUpError", "ManyResult", "task_in"]

MOST_FAILURES = 5
"""So many tasks in a row that failed before any succeeded end a batch: the model is not there, say."""


class ManyResult(TypedDict):
    """The result of a task."""

    id: str
    thread_id: str
    task: str
    answer: str
    stop_reason: str | None
    rounds: int
    score: float | None
    accepted_by: str | None
    usage: Usage
    seconds: float
    error: str | None


class GivenUpError(RuntimeError):
    """All tasks so far failed in the same way, so the rest was not tried. Starting again goes on."""


@dataclass
class BatchProgress:
    """The progress of a batch."""

    total: int
    done: int = 0
    good: int = 0
    """Of `done`, how many were right, or accepted."""
    failed: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0
    started: float = field(default_factory=perf_counter)
    known: int = 0
    """Of `done`, how many were there before this batch began."""
    at_once: int = 0
    """Runs under way at most, at the moment; 0 where nobody says."""
    hedged: int = 0
    """Calls that were asked twice, since the first took long."""
    _fresh_failed: int = 0

    def count(self, *, good: bool, failed: bool, tokens: int, cost_usd: float | None, known: bool = False) -> None:
        """Count a result; one that was `known` before costs no tokens now."""
        self.done += 1
        self.known += known
        self.good += good
        self.failed += failed
        # Tokens a second are of this batch alone; good, failed and cost are of the whole.
        self.tokens += 0 if known else tokens
        self.cost_usd = None if self.cost_usd is None or cost_usd is None else self.cost_usd + cost_usd
        self._fresh_failed += failed and not known

    @property
    def hopeless(self) -> bool:
        """True if all results of this batch failed, and there are some."""
        return self.done - self.known == self._fresh_failed >= MOST_FAILURES

    @property
    def share(self) -> float | None:
        """Share of good ones so far, 0–1."""
        return self.good / self.done if self.done else None

    @property
    def tokens_per_second(self) -> float:
        """Of this batch."""
        return self.tokens / max(perf_counter() - self.started, 1e-9)

    @property
    def eta_s(self) -> float | None:
        """Seconds that are left at the pace so far; `None` before the first result."""
        fresh = self.done - self.known
        return (perf_counter() - self.started) / fresh * (self.total - self.done) if fresh else None


class Batch:
    """The tasks of a batch, and the results that there are, in a file where there is one."""

    def __init__(
        self,
        tasks: Iterable[str | Mapping[str, Any]],
        *,
        out: str | Path | None,
        concurrency: int | None,
        limits: Mapping[str, Any] | None,
        on_progress: Callable[[BatchProgress, ManyResult | None], None],
        made_by: Mapping[str, Any],
    ) -> None:
        checked_count("concurrency", 1 if concurrency is None else concurrency, least=1)
        self.inputs = inputs_of(tasks, limits)
        self.path = None if out is None else Path(out)
        self.made_by = {**made_by, **({"limits": {**limits}} if limits else {})} if made_by else {}
        self.on_progress = on_progress
        self.known: dict[str, ManyResult] = {}
        self.progress = BatchProgress(len(self.inputs))
        self.name = f"many-{secrets.token_hex(4)}"
        self._lock: int | None = None
        self._file: FileIO | None = None

    def __enter__(self) -> Batch:
        try:
            if self.path is not None:
                self._open(self.path)
            for result in self.known.values():
                self._count(result, known=True)
            self.on_progress(self.progress, None)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _open(self, path: Path) -> None:
        beside = path.with_name(f"{path.name}.run")  # whose results these are
        with appended(beside) as file:
            self._lock = locked(beside, f"another process is at work on {path}")
            said = _json_in(beside.read_bytes()) if path.exists() else {}
            if other := differences(said.get("made_by") or {}, self.made_by):
                raise ValueError(f"{path} holds results of another graph: {other[0]}; name another file")
            self.known = self._read(path)
            self._file = appended(path)
            self.name = str(said.get("name") or self.name)
            about = json.dumps({"name": self.name, "made_by": self.made_by}, default=str).encode()
            if beside.read_bytes().strip() != about:
                file.truncate(0)
                add_line(file, about, beside)

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
        if self._lock is not None:
            os.close(self._lock)

    @property
    def todo(self) -> dict[str, Any]:
        """The inputs without a result, or whose run failed."""
        done = {name for name, result in self.known.items() if result["error"] is None}
        return {name: given for name, given in self.inputs.items() if name not in done}

    def add(self, result: ManyResult, at_once: int, hedged: int) -> None:
        """Keep a result, and tell how many runs are under way at most, and how many calls were asked twice."""
        self.known[result["id"]] = result
        if self.path and self._file:
            add_line(self._file, json.dumps(result, ensure_ascii=False).encode(), self.path)
        self.progress.at_once, self.progress.hedged = at_once, hedged
        self._count(result)
        self.on_progress(self.progress, result)
        if self.progress.hopeless:
            fresh = self.progress.done - self.progress.known
            raise GivenUpError(f"the first {fresh} tasks all failed; the last one: {result['error']}")

    def results(self) -> list[ManyResult]:
        """Return the results in the order of the tasks."""
        return [self.known[name] for name in self.inputs]

    def _count(self, result: ManyResult, *, known: bool = False) -> None:
        usage, error = result["usage"], result["error"]
        self.progress.count(
            good=result["stop_reason"] == "accepted",
            failed=error is not None,
            tokens=usage["total_tokens"],
            cost_usd=usage["cost_usd"],
            known=known,
        )

    def _read(self, path: Path) -> dict[str, ManyResult]:
        """Return the results of a file that need no other run; what it holds beside them is taken out."""
        known: dict[str, ManyResult] = {}
        lines = path.read_bytes().split(b"\n") if path.exists() else []
        whole = lines[:-1]  # a last one without its end was being written
        for number, line in enumerate(whole, 1):
            try:
                row = json.loads(line)
                name = row["id"]
                if ManyResult.__annotations__.keys() != row.keys():
                    raise ValueError("other fields")  # noqa: TRY301
            except (ValueError, TypeError, KeyError):
                raise ValueError(f"{path}, line {number}: this is no result of run_many; name another file") from None
            if row["error"] is None:
                known[name] = row
                if name in self.inputs and row["task"] != task_in(self.inputs[name]):
                    raise ValueError(f"{path}, line {number}: the id {name!r} was another task then")
        if len(known) < len(lines) - 1 or (lines and lines[-1]):
            write_file(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in known.values()))
        return {name: row for name, row in known.items() if name in self.inputs}


def _json_in(data: bytes) -> dict[str, Any]:
    """Return an object that a file holds; an empty one where it can't be read."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def inputs_of(tasks: Iterable[str | Mapping[str, Any]], limits: Mapping[str, Any] | None) -> dict[str, dict[str, Any]]:
    """Return the inputs of the graph by their ids."""
    if isinstance(tasks, str | bytes | Mapping):
        raise TypeError("tasks is one text, or one input: give several, [text, …]")
    inputs, repeats = dict[str, dict[str, Any]](), Counter[str]()
    for number, given in enumerate(tasks, 1):
        if not isinstance(given, str | Mapping):
            raise TypeError(f"task {number} is a text, or an input of the graph, not {given!r:.200}")
        row = {"task": given} if isinstance(given, str) else dict(given)
        name = row.pop("id", None)
        if name is None:  # the same wherever it stands, so that a list may grow
            text = json.dumps(row, sort_keys=True, default=str)
            digest = hashlib.sha256(text.encode()).hexdigest()[:12]
            name = f"{digest}-{repeats[digest]}" if repeats[digest] else digest
            repeats[digest] += 1
        if str(name) in inputs:
            raise ValueError(f"task {number}: the id {name!r} stands twice")
        if not str(name) or not task_in(row).strip():
            raise ValueError(f"task {number} asks for nothing: give a text, or an input with a `task` or `messages`")
        inputs[str(name)] = {**({"limits": dict(limits)} if limits else {}), **row}
    return inputs


def task_in(given: Mapping[str, Any]) -> str:
    """Return the task of an input, as it is shown and compared."""
    task = given.get("task")
    return task if isinstance(task, str) else json.dumps(given.get("messages") or "", default=str).strip('"')
