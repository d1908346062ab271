"""Entries of a log, and the choice of its id and verdict where only one reading is possible. Internal."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .sources import shown

__all__ = [
    "POSITIONS",
    "Entry",
    "Log",
    "Naming",
    "as_text",
    "chosen_id",
    "chosen_right",
    "flattened",
    "is_number",
    "problem_id",
    "read_verdicts",
    "refuse",
    "round_of",
]

ROUND_FIELDS = ("round", "revision", "iteration")
"""Where a row says which draft of its problem it is; `attempt`, `turn` and `step` mean too many other things."""
TRIAL_FIELDS = ("epoch", "trial", "repetition", "repetition_number")
DEEPEST = 6
POSITIONS = ("index", "idx", "row", "line", "testIdx", "order")
"""Ids that only count rows: not taken where another id is there."""
YES_NO = ("is_correct", "correct", "passed", "pass", "success", "solved", "resolved", "acc", "exact_match", "match")
"""Names of numbers that are 0 or 1, also in a file where all are 1; any other such number may be 1 of 5."""
WORDS = {
    **dict.fromkeys(("true", "correct", "right", "pass", "passed"), True),
    **dict.fromkeys(("false", "incorrect", "wrong", "fail", "failed"), False),
}
MOST_SHOWN = 5
MOST_CANDIDATES = 12


@dataclass(frozen=True, slots=True)
class Entry:
    """One verdict, or several by different scorers, on one draft for one problem."""

    where: str
    """Its place in the file."""
    ids: Mapping[str, Any]
    scores: dict[str, Any]
    method: str = ""
    """Which of several prompts, models or settings in one file it belongs to."""
    round: int | None = None
    """Which draft it is, the first one lowest; `None` where a problem has one."""
    trial: int | None = None
    """Which of several runs of the same problem it is from."""
    task: str = ""
    text: str = ""
    gold: str | None = None
    model: str = ""
    tokens: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0
    error: str | None = None


@dataclass(frozen=True)
class Log:
    """A file of one format, read; which fields count is still open."""

    path: Path
    format: str
    """Its name, for people."""
    entries: list[Entry]
    id_fields: tuple[str, ...]
    """Those that may name the problem; one of them must, or else the user says."""
    right_fields: tuple[str, ...] | None = None
    """Those that may say right or wrong; `None`: every score that an entry has."""
    dataset: str = ""
    method: str = ""
    """Names the run where its entries don't."""
    asked: int = 0
    """Problems asked for, where the log says."""
    told_the_score: bool = False
    """Rounds were played by something that was told the score between them."""
    notes: list[str] = field(default_factory=list)


def flattened(row: Mapping[str, Any], prefix: str = "", depth: int = 0) -> dict[str, Any]:
    """Return the plain values of an object by dotted names: `metadata.item_id`."""
    plain: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict) and depth < DEEPEST:
            plain |= flattened(value, f"{prefix}{name}.", depth + 1)
        else:
            plain[f"{prefix}{name}"] = value
    return plain


def as_text(value: Any) -> str:
    """Return a value as a person reads it; JSON for what is no text."""
    if value is None or isinstance(value, str):
        return value or ""
    # One text in an object is the text itself: `{"question": "…"}`.
    if isinstance(value, dict) and len(value) == 1 and isinstance(only := next(iter(value.values())), str):
        return only
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def is_number(value: Any) -> bool:
    """Return True for a number that is no boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def round_of(row: Mapping[str, Any], names: tuple[str, ...] = ROUND_FIELDS) -> int | None:
    """Return the whole number in the first of some fields, as a number or as text; `None` where there is none."""
    for name in names:
        value = row.get(name)
        if isinstance(value, str) and value.strip().isdecimal():
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)
    return None


@dataclass(frozen=True)
class Naming:
    """Choice of a log's fields by the user; `None`: taken from the log where it is clear, else refused."""

    id_field: str | None = None
    right_field: str | None = None
    right_from: float | None = None

    def __post_init__(self) -> None:
        if self.right_from is not None and not math.isfinite(self.right_from):
            raise ValueError(f"right_from must be a number, not {self.right_from!r}")


def chosen_id(log: Log, naming: Naming) -> str:
    """Return the field that names the problem.

    Raises:
        ValueError: None is known, or several name problems differently.
    """
    if naming.id_field is not None:
        return naming.id_field
    first = log.entries[0].ids
    present = [name for name in log.id_fields if name in first]
    fields = [name for name in present if first[name] is not None] or present[:1]
    if not fields:
        raise _unclear(log, "no field is known as the id", "--id-field", first)
    if len(fields) > 1:
        fields = [name for name in fields if _tells_apart(log, name)] or fields[:1]
    fields = [name for name in fields if name not in POSITIONS] or fields
    if any(entry.ids.get(name) != entry.ids.get(fields[0]) for entry in log.entries for name in fields[1:]):
        raise _unclear(log, "several fields may be the id", "--id-field", {name: first[name] for name in fields})
    return fields[0]


def chosen_right(log: Log, naming: Naming) -> str:
    """Return the field that says right or wrong.

    Raises:
        ValueError: None is known, or several say different things.
    """
    if naming.right_field is not None:
        return naming.right_field
    examples: dict[str, Any] = {}
    for entry in log.entries:
        for name, value in entry.scores.items():
            examples.setdefault(name, value)
    fields = list(examples) if log.right_fields is None else [name for name in log.right_fields if name in examples]
    if not fields:
        raise _unclear(log, "no field is known as the verdict", "--right-field", examples)
    # Fields that always agree are one verdict under two names.
    columns = [[_value(entry.scores.get(name)) for entry in log.entries] for name in fields]
    if any(column != columns[0] for column in columns):
        candidates = {name: examples[name] for name in fields}
        raise _unclear(log, "several fields may be the verdict", "--right-field", candidates)
    return fields[0]


def problem_id(entry: Entry, name: str) -> str:
    """Return an entry's id as text.

    Raises:
        ValueError: It has none; the message begins with its place.
    """
    if name not in entry.ids:
        raise ValueError(f"{entry.where}: field {name!r} is missing; there are {_names(entry.ids)}")
    value = entry.ids[name]
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise ValueError(f"{entry.where}: field {name!r} must be a text or a whole number, not {shown(value)}")
    return str(value)


def read_verdicts(log: Log, name: str, naming: Naming) -> list[float | bool]:
    """Read a field of each entry: right or wrong, or a number where `right_from` is set.

    Raises:
        ValueError: A value is neither; or they are numbers, and no `right_from` says which of them are right.
    """
    verdicts: list[float | bool] = []
    wrong: list[str] = []
    for entry in log.entries:
        value = _value(entry.scores.get(name))
        if value is None and not entry.error:  # a problem that failed is wrong, and stays in the denominator
            what = (
                f"must be true or false, not {shown(entry.scores[name])}"
                if name in entry.scores
                else f"is missing; there are {_names(entry.scores)}"
            )
            wrong.append(f"{entry.where}: field {name!r} {what}")
        verdicts.append(value if value is not None else False)
    refuse(log, wrong)
    numbers = [value for value in verdicts if not isinstance(value, bool)]
    if not numbers or naming.right_from is not None:
        return verdicts
    between = [value for value in numbers if value not in (0.0, 1.0)]
    binary = name.partition(",")[0] in YES_NO
    if between or not (binary or len(set(numbers)) > 1 or len(numbers) < len(verdicts)):
        example = between[0] if between else numbers[0]
        place = log.entries[verdicts.index(example)].where
        raise ValueError(
            f"{log.path}, {place}: field {name!r} must be true or false, or 0 or 1, not {example:g}"
            f"{'' if between else ' everywhere'}: say from which number on it is right (--right-from 0.5, right_from=)"
        )
    return [bool(value) for value in verdicts]


def refuse(log: Log, wrong: Sequence[str]) -> None:
    """Raise ValueError with the first of some faults, if there are any."""
    if wrong:
        more = f"\nand {len(wrong) - MOST_SHOWN} more lines" if len(wrong) > MOST_SHOWN else ""
        raise ValueError(f"{log.path} can't be read ({log.format}):\n" + "\n".join(wrong[:MOST_SHOWN]) + more)


def _value(raw: Any) -> float | bool | None:
    if isinstance(raw, bool):
        return raw
    if is_number(raw):
        return float(raw) if math.isfinite(raw) else None
    if isinstance(raw, str):
        if (word := raw.strip().lower()) in WORDS:
            return WORDS[word]
        try:
            return number if math.isfinite(number := float(word)) else None
        except ValueError:
            return None
    return None


def _tells_apart(log: Log, name: str) -> bool:
    keys = [(entry.method, entry.round, entry.trial, str(entry.ids.get(name))) for entry in log.entries]
    return len(set(keys)) == len(keys)


def _unclear(log: Log, what: str, flag: str, candidates: Any) -> ValueError:
    listed = [f"{name!r} ({shown(value)})" for name, value in candidates.items() if not isinstance(value, list | dict)]
    more = f" and {len(listed) - MOST_CANDIDATES} more" if len(listed) > MOST_CANDIDATES else ""
    there = ", ".join(listed[:MOST_CANDIDATES]) or "none"
    argument = flag.removeprefix("--").replace("-", "_")
    place = f"{log.path}, {log.entries[0].where} ({log.format})"
    return ValueError(f"{place}: {what}; name it ({flag}, {argument}=): there are {there}{more}")


def _names(row: Any) -> str:
    return ", ".join(repr(name) for name in row) or "none"
