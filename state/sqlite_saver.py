"""Checkpoints and the runs index in one SQLite file."""

from __future__ import annotations

import re
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.sqlite import SqliteSaver

from .async_by_thread import AsyncByThread
from .runs import row_from_checkpoint
from .runs_table import DELETE_RUNS, SET_UP_RUNS, UPSERT_RUN, RunsTable, parameters

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple

__all__ = ["IndexedSqliteSaver", "open_sqlite"]

BUSY_TIMEOUT_S = 30.0
THREADS = 4  # one writes, the others wait for the lock or decode what they read


def open_sqlite(path: Path) -> IndexedSqliteSaver:
    """A saver over this file, which is made if it is not there.

    A step that is saved survives the death of the process at any moment; the last few may be lost, whole, when the
    machine itself loses power (`synchronous=NORMAL` with a write-ahead log).

    Raises:
        FileNotFoundError: If the directory does not exist.
        OSError: If the file can't be opened, written or locked.
        ValueError: If the file is not a SQLite database, or holds another program's `runs` table.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the directory of {str(path)!r} does not exist")
    if path.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a directory, not a SQLite file")
    conn: sqlite3.Connection | None = None
    try:
        # isolation_level=None: transactions begin and end in `cursor`, nowhere else
        conn = sqlite3.connect(path.absolute(), timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        _set_up(conn)
        return IndexedSqliteSaver(conn)
    except BaseException as error:
        if conn is not None:
            conn.close()
        if isinstance(error, sqlite3.OperationalError) and "no such column" in str(error):
            raise ValueError(f"{str(path)!r} has a table 'runs' that is not redraft's: {error}") from None
        if isinstance(error, sqlite3.OperationalError):
            raise OSError(f"can't open {str(path)!r}: {error}") from None
        if isinstance(error, sqlite3.DatabaseError):
            raise ValueError(f"{str(path)!r} is not a SQLite database: {error}") from None  # noqa: TRY004
        raise


class IndexedSqliteSaver(AsyncByThread, SqliteSaver):
    """LangGraph's SQLite saver for `invoke` and `ainvoke`, many threads and processes, with its threads in `runs`.

    The tables are LangGraph's own, so its savers read what this one wrote, and the other way round.
    """

    def __init__(self, conn: sqlite3.Connection) -> None:
        super().__init__(conn)
        self.is_setup = True
        self.lock = threading.RLock()  # type: ignore[assignment]
        self.executor = ThreadPoolExecutor(THREADS, thread_name_prefix="redraft-sqlite")
        self.runs = RunsTable(self._query)

    def close(self) -> None:
        """Waits for what is under way, then gives the file back."""
        self.executor.shutdown()
        with self.lock:
            self.conn.close()

    @contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        """A cursor in a transaction that is rolled back on an error; one inside another joins it.

        `BEGIN IMMEDIATE` waits for a second process here, where it may, and not in the middle of a transaction.
        """
        with self.lock, closing(self.conn.cursor()) as cur:
            if not transaction or self.conn.in_transaction:
                yield cur
                return
            cur.execute("BEGIN IMMEDIATE")
            try:
                yield cur
                self.conn.commit()
            except BaseException:
                self.conn.rollback()
                raise

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  (the base class names it)
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """All that match, read before this returns, so that no lock is held while a caller looks at them."""
        return iter(tuple(super().list(config, filter=filter, before=before, limit=limit)))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Saves the checkpoint and its thread's row in one transaction: both or neither."""
        row = row_from_checkpoint(config, checkpoint, metadata)
        with self.cursor():
            saved = super().put(config, checkpoint, metadata, new_versions)
            if row is not None:
                self._query(UPSERT_RUN, parameters(row))
            return saved

    def delete_thread(self, thread_id: str) -> None:
        with self.cursor():
            super().delete_thread(thread_id)
            self._query(DELETE_RUNS, {"thread_id": str(thread_id)})

    def _query(self, statement: str, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        with self.cursor(transaction=False) as cur:
            return cur.execute(re.sub(r"%\((\w+)\)s", r":\1", statement), values).fetchall()


def _set_up(conn: sqlite3.Connection) -> None:
    """Makes the tables, waiting for another process that makes them: the switch to WAL heeds no busy timeout."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            conn.execute("PRAGMA synchronous = NORMAL")
            SqliteSaver(conn).setup()
            for statement in SET_UP_RUNS:
                conn.execute(statement.format(bytewise=""))
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
