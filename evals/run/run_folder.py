"""The folder of a run: `results.jsonl`, one whole record a line and none twice, and `run.json`. Internal."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..._files import add_line, appended, locked, write_file
from ...state.checked_values import first_fault
from .result_record import ResultRecord

__all__ = [
    "ResultFile",
    "Run",
    "RunInfo",
    "check_same_run",
    "find_runs",
    "locked_folder",
    "read_results",
    "read_run",
    "read_run_info",
    "write_run_info",
]

RESULTS, INFO = "results.jsonl", "run.json"
SAME = (
    *("dataset", "dataset_sha256", "offset", "method", "model", "critic", "judge", "limits", "prompts_sha256"),
    *("options", "seed", "temperature", "max_output_tokens"),
)
"""Fields of `run.json` that a resumed run must share with the run it continues."""


class ResultFile:
    """Appends records, each as one write of one line that is on the disk when it returns.

    A line that a killed process left torn is cut off when the file is opened. A record that is there already is not
    written again. While it is open, no other process can open it (on Windows it can).

    Args:
        path: The file; it is made where there is none.

    Raises:
        ValueError: A line in the middle of the file can't be read; the message gives its number.
        RuntimeError: Another command is at work on this run.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None
        self._file: FileIO | None = None
        self.records: dict[str, ResultRecord] = {}

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = locked_folder(self.path.parent)
        try:
            whole = _whole_lines(self.path)
            self.records = read_results(self.path, upto=whole)
            # Unbuffered: a record is one write, and one that did not fit is noticed at once.
            self._file = appended(self.path)
            # After the reading: a file with a bad line in its middle is left as it is.
            if whole < self.path.stat().st_size:
                self._file.truncate(whole)
        # `with` calls no __exit__ for an __enter__ that raised, and the lock would stay.
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def add(self, record: ResultRecord) -> bool:
        """Write a record; `False` where one with this id is there already.

        Raises:
            OSError: There is no room for it. The file is as it was.
        """
        if record.question_id in self.records:
            return False
        assert self._file is not None, "the file is not open"  # noqa: S101
        add_line(self._file, record.model_dump_json().encode(), self.path)
        # On the disk before it counts: a resumed run passes over what has a record.
        os.fsync(self._file.fileno())
        self.records[record.question_id] = record
        return True

    def drop(self, unwanted: Callable[[ResultRecord], bool]) -> int:
        """Take records out, so that their problems can be run again, and return how many. All at once or not at all."""
        wanted = [record for record in self.records.values() if not unwanted(record)]
        dropped = len(self.records) - len(wanted)
        if dropped:
            self.rewrite(wanted)
        return dropped

    def rewrite(self, records: Iterable[ResultRecord]) -> None:
        """Put other records in the place of all there are. All at once or not at all."""
        assert self._file is not None, "the file is not open"  # noqa: S101
        self.records = {record.question_id: record for record in records}
        write_file(
            self.path, "".join(record.model_dump_json() + "\n" for record in self.records.values()), private=True
        )
        self._file.close()
        self._file = appended(self.path)


def read_results(path: Path, *, upto: int | None = None) -> dict[str, ResultRecord]:
    """Return the records of a file by the id of their problem, in order.

    Args:
        path: A file that is not there has none.
        upto: How many bytes are read.

    Raises:
        ValueError: A line can't be read; the message gives its number.
    """
    if not path.exists():
        return {}
    records: dict[str, ResultRecord] = {}
    for number, line in enumerate(path.read_bytes()[:upto].split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            record = ResultRecord.model_validate_json(line)
        except ValidationError as error:
            raise ValueError(f"{path}, line {number}: {first_fault(error)}") from None
        if record.question_id in records:
            raise ValueError(f"{path}, line {number}: the problem {record.question_id!r} has a result already")
        records[record.question_id] = record
    return records


def read_run_info(folder: Path) -> dict[str, Any]:
    """Return `run.json` of a run's folder.

    Raises:
        ValueError: There is none, or it can't be read.
    """
    path = folder / INFO
    try:
        info = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{folder} holds no run: {path.name} can't be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no JSON: {error}") from None
    if not isinstance(info, dict) or "method" not in info:
        raise ValueError(f"{path} is no description of a run")
    return info


def write_run_info(folder: Path, info: Mapping[str, Any]) -> None:
    """Write `run.json`, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / INFO, json.dumps(info, indent=2, ensure_ascii=False) + "\n", private=True)


def check_same_run(folder: Path, info: Mapping[str, Any]) -> None:
    """Raise ValueError unless the run in a folder is the one described, so that it can be resumed.

    Raises:
        ValueError: It is another; the message names what differs.
    """
    before = read_run_info(folder)
    if differing := [name for name in SAME if before.get(name) != info.get(name)]:
        name = differing[0]
        raise ValueError(
            f"{folder} holds a run with another {name} ({before.get(name)!r}, now {info.get(name)!r}): "
            "a run is resumed with what it began with; name another --out for a new one"
        )


def _whole_lines(path: Path) -> int:
    """Return the number of bytes up to the end of the last whole line."""
    if not path.exists():
        return 0
    data = path.read_bytes()
    return data.rfind(b"\n") + 1


def locked_folder(folder: Path) -> int | None:
    """Return a descriptor that holds the lock of a folder until it is closed, or its process ends.

    Raises:
        RuntimeError: Another holds it.
    """
    # The folder and not the file: `drop` puts another file in its place.
    return locked(folder, f"another command is at work on the run in {folder}; wait for its end or stop it")


class RunInfo(BaseModel):
    """The content of `run.json`: how the results came to be. Fields of later versions are kept."""

    model_config = ConfigDict(extra="allow", frozen=True)

    format: int = Field(default=1, le=2)
    dataset: str
    dataset_sha256: str
    kind: str
    n: int = Field(ge=0, description="Problems asked for.")
    method: str
    oracle: bool = Field(description="Whether a critic of the method knows the gold answers.")
    model: str
    critic: str | None = None
    limits: dict[str, Any] = {}
    seed: int | None = None
    started: str = Field(default="", description="ISO time.")


@dataclass(frozen=True)
class Run:
    """One method on one dataset."""

    folder: Path
    info: RunInfo
    records: tuple[ResultRecord, ...]
    torn: bool = False
    """True if the file ends within a line: it is being written, or its writer was killed. That line is left out."""

    @cached_property
    def oracle(self) -> bool:
        """True if a gold answer had a say in any result."""
        return self.info.oracle or any(record.oracle for record in self.records)

    @cached_property
    def verdicts(self) -> dict[str, bool]:
        """For each problem's id, True if its answer is right. One without an answer or a verdict is wrong."""
        return {record.question_id: record.is_correct is True for record in self.records}


def read_run(folder: Path | str) -> Run:
    """Return the run whose `results.jsonl` and `run.json` lie in a folder.

    Raises:
        FileNotFoundError: One of the two is missing.
        ValueError: One can't be read, or a problem has two results; the message names file and line.
    """
    folder = Path(folder)
    for name in (RESULTS, INFO):
        if not (folder / name).is_file():
            raise FileNotFoundError(f"{folder} is not the folder of a run: it has no {name}")
    try:
        info = RunInfo.model_validate(read_run_info(folder))
    except ValidationError as error:
        raise ValueError(f"{folder / INFO}: {first_fault(error)}") from None
    whole = _whole_lines(folder / RESULTS)
    records = read_results(folder / RESULTS, upto=whole)
    return Run(folder, info, tuple(records.values()), torn=whole < (folder / RESULTS).stat().st_size)


def find_runs(folders: Iterable[Path | str]) -> list[Run]:
    """Return the runs in these folders and below them, each once, in the order of the folders.

    Runs below a folder stand folder by folder, in the order in which they were started.

    Raises:
        FileNotFoundError: A folder has no run in it.
        ValueError: As `read_run`.
    """
    by_path: dict[Path, Run] = {}
    for folder in map(Path, folders):
        here = [folder] if (folder / RESULTS).is_file() else sorted(one.parent for one in folder.rglob(RESULTS))
        if not here:
            raise FileNotFoundError(f"no run in {folder}: neither it nor a folder below has a {RESULTS}")
        # Resolved, since a folder may be named twice, or through a link.
        fresh = {one.resolve(): one for one in here if one.resolve() not in by_path}
        runs = [(path, read_run(one)) for path, one in fresh.items()]
        by_path |= sorted(runs, key=lambda item: (item[1].folder.parent, item[1].info.started))
    return list(by_path.values())
