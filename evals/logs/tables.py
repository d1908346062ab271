"""Tables of anyone's results: JSONL, a JSON list or CSV with an id and a verdict in each row. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .entries import TRIAL_FIELDS, Entry, Log, as_text, flattened, round_of

if TYPE_CHECKING:
    from .sources import Source

__all__ = ["CORRECT_FIELDS", "ID_FIELDS", "SCORE_FIELDS", "is_table", "read_table"]

ID_FIELDS = (
    *("question_id", "id", "task_id", "problem_id", "example_id", "sample_id", "qid", "uid"),
    *("doc_id", "index", "idx"),
)
CORRECT_FIELDS = ("is_correct", "correct", "passed", "pass", "success", "solved", "resolved")
SCORE_FIELDS = ("score", "accuracy", "acc", "exact_match", "verdict", "grade", "label")
"""Taken only where none of the former is there."""

TASKS, TEXTS = ("question", "task", "prompt", "input"), ("final_solution", "answer", "output", "response", "completion")
MODELS = ("model", "model_name")


def is_table(source: Source) -> bool:
    """Return True if a file has rows."""
    return source.kind != "zip"


def read_table(source: Source) -> Log:
    """Return the rows; every plain field may be named as id or verdict, and known names are found."""
    entries = []
    for where, row in source.rows():
        flat = flattened(row)
        entries.append(
            Entry(
                where,
                flat,
                flat,
                round=round_of(flat),
                trial=round_of(flat, TRIAL_FIELDS),
                task=_first(row, TASKS),
                text=_first(row, TEXTS),
                model=_first(row, MODELS),
                tokens=max(round_of(flat, ("total_tokens", "tokens")) or 0, 0),
                error=as_text(row.get("error")) or None,
            )
        )
    first: dict[str, Any] = entries[0].scores if entries else {}
    right = next((names for names in (CORRECT_FIELDS, SCORE_FIELDS) if any(name in first for name in names)), ())
    kind = {"csv": "CSV", "jsonl": "JSONL"}.get(source.kind, "JSON")
    return Log(source.path, f"{kind} with an id and a verdict", entries, ID_FIELDS, right)


def _first(row: dict[str, Any], names: tuple[str, ...]) -> str:
    return next((as_text(row[name]) for name in names if row.get(name) is not None), "")
