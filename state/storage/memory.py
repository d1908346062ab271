"""Checkpoints, runs index and journal in this process's memory. Internal."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from .group_writer import GroupWriter, Put, SqliteCommitter, committed, settle
from .sqlite import IndexedSqliteSaver, Readers, set_up
from .trust import PlainSerializer

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Iterator

    from .group_writer import Rows, Statement
    from .seal import Seal

__all__ = ["IndexedMemorySaver"]


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
        set_up(conn, "normal", leases=True)
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

    @contextmanager
    def borrowed(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection."""
        with self._alone:
            yield self._conn

    def close(self) -> None:
        """Do nothing: its writer closes the connection."""


class InPlaceWriter(GroupWriter):
    """A writer that commits at once, in the thread that puts something."""

    def __init__(self, committer: SqliteCommitter, lock: threading.RLock) -> None:
        self.ahead = {}
        self._committer = committer
        self._alone = lock

    def close(self) -> None:
        with self._alone:
            self._committer.close()

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
            settle(committed(self._committer, [Put(steps, thread_id, key, waiter, loop, fence, ahead)]))
        return waiter
