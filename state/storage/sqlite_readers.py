"""Connections that only read a SQLite file, each lent to one caller at a time."""

from __future__ import annotations

import builtins
import threading
from contextlib import closing, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.utils import search_where

from ..checked_channels import naming, placed
from .trust import checked, split_filter

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory

    from .serializing import PlainSerializer

__all__ = ["Readers", "StockReader"]


class Readers:
    """At most `limit` connections, made when they are needed. What one borrower reads is of one moment.

    Args:
        connect: Makes a connection in autocommit mode.
        limit: Who asks for one more waits until another is given back.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection], limit: int) -> None:
        self._connect = connect
        self._free: list[sqlite3.Connection] = []
        self._lent = threading.Semaphore(limit)
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def borrowed(self) -> Iterator[sqlite3.Connection]:
        """A connection within a read transaction, which no writer makes wait, and which sees all that was committed.

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
            while self._free:
                self._free.pop().close()


class StockReader(SqliteSaver):
    """LangGraph's SQLite saver for what it reads, on a connection that is nobody else's meanwhile.

    What is stored in a form that no checkpoint has is refused, with the names of its thread and checkpoint.
    """

    def __init__(self, conn: sqlite3.Connection, serde: PlainSerializer) -> None:
        BaseCheckpointSaver.__init__(self, serde=serde)
        self.conn = conn
        self.is_setup = True
        self._vault = serde.vault
        self._at: dict[str, Any] = {}

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint; raises BadCheckpointError."""
        self._at = dict(config["configurable"])
        with naming(lambda: self._at):
            found = super().get_tuple(config)
            return None if found is None else checked(found, self._vault)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  (the base class names it)
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield what matches; raises BadCheckpointError, and ValueError for a filter that is none."""
        clear, matches = split_filter(filter, self._vault)
        search_where(config, clear, before)  # raises for a key that is no name, before anything of the file is read
        with naming(lambda: self._at):
            listed = super().list(config, filter=clear, before=before, limit=None if matches else limit)
            seen = (checked(found, self._vault, pending=False) for found in listed)
            yield from islice(seen if matches is None else builtins.filter(matches, seen), limit)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return what led to a checkpoint; raises BadCheckpointError."""
        place = dict(config["configurable"])
        self._at = {**place}
        with naming(lambda: self._at):
            return placed(super().get_delta_channel_history(config=config, channels=channels), lambda: place)

    @contextmanager
    def cursor(self, transaction: bool = False) -> Iterator[sqlite3.Cursor]:
        """A cursor; the transaction is the borrower's."""
        with closing(self.conn.cursor()) as cur:
            cur.row_factory = self._noted
            yield cur

    def _noted(self, cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return a row, having noted whose it is."""
        for column, value in zip(cursor.description, row, strict=True):
            if column[0] in ("thread_id", "checkpoint_ns", "checkpoint_id"):
                self._at[column[0]] = value
        return row
