"""Finished runs of methods on datasets, read from their folders."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..run.result_files import read_results, read_run_info

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..run.records import ResultRecord

__all__ = ["Run", "RunInfo", "find_runs", "read_run"]

RESULTS, INFO = "results.jsonl", "run.json"


class RunInfo(BaseModel):
    """What `run.json` says about how the results came to be. Fields of later versions are kept."""

    model_config = ConfigDict(extra="allow", frozen=True)

    format: int = Field(default=1, le=1)
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
    """Whether the file ends within a line: it is being written, or its writer was killed. That line is left out."""

    @property
    def oracle(self) -> bool:
        """Whether a gold answer had a say in any result."""
        return self.info.oracle or any(record.oracle for record in self.records)

    @property
    def verdicts(self) -> dict[str, bool]:
        """Whether each problem's answer is right, by its id. One without an answer or a verdict is wrong."""
        return {one.question_id: one.is_correct is True for one in self.records}


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
        first = error.errors(include_url=False)[0]
        raise ValueError(f"{folder / INFO}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    data = (folder / RESULTS).read_bytes()
    whole = data.rfind(b"\n") + 1
    records = read_results(folder / RESULTS, upto=whole)
    return Run(folder, info, tuple(records.values()), torn=whole < len(data))


def find_runs(folders: Iterable[Path | str]) -> list[Run]:
    """Return the runs in these folders and below them, each once, in the order of the folders.

    Runs below a folder stand folder by folder, in the order in which they were started.

    Raises:
        FileNotFoundError: A folder has no run in it.
        ValueError: As `read_run`.
    """
    found: dict[Path, Run] = {}
    for folder in map(Path, folders):
        here = [folder] if (folder / RESULTS).is_file() else sorted(one.parent for one in folder.rglob(RESULTS))
        if not here:
            raise FileNotFoundError(f"no run in {folder}: neither it nor a folder below has a {RESULTS}")
        fresh = {one.resolve(): one for one in here if one.resolve() not in found}
        runs = [(path, read_run(one)) for path, one in fresh.items()]
        found |= sorted(runs, key=lambda item: (item[1].folder.parent, item[1].info.started))
    return list(found.values())
