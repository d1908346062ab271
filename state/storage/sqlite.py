"""Checkpoints and the runs index in one SQLite file."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import WRITES_IDX_MAP, get_checkpoint_metadata
from langgraph.checkpoint.sqlite import SqliteSaver

from .async_by_thread import AsyncByThread
from .encryption import SET_UP_ENCRYPTION, Vault, check_key
from .group_writer import GroupCommit, Insert, Rows, Statement
from .index import row_from_checkpoint
from .index_table import COLUMNS, DELETE_RUNS, SET_UP_RUNS, UPSERT_RUN_ON_CONFLICT, RunsTable, hidden, stored_values
from .journal import COLUMNS as REPLY_COLUMNS
from .journal import DELETE_JOURNAL, SET_UP_JOURNAL, JournalTable
from .serializing import PlainSerializer
from .sqlite_readers import Readers, StockReader
from .trust import hidden_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
    )

    from .journal import ReplyRow

__all__ = ["IndexedSqliteSaver", "open_sqlite"]

BUSY_TIMEOUT_S = 30.0
READERS = 4
SHORT = 8
"""Characters of a version, the first of them a space."""

INSERT_CHECKPOINT = Insert(
    "checkpoints",
    "INSERT OR REPLACE INTO checkpoints"
    " (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata) VALUES",
    7,
)
_WRITES = "INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value) VALUES"
INSERT_WRITES = Insert("writes", f"INSERT OR IGNORE {_WRITES}", 9)
REPLACE_WRITES = Insert("writes", f"INSERT OR REPLACE {_WRITES}", 9)
INSERT_RUN = Insert(
    "runs", f"INSERT INTO runs ({', '.join(COLUMNS)}) VALUES", len(COLUMNS), f"ON CONFLICT {UPSERT_RUN_ON_CONFLICT}"
)
INSERT_REPLIES = Insert(
    "redraft_journal",
    f"INSERT INTO redraft_journal ({', '.join(REPLY_COLUMNS)}) VALUES",
    len(REPLY_COLUMNS),
    "ON CONFLICT DO NOTHING",
)
_to_json = json.JSONEncoder(ensure_ascii=False).encode


def open_sqlite(path: Path, *, vault: Vault | None = None, allow: Iterable[type] = ()) -> IndexedSqliteSaver:
    """A saver over this file, which is made if it is not there.

    A step that is saved survives the death of the process at any moment; the last few may be lost, whole, when the
    machine itself loses power (`synchronous=NORMAL` with a write-ahead log).

    Args:
        path: The file.
        vault: Encrypts what is kept.
        allow: Types of one's own that may be built from what the file holds.

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
    serde = PlainSerializer(vault, allow=allow)
    conn: sqlite3.Connection | None = None
    try:
        conn = _connect(path.absolute())
        _set_up(conn)
        check_key(partial(_on, conn), serde.vault, str(path))
        return IndexedSqliteSaver(conn, path.absolute(), serde)
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


class IndexedSqliteSaver(AsyncByThread):
    """A saver for `invoke` and `ainvoke`, many threads and processes, with its threads in `runs`.

    The tables are those of LangGraph's SQLite savers, so they read what this one wrote, and the other way round. What
    many runs save at once is committed together; a call returns when its own is committed. Reads wait for no writer.
    """

    serde: PlainSerializer

    def __init__(self, conn: sqlite3.Connection, path: Path, serde: PlainSerializer) -> None:
        super().__init__(serde=serde)
        self.vault = serde.vault
        self.writer = GroupCommit(conn)
        connect = partial(_connect, path, read_only=True)
        self.readers = Readers(connect, READERS)
        self.lookups = Readers(connect, 1)
        """For what an event loop reads by its key: sooner done than handed to a thread, and never behind long reads."""
        self.db_executor = ThreadPoolExecutor(READERS, thread_name_prefix="redraft-sqlite")
        self.runs = RunsTable(self._query, self.vault, db_executor=self.db_executor)
        self.journal = JournalTable(self._query, self._aquery, self._insert_reply, self._ainsert_reply, self.vault)

    def close(self) -> None:
        """Waits for what is under way, then gives the file back."""
        self.db_executor.shutdown()
        self.readers.close()
        self.lookups.close()
        self.writer.close()

    def get_next_version(self, current: str | int | None, channel: None) -> str:
        """The version after this one, as text that is in order: short, since a checkpoint holds many.

        LangGraph's SQLite savers count in 32 digits and a random part, which tells branches apart where a value is
        stored by its version; here each checkpoint holds its values. Where they have counted, their width is kept, and
        theirs come after ours: a space is less than a digit.
        """
        whole = str(current or "").partition(".")[0]
        return _version(int(whole or 0) + 1, len(whole) > SHORT)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        with self.readers.borrowed() as conn:
            return StockReader(conn, self.serde).get_tuple(config)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        with self.lookups.borrowed() as conn:
            return StockReader(conn, self.serde).get_tuple(config)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  (the base class names it)
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """All that match, read before this returns, so that nothing is held while a caller looks at them."""
        with self.readers.borrowed() as conn:
            found = StockReader(conn, self.serde).list(config, filter=filter, before=before, limit=limit)
            return iter(tuple(found))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        with self.readers.borrowed() as conn:
            return StockReader(conn, self.serde).get_delta_channel_history(config=config, channels=channels)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Saves the checkpoint and its thread's row in one transaction: both or neither."""
        self.writer.write(*self._of_checkpoint(config, checkpoint, metadata))
        return _saved(config, checkpoint)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        await self.writer.awrite(*self._of_checkpoint(config, checkpoint, metadata))
        return _saved(config, checkpoint)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self.writer.write(self._of_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await self.writer.awrite(self._of_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        self.writer.write(*_of_deletion(thread_id))

    async def adelete_thread(self, thread_id: str) -> None:
        await self.writer.awrite(*_of_deletion(thread_id))

    def _of_checkpoint(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata
    ) -> Sequence[Rows]:
        """All of it is serialised here, so that a value which can't be saved stops its own caller only."""
        told = get_checkpoint_metadata(config, metadata)
        where = config["configurable"]
        values = (
            str(where["thread_id"]),
            where["checkpoint_ns"],
            checkpoint["id"],
            where.get("checkpoint_id"),
            *self.serde.dumps_typed(checkpoint),
            _to_json(hidden_metadata(told, self.vault)).encode("utf-8", "ignore"),
        )
        saved = Rows(INSERT_CHECKPOINT, [values])
        row = row_from_checkpoint(config, checkpoint, told)
        return [saved] if row is None else [saved, Rows(INSERT_RUN, [stored_values(hidden(row, self.vault))])]

    def _of_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> Rows:
        where = config["configurable"]
        key = (str(where["thread_id"]), str(where["checkpoint_ns"]), str(where["checkpoint_id"]), task_id, task_path)
        dumps = self.serde.dumps_typed
        rows = [
            (*key, WRITES_IDX_MAP.get(channel, index), channel, *dumps(value))
            for index, (channel, value) in enumerate(writes)
        ]
        return Rows(REPLACE_WRITES if all(one[0] in WRITES_IDX_MAP for one in writes) else INSERT_WRITES, rows)

    def _query(self, statement: str, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        if not statement.startswith("SELECT"):
            return self.writer.write(Statement(_named(statement), values))
        with self.readers.borrowed() as conn:
            return _on(conn, statement, values)

    async def _aquery(self, statement: str, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        if statement.startswith("SELECT"):
            with self.lookups.borrowed() as conn:
                return _on(conn, statement, values)
        return await self.writer.awrite(Statement(_named(statement), values))

    def _insert_reply(self, row: ReplyRow) -> None:
        self.writer.write(Rows(INSERT_REPLIES, [row]))

    async def _ainsert_reply(self, row: ReplyRow) -> None:
        await self.writer.awrite(Rows(INSERT_REPLIES, [row]))


def _saved(config: RunnableConfig, checkpoint: Checkpoint) -> RunnableConfig:
    where = config["configurable"]
    place = {"thread_id": where["thread_id"], "checkpoint_ns": where["checkpoint_ns"]}
    return {"configurable": {**place, "checkpoint_id": checkpoint["id"]}}


def _of_deletion(thread_id: str) -> Sequence[Statement]:
    values = {"thread_id": str(thread_id)}
    tables = [f"DELETE FROM {table} WHERE thread_id = :thread_id" for table in ("checkpoints", "writes")]  # noqa: S608
    return [Statement(_named(statement), values) for statement in (*tables, DELETE_RUNS, DELETE_JOURNAL)]


def _on(conn: sqlite3.Connection, statement: str, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
    return conn.execute(_named(statement), values).fetchall()


@lru_cache(maxsize=4096)  # every run counts from 1, and holds some of these for as long as it is under way
def _version(number: int, is_long: bool) -> str:
    return f"{number:032}" if is_long or number >= 10 ** (SHORT - 1) else f"{number:{SHORT}}"


@cache
def _named(statement: str) -> str:
    """The statement with SQLite's way to write its parameters."""
    return re.sub(r"%\((\w+)\)s", r":\1", statement)


def _connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    # isolation_level=None: transactions begin and end where this code says so, nowhere else
    conn = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    if read_only:
        conn.execute("PRAGMA query_only = ON")
    return conn


def _set_up(conn: sqlite3.Connection) -> None:
    """Makes the tables, waiting for another process that makes them: the switch to WAL heeds no busy timeout."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            conn.execute("PRAGMA synchronous = NORMAL")
            SqliteSaver(conn).setup()
            for statement in (*SET_UP_RUNS, SET_UP_JOURNAL, SET_UP_ENCRYPTION):
                conn.execute(statement.format(bytewise=""))
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
