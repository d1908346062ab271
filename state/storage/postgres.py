"""Checkpoints and the runs index in one PostgreSQL database."""

from __future__ import annotations

import builtins
import json
import math
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import psycopg
from langgraph.checkpoint.base import WRITES_IDX_MAP, get_serializable_checkpoint_metadata
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import DictRow, dict_row, tuple_row
from psycopg_pool import ConnectionPool

from ..checked_channels import naming, placed
from .async_by_thread import AsyncByThread
from .database_urls import without_secrets
from .encryption import SET_UP_ENCRYPTION, EncryptionKeyError, Vault, check_key
from .index import row_from_checkpoint
from .index_table import DELETE_RUNS, SET_UP_RUNS, RunsTable, hidden, stored_values
from .journal import DELETE_JOURNAL, SET_UP_JOURNAL, JournalTable
from .postgres_writer import GroupWriter
from .serializing import PlainSerializer
from .trust import checked, hidden_metadata, split_filter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
    )

    from .journal import ReplyRow

    Rows = Mapping[str, Sequence[Sequence[Any]]]

__all__ = ["IndexedPostgresSaver", "open_postgres"]

CONNECTIONS = 10
CONNECT_TIMEOUT_S = 10
SET_UP_TIMEOUT_S = 60.0
SET_UP_LOCK = int.from_bytes(b"redraft", "big")
"""Key of the advisory lock that the processes which open a database at once take in turn."""

OPTIONS: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
"""How LangGraph's saver wants its connections."""

SELECT_NEWEST = (
    "SELECT checkpoint_id FROM checkpoints WHERE thread_id = %(thread_id)s AND checkpoint_ns = %(namespace)s "
    "ORDER BY checkpoint_id DESC LIMIT 1"
)

SURROGATE = re.compile("[\ud800-\udfff]")

Connection = psycopg.Connection[DictRow]


def open_postgres(url: str, *, vault: Vault | None = None, allow: Iterable[type] = ()) -> IndexedPostgresSaver:
    """A saver over this database, whose tables are made if they are not there.

    Args:
        url: As `kind_and_place` let it through.
        vault: Encrypts what is kept.
        allow: Types of one's own that may be built from what the database holds.

    Raises:
        ConnectionError: If the server can't be reached, refuses the login or lacks the database. No message of ours
            holds the password.
        ValueError: If the URL can't be read, or the database holds another program's `runs` table, or was begun with
            another key or none.
        TimeoutError: If another process keeps setting the tables up.
    """
    shown = without_secrets(url)
    serde = PlainSerializer(vault, allow=allow)
    try:
        given = conninfo_to_dict(url)
        conninfo = make_conninfo(url, connect_timeout=given.get("connect_timeout") or CONNECT_TIMEOUT_S)
    except psycopg.Error:  # its message quotes the URL
        raise ValueError(f"{shown!r} is not a PostgreSQL URL: are special characters percent-encoded?") from None
    try:
        with psycopg.connect(conninfo, **OPTIONS) as conn:
            _set_up(conn, serde.vault, shown)
    except psycopg.errors.UndefinedColumn as error:
        reason = _one_line(error)
        raise ValueError(f"the database {shown!r} has a table 'runs' that is not redraft's: {reason}") from None
    except psycopg.Error as error:
        raise ConnectionError(f"can't open {shown!r}: {_one_line(error)}") from None
    pool: ConnectionPool[Connection] = ConnectionPool(
        conninfo,
        connection_class=Connection,
        kwargs=OPTIONS,
        min_size=1,
        max_size=CONNECTIONS,
        check=ConnectionPool.check_connection,  # one that the server closed is replaced before it is used
        open=True,
    )
    return IndexedPostgresSaver(pool, serde)


class IndexedPostgresSaver(AsyncByThread, PostgresSaver):
    """LangGraph's PostgreSQL saver for `invoke` and `ainvoke`, as wide as its pool, with its threads in `runs`.

    The tables are LangGraph's own, so its savers read what this one wrote, and the other way round.
    """

    serde: PlainSerializer

    def __init__(self, pool: ConnectionPool[Connection], serde: PlainSerializer) -> None:
        super().__init__(pool, serde=serde)
        self.vault = serde.vault
        self.pool = pool
        self.lock = nullcontext()  # type: ignore[assignment]  # each call takes a connection of its own from the pool
        self.db_executor = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="redraft-postgres")
        self.writer = GroupWriter(pool)
        self.runs = RunsTable(self._query, self.vault, db_executor=self.db_executor)
        self.journal = JournalTable(self._query, self._aquery, self._insert_reply, self._ainsert_reply, self.vault)

    def close(self) -> None:
        """Waits for what is under way, then closes every connection."""
        self.writer.close()
        self.db_executor.shutdown()
        self.pool.close()

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        with naming(partial(self._place, config)):
            return super().get_tuple(config)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  (the base class names it)
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """All that match, read before this returns, so that no connection is held while a caller looks at them."""
        clear, matches = split_filter(filter, self.vault)
        found = super().list(config, filter=clear, before=before, limit=None if matches else limit)
        return iter(tuple(found if matches is None else islice(builtins.filter(matches, found), limit)))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        place = partial(self._place, config)
        with naming(place):
            return placed(super().get_delta_channel_history(config=config, channels=channels), place)

    def _place(self, config: RunnableConfig) -> Mapping[str, Any]:
        """Return the names of the checkpoint that is meant: the newest where none is named."""
        given = config["configurable"]
        if given.get("checkpoint_id"):
            return given
        where = {"thread_id": str(given["thread_id"]), "namespace": given.get("checkpoint_ns", "")}
        found = self._query(SELECT_NEWEST, where)
        return {**given, "checkpoint_id": found[0][0] if found else None}

    def _load_checkpoint_tuple(self, value: DictRow) -> CheckpointTuple:
        """As LangGraph's; raises BadCheckpointError for what is no checkpoint."""
        with naming(lambda: value):
            if not isinstance(value["checkpoint"], dict):
                raise TypeError(f"the checkpoint is {type(value['checkpoint']).__name__}, not an object")
            self._refuse_clear((value["checkpoint"].get("channel_values") or {}).values())
            return checked(super()._load_checkpoint_tuple(value), self.vault)

    def _build_delta_channels_writes_history(self, **found: Any) -> dict[str, DeltaChannelHistory]:
        self._refuse_clear(found["seed_inline_by_ch"].values())
        return super()._build_delta_channels_writes_history(**found)

    def _refuse_clear(self, inline: Iterable[Any]) -> None:
        """Return if what stands in a checkpoint's own JSON is what stands there when there is a key: no text."""
        if self.vault.locked and any(isinstance(value, str | list | dict) for value in inline):
            raise EncryptionKeyError("it holds text that is not encrypted, as all that is kept with this key must be")

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Saves the checkpoint and its thread's row in one transaction: both or neither."""
        saved, thread_id, key, rows = self._checkpoint_rows(config, checkpoint, metadata, new_versions)
        self.writer.write(thread_id, key, rows)
        return saved

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        saved, thread_id, key, rows = self._checkpoint_rows(config, checkpoint, metadata, new_versions)
        await self.writer.awrite(thread_id, key, rows)
        return saved

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self.writer.write(*self._written_rows(config, writes, task_id, task_path))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await self.writer.awrite(*self._written_rows(config, writes, task_id, task_path))

    def _checkpoint_rows(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, versions: ChannelVersions
    ) -> tuple[RunnableConfig, str, object, Rows]:
        """Return the config of the checkpoint, whose it is, what it is, and the rows that LangGraph's saver writes."""
        place = config["configurable"]
        thread_id, namespace = str(place["thread_id"]), place["checkpoint_ns"]
        told = get_serializable_checkpoint_metadata(config, metadata)
        row = row_from_checkpoint(config, checkpoint, told)
        values = checkpoint["channel_values"]
        aside = {channel: value for channel, value in values.items() if self._goes_aside(value)}
        kept = {channel: value for channel, value in values.items() if channel not in aside}
        kept |= {channel: True for channel, value in aside.items() if isinstance(value, _DeltaSnapshot)}
        data = json.dumps({**checkpoint, "channel_values": kept})
        about = json.dumps(hidden_metadata(told, self.vault))
        changed = {channel: version for channel, version in versions.items() if channel in aside}
        rows: Rows = {
            "blobs": self._dump_blobs(thread_id, namespace, aside, changed),
            "checkpoints": [(thread_id, namespace, checkpoint["id"], place.get("checkpoint_id"), data, about)],
            "runs": [stored_values(hidden(row, self.vault))] if row is not None else [],
        }
        saved = {"thread_id": place["thread_id"], "checkpoint_ns": namespace, "checkpoint_id": checkpoint["id"]}
        return {"configurable": saved}, thread_id, "checkpoint", rows

    def _goes_aside(self, value: object) -> bool:
        return not _fits_jsonb(value) or (self.vault.locked and isinstance(value, str))

    def _written_rows(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> tuple[str, object, Rows]:
        """Return whose they are, which, and the rows. What a task wrote stays; its errors and pauses are replaced."""
        place = config["configurable"]
        where = (str(place["thread_id"]), place["checkpoint_ns"], place["checkpoint_id"])
        kind = "writes" if all(channel in WRITES_IDX_MAP for channel, _ in writes) else "new_writes"
        rows = self._dump_writes(*where, task_id, task_path, writes)
        return where[0], (*where[1:], task_id), {kind: rows}

    def delete_thread(self, thread_id: str) -> None:
        with self.pool.connection() as conn, conn.transaction():
            self._on(conn).delete_thread(thread_id)
            conn.execute(DELETE_RUNS, {"thread_id": str(thread_id)})
            conn.execute(DELETE_JOURNAL, {"thread_id": str(thread_id)})

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As LangGraph's; `"delete"` takes the threads' rows too."""
        if strategy != "delete" or isinstance(thread_ids, str):
            super().prune(thread_ids, strategy=strategy)
            return
        with self.pool.connection() as conn, conn.transaction():
            self._on(conn).prune(thread_ids, strategy=strategy)
            for thread_id in thread_ids:
                conn.execute(DELETE_RUNS, {"thread_id": str(thread_id)})
                conn.execute(DELETE_JOURNAL, {"thread_id": str(thread_id)})

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await self._by_thread(self.prune, thread_ids, strategy=strategy)

    def _on(self, conn: Connection) -> PostgresSaver:
        """LangGraph's saver on this one connection, so that what it writes joins a transaction of ours."""
        return PostgresSaver(conn, serde=self.serde)

    def _query(self, statement: str, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        with self.pool.connection() as conn, conn.cursor(row_factory=tuple_row) as cur:
            return cur.execute(statement.encode(), values).fetchall()

    async def _aquery(self, statement: str, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        rows: Sequence[Sequence[Any]] = await self._by_thread(self._query, statement, values)
        return rows

    def _insert_reply(self, row: ReplyRow) -> None:
        self.writer.write(*_put_of(row))

    async def _ainsert_reply(self, row: ReplyRow) -> None:
        await self.writer.awrite(*_put_of(row))


def _put_of(row: ReplyRow) -> tuple[str, object, Rows]:
    """Return whose reply it is, which, and the rows."""
    thread_id, call, *_ = row
    return thread_id, ("reply", call), {"replies": [row]}


def _set_up(conn: Connection, vault: Vault, shown: str) -> None:
    """Makes the tables. LangGraph's own set-up fails when two processes do it at once."""
    deadline = time.monotonic() + SET_UP_TIMEOUT_S
    # Asked again and again, not waited for: the wait would be a transaction, for whose end the other process's
    # CREATE INDEX CONCURRENTLY waits in its turn.
    while not _first(conn, "SELECT pg_try_advisory_lock(%s) AS taken", SET_UP_LOCK):
        if time.monotonic() > deadline:
            raise TimeoutError(f"another process has been setting up the database for {SET_UP_TIMEOUT_S:.0f} s")
        time.sleep(0.02)
    PostgresSaver(conn).setup()
    for statement in (*SET_UP_RUNS, SET_UP_JOURNAL, SET_UP_ENCRYPTION):
        conn.execute(statement.format(bytewise='COLLATE "C"').encode())
    check_key(partial(_on, conn), vault, shown)
    conn.execute("SELECT pg_advisory_unlock(%s)", (SET_UP_LOCK,))


def _on(conn: Connection, statement: str, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
    with conn.cursor(row_factory=tuple_row) as cur:
        cur.execute(statement.encode(), values)
        return cur.fetchall() if cur.description else []


def _fits_jsonb(value: object) -> bool:
    """Whether a value stands in the checkpoint's own JSON; every other has a row of its own, once a version."""
    if isinstance(value, str):
        return "\0" not in value and not SURROGATE.search(value)
    return value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))


def _first(conn: Connection, statement: str, *values: Any) -> Any:
    row = conn.execute(statement.encode(), values).fetchone()
    return next(iter(row.values())) if row else None


def _one_line(error: psycopg.Error) -> str:
    return error.diag.message_primary or " ".join(str(error).split()) or type(error).__name__
