"""All records of a server: the tables beside its checkpoints, and their executor. Internal."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from ...nodes.runtime.killable import off_loop
from ...state.storage.database_saver import DatabaseSaver
from .item_records import SET_UP_ITEMS, ItemRecords
from .relay_records import SET_UP_RELAY, RelayRecords
from .run_records import SET_UP_RUNS, RunRecords
from .thread_records import SET_UP_THREADS, ThreadRecords
from .usage_records import SET_UP_USAGE, UsageRecords

__all__ = ["Database", "Records", "now", "open_records"]

T = TypeVar("T")
READERS = 4
SET_UP = (*SET_UP_THREADS, *SET_UP_RUNS, SET_UP_USAGE, SET_UP_ITEMS, *SET_UP_RELAY)
"""`{bytewise}` is what makes the database order text as Python does."""


class Records(ThreadRecords, RunRecords):
    """The threads and runs, and the tables beside them.

    Args:
        saver: Whose database has them.
    """

    def __init__(self, saver: DatabaseSaver) -> None:
        super().__init__(saver)
        self.items, self.saved = (ItemRecords(space, saver) for space in ("store", "assistants"))
        self.usage = UsageRecords(saver)
        self.relay = RelayRecords(saver)


class Database:
    """The tables of a server beside its checkpoints, called beside the event loop.

    Writes come one after the other, in the order in which they were asked for. Reads wait for none of them: where
    another process holds the file, what only reads is answered meanwhile.

    Args:
        saver: Where the threads are; its database gets the tables, where they are not there.
    """

    def __init__(self, saver: Any) -> None:
        self.saver = saver
        self.records = open_records(saver)
        # Serialises what runs send, and encrypts it where the database is.
        self.serde = saver.serde
        self.turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """By the ids of callers: whoever reads much does so one request at a time."""
        self._writing = ThreadPoolExecutor(1, thread_name_prefix="redraft-server-write")
        self._reading = ThreadPoolExecutor(READERS, thread_name_prefix="redraft-server-read")

    async def write(self, call: Callable[..., T], *args: Any, **named: Any) -> T:
        """Make a call that may write, and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._writing, partial(call, *args, **named))

    async def read(self, call: Callable[..., T], *args: Any, **named: Any) -> T:
        """Make a call that only reads, and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._reading, partial(call, *args, **named))

    async def look(self, owner: str, call: Callable[..., T], *args: Any) -> T:
        """Make a call that reads much of a caller's, in their turn and a thread of their share; return its result."""
        async with self.turns[owner]:
            return await off_loop(call, owner, *args)

    def close(self) -> None:
        """Finish what was begun."""
        self._writing.shutdown()
        self._reading.shutdown()


def now(after_s: float = 0) -> str:
    """Return the time, or that in so many seconds, as the tables hold it: order of text is order of time."""
    return (datetime.now(UTC) + timedelta(seconds=after_s)).isoformat(timespec="microseconds")


def open_records(saver: Any) -> Records:
    """Return the tables of a saver's database, made if they are not there."""
    records = Records(saver)
    if not records.has_channel:
        for statement in SET_UP:
            records.query(statement.format(bytewise="", blob="BLOB"), {})
        return records
    with saver.pool.connection() as conn, conn.transaction():
        # Even with IF NOT EXISTS, servers that start at once would get in each other's way.
        conn.execute("SELECT pg_advisory_xact_lock(%s)", (int.from_bytes(b"served", "big"),))
        for statement in SET_UP:
            conn.execute(statement.format(bytewise='COLLATE "C"', blob="BYTEA"))
    return records
