"""Exports of Phoenix: an experiment's runs as JSON or CSV, and spans with annotations. Internal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .entries import Entry, Log, as_text, flattened, round_of

if TYPE_CHECKING:
    from .sources import Source

__all__ = ["is_phoenix", "read_phoenix"]

COLUMN = re.compile(r"(?:annotation|eval|evals)[._](?P<name>.+?)[._](?P<part>score|label)")
SPAN_IDS = (
    "attributes.metadata.question_id",
    "attributes.metadata.example_id",
    "attributes.metadata.dataset_example_id",
)


def is_phoenix(source: Source) -> bool:
    """Return True if a file has runs of an experiment, or spans, as Phoenix exports them."""
    return any(_is_run(row) or _is_span(row) for row in source.head[:1])


def read_phoenix(source: Source) -> Log:
    """Return the runs or spans, with a verdict for each annotation's score and label."""
    rows = list(source.rows())
    runs = _is_run(rows[0][1])
    entries = []
    for where, row in rows:
        flat = flattened(row)
        names = ("input", "output", "reference_output") if runs else (
            "attributes.input.value", "attributes.output.value", ""
        )  # fmt: skip
        task, text, gold = (as_text(row[name] if name in row else flat.get(name)) for name in names)
        entries.append(
            Entry(
                where,
                {name: value for name, value in flat.items() if not isinstance(value, list) and _names(name)},
                _annotations(row, flat),
                round=None if runs else round_of(flat, ("attributes.metadata.round", "attributes.metadata.revision")),
                trial=round_of(row, ("repetition_number",)),
                task=task,
                text=text,
                gold=gold or None,
                tokens=sum(round_of(row, (name,)) or 0 for name in ("prompt_token_count", "completion_token_count")),
                seconds=_seconds(row),
                error=as_text(row.get("error")) or None,
            )
        )
    return Log(source.path, "Phoenix export", entries, ("example_id",) if runs else SPAN_IDS)


def _is_run(row: dict[str, Any]) -> bool:
    return {"example_id", "repetition_number"} <= row.keys() and ("annotations" in row or "trace_id" in row)


def _is_span(row: dict[str, Any]) -> bool:
    flat = flattened(row)
    return "context.span_id" in flat and any(COLUMN.fullmatch(name) for name in flat)


def _annotations(row: dict[str, Any], flat: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in row.get("annotations") or ():
        if isinstance(one, dict):
            name = as_text(one.get("name"))
            found |= {f"{name}.{part}": one[part] for part in ("score", "label") if one.get(part) is not None}
    for column, value in flat.items():
        if (match := COLUMN.fullmatch(column)) and value is not None:
            found[f"{match['name']}.{match['part']}"] = value
    return found


def _seconds(row: dict[str, Any]) -> float:
    try:
        return float(row.get("latency_ms") or 0) / 1000
    except (TypeError, ValueError):
        return 0.0


def _names(name: str) -> bool:
    return not COLUMN.fullmatch(name) and not name.startswith(("annotations", "output", "attributes.output"))
