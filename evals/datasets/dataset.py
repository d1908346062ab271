"""Datasets of problems, from JSONL files, the bundled word problems and the Hugging Face Hub. Internal.

Rows laid out as GSM8K, HumanEval and CommonGen are known, and those of others by the names of their fields.
"""

from __future__ import annotations

import codecs
import dataclasses
import hashlib
import importlib
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from importlib.resources import files
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from ...graphs.writing import writing_task
from ...nodes.verify.code_replies import code_task
from ...nodes.verify.numeric_answers import lone_number
from .scorers import HiddenTests, Kind, Scorer, scorer
from .services import read_examples, service_of

__all__ = ["Dataset", "Fields", "Problem", "load_dataset", "numbered_rows", "row_id"]


@dataclass(frozen=True)
class Problem:
    """One problem. A graph is given `task`; nothing else of it may reach a state or a prompt.

    Args:
        id: Names the problem within its dataset.
        task: What a graph is given; made without looking at the gold answer.
        gold: For the dataset's scorer only; `repr` hides it.
    """

    id: str
    task: str
    gold: Any = field(repr=False, hash=False)


@dataclass(frozen=True)
class Dataset:
    """Problems of one kind, and how a solution of them is judged.

    Args:
        name: Shown in results and reports.
        kind: `numeric`, `code`, `words` or `exact`; see `scorer`.
        sha256: Of the file's bytes, or of the rows where there is no file; a sample keeps that of the whole.
        problems: In the order of the file.
        skipped: What was left out, as `line 7: why`.
    """

    name: str
    kind: Kind
    sha256: str
    problems: tuple[Problem, ...] = field(repr=False)
    skipped: tuple[str, ...] = ()
    source: str = ""
    """Where results can be sent back to: `langsmith:NAME`, say; empty where a dataset is a file, or of the Hub."""
    own: Scorer | None = field(default=None, repr=False, compare=False)
    """Scores in place of what the kind has."""

    @property
    def scorer(self) -> Scorer:
        """Who reads and judges solutions."""
        return self.own or scorer(self.kind)

    def read_answer(self, solution: str) -> str | None:
        """Return the answer that a solution gives: a number, code or text; `None` where it gives none."""
        return self.scorer.read_answer(solution)

    def is_correct(self, problem: Problem, solution: str) -> bool:
        """Return True if a solution is right by the problem's gold answer; one that can't be read is wrong.

        Raises:
            SandboxUnavailableError: The kind is `code`, and nothing can run code safely here.
        """
        return self.scorer.is_correct(problem.gold, solution)

    def verdict(self, problem: Problem, solution: str) -> bool | float | None:
        """Return whether a solution is right, or its score by a function of one's own; `None` where it can't tell."""
        return self.is_correct(problem, solution) if self.own is None else self.own.grade(problem.gold, solution)

    def shown_gold(self, problem: Problem) -> str | None:
        """Return the gold answer as records and reports show it, or `None` where there is none to show."""
        return self.scorer.shown_gold(problem.gold)

    def plain_gold(self, problem: Problem) -> Any:
        """Return the gold answer as JSON can hold it; the scorer's `gold_of` reads it back."""
        return self.scorer.plain_gold(problem.gold)

    def sample(self, limit: int | None = None, seed: int | None = None, *, offset: int = 0) -> Dataset:
        """Return the dataset with at most `limit` of its problems, in the order of the file.

        The same seed gives the same problems on every machine, and a larger sample holds each smaller one, so that a
        run can be extended.

        Args:
            limit: How many, 1 or more; `None` keeps all.
            seed: Which ones, at random; `None` takes the first ones.
            offset: How many at the start of the file are left out, 0 or more: those that prompts were tuned on, say.

        Raises:
            ValueError: `limit` is below 1, or `offset` leaves no problem.
        """
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be 1 or more, not {limit!r}")
        if not 0 <= offset < len(self.problems):
            raise ValueError(f"offset must be from 0 to {len(self.problems) - 1} here, not {offset!r}")
        chosen = self.problems[offset:]
        if seed is not None:
            chosen = tuple(sorted(chosen, key=lambda one: hashlib.sha256(f"{seed}:{one.id}".encode()).digest()))
        ids = {one.id for one in chosen[:limit]}
        return dataclasses.replace(self, problems=tuple(problem for problem in self.problems if problem.id in ids))


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
            `hf:OWNER/NAME/CONFIG`, a data set of the Hugging Face Hub, or `hf:FOLDER`, a folder that `datasets` reads;
            or `langsmith:NAME`, `langfuse:NAME` or `phoenix:NAME`, a dataset that is kept there. An example's inputs
            and outputs are its fields; where it has one of each and no field is named, they are task and gold answer.
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
        ImportError: `hf:` without the package `datasets`, or a service without its client.
    """
    spec = os.fspath(spec)
    service = service_of(spec)
    if service and id_field is not None:
        raise ValueError(
            f"an example of {spec!r} has the id that {service} gave it, so leave id_field={id_field!r} out"
        )
    source = _source(spec, split)
    named = (question_field, answer_field)
    fields = Fields(id_field, *(source.fields if source.fields and named == (None, None) else named))
    good: list[Row] = []
    faults: list[_Fault] = []
    seen: dict[str, int] = {}
    for number, content in source.rows:
        try:
            row = read_row(number, _parse(content) if isinstance(content, bytes) else content, fields)
            if row.id in seen:
                raise ValueError(f"its id {row.id!r} is that of {source.unit} {seen[row.id]} too")  # noqa: TRY301
        except (ValueError, RecursionError) as error:
            faults.append(_Fault(number, _short(str(error))))
            continue
        seen[row.id] = number
        if good and row.layout != good[0].layout:
            text = f"it is a row of {row.layout}, and {source.unit} {good[0].number} is one of {good[0].layout}"
            # Never skipped: which rows are left would hang on which came first.
            faults.append(_Fault(number, text, can_skip=False))
            continue
        good.append(row)
    skipped = [f"{source.unit} {fault.number}: {fault.why}" for fault in faults]
    if not good:
        raise ValueError(_listed(f"{source.name} holds no problem that can be used", skipped))
    if faults and not (skip_bad and all(fault.can_skip for fault in faults)):
        raise ValueError(_listed(f"{source.name} has lines that can't be used", skipped))
    kind, golds = kind_of(good)
    problems = tuple(Problem(row.id, row.task, gold) for row, gold in zip(good, golds, strict=True))
    return Dataset(source.name, kind, source.sha256, problems, tuple(skipped), spec if service else "")


def numbered_rows(spec: str, split: str) -> tuple[str, list[Any]]:
    """Return the name and the rows of a source, as they are.

    Raises:
        ValueError: A line is no JSON object; the message gives its number.
        OSError: There is no such source.
    """
    source, rows = _source(spec, split), []
    for number, content in source.rows:
        try:
            row = _parse(content) if isinstance(content, bytes) else content
        except ValueError as error:
            raise ValueError(f"{source.name}, {source.unit} {number}: {error}") from None
        if not isinstance(row, dict):
            raise ValueError(f"{source.name}, {source.unit} {number}: it must be a JSON object, not {row!r:.80}")  # noqa: TRY004
        rows.append(row)
    return source.name, rows


class _Source(NamedTuple):
    """Numbered rows: lines that are still to be read, or rows."""

    name: str
    sha256: str
    rows: Iterable[tuple[int, Any]]
    unit: str = "line"
    fields: tuple[str, str] | None = None
    """Those of the task and the gold answer, where there can be no doubt."""


class _Fault(NamedTuple):
    number: int
    why: str
    can_skip: bool = True


def _source(spec: str, split: str) -> _Source:
    if spec.startswith("hf:"):
        return _hub(spec.removeprefix("hf:"), split)
    if service_of(spec):
        return _examples(spec)
    if spec == "bundled":
        return _lines(spec, files(__package__).joinpath("word_problems.jsonl").read_bytes())
    path = Path(spec).expanduser()
    if not path.exists():
        raise FileNotFoundError(
            f"there is no file {spec!r}; a dataset is a JSONL file, 'bundled', 'hf:OWNER/NAME', "
            "or 'langsmith:NAME', 'langfuse:NAME' or 'phoenix:NAME'"
        )
    return _lines(path.stem, path.read_bytes())


def _lines(name: str, content: bytes) -> _Source:
    # Split as bytes: JSON may hold other line separators, and one line that is no UTF-8 spoils no other.
    lines = content.removeprefix(codecs.BOM_UTF8).split(b"\n")
    rows = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    return _Source(name, hashlib.sha256(content).hexdigest(), rows)


def _parse(line: bytes) -> Any:
    try:
        # Python's reader takes NaN and Infinity, unless it is told otherwise.
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
    loaded = library.load_dataset("/".join(parts[:2]), *parts[2:], split=split)
    rows = [dict(row) for row in loaded]
    return _Source(folder.name if local else name, _digest(rows), enumerate(rows, 1), "row")


def _examples(spec: str) -> _Source:
    examples = sorted(
        read_examples(spec), key=attrgetter("id")
    )  # services promise no order, and a sample must be the same tomorrow
    rows = [{**example.outputs, **example.inputs, "id": example.id} for example in examples]
    pairs = {
        (*example.inputs, *example.outputs) for example in examples if len(example.inputs) == len(example.outputs) == 1
    }
    question, answer = pairs.pop() if len(pairs) == 1 else ("", "")
    fields = (question, answer) if question != answer else None
    return _Source(spec.partition(":")[2], _digest(rows), enumerate(rows, 1), "example", fields)


def _digest(rows: Iterable[dict[str, Any]]) -> str:
    """Return the hash of rows of which there is no one file whose bytes could be hashed."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row, sort_keys=True, default=str).encode() + b"\n")
    return digest.hexdigest()


def _listed(what: str, faults: list[str]) -> str:
    more = len(faults) - MOST_LISTED
    return "\n  ".join(
        [f"{what}:" if faults else what, *faults[:MOST_LISTED], *([f"and {more} more"] if more > 0 else [])]
    )


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_LISTED else f"{text[:LONGEST_LISTED]} …"


LONGEST_NAME = 3
MOST_LISTED = 20
LONGEST_LISTED = 200


class Fields(NamedTuple):
    """The fields of a row to read; without a question and an answer, those of the known layouts."""

    id: str | None
    question: str | None
    answer: str | None


class Row(NamedTuple):
    """A row that can be used."""

    number: int
    """Of its line, from 1."""
    layout: str
    id: str
    task: str
    gold: Any


def read_row(number: int, row: Any, fields: Fields) -> Row:
    """Return the id, task and gold answer of a row.

    Raises:
        ValueError: It can't be used; the message says why.
    """
    if not isinstance(row, dict):
        raise ValueError(f"it must be a JSON object, not {row!r}")  # noqa: TRY004  as any other bad line
    if fields.question is not None or fields.answer is not None:
        layout, task, gold = _any_row(row, fields.question or "question", fields.answer or "answer")
    else:
        layout = next((name for name, (marks, _) in LAYOUTS.items() if marks & row.keys()), "")
        if not layout:
            raise ValueError(
                f"say what to read, with {HOW_TO_NAME}: its fields are {', '.join(map(repr, row)) or 'none'}"
            )
        task, gold = LAYOUTS[layout][1](row)
    name = row_id(row, fields.id) or str(number)
    try:
        # JSON can hold half of a character, which no database and no request can.
        f"{name}{task}".encode()
    except UnicodeEncodeError:
        raise ValueError("it holds half of a surrogate pair, which is no text") from None
    return Row(number, layout, name, task, gold)


def row_id(row: Mapping[str, Any], field: str | None) -> str:
    """Return the id of a row; empty where it has none, and none was named."""
    names = ID_FIELDS if field is None else (field,)
    value = next((row[name] for name in names if row.get(name) is not None), None)
    if value is None and field is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise ValueError(f"its id must be a text or an integer, not {value!r}")
    return str(value).strip()


def _any_row(row: Mapping[str, Any], question: str, answer: str) -> tuple[str, str, Any]:
    task, value = _text(row, question), row.get(answer)
    if answer not in row:
        raise ValueError(_no_field(answer))
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        # By way of its text: Decimal(0.1) is not 0.1.
        value = format(Decimal(str(value)), "f")
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"its field {answer!r} must hold a text or a number, not {value!r}")
    if ANSWER_LINE.search(value):
        return "GSM8K", task, _marked(value, answer)
    return "questions and plain answers", task, value.strip()


def _word_problem(row: Mapping[str, Any]) -> tuple[str, Decimal]:
    task, answer = _text(row, "question"), _text(row, "answer")
    if not ANSWER_LINE.search(answer):
        raise ValueError(
            f"its answer must have a last line '#### 42'; answers of other kinds are read with {HOW_TO_NAME}"
        )
    return task, _marked(answer, "answer")


def _marked(answer: str, field: str) -> Decimal:
    match = ANSWER_LINE.search(answer)
    number = lone_number(match[1]) if match else None
    if number is None:
        raise ValueError(f"after '####' in {field!r} there must be a number, not {(match or ' ')[0]!r}")
    return number


def _function(row: Mapping[str, Any]) -> tuple[str, HiddenTests]:
    task, name = code_task(row), row["entry_point"]
    if not name.isidentifier():
        raise ValueError(f"its entry_point must be the name of a function, not {name!r}")
    solution = row.get("canonical_solution")
    _text(row, "test")
    return task, HiddenTests(row["prompt"], name, row["test"], solution if isinstance(solution, str) else "")


def _sentence(row: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    task, words = writing_task(row)
    return task, tuple(words)


def _text(row: Mapping[str, Any], field: str) -> str:
    value = row.get(field)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"its field {field!r} must hold a text, not {value!r}" if field in row else _no_field(field))
    return value.strip()


def _no_field(field: str) -> str:
    return f"it has no field {field!r}"


def kind_of(rows: Sequence[Row]) -> tuple[Kind, list[Any]]:
    """Return the kind of rows that share one layout, which decides how solutions are judged, and their gold answers."""
    golds = [row.gold for row in rows]
    kind = KINDS.get(rows[0].layout)
    if kind is not None:
        return kind, golds
    numbers = [lone_number(gold) for gold in golds]
    return ("exact", golds) if None in numbers else ("numeric", numbers)


LAYOUTS: dict[str, tuple[set[str], Callable[[Mapping[str, Any]], tuple[str, Any]]]] = {
    "HumanEval": ({"prompt", "entry_point"}, _function),
    "CommonGen": ({"concepts"}, _sentence),
    "GSM8K": ({"question", "answer"}, _word_problem),
}
"""By layout: the fields that tell it, one of which is enough, and what reads the task and the gold answer."""

KINDS: dict[str, Kind] = {"HumanEval": "code", "CommonGen": "words", "GSM8K": "numeric"}
ID_FIELDS = ("id", "task_id", "question_id")
HOW_TO_NAME = "question_field= and answer_field="
ANSWER_LINE = re.compile(r"^[ \t]*+####(.*+)\s*+\Z", re.MULTILINE)
