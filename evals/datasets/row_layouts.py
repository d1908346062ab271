"""Row layouts of GSM8K, HumanEval, CommonGen and others: id, task and gold answer, read and checked. Internal."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from ...graphs.writing import writing_task
from ...nodes.verify.code_replies import code_task
from ...nodes.verify.numeric_answers import lone_number
from .scorers import HiddenTests, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


__all__ = ["Fields", "Row", "kind_of", "read_row"]


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
    name = _id(row, fields.id) or str(number)
    try:
        # JSON can hold half of a character, which no database and no request can.
        f"{name}{task}".encode()
    except UnicodeEncodeError:
        raise ValueError("it holds half of a surrogate pair, which is no text") from None
    return Row(number, layout, name, task, gold)


def _id(row: Mapping[str, Any], field: str | None) -> str:
    names = ID_FIELDS if field is None else (field,)
    found = next((row[name] for name in names if row.get(name) is not None), None)
    if found is None and field is None:
        return ""
    if isinstance(found, bool) or not isinstance(found, str | int) or not str(found).strip():
        raise ValueError(f"its id must be a text or an integer, not {found!r}")
    return str(found).strip()


def _any_row(row: Mapping[str, Any], question: str, answer: str) -> tuple[str, str, Any]:
    task, found = _text(row, question), row.get(answer)
    if answer not in row:
        raise ValueError(_no_field(answer))
    if isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found):
        # By way of its text: Decimal(0.1) is not 0.1.
        found = format(Decimal(str(found)), "f")
    if not isinstance(found, str) or not found.strip():
        raise ValueError(f"its field {answer!r} must hold a text or a number, not {found!r}")
    if ANSWER_LINE.search(found):
        return "GSM8K", task, _marked(found, answer)
    return "questions and plain answers", task, found.strip()


def _word_problem(row: Mapping[str, Any]) -> tuple[str, Decimal]:
    task, answer = _text(row, "question"), _text(row, "answer")
    if not ANSWER_LINE.search(answer):
        raise ValueError(
            f"its answer must have a last line '#### 42'; answers of other kinds are read with {HOW_TO_NAME}"
        )
    return task, _marked(answer, "answer")


def _marked(answer: str, field: str) -> Decimal:
    found = ANSWER_LINE.search(answer)
    number = lone_number(found[1]) if found else None
    if number is None:
        raise ValueError(f"after '####' in {field!r} there must be a number, not {(found or ' ')[0]!r}")
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
