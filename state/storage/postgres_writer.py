"""Many puts in one PostgreSQL statement: one round trip and one commit for all that wait at the same moment."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg_pool import PoolTimeout

from .index_table import RUN_COLUMNS, UPSERT_RUN_ON_CONFLICT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from psycopg.rows import DictRow
    from psycopg_pool import ConnectionPool

__all__ = ["GroupWriter"]

WRITERS = 2
"""One prepares its statements while the database works on the other's."""
LARGEST_GROUP = 128
RECONNECT_S = 30.0
"""How long a put waits for a server that went away."""
IDLE_S = 1.0
"""How long a writer that has nothing to do keeps its connection."""


def _insert(table: str, columns: str, then: str) -> str:
    """Return the statement that inserts rows given as one array a column; JSON comes as text."""
    named = [column.partition(" ") for column in columns.split(", ")]
    names = ", ".join(name for name, _, _ in named)
    arrays = ", ".join(f"%b::{'text' if kind == 'jsonb' else kind}[]" for _, _, kind in named)
    cast = ", ".join(f"{name}::{kind}" if kind == "jsonb" else name for name, _, kind in named)
    return f"INSERT INTO {table} ({names}) SELECT {cast} FROM unnest({arrays}) AS given ({names}) ON CONFLICT {then}"  # noqa: S608  (names of our own)


STATEMENTS = {
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
    "replies": _insert("redraft_journal", "thread_id text, call text, reply text, seconds float8", "DO NOTHING"),
    "runs": _insert("runs", RUN_COLUMNS, UPSERT_RUN_ON_CONFLICT),
}
"""By what they insert."""


@cache
def _statement(*names: str) -> bytes:
    """Return the statement that inserts all of these: one trip to the server, which parses and plans it once."""
    inserts = ", ".join(f"given_{name} AS ({STATEMENTS[name]})" for name in names)
    return f"WITH {inserts} SELECT".encode()


@dataclass(frozen=True, eq=False)
class Put:
    """The rows of one call."""

    thread_id: str
    key: object
    """What it writes: two with the same key never share a transaction, and keep their order."""
    rows: Mapping[str, Sequence[Sequence[Any]]]
    """By the names in `STATEMENTS`."""
    waiter: Future[None] | asyncio.Future[None]
    """Of a caller that blocks, or awaits. It may be cancelled; what was put is written all the same."""


class GroupWriter:
    """Writes what many threads and event loops put, a thread's puts in their order.

    Args:
        pool: Where its connections come from.
    """

    def __init__(self, pool: ConnectionPool[psycopg.Connection[DictRow]]) -> None:
        self._pool = pool
        self._queues = [_Queue() for _ in range(WRITERS)]
        self._threads: list[threading.Thread] = []
        self._starting = threading.Lock()

    def write(self, thread_id: str, key: object, rows: Mapping[str, Sequence[Sequence[Any]]]) -> None:
        """Return when the rows are committed; raises what the database said to these.

        Args:
            thread_id: Whose they are.
            key: What they are, in the thread: two with the same key never share a transaction.
            rows: By the names in `STATEMENTS`.

        Raises:
            RuntimeError: The saver is closed.
        """
        waiter: Future[None] = Future()
        self._add(Put(thread_id, (thread_id, key), rows, waiter))
        waiter.result()

    async def awrite(self, thread_id: str, key: object, rows: Mapping[str, Sequence[Sequence[Any]]]) -> None:
        """Async twin of `write`. One that is cancelled is written all the same."""
        waiter = asyncio.get_running_loop().create_future()
        self._add(Put(thread_id, (thread_id, key), rows, waiter))
        await waiter

    def _add(self, put: Put) -> None:
        if not self._threads:
            self._start()
        self._queues[hash(put.thread_id) % WRITERS].add(put)

    def close(self) -> None:
        """Waits until everything is written."""
        for queue in self._queues:
            queue.close()
        for thread in self._threads:
            thread.join()

    def _start(self) -> None:
        with self._starting:
            if not self._threads:
                started = [
                    threading.Thread(target=self._work, args=(queue,), name="redraft-postgres-writer", daemon=True)
                    for queue in self._queues
                ]
                for thread in started:
                    thread.start()
                self._threads = started

    def _work(self, queue: _Queue) -> None:
        loan = _Loan(self._pool)
        while (group := queue.take(IDLE_S if loan.conn else None)) is not None:
            if group:
                _write(loan, group)
            else:
                loan.give_back()
            del group  # what was written need not stay in memory while this waits
        loan.give_back()


class _Loan:
    """A connection that a writer keeps while there is something to write: each time that one is taken from the pool,
    the server is asked whether it lives."""

    def __init__(self, pool: ConnectionPool[psycopg.Connection[DictRow]]) -> None:
        self._pool = pool
        self.conn: psycopg.Connection[DictRow] | None = None

    def taken(self) -> psycopg.Connection[DictRow]:
        if self.conn is None:
            self.conn = self._pool.getconn(RECONNECT_S)
        return self.conn

    def give_back(self) -> None:
        if self.conn is not None:
            self._pool.putconn(self.conn)  # which replaces one that is broken
            self.conn = None


def _write(loan: _Loan, group: Sequence[Put]) -> None:
    """Write all, or where one is refused, each alone, so that its error is its own."""
    try:
        _commit(loan, group)
    except Exception as error:
        if len(group) == 1 or isinstance(error, PoolTimeout):
            _tell(group, error)
            return
        for put in group:
            _write(loan, [put])
    else:
        _tell(group, None)


def _commit(loan: _Loan, group: Sequence[Put]) -> None:
    """Write with one statement, which is a transaction. Repeated on a new connection when the old one broke: every row
    is an upsert, so that one whose commit was not heard of is only written again."""
    found = {name: [row for put in group for row in put.rows.get(name, ())] for name in STATEMENTS}
    # in one order everywhere, so that no two transactions wait for each other
    rows = {name: sorted(some, key=itemgetter(0)) for name, some in found.items() if some}
    if not rows:
        return
    statement, columns = _statement(*rows), [column for some in rows.values() for column in _columns(some)]
    deadline = time.monotonic() + RECONNECT_S
    while True:
        conn = loan.taken()
        try:
            conn.execute(statement, columns)
        except Exception as error:
            lost = isinstance(error, psycopg.OperationalError) and conn.broken
            loan.give_back()
            if not lost or time.monotonic() > deadline:
                raise
        else:
            return


class _Queue:
    def __init__(self) -> None:
        self._waiting: deque[Put] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def add(self, put: Put) -> None:
        with self._changed:
            if self._closed:
                raise RuntimeError("the checkpointer is closed")
            self._waiting.append(put)
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()

    def take(self, timeout_s: float | None) -> list[Put] | None:
        """Return what waits, up to the first that writes what one before it does.

        Args:
            timeout_s: How long is waited for something, else nothing is returned; `None` for ever. At the end `None` is
                returned in any case.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed, timeout_s)
            if self._closed and not self._waiting:
                return None
            group: list[Put] = []
            keys: set[object] = set()
            while self._waiting and len(group) < LARGEST_GROUP and self._waiting[0].key not in keys:
                group.append(self._waiting.popleft())
                keys.add(group[-1].key)
            return group


def _columns(rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _tell(group: Sequence[Put], error: Exception | None) -> None:
    """Wake who waits, each event loop once."""
    waiters: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for put in group:
        if not isinstance(put.waiter, Future):
            waiters.setdefault(put.waiter.get_loop(), []).append(put.waiter)
        elif error is not None:
            put.waiter.set_exception(error)
        else:
            put.waiter.set_result(None)
    for loop, waiting in waiters.items():
        with suppress(RuntimeError):  # that loop is closed, and nobody waits in it
            loop.call_soon_threadsafe(_wake, waiting, error)


def _wake(waiting: Iterable[asyncio.Future[None]], error: Exception | None) -> None:
    for waiter in waiting:
        if not waiter.done():
            waiter.set_exception(error) if error is not None else waiter.set_result(None)
