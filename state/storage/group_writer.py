"""Many writers' rows in few SQLite transactions: one thread writes, the others wait until theirs are committed."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import sqlite3
import threading
import weakref
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["GroupCommit", "Insert", "Rows", "Statement"]

MOST_WORKS = 2000
"""In one transaction, so that nobody waits for others without end."""
MOST_ROWS = 64
"""In one statement. With nine columns that is below the 999 parameters which an old SQLite allows."""


@dataclass(frozen=True, eq=False)
class Insert:
    """One way to insert into a table. Rows of several writers go into one statement: `head (…), (…) tail`."""

    table: str
    head: str
    columns: int
    tail: str = ""

    def sql(self, rows: int) -> str:
        """Return the statement for so many rows."""
        row = f"({', '.join('?' * self.columns)})"
        return f"{self.head} {', '.join([row] * rows)} {self.tail}"


@dataclass(frozen=True)
class Rows:
    """Rows to insert."""

    insert: Insert
    values: Sequence[tuple[Any, ...]]


@dataclass(frozen=True)
class Statement:
    """Any other statement; it is executed after what was asked for before it, and the last one's rows are returned."""

    sql: str
    parameters: Any = ()


Step: TypeAlias = Rows | Statement


@dataclass(eq=False)
class Work:
    """What one caller wants written, all or nothing, and where it waits."""

    steps: Sequence[Step]
    waiter: Future[Any] | asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop | None = None
    rows: list[Any] = field(default_factory=list)


Queue: TypeAlias = SimpleQueue["list[Work] | None"]


class GroupCommit:
    """Writes for many threads and event loops through one connection, which it closes at the end.

    What is asked for while a transaction is under way goes into the next one together. A call returns after COMMIT. A
    transaction that fails is tried again one caller at a time, so that an error is raised to whom it belongs.

    Args:
        conn: In autocommit mode, and usable from another thread; nobody else uses it from now on.
    """

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._queue: Queue = SimpleQueue()
        self._gathered: dict[asyncio.AbstractEventLoop, list[Work]] = {}
        self._lock = threading.Lock()
        self._pid = os.getpid()
        # The thread knows the queue and not this object, so that one which nobody closes can go, and its thread too.
        writer = threading.Thread(
            target=_write_until_closed, args=(self._queue, conn), name="redraft-sqlite-writer", daemon=True
        )
        writer.start()
        self._close = weakref.finalize(self, _stop, self._queue, writer)

    def close(self) -> None:
        """Commit what was asked for, and close the connection."""
        with self._lock:
            if os.getpid() == self._pid:
                for loop in list(self._gathered):
                    self._queue.put(self._gathered.pop(loop, []))
            self._close()

    def write(self, *steps: Step) -> list[Any]:
        """Return the last statement's rows when the steps are committed, together.

        Raises:
            sqlite3.Error: What the database said; nothing of the steps was written then.
            RuntimeError: This was closed, or belongs to another process.
        """
        waiter: Future[Any] = Future()
        self._hand([Work(steps, waiter)])
        rows: list[Any] = waiter.result()
        return rows

    async def awrite(self, *steps: Step) -> list[Any]:
        """As `write`. What one turn of an event loop asks for is handed over at its end, at once."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        gathered = self._gathered.get(loop)
        if gathered is None:
            gathered = self._gathered[loop] = []
            loop.call_soon(self._hand_gathered, loop)
        gathered.append(Work(steps, waiter, loop))
        rows: list[Any] = await waiter
        return rows

    def _hand_gathered(self, loop: asyncio.AbstractEventLoop) -> None:
        works = self._gathered.pop(loop, [])
        try:
            self._hand(works)
        except RuntimeError as error:
            _settle([(work, error) for work in works])

    def _hand(self, works: list[Work]) -> None:
        if os.getpid() != self._pid:
            raise RuntimeError(f"the database was opened by process {self._pid}; open it again in this one")
        with self._lock:
            if not self._close.alive:
                raise RuntimeError("the database was closed")
            self._queue.put(works)


def _stop(queue: Queue, writer: threading.Thread) -> None:
    queue.put(None)
    if writer is not threading.current_thread():
        writer.join()


def _write_until_closed(queue: Queue, conn: sqlite3.Connection) -> None:
    """Take all that waits, commit it, say so to those who wait, and again."""
    ended = False
    while not ended:
        works: list[Work] = []
        found = queue.get()
        while found is not None:
            works += found
            if len(works) >= MOST_WORKS:
                break
            try:
                found = queue.get_nowait()
            except Empty:
                break
        ended = found is None
        _tell(_committed(conn, works))
        works, found = [], None  # what was written need not stay in memory while this waits
    conn.close()


def _committed(conn: sqlite3.Connection, works: list[Work]) -> list[tuple[Work, BaseException | None]]:
    """Return each caller's error, or `None` where its rows are committed."""
    if not works:
        return []
    try:
        conn.execute("BEGIN IMMEDIATE")  # waits for another process here, where it may, and not in mid-transaction
    except sqlite3.Error as error:
        return [(work, copy.copy(error)) for work in works]
    try:
        _execute(conn, works)
        conn.execute("COMMIT")
    except BaseException as error:  # raised to whom it belongs, below
        with contextlib.suppress(sqlite3.Error):  # SQLite has rolled back by itself after some errors
            conn.rollback()
        if len(works) == 1:
            return [(works[0], error)]
        return [told for work in works for told in _committed(conn, [work])]
    return [(work, None) for work in works]


def _execute(conn: sqlite3.Connection, works: Iterable[Work]) -> None:
    """Insert rows of many writers in few statements: each lets go of the interpreter, and waits to have it back."""
    waiting: dict[str, tuple[Insert, list[tuple[Any, ...]]]] = {}
    for work in works:
        for step in work.steps:
            if isinstance(step, Statement):
                _insert(conn, waiting)
                work.rows = conn.execute(step.sql, step.parameters).fetchall()
                continue
            insert = step.insert
            found = waiting.get(insert.table)
            if found is not None and found[0] is not insert:  # what was asked for first comes first
                _insert(conn, waiting)
                found = None
            if found is None:
                found = waiting[insert.table] = (insert, [])
            found[1].extend(step.values)
    _insert(conn, waiting)


def _insert(conn: sqlite3.Connection, waiting: dict[str, tuple[Insert, list[tuple[Any, ...]]]]) -> None:
    for insert, rows in waiting.values():
        start = 0
        while left := len(rows) - start:
            size = min(1 << (left.bit_length() - 1), MOST_ROWS)  # few sizes, so that each statement is compiled once
            conn.execute(insert.sql(size), [value for row in rows[start : start + size] for value in row])
            start += size
    waiting.clear()


def _tell(results: Iterable[tuple[Work, BaseException | None]]) -> None:
    """Wake whoever waits: each event loop once."""
    by_loop: dict[asyncio.AbstractEventLoop | None, list[tuple[Work, BaseException | None]]] = {}
    for work, error in results:
        by_loop.setdefault(work.loop, []).append((work, error))
    for loop, settled in by_loop.items():
        if loop is None:
            _settle(settled)
            continue
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits there any more
            loop.call_soon_threadsafe(_settle, settled)


def _settle(results: Iterable[tuple[Work, BaseException | None]]) -> None:
    for work, error in results:
        if work.waiter.done():  # cancelled
            continue
        if error is None:
            work.waiter.set_result(work.rows)
        else:
            work.waiter.set_exception(error)
