"""The runs index as a table beside the checkpoints: one SQL text for SQLite and PostgreSQL."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from .encryption import Vault
from .index import KEPT, Position, RunIndex, RunRow, Runs

if TYPE_CHECKING:
    from concurrent.futures import Executor

__all__ = [
    "DELETE_RUNS",
    "RUN_COLUMNS",
    "SET_UP_RUNS",
    "UPSERT_RUN_ON_CONFLICT",
    "BadRunError",
    "Query",
    "RunsTable",
    "hidden",
    "stored_values",
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
    """CREATE TABLE IF NOT EXISTS runs_under_way (
        thread_id TEXT {bytewise} PRIMARY KEY,
        token TEXT NOT NULL,
        process TEXT NOT NULL,
        asked INTEGER NOT NULL
    )""",
)
"""`{bytewise}` is what makes the database order text as Python does."""

UPSERT_RUN_ON_CONFLICT = f"""(thread_id) DO UPDATE SET {
    ", ".join(
        f"{name} = COALESCE(excluded.{name}, runs.{name})" if name in KEPT else f"{name} = excluded.{name}"
        for name in COLUMNS
        if name not in ("thread_id", "created_at")
    )
}"""

DELETE_RUNS = "DELETE FROM runs WHERE thread_id = %(thread_id)s"

SELECT_RUNS = f"SELECT {', '.join(COLUMNS)} FROM runs"  # noqa: S608  (column names of our own)

FILTERS = {
    "before": "(created_at, thread_id) < (%(created_at)s, %(thread_id)s)",
    "preset": "preset = %(preset)s",
    "stop_reason": "stop_reason = %(stop_reason)s",
    "running": "stop_reason IS NULL",
    "parent": "parent_thread_id = %(parent)s",
}


def stored_values(row: RunRow) -> tuple[Any, ...]:
    """What a row holds, in the order of `COLUMNS`."""
    values: tuple[Any, ...] = _columns_of(row)
    return values if row.fork_at is None else (*values[:_FORK_AT], str(row.fork_at), *values[_FORK_AT + 1 :])


_columns_of = attrgetter(*COLUMNS)
_FORK_AT = COLUMNS.index("fork_at")


class BadRunError(ValueError):
    """The index holds of a thread what it never wrote."""


def hidden(row: RunRow, vault: Vault) -> RunRow:
    """Return the row as it is stored: with a key, its texts are encrypted."""
    if not vault.locked:
        return row
    texts: dict[str, Any] = {name: vault.hide(text) for name in HIDDEN if (text := getattr(row, name)) is not None}
    return dataclasses.replace(row, **texts)


class RunsTable(RunIndex):
    """The `RunIndex` of a database, read through its saver's own connection.

    A row that is none of ours is refused by `get`; a list shows that it is there and what is wrong with it, so that one
    bad row hides no other thread.

    Args:
        query: Runs one statement. The lease of threads is read and written through it too.
        vault: Decrypts the rows.
        db_executor: Where the async twins run.
    """

    def __init__(self, query: Query, vault: Vault | None = None, *, db_executor: Executor | None = None) -> None:
        self.query = query
        self.db_executor = db_executor
        self._vault = vault or Vault()

    def get(self, thread_id: str) -> RunRow | None:
        """As `RunIndex` says.

        Raises:
            BadRunError: What is stored of the thread is no row of this index.
        """
        rows = self.query(f"{SELECT_RUNS} WHERE thread_id = %(thread_id)s", {"thread_id": thread_id})
        return _row(rows[0], self._vault) if rows else None

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
        return [self._told(columns) for columns in self.query(statement, values)]

    def _told(self, columns: Sequence[Any]) -> RunRow:
        try:
            return _row(columns, self._vault)
        except BadRunError as error:
            known: dict[str, Any] = {
                name: str(value) for name, value in zip(COLUMNS, columns, strict=True) if name in PLACE
            }
            return RunRow(**known, task=f"(unreadable: {error})")


def _row(columns: Sequence[Any], vault: Vault) -> RunRow:
    values = dict(zip(COLUMNS, columns, strict=True))
    try:
        for name, value in values.items():
            _check_kind(name, value)
        for name in HIDDEN:
            if values[name] is not None:
                values[name] = vault.reveal(values[name])
    except ValueError as error:
        raise BadRunError(f"what the runs index holds of thread {values['thread_id']!r} is refused: {error}") from None
    at = values["fork_at"]
    is_round = at is not None and at.isascii() and at.isdecimal() and len(at) < ROUND_DIGITS
    return RunRow(**{**values, "fork_at": int(at) if is_round else at})


def _check_kind(name: str, value: object) -> None:
    kinds = (int, float) if name in NUMBERS else str
    if (value is None and name in NEEDED) or (value is not None and not isinstance(value, kinds)):
        raise ValueError(f"its {name} is {type(value).__name__}")


HIDDEN = ("task", "accepted_by", "recipe")
"""Columns with texts that a person, a model or a program's author wrote."""
PLACE = ("thread_id", "created_at", "updated_at")
NEEDED = (*PLACE, "task", "rounds", "total_tokens")
ROUND_DIGITS = 19
