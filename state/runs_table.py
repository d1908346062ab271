"""The runs index as a table beside the checkpoints: one SQL text for SQLite and PostgreSQL."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from .runs import KEPT, Position, RunRow, Runs
from .under_way import SET_UP_UNDER_WAY, UnderWayTable

__all__ = [
    "DELETE_RUNS",
    "RUN_COLUMNS",
    "SET_UP_RUNS",
    "UPSERT_RUN",
    "UPSERT_RUN_ON_CONFLICT",
    "Query",
    "RunsTable",
    "parameters",
]

Query: TypeAlias = Callable[[str, Mapping[str, Any]], Sequence[Sequence[Any]]]
"""Runs one statement with `%(name)s` parameters and returns its rows."""

COLUMNS = tuple(field.name for field in dataclasses.fields(RunRow))

NUMBERS = {"rounds": "bigint", "score": "float8", "total_tokens": "bigint", "cost_usd": "float8"}

RUN_COLUMNS = ", ".join(f"{name} {NUMBERS.get(name, 'text')}" for name in COLUMNS)
"""The columns with their types in PostgreSQL."""

SET_UP_RUNS = (
    """CREATE TABLE IF NOT EXISTS runs (
        thread_id TEXT {bytewise} PRIMARY KEY,
        preset TEXT,
        task TEXT NOT NULL,
        stop_reason TEXT,
        rounds BIGINT NOT NULL,
        score DOUBLE PRECISION,
        accepted_by TEXT,
        total_tokens BIGINT NOT NULL,
        cost_usd DOUBLE PRECISION,
        created_at TEXT {bytewise} NOT NULL,
        updated_at TEXT {bytewise} NOT NULL,
        parent_thread_id TEXT {bytewise},
        parent_checkpoint_id TEXT,
        fork_at TEXT,
        recipe TEXT
    )""",
    f"SELECT {', '.join(COLUMNS)} FROM runs LIMIT 0",  # noqa: S608  (fails when another program's table has the name)
    "CREATE INDEX IF NOT EXISTS runs_newest ON runs (created_at, thread_id)",
    """CREATE INDEX IF NOT EXISTS runs_children ON runs (parent_thread_id, created_at, thread_id)
        WHERE parent_thread_id IS NOT NULL""",
    SET_UP_UNDER_WAY,
)
"""`{bytewise}` is what makes the database order text as Python does."""

UPSERT_RUN_ON_CONFLICT = f"""(thread_id) DO UPDATE SET {
    ", ".join(
        f"{name} = COALESCE(excluded.{name}, runs.{name})" if name in KEPT else f"{name} = excluded.{name}"
        for name in COLUMNS
        if name not in ("thread_id", "created_at")
    )
}"""

UPSERT_RUN = f"""INSERT INTO runs ({", ".join(COLUMNS)})
    VALUES ({", ".join(f"%({name})s" for name in COLUMNS)})
    ON CONFLICT {UPSERT_RUN_ON_CONFLICT}"""  # noqa: S608  (column names of our own)

DELETE_RUNS = "DELETE FROM runs WHERE thread_id = %(thread_id)s"

SELECT_RUNS = f"SELECT {', '.join(COLUMNS)} FROM runs"  # noqa: S608  (column names of our own)

FILTERS = {
    "before": "(created_at, thread_id) < (%(created_at)s, %(thread_id)s)",
    "preset": "preset = %(preset)s",
    "stop_reason": "stop_reason = %(stop_reason)s",
    "running": "stop_reason IS NULL",
    "parent": "parent_thread_id = %(parent)s",
}


def parameters(row: RunRow) -> dict[str, Any]:
    """What `UPSERT_RUN` takes."""
    return {**dataclasses.asdict(row), "fork_at": None if row.fork_at is None else str(row.fork_at)}


class RunsTable:
    """The `RunIndex` of a database, read through its saver's own connection."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self.under_way = UnderWayTable(query)

    def get(self, thread_id: str) -> RunRow | None:
        rows = self._rows(f"{SELECT_RUNS} WHERE thread_id = %(thread_id)s", {"thread_id": thread_id})
        return rows[0] if rows else None

    def children(self, thread_id: str) -> Runs:
        statement = f"{SELECT_RUNS} WHERE {FILTERS['parent']} ORDER BY created_at, thread_id"
        return self._rows(statement, {"parent": thread_id})

    def list(
        self,
        *,
        limit: int = 50,
        before: Position | None = None,
        preset: str | None = None,
        stop_reason: str | None = None,
        parent: str | None = None,
    ) -> Runs:
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit!r}")
        given = {
            "before": before,
            "preset": preset,
            "stop_reason": stop_reason if stop_reason != "running" else None,
            "running": stop_reason == "running" or None,
            "parent": parent,
        }
        wanted = " AND ".join(FILTERS[name] for name, value in given.items() if value is not None)
        statement = (
            f"{SELECT_RUNS} {'WHERE ' if wanted else ''}{wanted} "
            "ORDER BY created_at DESC, thread_id DESC LIMIT %(limit)s"
        )
        created_at, thread_id = before or ("", "")
        return self._rows(statement, {**given, "created_at": created_at, "thread_id": thread_id, "limit": limit})

    def _rows(self, statement: str, values: Mapping[str, Any]) -> Runs:
        return [_row(columns) for columns in self._query(statement, values)]


def _row(columns: Sequence[Any]) -> RunRow:
    values = dict(zip(COLUMNS, columns, strict=True))
    at = values["fork_at"]
    return RunRow(**{**values, "fork_at": int(at) if at is not None and at.isdecimal() else at})
