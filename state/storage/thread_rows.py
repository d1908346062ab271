"""A database's tables and the rows of one thread, read without LangGraph, whose import takes longer. Internal.

A thread's rows are read in few statements, and each is decoded when it is needed. How a SQLite file is read is here
too; a PostgreSQL database is opened in `postgres_reading`.
"""

from __future__ import annotations

import json
import re
import sqlite3
import urllib.parse
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import ormsgpack

from ..._files import check_schema, limit_values
from ..langgraph_internals import INPUT_CHANNEL
from .encryption import PROOF, SELECT_PROOF
from .index import Query, RunIndex, states_under_way, stored_sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set

    T = TypeVar("T")
    from pathlib import Path


__all__ = [
    "BUSY_TIMEOUT_S",
    "LENGTHS",
    "OF_NO_TASK",
    "OWN_TABLES",
    "CheckpointRow",
    "PlainIndex",
    "ThreadRows",
    "WriteRow",
    "connect_to_read",
    "named",
    "off_rows",
    "open_index",
    "plain_index",
    "postgres_rows",
    "query_on",
    "sqlite_rows",
    "tables_of",
]

DOUBTS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""Errors of rows that only a saver can tell of, besides those of the database."""
SNAPSHOT = 7
"""The kind of LangGraph's extension that holds the value of a delta channel as it is."""
LARGEST = 64 * 2**20
"""Bytes of one value; a saver refuses larger ones with a word."""
EMPTY = ("empty", b"")
"""How LangGraph marks a channel without a value."""
OF_NO_TASK = "00000000-0000-0000-0000-000000000000"
"""Whose writes LangGraph applies before it looks at a checkpoint."""


class CheckpointRow(NamedTuple):
    """One checkpoint, decoded."""

    ts: str
    values: Mapping[str, Any]
    """Of the channels that are stored with it; in PostgreSQL, of those that a thread is shown by."""
    channels: Set[str]
    """Of all that the thread ever wrote to."""


class WriteRow(NamedTuple):
    """A task's write to a channel."""

    checkpoint_id: str
    task_id: str
    channel: str
    value: Callable[[], Any]


@dataclass(frozen=True)
class ThreadRows:
    """Rows of a thread's checkpoints, those of graphs inside left out."""

    parents: Mapping[str, str | None]
    """Of each checkpoint."""
    load: Callable[[str], CheckpointRow]
    """Decodes a checkpoint; raises one of `DOUBTS`."""
    metadata: Callable[[str], Any]
    """Decodes the metadata of a checkpoint; raises ValueError."""
    writes: Sequence[WriteRow]
    """To the record, of no task, and at the newest checkpoint."""


def off_rows(read: Callable[[ThreadRows], T], rows: Callable[[], ThreadRows], *errors: type[Exception]) -> T | None:
    """Read a thread off its rows; return `None` where there is any doubt about them: then a saver must read it.

    Args:
        read: Raises one of `DOUBTS`, as `rows` does.
        rows: Gives the rows.
        errors: What is a doubt besides.
    """
    doubts: tuple[type[Exception], ...] = (*DOUBTS, *errors)
    try:
        return read(rows())
    except doubts:
        return None


def sqlite_rows(query: Query, thread_id: str) -> ThreadRows:
    """Return the rows of a thread in a SQLite file.

    Args:
        query: Runs a statement with `%(name)s` parameters and returns its rows.
        thread_id: The thread.
    """
    checkpoints = {name: row for name, *row in query(SQLITE_CHECKPOINTS, {"thread_id": thread_id})}

    def load(checkpoint_id: str) -> CheckpointRow:
        _, _, kind, data = checkpoints[checkpoint_id]
        return _checked(checkpoint_id, _plain(kind, data))

    return _rows(query, thread_id, SQLITE_WRITES, checkpoints, load)


def postgres_rows(query: Query, thread_id: str) -> ThreadRows:
    """Return the rows of a thread in a PostgreSQL database, where most values lie apart from their checkpoints.

    Args:
        query: As in `sqlite_rows`.
        thread_id: The thread.
    """
    checkpoints = {name: row for name, *row in query(POSTGRES_CHECKPOINTS, {"thread_id": thread_id})}
    apart = {(channel, version): row for channel, version, *row in query(POSTGRES_VALUES, {"thread_id": thread_id})}
    value = cache(lambda *place: _plain(*apart[place]))

    def load(checkpoint_id: str) -> CheckpointRow:
        checkpoint = json.loads(checkpoints[checkpoint_id][2])
        places = [(name, str(version)) for name, version in checkpoint["channel_versions"].items()]
        held = {place[0]: value(*place) for place in places if apart.get(place, EMPTY)[0] != EMPTY[0]}
        return _checked(checkpoint_id, {**checkpoint, "channel_values": checkpoint["channel_values"] | held})

    return _rows(query, thread_id, POSTGRES_WRITES, checkpoints, load)


def _rows(
    query: Query, thread_id: str, which: str, found: Mapping[str, Sequence[Any]], load: Callable[[str], CheckpointRow]
) -> ThreadRows:
    """Return the rows of a thread, whose checkpoints begin with their parent and their metadata."""
    # Read last, so that what led to each checkpoint is among them.
    writes = query(which, {"thread_id": thread_id, "newest": max(found, default="")})
    return ThreadRows(
        parents={name: row[0] for name, row in found.items()},
        load=load,
        metadata=lambda checkpoint_id: json.loads(found[checkpoint_id][1]),
        writes=[
            WriteRow(checkpoint_id, task_id, channel, partial(_plain, kind, data))
            for checkpoint_id, task_id, channel, kind, data in writes
        ],
    )


def _checked(checkpoint_id: str, checkpoint: Any) -> CheckpointRow:
    """Return the checkpoint, if what is read of it has the form of one."""
    row = CheckpointRow(checkpoint["ts"], checkpoint["channel_values"], checkpoint["channel_versions"].keys())
    if checkpoint["id"] != checkpoint_id:
        raise ValueError("it is another checkpoint")
    if checkpoint.get("pending_sends"):
        raise ValueError("an earlier LangGraph wrote it")
    if not isinstance(row.ts, str) or not isinstance(row.values, dict):
        raise TypeError("it has not the form of a checkpoint")
    return row


def _plain(kind: Any, data: Any) -> Any:
    """Return a value of plain data; raises ValueError for any other."""
    if kind != "msgpack" or not isinstance(data, bytes) or len(data) > LARGEST:
        raise ValueError("it is no plain data")
    return ormsgpack.unpackb(data, ext_hook=_snapshot, option=ormsgpack.OPT_NON_STR_KEYS)


def _snapshot(code: int, data: bytes) -> Any:
    if code != SNAPSHOT:
        raise ValueError("it names a type")
    return ormsgpack.unpackb(data, option=ormsgpack.OPT_NON_STR_KEYS)


OF_THREAD = "thread_id = %(thread_id)s AND checkpoint_ns = ''"
WRITES_OF = f"{OF_THREAD} AND (channel = 'events' OR task_id = '{OF_NO_TASK}' OR checkpoint_id = %(newest)s)"
SQLITE_CHECKPOINTS = (
    f"SELECT checkpoint_id, parent_checkpoint_id, metadata, type, checkpoint FROM checkpoints WHERE {OF_THREAD}"  # noqa: S608
)
SQLITE_WRITES = f"SELECT checkpoint_id, task_id, channel, type, value FROM writes WHERE {WRITES_OF}"  # noqa: S608
POSTGRES_CHECKPOINTS = (
    "SELECT checkpoint_id, parent_checkpoint_id, metadata::text, checkpoint::text FROM checkpoints "  # noqa: S608
    f"WHERE {OF_THREAD}"
)
POSTGRES_VALUES = (
    "SELECT channel, version, type, blob FROM checkpoint_blobs "  # noqa: S608
    f"WHERE {OF_THREAD} AND channel IN ("
    f"'{INPUT_CHANNEL}', 'accepted_by', 'answer', 'events', 'limits', 'requirements', 'task', 'usage')"
)
POSTGRES_WRITES = f"SELECT checkpoint_id, task_id, channel, type, blob FROM checkpoint_writes WHERE {WRITES_OF}"  # noqa: S608


class PlainIndex:
    """Index of threads read from a database's own tables, with the part of a saver that lists them.

    Args:
        query: Runs a statement with `%(name)s` parameters and returns its rows.
        lengths: How many bytes a row of each table holds, of those that are there.
        rows_of: Reads the rows of a thread.
        close: Gives the database back.
        errors: The database's own.
        tables: The names of the tables that are there.
    """

    def __init__(
        self,
        query: Query,
        lengths: Mapping[str, str],
        rows_of: Callable[[Query, str], ThreadRows],
        close: Callable[[], None],
        *,
        errors: type[Exception],
        tables: Set[str],
    ) -> None:
        self._query, self._lengths, self._rows_of, self._errors = query, lengths, rows_of, errors
        self._tables = tables
        self.close = close
        self.runs = RunIndex(query)

    def get_tuple(self, config: Mapping[str, Any]) -> object | None:
        """Return something where there is such a thread, as a saver does, and nothing of what it holds."""
        statement = "SELECT 1 FROM checkpoints WHERE thread_id = %(id)s AND checkpoint_ns = '' LIMIT 1"
        rows = self._query(statement, {"id": config["configurable"]["thread_id"]})
        return rows[0] if rows else None

    def sizes(self, thread_ids: Sequence[str]) -> dict[str, int]:
        """Return the bytes that are kept of each thread."""
        return stored_sizes(self._query, self._lengths, thread_ids)

    def under_way(self, thread_ids: Sequence[str]) -> dict[str, str]:
        """Return of each thread that is `running`, or `waiting` for a person, which of the two."""
        return states_under_way(self._query, self._tables, thread_ids)

    def read_rows(self, read: Callable[[ThreadRows], T], thread_id: str) -> T | None:
        """Read a thread off its rows; return `None` where only a saver can tell."""
        return off_rows(read, partial(self._rows_of, self._query, thread_id), self._errors)


def plain_index(
    query: Query,
    tables: Set[str],
    *,
    lengths: Mapping[str, str],
    rows_of: Callable[[Query, str], ThreadRows],
    close: Callable[[], None],
    errors: type[Exception],
) -> PlainIndex | None:
    """Return the index of a database that redraft began without a key; any other is closed, and gives `None`.

    Args:
        query: As in `PlainIndex`.
        tables: The names of the tables that are there.
        lengths: How many bytes a row of each table holds.
        rows_of: As in `PlainIndex`.
        close: As in `PlainIndex`.
        errors: As in `PlainIndex`.
    """
    if tables >= {"runs", "redraft_encryption"} | lengths.keys() - {"redraft_journal"}:
        of_them = {table: length for table, length in lengths.items() if table in tables}
        index = PlainIndex(query, of_them, rows_of, close, errors=errors, tables=tables)
        with suppress(errors):
            if [*map(tuple, query(SELECT_PROOF, {}))] == [(PROOF,)]:
                return index
    close()
    return None


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
    except sqlite3.DatabaseError as error:
        conn.close()
        log = path.with_name(f"{path.name}-wal")
        # It is no database; or the log holds what the file does not.
        if not isinstance(error, sqlite3.OperationalError) or (log.exists() and log.stat().st_size):
            raise
        # A log can't be made in a folder that nobody may write to, and nobody changes the file either.
        conn = sqlite3.connect(
            f"file:{name}?mode=ro&immutable=1", isolation_level=None, uri=True, check_same_thread=False
        )
    limit_values(conn)
    return conn
