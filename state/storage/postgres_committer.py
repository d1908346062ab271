"""Group commits in PostgreSQL: what many runs put at once is one statement. Internal."""

from __future__ import annotations

import time
from functools import cache
from operator import itemgetter
from struct import Struct
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg.rows import DictRow, tuple_row
from psycopg_pool import ConnectionPool, PoolTimeout

from .group_writer import UNHELD, Committer, Put, Rows, Statement, UnavailableError
from .index import RUN_COLUMNS, UPSERT_RUN_ON_CONFLICT
from .journal import SHORTEN_ON_CONFLICT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from psycopg.abc import AdaptContext


__all__ = ["INSERTS", "Connection", "PostgresCommitter"]

RECONNECT_S = 30.0
"""How long a put waits for a server that went away."""

Connection = psycopg.Connection[DictRow]


class Column:
    """Values of one column, to be sent as an array.

    Args:
        kind: The type of its items, of `KINDS`.
        values: The items; `None` is NULL.
    """

    def __init__(self, kind: str, values: Sequence[Any]) -> None:
        self.kind = kind
        self.values = values


KINDS: dict[str, tuple[int, Callable[[Any], bytes] | None]] = {
    "text": (25, None),
    "bytea": (17, bytes),
    "int4": (23, Struct("!i").pack),
    "int8": (20, Struct("!q").pack),
    "float8": (701, Struct("!d").pack),
}
"""Types of items: their number in PostgreSQL, and how they are encoded; text is as the connection has it."""
HEADER, LENGTH, NULL = Struct("!iiIii"), Struct("!i"), Struct("!i").pack(-1)


class ColumnDumper(Dumper):
    """Write an array in PostgreSQL's binary format. psycopg's own dumper finds a type for each item anew, which costs
    more than the statement does."""

    format = Format.BINARY

    def __init__(self, cls: type, context: AdaptContext | None = None) -> None:
        super().__init__(cls, context)
        encoding = self.connection.info.encoding if self.connection else "utf-8"
        self._encoding = encoding if encoding != "ascii" else "utf-8"  # as psycopg's own

    def dump(self, column: Column) -> bytes:
        number, encode = KINDS[column.kind]
        parts = [HEADER.pack(1, 1, number, len(column.values), 1)]
        for value in column.values:
            if value is None:
                parts.append(NULL)
                continue
            data = str(value).encode(self._encoding) if encode is None else encode(value)
            parts += (LENGTH.pack(len(data)), data)
        return b"".join(parts)


psycopg.adapters.register_dumper(Column, ColumnDumper)


def _insert(table: str, columns: str, then: str) -> tuple[str, list[str]]:
    """Return the statement that inserts rows given as one array a column, and the types of these; JSON comes as text.
    `{of}` restricts the rows."""
    named = [column.split(" ") for column in columns.split(", ")]
    names = ", ".join(name for name, _ in named)
    kinds = [SENT_AS.get(kind, kind) for _, kind in named]
    arrays = ", ".join(f"%b::{kind}[]" for kind in kinds)
    cast = ", ".join(f"{name}::{kind}" if kind == "jsonb" else name for name, kind in named)
    insert = f"INSERT INTO {table} ({names}) SELECT {cast} FROM unnest({arrays}) AS given ({names})"  # noqa: S608  (names of our own)
    return f"{insert} {{of}}ON CONFLICT {then}", kinds


SENT_AS = {"jsonb": "text", "bigint": "int8"}


REPLY = "thread_id text, call text, reply text, seconds float8"
INSERTS = {
    "blobs": _insert(
        "checkpoint_blobs",
        "thread_id text, checkpoint_ns text, channel text, version text, type text, blob bytea",
        "DO NOTHING",
    ),
    "checkpoints": _insert(
        "checkpoints",
        "thread_id text, checkpoint_ns text, checkpoint_id text, parent_checkpoint_id text, checkpoint jsonb, "
        "metadata jsonb",
        "(thread_id, checkpoint_ns, checkpoint_id) "
        "DO UPDATE SET checkpoint = excluded.checkpoint, metadata = excluded.metadata",
    ),
    "new_writes": _insert(
        "checkpoint_writes",
        "thread_id text, checkpoint_ns text, checkpoint_id text, task_id text, task_path text, idx int4, channel text, "
        "type text, blob bytea",
        "DO NOTHING",
    ),
    "writes": _insert(
        "checkpoint_writes",
        "thread_id text, checkpoint_ns text, checkpoint_id text, task_id text, task_path text, idx int4, channel text, "
        "type text, blob bytea",
        "(thread_id, checkpoint_ns, checkpoint_id, task_id, idx) "
        "DO UPDATE SET channel = excluded.channel, type = excluded.type, blob = excluded.blob",
    ),
    "replies": _insert("redraft_journal", REPLY, "DO NOTHING"),
    "shorter_replies": _insert("redraft_journal", REPLY, SHORTEN_ON_CONFLICT),
    "runs": _insert("runs", RUN_COLUMNS, UPSERT_RUN_ON_CONFLICT),
}
"""By what they insert."""


# KEY SHARE: to take the thread over is to wait until this is written, while its lease can be renewed meanwhile.
ADMITTED = """
    held AS MATERIALIZED (
        SELECT thread_id, fence, expires_at FROM redraft_leases
        WHERE fence = ANY(%b::int8[]) OR thread_id = ANY(%b::text[]) ORDER BY thread_id FOR KEY SHARE
    ),
    admitted AS MATERIALIZED (
        SELECT thread_id FROM held WHERE fence = ANY(%b::int8[])
        UNION ALL SELECT free FROM unnest(%b::text[]) AS free
        WHERE NOT EXISTS (SELECT FROM held WHERE held.thread_id = free AND held.expires_at > 0)
    )"""
"""Which threads may be written: those of the tokens that are the latest of theirs, and those named that nobody runs."""


class PostgresCommitter(Committer):
    """Commits with one statement: one round trip for all that wait at the same moment.

    It keeps a connection while there is something to write.

    Args:
        pool: Where its connections come from.
    """

    largest_group = 128

    def __init__(self, pool: ConnectionPool[Connection]) -> None:
        self._pool = pool
        self._conn: Connection | None = None

    @property
    def idle_s(self) -> float | None:  # type: ignore[override]
        return 1.0 if self._conn else None

    def commit(self, puts: Sequence[Put]) -> Collection[Put]:
        """Write all rows with one statement, then what other statements were put, each by itself.

        Repeated on a new connection when the old one broke: every row is an upsert, and the statements are such that
        one whose commit was not heard of can be executed again.
        """
        others = _others(puts)
        statement, columns, fenced = _gathered(puts)
        deadline = time.monotonic() + RECONNECT_S
        while True:
            try:
                self._conn = self._conn or self._pool.getconn(RECONNECT_S)
            except PoolTimeout as error:
                raise UnavailableError(error) from error
            try:
                done = self._conn.execute(statement, columns) if statement else ()
                admitted = {row["thread_id"] for row in done} if fenced else ()
                _execute(self._conn, others)
            except Exception as error:
                # Any other error would come again.
                lost = isinstance(error, psycopg.OperationalError) and self._conn.broken
                self.rest()
                if not lost or time.monotonic() > deadline:
                    raise
            else:
                return {put for put in puts if fenced and put.fence is not None and put.thread_id not in admitted}

    def rest(self) -> None:
        if self._conn is not None:
            self._pool.putconn(self._conn)  # which replaces one that is broken
            self._conn = None

    close = rest


def _others(puts: Sequence[Put]) -> list[tuple[Put, Statement]]:
    """Return the statements that are no inserts, with whose they are."""
    others = [(put, step) for put in puts for step in put.steps if isinstance(step, Statement)]
    if any(len(put.steps) > 1 for put, _ in others):
        raise TypeError("a statement is not written in one transaction with anything else")
    return others


def _execute(conn: Connection, others: Sequence[tuple[Put, Statement]]) -> None:
    """Execute the statements that are no inserts, and give each put its rows."""
    for put, step in others:
        with conn.cursor(row_factory=tuple_row) as cur:
            put.rows = cur.execute(step.sql.encode(), step.parameters).fetchall()


def _gathered(puts: Sequence[Put]) -> tuple[bytes | None, list[Column], bool]:
    """Return the statement that inserts the rows of all these puts, its parameters, and whether it says for which
    threads."""
    groups: dict[tuple[str, bool], list[Sequence[Any]]] = {
        (name, fenced): [] for name in INSERTS for fenced in (False, True)
    }
    for put in puts:
        for step in put.steps:
            if isinstance(step, Rows):
                groups[step.insert, put.fence is not None] += step.values
    kinds = [kind for kind, rows in groups.items() if rows]
    if not kinds:
        return None, [], False
    columns: list[Column] = []
    for name, fenced in kinds:
        rows = groups[name, fenced]
        rows.sort(key=itemgetter(0))  # in one order everywhere, so that no two transactions wait for each other
        columns += map(Column, INSERTS[name][1], zip(*rows, strict=True))
    if is_fenced := any(fenced for _, fenced in kinds):
        fences = Column("int8", list({put.fence for put in puts if put.fence}))
        free = Column("text", list({put.thread_id for put in puts if put.fence == UNHELD}))
        columns[:0] = [fences, free, fences, free]
    return _statement(*kinds), columns, is_fenced


@cache
def _statement(*kinds: tuple[str, bool]) -> bytes:
    """Return the statement that inserts all of these: one trip to the server, which parses and plans it once.

    Args:
        kinds: What is inserted, and whether only for threads that no other run has. It returns which these are.
    """
    inserts = [
        f"given_{name}_{int(fenced)} AS ({INSERTS[name][0].format(of=OF_ADMITTED if fenced else '')})"
        for name, fenced in kinds
    ]
    if not any(fenced for _, fenced in kinds):
        return f"WITH {', '.join(inserts)} SELECT".encode()
    return f"WITH {ADMITTED}, {', '.join(inserts)} SELECT thread_id FROM admitted".encode()  # noqa: S608  (names of our own)


OF_ADMITTED = "WHERE given.thread_id IN (SELECT admitted.thread_id FROM admitted) "
