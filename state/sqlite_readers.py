"""Connections that only read a SQLite file, each lent to one caller at a time."""

from __future__ import annotations

import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator

    from langgraph.checkpoint.serde.base import SerializerProtocol

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
    """LangGraph's SQLite saver for what it reads, on a connection that is nobody else's meanwhile."""

    def __init__(self, conn: sqlite3.Connection, serde: SerializerProtocol) -> None:
        BaseCheckpointSaver.__init__(self, serde=serde)
        self.conn = conn
        self.is_setup = True

    @contextmanager
    def cursor(self, transaction: bool = False) -> Iterator[sqlite3.Cursor]:
        """A cursor; the transaction is the borrower's."""
        with closing(self.conn.cursor()) as cur:
            yield cur
