"""Group commit: what many callers put at the same moment is written in one transaction. Internal."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import os
import sqlite3
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, MutableMapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

from .leases import LostLeaseError

__all__ = [
    "UNHELD",
    "Committer",
    "GroupWriter",
    "Insert",
    "NoCommitter",
    "Put",
    "Rows",
    "SqliteCommitter",
    "Statement",
    "UnavailableError",
    "committed",
    "settle",
]

AHEAD_S = 0.002
"""How long what was put ahead waits for what follows."""
UNHELD = 0
"""In place of a fencing token: it is written while nobody runs the thread."""
NORMAL = 1
"""SQLite's number for `synchronous=NORMAL`."""
MOST_ROWS = 64
"""In one statement. With nine columns that is below the 999 parameters which an old SQLite allows."""


@dataclass(frozen=True)
class Rows:
    """Rows to insert."""

    insert: Any
    """The committer's way to insert them."""
    values: list[Sequence[Any]]


@dataclass(frozen=True)
class Statement:
    """Any other statement; it is executed after what was put before it, and the last one's rows are returned."""

    sql: str
    parameters: Any = ()
    durable: bool = True
    """False where nothing is lost that matters when a loss of power undoes it."""


@dataclass(eq=False)
class Put:
    """One caller's steps, all or nothing, and where it waits."""

    steps: Sequence[Rows | Statement]
    thread_id: str
    key: object
    waiter: Future[Any] | asyncio.Future[Any]
    """It may be cancelled; what was put is written all the same."""
    loop: asyncio.AbstractEventLoop | None = None
    fence: int | None = None
    """The fencing token that it is written under, or `UNHELD`; `None` where it is written whoever runs the thread."""
    ahead: bool = False
    """It is written with what the run puts next: see `GroupWriter.put`."""
    joined: list[Put] = field(default_factory=list)
    """What was put ahead of it."""
    rows: list[Any] = field(default_factory=list)


class UnavailableError(Exception):
    """The database takes no transaction right now: no put is to blame, and none is tried again alone."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Committer(ABC):
    """A database as one writer thread sees it."""

    largest_group = 2000
    """Puts in one transaction, so that nobody waits for others without end."""
    idle_s: float | None = None
    """After how many seconds without a put `rest` is called; `None` for never."""

    @abstractmethod
    def commit(self, puts: Sequence[Put]) -> Collection[Put]:
        """Write all of these in one transaction, in their order, or none of them.

        Returns:
            Those that were refused, and not written, since another run has their thread.

        Raises:
            UnavailableError: The transaction could not begin.
            Exception: What the database said to one of them.
        """

    def rest(self) -> None:  # noqa: B027  (most hold nothing)
        """Give back what is held only while there is something to write."""

    @abstractmethod
    def close(self) -> None:
        """Give back everything. Called once, at the end."""


class NoCommitter(Committer):
    """A database that is open for reading only."""

    def commit(self, puts: Sequence[Put]) -> Collection[Put]:
        raise UnavailableError(PermissionError("the database is open for reading only"))

    def close(self) -> None:
        """Do nothing: it holds nothing."""


@dataclass(frozen=True, eq=False)
class Insert:
    """One way to insert into a table. Rows of several puts go into one statement: `head (…), (…) tail`."""

    table: str
    head: str
    columns: int
    tail: str = ""

    def sql(self, rows: int) -> str:
        """Return the statement for so many rows."""
        row = f"({', '.join('?' * self.columns)})"
        return f"{self.head} {', '.join([row] * rows)} {self.tail}"


class SqliteCommitter(Committer):
    """Commits through one connection.

    Args:
        conn: In autocommit mode, and usable from another thread.
    """

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn
        self._synchronous: int | None = None
        self._set = 0

    def commit(self, puts: Sequence[Put]) -> Collection[Put]:
        self._flush(any(not isinstance(step, Statement) or step.durable for put in puts for step in put.steps))
        try:
            self._conn.execute("BEGIN IMMEDIATE")  # waits for another process here, and not in mid-transaction
        except sqlite3.Error as error:
            raise UnavailableError(error) from error
        try:
            refused = self._refused(puts)
            self._execute([put for put in puts if put not in refused] if refused else puts)
            self._conn.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # SQLite has rolled back by itself after some errors
                self._conn.rollback()
            raise
        return refused

    def close(self) -> None:
        self._conn.close()

    def _refused(self, puts: Sequence[Put]) -> Collection[Put]:
        """Return the puts whose threads others have taken. Nobody takes one before the transaction ends."""
        refused: set[Put] = set()
        if fences := {put.fence for put in puts if put.fence}:
            lost = fences.difference(fence for (fence,) in self._conn.execute(LATEST, (json.dumps(list(fences)),)))
            refused.update(put for put in puts if put.fence in lost)
        if free := {put.thread_id for put in puts if put.fence == UNHELD}:
            held = {name for (name,) in self._conn.execute(HELD, (json.dumps(list(free)),))}
            refused.update(put for put in puts if put.fence == UNHELD and put.thread_id in held)
        return refused

    def _flush(self, durable: bool) -> None:
        """Let the next transaction be on the disk when it is committed, or not necessarily."""
        if self._synchronous is None:
            self._synchronous = int(self._conn.execute("PRAGMA synchronous").fetchone()[0])
            self._set = self._synchronous
        wanted = self._synchronous if durable else min(self._synchronous, NORMAL)
        if wanted != self._set:
            self._conn.execute(f"PRAGMA synchronous = {wanted}")
            self._set = wanted

    def _execute(self, puts: Iterable[Put]) -> None:
        """Insert rows of many puts in few statements: each lets go of the interpreter, and waits to have it back."""
        waiting: dict[str, Rows] = {}
        for put in puts:
            for step in put.steps:
                if isinstance(step, Statement):
                    self._insert(waiting)
                    put.rows = self._conn.execute(step.sql, step.parameters).fetchall()
                    continue
                group = waiting.get(step.insert.table)
                if group is not None and group.insert is not step.insert:  # what was put first comes first
                    self._insert(waiting)
                    group = None
                if group is None:
                    group = waiting[step.insert.table] = Rows(step.insert, [])
                group.values.extend(step.values)
        self._insert(waiting)

    def _insert(self, waiting: dict[str, Rows]) -> None:
        for group in waiting.values():
            rows, start = group.values, 0
            while left := len(rows) - start:
                size = min(1 << (left.bit_length() - 1), MOST_ROWS)  # few sizes: each statement is compiled once
                self._conn.execute(
                    group.insert.sql(size), [value for row in rows[start : start + size] for value in row]
                )
                start += size
        waiting.clear()


LATEST = "SELECT fence FROM redraft_leases WHERE fence IN (SELECT value FROM json_each(?))"
HELD = "SELECT thread_id FROM redraft_leases WHERE thread_id IN (SELECT value FROM json_each(?)) AND expires_at > 0"


Result: TypeAlias = tuple[Put, BaseException | None]
"""A put and its error, or `None` where it is committed."""


class GroupWriter:
    """Writes for many threads and event loops, through one writer thread for each committer.

    What is put while a transaction is under way goes into the next one together. A call returns after COMMIT. A
    transaction that fails is tried again one put at a time, so that an error is raised to whom it belongs. The puts of
    a thread of LangGraph's are written by the same committer, in their order.

    Args:
        committers: Nobody else uses them, or their connections, from now on.
    """

    def __init__(self, *committers: Committer) -> None:
        self._queues: list[SimpleQueue[list[Put] | None]] = [SimpleQueue() for _ in committers]
        self._gathered: dict[asyncio.AbstractEventLoop, list[Put]] = {}
        self.ahead: MutableMapping[str, Put] = weakref.WeakValueDictionary()
        """By thread, what was put ahead and may not be written yet; `write` waits for it."""
        self._lock = threading.Lock()
        # A forked child has this object without its threads: what it put would wait for ever.
        self._pid = os.getpid()
        # The threads know the queues and not this object, so that one which nobody closes can go, and they too.
        writers = [
            threading.Thread(target=_write_until_closed, args=each, name="redraft-writer", daemon=True)
            for each in zip(self._queues, committers, strict=True)
        ]
        for writer in writers:
            writer.start()
        self._close: weakref.finalize[..., Any] = weakref.finalize(self, _stop, self._queues, writers)

    def close(self) -> None:
        """Commit what was put, and close the committers."""
        with self._lock:
            if os.getpid() == self._pid:
                for loop in list(self._gathered):
                    self._enqueue(self._gathered.pop(loop, []))
            self._close()

    def put(
        self,
        *steps: Rows | Statement,
        thread_id: str = "",
        key: object = None,
        fence: int | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        ahead: bool = False,
        urgent: bool = False,
    ) -> Any:
        """Put steps, and return the future of the last statement's rows, which come when all are committed, together.

        Args:
            steps: What is written.
            thread_id: Whose they are.
            key: What they are, in the thread: two with the same key never share a transaction. Default: it may.
            fence: The fencing token that they are written under, or `UNHELD`; default: whoever runs the thread.
            loop: The running event loop, in which the future is awaited; default: a future of threads. What one turn of
                a loop puts is handed over at its end, at once.
            ahead: Nobody waits: they come before the next put of the run, and are written in one transaction with it,
                or alone, when it has not come in `AHEAD_S`. If they can't be written, neither is what the run puts
                next, which raises their error.
            urgent: Don't wait for the end of the turn, which takes long where hundreds of runs are at work.

        Raises:
            RuntimeError: This was closed, or belongs to another process.
        """
        waiter: Future[Any] | asyncio.Future[Any] = Future() if loop is None else loop.create_future()
        put = Put(steps, thread_id, key, waiter, loop, fence, ahead)
        if ahead:
            self.ahead[thread_id] = put
        if loop is None or ahead:
            self._hand([put])
            return waiter
        gathered = self._gathered.get(loop)
        if gathered is None:
            gathered = self._gathered[loop] = []
            if not urgent:
                loop.call_soon(self._hand_gathered, loop)
        gathered.append(put)
        if urgent:
            self._hand_gathered(loop)
        return waiter

    def write(self, *steps: Rows | Statement, **options: Any) -> list[Any]:
        """Put steps as `put` does, and return the last statement's rows when they are committed.

        Raises:
            LostLeaseError: Another run has the thread; nothing of the steps was written.
            Exception: What the database said; nothing of the steps was written then.
            RuntimeError: As `put`.
        """
        return list(self.put(*steps, **options).result())

    async def awrite(self, *steps: Rows | Statement, **options: Any) -> list[Any]:
        """As `write`."""
        return list(await self.put(*steps, loop=asyncio.get_running_loop(), **options))

    def _hand_gathered(self, loop: asyncio.AbstractEventLoop) -> None:
        puts = self._gathered.pop(loop, [])
        try:
            if puts:
                self._hand(puts)
        except RuntimeError as error:
            # Called by the loop, so nobody would see the error; those who wait do.
            settle([(put, error) for put in puts])

    def _hand(self, puts: list[Put]) -> None:
        if os.getpid() != self._pid:
            raise RuntimeError(f"the database was opened by process {self._pid}; open it again in this one")
        with self._lock:
            # Under the lock, so that nothing is queued behind the mark which ends a writer.
            if not self._close.alive:
                raise RuntimeError("the database was closed")
            self._enqueue(puts)

    def _enqueue(self, puts: list[Put]) -> None:
        if len(self._queues) == 1:
            self._queues[0].put(puts)
            return
        for number, queue in enumerate(self._queues):
            # By thread, so that one writer keeps its puts in order; the hash need hold in this process only.
            if mine := [put for put in puts if hash(put.thread_id) % len(self._queues) == number]:
                queue.put(mine)


def _stop(queues: Iterable[SimpleQueue[list[Put] | None]], writers: Iterable[threading.Thread]) -> None:
    for queue in queues:
        queue.put(None)
    for writer in writers:
        # A finaliser runs in any thread, so also in a writer, which can't wait for its own end.
        if writer is not threading.current_thread():
            writer.join()


def _write_until_closed(queue: SimpleQueue[list[Put] | None], committer: Committer) -> None:
    """Take all that waits, commit it, say so to those who wait, and again."""
    ended = False
    failed: dict[tuple[str, int | None], BaseException] = {}
    while not ended:
        puts: list[Put] = []
        try:
            batch = queue.get(timeout=committer.idle_s)
        except Empty:
            committer.rest()
            continue
        while batch is not None:
            puts += batch
            if len(puts) >= committer.largest_group:
                break
            try:
                batch = queue.get(timeout=AHEAD_S) if all(put.ahead for put in puts) else queue.get_nowait()
            except Empty:
                break
        ended = batch is None
        for group in _groups(_joined(puts, failed), committer.largest_group):
            results = committed(committer, group)
            failed |= {(put.thread_id, put.fence): error for put, error in results if put.ahead and error is not None}
            _wake(results)
            del group, results  # what was written need not stay in memory while this waits
        puts, batch = [], None
    committer.close()


def _joined(puts: Iterable[Put], failed: dict[tuple[str, int | None], BaseException]) -> list[Put]:
    """Return the puts, each with what its run put ahead of it, without those that something failed ahead of."""
    joined: dict[Put, None] = {}
    ahead: dict[tuple[str, int | None], Put] = {}
    for put in puts:
        run = (put.thread_id, put.fence)
        if run in failed:
            _wake([(put, failed[run] if put.ahead else failed.pop(run))])
            continue
        if (first := ahead.pop(run, None)) is not None:
            put.steps = [*first.steps, *put.steps]
            put.joined = [*first.joined, first]
            del joined[first]
        joined[put] = None
        if put.ahead:
            ahead[run] = put
    return list(joined)


def _groups(puts: list[Put], largest: int) -> Iterator[list[Put]]:
    """Yield what is committed together: up to the first put that writes what one before it does."""
    group: list[Put] = []
    keys: set[object] = set()
    fences: dict[str, int] = {}
    for put in puts:
        key = (put.thread_id, put.key)
        followed = put.fence is not None and fences.get(put.thread_id, put.fence) != put.fence
        # PostgreSQL refuses a statement that upserts one row twice.
        if len(group) == largest or key in keys or followed:
            yield group
            group, keys, fences = [], set(), {}
        if put.fence is not None:
            fences[put.thread_id] = put.fence
        group.append(put)
        if put.key is not None:
            keys.add(key)
    if group:
        yield group


def committed(committer: Committer, puts: list[Put]) -> list[Result]:
    """Commit these, each alone where they can't be committed together, and return each with its error."""
    try:
        refused = committer.commit(puts)
    except UnavailableError as error:
        # A copy each: one that is raised in several places gathers all their tracebacks.
        return [(put, copy.copy(error.reason)) for put in puts]
    except BaseException as error:  # raised to whom it belongs
        if len(puts) == 1:
            return [(puts[0], error)]
        return [result for put in puts for result in committed(committer, [put])]
    return [(put, LostLeaseError(put.thread_id) if put in refused else None) for put in puts]


def _wake(results: Iterable[Result]) -> None:
    """Wake whoever waits: each event loop once."""
    by_loop: dict[asyncio.AbstractEventLoop | None, list[Result]] = {}
    for one, error in results:
        for put in (*one.joined, one):
            by_loop.setdefault(put.loop, []).append((put, error))
    for loop, settled in by_loop.items():
        if loop is None:
            settle(settled)
            continue
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits there any more
            loop.call_soon_threadsafe(settle, settled)


def settle(results: Iterable[Result]) -> None:
    """Give those who wait their rows or their error."""
    for put, error in results:
        if put.waiter.done():  # cancelled
            continue
        if error is None:
            put.waiter.set_result(put.rows)
        else:
            put.waiter.set_exception(error)
            if put.ahead:
                put.waiter.exception()  # it is raised by what follows, should nobody ask here
