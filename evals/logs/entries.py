"""Entries of a log, as each format's reader gives them: what may name the problem or say right. Internal."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["Entry", "Log", "as_text", "flattened", "is_number", "round_of"]

ROUND_FIELDS = ("round", "revision", "iteration")
"""Where a row says which draft of its problem it is; `attempt`, `turn` and `step` mean too many other things."""
TRIAL_FIELDS = ("epoch", "trial", "repetition", "repetition_number")
DEEPEST = 6


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
