"""Comparison of two files of results, before and after: JSONL with an id and a boolean on each line. Internal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import Field

from .paired import Paired, paired
from .sentences import change_in_words, percent

__all__ = ["CORRECT_FIELDS", "ID_FIELDS", "Comparison", "compare"]

ID_FIELDS = ("question_id", "id", "task_id", "problem_id", "example_id", "sample_id", "qid", "uid", "index", "idx")
CORRECT_FIELDS = ("is_correct", "correct", "passed", "pass", "success", "solved", "resolved")
"""Looked for in this order when no field is named."""

MOST_SHOWN = 5


class Comparison(Paired):
    """A comparison of two files, on the ids that both have."""

    only_before: int = Field(ge=0, description="Ids that only the first file has; they are not compared.")
    only_after: int = Field(ge=0, description="Ids that only the second file has; they are not compared.")
    id_fields: tuple[str, str] = Field(description="The fields that were read as id, before and after.")
    correct_fields: tuple[str, str] = Field(description="The fields that were read as verdict, before and after.")
    verdict: str = Field(description="The comparison in one plain sentence.")
    warnings: list[str] = Field(description="What was left out.")


def compare(
    before: Path | str, after: Path | str, *, id_field: str | None = None, correct_field: str | None = None
) -> Comparison:
    """Return what changed from one file of results to the other, problem by problem.

    Args:
        before: JSONL: an object a line, with an id (text or whole number) and a boolean. Blank lines are passed over.
        after: The same of later results; ids may come in another order.
        id_field: The field of the id in both; default: the first of `ID_FIELDS` that a file's first line has.
        correct_field: The field of the boolean, likewise; default: the first of `CORRECT_FIELDS`.

    Raises:
        ValueError: A line is no JSON object, lacks a field, repeats an id or has no boolean; a file is empty; or the
            two have no id in common. The message names file, line and field.
        OSError: A file can't be opened.
        ImportError: The extra `evals` is not installed.
    """
    old, new = (_Verdicts(Path(path), id_field, correct_field) for path in (before, after))
    common = [name for name in old.found if name in new.found]
    if not common:
        examples = [", ".join(repr(name) for name in list(one.found)[:3]) for one in (old, new)]
        raise ValueError(f"no id in common: {old.path} has {examples[0]} …, {new.path} has {examples[1]} …")
    counts = paired([old.found[name] for name in common], [new.found[name] for name in common])
    left_out = [(one.path, len(one.found) - len(common)) for one in (old, new)]
    warnings = [f"only {path} has {count} of the ids: they are not compared" for path, count in left_out if count]
    return Comparison(
        **counts.model_dump(),
        only_before=left_out[0][1],
        only_after=left_out[1][1],
        id_fields=(old.id_field, new.id_field),
        correct_fields=(old.correct_field, new.correct_field),
        verdict=f"{change_in_words(counts).rstrip(',')}: from {percent(counts.before)} to {percent(counts.after)}.",
        warnings=warnings,
    )


class _Verdicts:
    """The verdicts of one file, by id."""

    def __init__(self, path: Path, id_field: str | None, correct_field: str | None) -> None:
        self.path = path
        self.found: dict[str, bool] = {}
        self.id_field, self.correct_field = id_field or "", correct_field or ""
        lines: dict[str, int] = {}
        wrong: list[str] = []
        # Not `splitlines`: a text in JSON may hold other line separators as they are.
        for number, line in enumerate(_text(path).split("\n"), 1):
            if not line.strip():
                continue
            try:
                name, verdict = self._read(line)
            except ValueError as error:
                wrong.append(f"line {number}: {error}")
                continue
            if lines.setdefault(name, number) != number:
                wrong.append(f"line {number}: field {self.id_field!r}: {name!r} stands in line {lines[name]} already")
            self.found[name] = verdict
        if wrong:
            more = f"\nand {len(wrong) - MOST_SHOWN} more lines" if len(wrong) > MOST_SHOWN else ""
            raise ValueError(f"{path} can't be compared:\n" + "\n".join(wrong[:MOST_SHOWN]) + more)
        if not self.found:
            raise ValueError(f"{path} has no results")

    def _read(self, line: str) -> tuple[str, bool]:
        try:
            row = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"not JSON: {error}") from None
        if not isinstance(row, dict):
            raise ValueError(f"an object with an id and a boolean is wanted, not {_shown(row)}")  # noqa: TRY004  as the others
        # The first line that can be read decides for the whole file: rows must not be read by different fields.
        self.id_field = self.id_field or _field(row, ID_FIELDS, "id", "id_field")
        self.correct_field = self.correct_field or _field(row, CORRECT_FIELDS, "boolean", "correct_field")
        for field in (self.id_field, self.correct_field):
            if field not in row:
                raise ValueError(f"field {field!r} is missing; there are {_names(row)}")
        name, verdict = row[self.id_field], row[self.correct_field]
        if isinstance(name, bool) or not isinstance(name, str | int) or name == "":
            raise ValueError(f"field {self.id_field!r} must be a text or a whole number, not {_shown(name)}")
        if verdict is None and row.get("error"):
            verdict = False  # a problem that failed is wrong, and stays in the denominator
        if not isinstance(verdict, bool):
            raise ValueError(f"field {self.correct_field!r} must be true or false, not {_shown(verdict)}")  # noqa: TRY004
        return str(name), verdict


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from None


def _field(row: dict[str, Any], known: tuple[str, ...], what: str, argument: str) -> str:
    if found := [name for name in known if name in row]:
        return found[0]
    raise ValueError(f"no field is known as the {what}; name it ({argument}): there are {_names(row)}")


def _names(row: dict[str, Any]) -> str:
    return ", ".join(repr(name) for name in row) or "none"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]} …"


LONGEST_SHOWN = 60
