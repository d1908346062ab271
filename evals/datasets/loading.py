"""Datasets from JSONL files, from the bundled word problems, and from the Hugging Face Hub."""

from __future__ import annotations

import codecs
import hashlib
import importlib
import json
import os
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from .problems import Dataset, Problem
from .row_layouts import Fields, kind_of, read_row

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .row_layouts import Row

__all__ = ["load_dataset"]


def load_dataset(
    spec: str | os.PathLike[str],
    *,
    skip_bad: bool = False,
    id_field: str | None = None,
    question_field: str | None = None,
    answer_field: str | None = None,
    split: str = "test",
) -> Dataset:
    """Return a dataset, every row of it checked.

    Without field names a row is one of GSM8K (`question`, and `answer` with a last line `#### 42`; numeric), HumanEval
    (`prompt`, `entry_point`, `test`; code) or CommonGen (`concepts`; words), and the first good row says which. With
    `question_field` or `answer_field` rows may be of any kind: numeric when every answer is a number or ends in
    `#### 42`, else texts, compared exactly but for case, white space and punctuation.

    Args:
        spec: A JSONL file in UTF-8; `bundled` for redraft's own word problems; or `hf:OWNER/NAME` or
            `hf:OWNER/NAME/CONFIG`, a data set of the Hugging Face Hub, or `hf:FOLDER`, a folder that `datasets` reads.
        skip_bad: Leave out lines that can't be used and list them in `Dataset.skipped`.
        id_field: Holds a text or an integer that names the problem; default: `id`, `task_id` or `question_id`, and
            where a row has none of them the number of its line, from 1.
        question_field: Holds the task; default, where `answer_field` is given: `question`.
        answer_field: Holds the gold answer, a text or a number; default, where `question_field` is given: `answer`.
        split: Of a data set with splits, as on the Hub; a file has none.

    Raises:
        ValueError: Lines that can't be used, named by their number; rows of different kinds, also with `skip_bad`; no
            usable row at all; or `spec` makes no sense.
        OSError: There is no such file or data set, or it can't be read.
        ImportError: `hf:` without the package `datasets`.
    """
    source = _source(os.fspath(spec), split)
    fields = Fields(id_field, question_field, answer_field)
    good: list[Row] = []
    faults: list[_Fault] = []
    seen: dict[str, int] = {}
    for number, found in source.rows:
        try:
            row = read_row(number, _parse(found) if isinstance(found, bytes) else found, fields)
            if row.id in seen:
                raise ValueError(f"its id {row.id!r} is that of {source.unit} {seen[row.id]} too")  # noqa: TRY301
        except (ValueError, RecursionError) as error:
            faults.append(_Fault(number, _short(str(error))))
            continue
        seen[row.id] = number
        if good and row.layout != good[0].layout:
            text = f"it is a row of {row.layout}, and {source.unit} {good[0].number} is one of {good[0].layout}"
            faults.append(_Fault(number, text, can_skip=False))
            continue
        good.append(row)
    told = [f"{source.unit} {fault.number}: {fault.why}" for fault in faults]
    if not good:
        raise ValueError(_listed(f"{source.name} holds no problem that can be used", told))
    if faults and not (skip_bad and all(fault.can_skip for fault in faults)):
        raise ValueError(_listed(f"{source.name} has lines that can't be used", told))
    kind, golds = kind_of(good)
    problems = tuple(Problem(row.id, row.task, gold) for row, gold in zip(good, golds, strict=True))
    return Dataset(source.name, kind, source.sha256, problems, tuple(told))


class _Source(NamedTuple):
    """Numbered rows: lines that are still to be read, or rows."""

    name: str
    sha256: str
    rows: Iterable[tuple[int, Any]]
    unit: str = "line"


class _Fault(NamedTuple):
    number: int
    why: str
    can_skip: bool = True


def _source(spec: str, split: str) -> _Source:
    if spec.startswith("hf:"):
        return _hub(spec.removeprefix("hf:"), split)
    if spec == "bundled":
        return _lines(spec, files(__package__).joinpath("word_problems.jsonl").read_bytes())
    path = Path(spec).expanduser()
    if not path.exists():
        raise FileNotFoundError(f"there is no file {spec!r}; a dataset is a JSONL file, 'bundled' or 'hf:OWNER/NAME'")
    return _lines(path.stem, path.read_bytes())


def _lines(name: str, content: bytes) -> _Source:
    # Split as bytes: JSON may hold other line separators, and one line that is no UTF-8 spoils no other.
    lines = content.removeprefix(codecs.BOM_UTF8).split(b"\n")
    rows = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    return _Source(name, hashlib.sha256(content).hexdigest(), rows)


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8"), parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 (byte {error.start + 1})") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _hub(name: str, split: str) -> _Source:
    folder = Path(name).expanduser()
    local = bool(name) and folder.is_dir()
    parts = [str(folder)] if local else name.split("/")
    if len(parts) > LONGEST_NAME or not all(part.strip() for part in parts):
        raise ValueError(f"a data set of the Hub is 'hf:OWNER/NAME' or 'hf:OWNER/NAME/CONFIG', not {'hf:' + name!r}")
    try:
        library = importlib.import_module("datasets")
    except ImportError as error:
        raise ImportError(f"{'hf:' + name!r} needs the package datasets: pip install datasets ({error})") from None
    found = library.load_dataset("/".join(parts[:2]), *parts[2:], split=split)
    rows = [dict(row) for row in found]
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row, sort_keys=True, default=str).encode() + b"\n")
    return _Source(folder.name if local else name, digest.hexdigest(), enumerate(rows, 1), "row")


def _listed(what: str, faults: list[str]) -> str:
    more = len(faults) - MOST_TOLD
    return "\n  ".join(
        [f"{what}:" if faults else what, *faults[:MOST_TOLD], *([f"and {more} more"] if more > 0 else [])]
    )


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TOLD else f"{text[:LONGEST_TOLD]} …"


LONGEST_NAME = 3
MOST_TOLD = 20
LONGEST_TOLD = 200
