"""Checkpoints, runs index and journal in one SQLite file, or in this process's memory. Internal."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import time
import weakref
from concurrent.futures import Future
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, DeltaChannelHistory
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.utils import search_where

from ..._files import limit_values, make_private
from ..checked_values import naming
from .database_saver import DatabaseSaver
from .encryption import SET_UP_ENCRYPTION, Vault, check_key
from .group_writer import (
    Committer,
    GroupWriter,
    Insert,
    NoCommitter,
    Put,
    Rows,
    SqliteCommitter,
    Statement,
    committed,
    settle,
)
from .index import COLUMNS, DELETE_RUNS, SET_UP_RUNS, UPSERT_RUN_ON_CONFLICT, with_paths
from .journal import COLUMNS as REPLY_COLUMNS
from .journal import DELETE_JOURNAL, SET_UP_JOURNAL, SHORTEN_ON_CONFLICT
from .leases import FORGET_LEASE, LAST_FENCE, NOTHING_KEPT, LeaseDialect
from .thread_rows import BUSY_TIMEOUT_S, LENGTHS, connect_to_read, named, query_on, sqlite_rows, tables_of
from .trust import PlainSerializer, checked

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig

    from .seal import Seal

__all__ = ["IndexedMemorySaver", "IndexedSqliteSaver", "Synchronous", "open_sqlite"]

READERS = 4
Synchronous: TypeAlias = Literal["full", "normal"]
SHORT = 8
"""Characters of a version, the first of them a space."""

_WRITES = "INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value) VALUES"
INSERTS = {
    "checkpoints": Insert(
        "checkpoints",
        "INSERT OR REPLACE INTO checkpoints"
        " (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata) VALUES",
        7,
    ),
    "new_writes": Insert("writes", f"INSERT OR IGNORE {_WRITES}", 9),
    "writes": Insert("writes", f"INSERT OR REPLACE {_WRITES}", 9),
    "runs": Insert(
        "runs", f"INSERT INTO runs ({', '.join(COLUMNS)}) VALUES", len(COLUMNS), f"ON CONFLICT {UPSERT_RUN_ON_CONFLICT}"
    ),
    "replies": Insert(
        "redraft_journal",
        f"INSERT INTO redraft_journal ({', '.join(REPLY_COLUMNS)}) VALUES",
        len(REPLY_COLUMNS),
        "ON CONFLICT DO NOTHING",
    ),
    "shorter_replies": Insert(
        "redraft_journal",
        f"INSERT INTO redraft_journal ({', '.join(REPLY_COLUMNS)}) VALUES",
        len(REPLY_COLUMNS),
        f"ON CONFLICT {SHORTEN_ON_CONFLICT}",
    ),
}
MEMORY_PAGE_BYTES = 16384
"""Page size of a database in memory. A commit that moved pages looks through all of them, and the calling thread waits:
with 100 MB in SQLite's pages of 4 KB the slowest took 0.1 s."""
NOW = "((julianday('now') - 2440587.5) * 86400.0)"
LEASES = LeaseDialect(
    # AUTOINCREMENT: the token of a thread that was deleted is never given again. It is counted here all the same, since
    # SQLite says that the disk is full, to every thread, once a row has the largest number.
    set_up="""CREATE TABLE IF NOT EXISTS redraft_leases (
        fence INTEGER PRIMARY KEY AUTOINCREMENT,
        thread_id TEXT NOT NULL UNIQUE,
        token TEXT NOT NULL,
        process TEXT NOT NULL,
        expires_at DOUBLE PRECISION NOT NULL,
        asked INTEGER NOT NULL
    )""",
    take=f"""REPLACE INTO redraft_leases (fence, thread_id, token, process, expires_at, asked)
        SELECT 1 + MAX((SELECT COALESCE(MAX(fence), 0) FROM redraft_leases WHERE fence < {LAST_FENCE}),
            (SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence WHERE name = 'redraft_leases' AND seq < {LAST_FENCE})),
            %(thread_id)s, %(token)s, %(process)s, ({NOW} + %(seconds)s) * %(held)s, 0 WHERE NOT EXISTS (
            SELECT 1 FROM redraft_leases WHERE thread_id = %(thread_id)s AND fence <> %(follows)s
            AND expires_at > {NOW} AND expires_at <= {NOW} + %(longest)s
        ) RETURNING fence, {NOTHING_KEPT}""",  # noqa: S608  (text of our own)
    now=NOW,
    among="fence IN (SELECT value FROM json_each(%(fences)s))",
    as_array=json.dumps,
)


def open_sqlite(
    path: Path,
    *,
    vault: Vault | None = None,
    seal: Seal | None = None,
    allow: Iterable[type] = (),
    synchronous: Synchronous = "full",
    read_only: bool = False,
) -> IndexedSqliteSaver:
    """Return a saver over a file, which is made if it is not there.

    Args:
        path: The file.
        vault: Encrypts what is kept; default: nothing is encrypted.
        seal: Seals checkpoints; default: none is sealed.
        allow: Types of one's own that may be built from what the file holds.
        synchronous: As `open_checkpointer` says.
        read_only: Write nothing to the file, no table either, and make none.

    Raises:
        FileNotFoundError: If the directory does not exist.
        OSError: If the file can't be opened, written or locked.
        ValueError: If the file is not a SQLite database, holds another program's `runs` table, or was begun with
            another key or none.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the directory of {str(path)!r} does not exist")
    if path.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a directory, not a SQLite file")
    serde = PlainSerializer(vault, seal=seal, allow=allow)
    conn: sqlite3.Connection | None = None
    try:
        # Readers connect later, when the process may have changed its directory.
        if read_only:
            connect = partial(connect_to_read, path.absolute())
            conn = connect()
            tables = tables_of(conn, path)
            if "checkpoints" not in tables:
                raise ValueError(f"{str(path)!r} holds no checkpoints")  # noqa: TRY301
            check_key(partial(query_on, conn), serde.vault, str(path), begun=("redraft_encryption" in tables))
            saver = _saver(NoCommitter(), connect, serde)
            saver.read_only(tables, IndexedMemorySaver())
            conn.close()
            return saver
        conn = _connect(path.absolute())
        tables = tables_of(conn, path)
        _set_up(conn, synchronous)
        check_key(partial(query_on, conn), serde.vault, str(path))
        saver = _saver(SqliteCommitter(conn), partial(_connect, path.absolute(), read_only=True), serde)
    except BaseException as error:
        if conn is not None:
            conn.close()
        if isinstance(error, sqlite3.OperationalError) and "no such column" in str(error):
            raise ValueError(f"{str(path)!r} has a table 'runs' that is not redraft's: {error}") from None
        if isinstance(error, sqlite3.OperationalError):
            raise OSError(f"can't open {str(path)!r}: {error}") from None
        if isinstance(error, sqlite3.DatabaseError) and "malformed" in str(error):
            raise ValueError(f"{str(path)!r} is damaged, or was cut off: {error}") from None
        if isinstance(error, sqlite3.DatabaseError):
            raise ValueError(f"{str(path)!r} is not a SQLite database: {error}") from None  # noqa: TRY004
        raise
    # Of an older file it is made before something is written, so that who only reads does not change it.
    saver.leases.leases.is_set_up = "redraft_leases" in tables
    return saver


def _saver(
    committer: Committer, connect: Callable[[], sqlite3.Connection], serde: PlainSerializer
) -> IndexedSqliteSaver:
    return IndexedSqliteSaver(Readers(connect, READERS), serde=serde, writer=GroupWriter(committer), width=READERS)


class IndexedSqliteSaver(DatabaseSaver):
    """A saver for `invoke` and `ainvoke`, many threads and processes, with its threads in `runs`.

    The tables are those of LangGraph's SQLite savers, so they read what this one wrote, and the other way round. What
    many runs save at once is committed together; a call returns when its own is committed. Reads wait for no writer.
    """

    inserts = INSERTS
    writes_table = ("writes", "value")
    lengths = LENGTHS
    rows_of = staticmethod(sqlite_rows)
    lease_dialect = LEASES
    lease_table_missing = sqlite3.OperationalError
    data_error = sqlite3.DataError

    def __init__(self, readers: Readers, **how: Any) -> None:
        super().__init__(**how)
        self.readers = readers

    def close(self) -> None:
        """Wait for what is under way, then give the file back."""
        super().close()
        self.readers.close()

    @staticmethod
    @lru_cache(maxsize=4096)  # every run counts from 1, and holds some of these for as long as it is under way
    def get_next_version(current: str | int | None, channel: None) -> str:
        """Return the version after this one, as text that is in order: short, since a checkpoint holds many.

        LangGraph's SQLite savers count in 32 digits and a random part, which tells branches apart where a value is
        stored by its version; here each checkpoint holds its values. Where they have counted, their width is kept, and
        theirs come after ours: a space is less than a digit.
        """
        whole = str(current or "").partition(".")[0]
        number = int(whole or 0) + 1
        return f"{number:032}" if len(whole) > SHORT or number >= 10 ** (SHORT - 1) else f"{number:{SHORT}}"

    def _stored_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        with self.readers.borrowed() as conn:
            stored = SqliteSaver.get_tuple(StockReader(conn, self.serde), config)
        return None if stored is None else checked(stored, self.vault, self.seal)

    def _read_list(self, config: RunnableConfig | None, **options: Any) -> Iterator[CheckpointTuple]:
        # Raises for a key that is no name, before anything of the file is read.
        search_where(config, options["filter"], options["before"])
        at: dict[str, Any] = {}
        with self.readers.borrowed() as conn, naming(lambda: at):
            reader = StockReader(conn, self.serde, partial(_noted, at))
            stored: Any = reader.list(config, **options)
            with contextlib.closing(stored):  # also where a row is refused: its cursor would outlive the file
                for one in stored:
                    yield checked(one, self.vault, self.seal, pending=False)

    def _stored_history(self, config: RunnableConfig, channels: Sequence[str]) -> Mapping[str, DeltaChannelHistory]:
        with self.readers.borrowed() as conn:
            return StockReader(conn, self.serde).get_delta_channel_history(config=config, channels=channels)

    def delete_thread(self, thread_id: str) -> None:
        self.leases.leases.set_up()
        tables = [f"DELETE FROM {table} WHERE thread_id = :thread_id" for table in ("checkpoints", "writes")]  # noqa: S608
        # One put, so one transaction: of a thread that is deleted nothing stays.
        self.writer.write(
            *(
                Statement(named(statement), {"thread_id": name})
                for name in with_paths(self.runs, str(thread_id))
                for statement in (*tables, DELETE_RUNS, DELETE_JOURNAL, FORGET_LEASE)
            )
        )

    def _set_up_leases(self) -> None:
        self._query(LEASES.set_up, {})

    def _query_lease(self, statement: str, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        if statement.startswith("SELECT"):
            return self._query(statement, values)
        # A loss of power ends all runs, so that it matters to none who held a lease.
        return self.writer.write(Statement(named(statement), values, durable=False))

    async def _aquery_lease(self, statement: str, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        # Without a thread's detour, so that what many runs begin at once is one transaction.
        return await self.writer.awrite(Statement(named(statement), values, durable=False))

    def _query(self, statement: str, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        # SQLite has one writer at a time, which is the writer's thread.
        if not statement.startswith("SELECT"):
            return self.writer.write(Statement(named(statement), values))
        with self.readers.borrowed() as conn:
            return conn.execute(named(statement), values).fetchall()


class Readers:
    """Pool of connections, made when they are needed. What one borrower reads is of one moment.

    Args:
        connect: Makes a connection in autocommit mode.
        limit: How many there are at most; who asks for one more waits until another is given back.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection], limit: int) -> None:
        self._connect = connect
        self._free: list[sqlite3.Connection] = []
        self._lent = threading.Semaphore(limit)
        self._lock = threading.Lock()
        self._closed = False
        # Also where nobody closes them: a connection that the interpreter throws away is warned of.
        self._close_free = weakref.finalize(self, _close_all, self._free)

    @contextlib.contextmanager
    def borrowed(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection within a read transaction: no writer makes it wait, and it sees all that was committed.

        Raises:
            sqlite3.Error: The file can't be read.
            RuntimeError: `close` was called.
        """
        with self._lent:
            with self._lock:
                if self._closed:
                    raise RuntimeError("the database was closed")
                conn = self._free.pop() if self._free else self._connect()
            try:
                conn.execute("BEGIN")
                yield conn
            finally:
                if conn.in_transaction:
                    conn.rollback()
                self._take_back(conn)

    def _take_back(self, conn: sqlite3.Connection) -> None:
        with self._lock:
            if self._closed:
                conn.close()
            else:
                self._free.append(conn)

    def close(self) -> None:
        """Close the connections; one that is lent is closed when it comes back."""
        with self._lock:
            self._closed = True
            self._close_free()


def _close_all(connections: list[sqlite3.Connection]) -> None:
    while connections:
        connections.pop().close()


class StockReader(SqliteSaver):
    """LangGraph's SQLite saver for what it reads, on a connection that is nobody else's meanwhile.

    Args:
        conn: The connection.
        serde: Reads values.
        row_factory: Sees each row.
    """

    def __init__(self, conn: sqlite3.Connection, serde: PlainSerializer, row_factory: Any = None) -> None:
        BaseCheckpointSaver.__init__(self, serde=serde)
        self.conn = conn
        # Else LangGraph would make the tables, on a connection that may only read.
        self.is_setup = True
        self._row_factory = row_factory

    def cursor(self, transaction: bool = False) -> contextlib.closing[sqlite3.Cursor]:  # type: ignore[override]
        """Return a cursor for a `with` block; the transaction is the borrower's."""
        cursor = self.conn.cursor()
        cursor.row_factory = self._row_factory
        return contextlib.closing(cursor)


def _noted(at: dict[str, Any], cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row, having noted whose it is."""
    for column, value in zip(cursor.description, row, strict=True):
        if column[0] in ("thread_id", "checkpoint_ns", "checkpoint_id"):
            at[column[0]] = value
    return row


def _connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    # isolation_level=None: transactions begin and end where this code says so, nowhere else
    if not read_only:
        make_private(path)
    conn = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    if read_only:
        conn.execute("PRAGMA query_only = ON")
    limit_values(conn)
    return conn


def _set_up(conn: sqlite3.Connection, synchronous: Synchronous, *, leases: bool = False) -> None:
    """Make the tables, waiting for another process that makes them: the switch to WAL heeds no busy timeout."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            conn.execute(f"PRAGMA synchronous = {synchronous}")
            SqliteSaver(conn).setup()
            for statement in (*SET_UP_RUNS, SET_UP_JOURNAL, SET_UP_ENCRYPTION, *([LEASES.set_up] if leases else [])):
                conn.execute(statement.format(bytewise=""))
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


class IndexedMemorySaver(IndexedSqliteSaver):
    """A SQLite database of this process, safe from many threads. It dies with the saver.

    Nothing of it waits for a disk or for another process, so that sync and async calls are made where they stand: each
    holds the lock for microseconds.

    Args:
        allow: Types of one's own that may be kept, as databases have it; `None`: whatever LangGraph's serializer takes.
        seal: Seals checkpoints; default: none is sealed.
    """

    def __init__(self, *, allow: Iterable[type] | None = (), seal: Seal | None = None) -> None:
        serde = AnySerializer() if allow is None else PlainSerializer(seal=seal, allow=allow)
        conn = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        conn.execute(f"PRAGMA page_size = {MEMORY_PAGE_BYTES}")
        _set_up(conn, "normal", leases=True)
        lock = threading.RLock()
        super().__init__(OwnReader(conn, lock), serde=serde, writer=InPlaceWriter(SqliteCommitter(conn), lock), width=0)
        self.leases.leases.is_set_up = True


class AnySerializer(JsonPlusSerializer):
    """LangGraph's serializer, for what never leaves the process."""

    vault = None
    seal = None


class OwnReader(Readers):
    """The one connection of a database in memory, which only one of its threads reads or writes at a time."""

    def __init__(self, conn: sqlite3.Connection, lock: threading.RLock) -> None:
        self._conn = conn
        self._alone = lock
        self._closed = False

    @contextmanager
    def borrowed(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection."""
        with self._alone:
            if self._closed:
                raise RuntimeError("the database was closed")
            yield self._conn

    def close(self) -> None:
        """Lend it no more; its writer closes it."""
        self._closed = True


class InPlaceWriter(GroupWriter):
    """A writer that commits at once, in the thread that puts something."""

    def __init__(self, committer: SqliteCommitter, lock: threading.RLock) -> None:
        self.ahead = {}
        self._committer = committer
        self._alone = lock
        self._close = weakref.finalize(self, committer.close)

    def close(self) -> None:
        with self._alone:
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
        waiter: Any = Future() if loop is None else loop.create_future()
        with self._alone:
            if not self._close.alive:
                raise RuntimeError("the database was closed")
            settle(committed(self._committer, [Put(steps, thread_id, key, waiter, loop, fence, ahead)]))
        return waiter
