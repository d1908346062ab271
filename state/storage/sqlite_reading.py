"""Reading a SQLite file without LangGraph, whose import takes longer than all else that lists threads. Internal."""

from __future__ import annotations

import re
import sqlite3
import urllib.parse
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from ..._files import check_schema, limit_values
from .thread_rows import plain_index, sqlite_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from .thread_rows import PlainIndex

__all__ = [
    "BUSY_TIMEOUT_S",
    "LENGTHS",
    "OWN_TABLES",
    "connect_to_read",
    "named",
    "open_index",
    "query_on",
    "tables_of",
]

OWN_TABLES = (
    "checkpoints", "writes", "runs", "redraft_journal", "redraft_leases", "redraft_encryption", "served_threads",
    "served_runs", "served_items",
)  # fmt: skip
LENGTHS = {
    "checkpoints": "LENGTH(checkpoint) + LENGTH(metadata)",
    "writes": "LENGTH(value)",
    "redraft_journal": "LENGTH(reply)",
}
"""How many bytes a row of each table holds."""
BUSY_TIMEOUT_S = 30.0


def open_index(path: Path) -> PlainIndex | None:
    """Return the index of a file's own tables; `None` where only a saver can read it, or say what is wrong.

    That is a file of another program's, one that LangGraph's own saver made, and one that is encrypted.
    """
    try:
        conn = connect_to_read(path.absolute())
        tables = tables_of(conn, path)
    except (sqlite3.Error, ValueError):
        return None
    return plain_index(
        partial(query_on, conn), tables, lengths=LENGTHS, rows_of=sqlite_rows, close=conn.close, errors=sqlite3.Error
    )


def tables_of(conn: sqlite3.Connection, path: Path) -> set[str]:
    """Return the names of a file's tables; the connection is closed where they can't be read.

    Raises:
        ValueError: They are not such as redraft makes.
    """
    try:
        check_schema(conn, OWN_TABLES, path)
        return {name for (name,) in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except (sqlite3.Error, ValueError):
        conn.close()
        raise


def query_on(conn: sqlite3.Connection, statement: str, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
    """Run one statement with `%(name)s` parameters and return its rows."""
    return conn.execute(named(statement), values).fetchall()


@cache
def named(statement: str) -> str:
    """Return a statement with SQLite's way to write its parameters."""
    return re.sub(r"%\((\w+)\)s", r":\1", statement)


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Return a connection that writes nothing, neither to the file nor beside it where nothing may be written there."""
    name = urllib.parse.quote(str(path))
    conn = sqlite3.connect(
        f"file:{name}?mode=ro", timeout=BUSY_TIMEOUT_S, isolation_level=None, uri=True, check_same_thread=False
    )
    try:
        conn.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        conn.close()
        log = path.with_name(f"{path.name}-wal")
        if log.exists() and log.stat().st_size:  # it holds what the file does not
            raise
        # A log can't be made in a folder that nobody may write to, and nobody changes the file either.
        conn = sqlite3.connect(
            f"file:{name}?mode=ro&immutable=1", isolation_level=None, uri=True, check_same_thread=False
        )
    limit_values(conn)
    return conn
