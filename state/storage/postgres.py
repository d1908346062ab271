"""Checkpoints, runs index and journal in one PostgreSQL database. Internal."""

from __future__ import annotations

import json
import math
import re
import select
import time
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.postgres import PostgresSaver
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow, dict_row, tuple_row
from psycopg_pool import ConnectionPool

from ..checked_values import naming
from ..dual import in_db_executor
from ..langgraph_internals import DeltaSnapshot
from .database_saver import DatabaseSaver
from .encryption import SET_UP_ENCRYPTION, EncryptionKeyError, Vault, check_key
from .group_writer import Committer, GroupWriter, NoCommitter, Rows, Statement
from .index import DELETE_RUNS, SET_UP_RUNS, with_paths
from .journal import DELETE_JOURNAL, SET_UP_JOURNAL
from .leases import FORGET_LEASE, NOTHING_KEPT, LeaseDialect
from .postgres_committer import INSERTS, Connection, PostgresCommitter
from .postgres_reading import LENGTHS, SELECT_TABLES, connection_to, query_on
from .sqlite import IndexedMemorySaver
from .thread_rows import postgres_rows
from .trust import OWN_ANCESTOR, PlainSerializer, checked, own_ancestor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig

    from .seal import Seal

__all__ = ["IndexedPostgresSaver", "open_postgres"]

CONNECTIONS = 10
WRITERS = 2
"""One prepares its statements while the database works on the other's."""
SET_UP_TIMEOUT_S = 60.0
SET_UP_LOCK = int.from_bytes(b"redraft", "big")
"""Key of the advisory lock that the processes which open a database at once take in turn."""
LEASES_LOCK = int.from_bytes(b"leases", "big")

OPTIONS: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
"""How LangGraph's saver wants its connections."""

INLINE_CHARACTERS = 200
"""A longer text, such as the task, is kept once a version, and not in each checkpoint."""
SURROGATE = re.compile("[\ud800-\udfff]")


def open_postgres(
    url: str,
    *,
    shown: str,
    vault: Vault | None = None,
    seal: Seal | None = None,
    allow: Iterable[type] = (),
    read_only: bool = False,
) -> IndexedPostgresSaver:
    """Return a saver over a database, whose tables are made if they are not there.

    Args:
        url: As `kind_and_place` let it through.
        shown: The URL as messages show it.
        vault: Encrypts what is kept; default: nothing is encrypted.
        seal: Seals checkpoints; default: none is sealed.
        allow: Types of one's own that may be built from what the database holds.
        read_only: Write nothing, and make no table.

    Raises:
        ConnectionError: If the server can't be reached, refuses the login or lacks the database. No message of ours
            holds the password.
        ValueError: If the URL can't be read, or the database holds another program's `runs` table, or was begun with
            another key or none.
        TimeoutError: If another process keeps setting the tables up.
    """
    serde = PlainSerializer(vault, seal=seal, allow=allow)
    try:
        parts, conninfo = conninfo_to_dict(url), connection_to(url)
    except psycopg.Error:  # its message quotes the URL
        raise ValueError(f"{shown!r} is not a PostgreSQL URL: are special characters percent-encoded?") from None
    try:
        with psycopg.connect(conninfo, **OPTIONS) as conn:
            if read_only:
                tables = {name for (name,) in query_on(conn, SELECT_TABLES, {})}
                if "checkpoints" not in tables:
                    raise ValueError(f"the database {shown!r} holds no checkpoints")
                check_key(partial(query_on, conn), serde.vault, shown, begun="redraft_encryption" in tables)
            else:
                _set_up(conn, serde.vault, shown)
    except psycopg.errors.UndefinedColumn as error:
        reason = _one_line(error)
        raise ValueError(f"the database {shown!r} has a table 'runs' that is not redraft's: {reason}") from None
    except psycopg.Error as error:
        raise ConnectionError(f"can't open {shown!r}: {_one_line(error)}") from None
    options = {"options": f"{parts.get('options') or ''} -c default_transaction_read_only=on"} if read_only else {}
    pool = LivePool(
        conninfo,
        connection_class=Connection,
        kwargs={**OPTIONS, **options},
        min_size=1,
        max_size=CONNECTIONS,
        open=True,
    )
    if not read_only:
        return IndexedPostgresSaver(pool, serde, [PostgresCommitter(pool) for _ in range(WRITERS)])
    saver = IndexedPostgresSaver(pool, serde, [NoCommitter()])
    saver.read_only(tables, IndexedMemorySaver())
    return saver


class LivePool(ConnectionPool[Connection]):
    """A pool that replaces a connection which the server has closed before it is used.

    psycopg's own check asks the server each time, and sleeps longer after each that is closed.
    """

    def getconn(self, timeout: float | None = None) -> Connection:
        while True:
            conn = super().getconn(timeout)
            # Where nothing came on it that nobody awaits, the server has not said that it ends.
            if POLLS and not conn.closed:
                heard = select.poll()
                heard.register(conn.fileno(), select.POLLIN)
                if not heard.poll(0):
                    return conn
            try:
                self.check_connection(conn)
            except psycopg.Error:
                conn.close()
                self.putconn(conn)  # which opens another in its place
            else:
                return conn


POLLS = hasattr(select, "poll")
FORGET_THREAD = (DELETE_RUNS, DELETE_JOURNAL, FORGET_LEASE)

NOW = "EXTRACT(EPOCH FROM clock_timestamp())::float8"
# What the statement sees is older than a lease for which it waited: of such a thread, `xmax` is set, nothing is told.
LEASES = LeaseDialect(
    # One sequence for all threads: the token of one that was deleted is never given again.
    set_up="""CREATE TABLE IF NOT EXISTS redraft_leases (
        thread_id TEXT COLLATE "C" PRIMARY KEY,
        fence BIGSERIAL UNIQUE,
        token TEXT NOT NULL,
        process TEXT NOT NULL,
        expires_at DOUBLE PRECISION NOT NULL,
        asked INTEGER NOT NULL
    )""",
    take=f"""INSERT INTO redraft_leases AS held (thread_id, token, process, expires_at, asked)
        VALUES (%(thread_id)s, %(token)s, %(process)s, ({NOW} + %(seconds)s) * %(held)s, 0)
        ON CONFLICT (thread_id) DO UPDATE SET (fence, token, process, expires_at, asked)
            = (excluded.fence, excluded.token, excluded.process, excluded.expires_at, 0)
        WHERE held.fence = %(follows)s OR NOT (held.expires_at > {NOW} AND held.expires_at <= {NOW} + %(longest)s)
        RETURNING fence, held.xmax = 0 AND {NOTHING_KEPT}""",  # noqa: S608  (text of our own)
    now=NOW,
    among="fence = ANY(%(fences)s::int8[])",
    as_array=list,
)


class IndexedPostgresSaver(DatabaseSaver, PostgresSaver):
    """LangGraph's PostgreSQL saver for `invoke` and `ainvoke`, as wide as its pool, with its threads in `runs`.

    The tables are LangGraph's own, so its savers read what this one wrote, and the other way round.
    """

    inserts = {name: name for name in INSERTS}  # noqa: RUF012
    writes_table = ("checkpoint_writes", "blob")
    lengths = LENGTHS
    rows_of = staticmethod(postgres_rows)
    lease_dialect = LEASES
    lease_table_missing = psycopg.errors.UndefinedTable
    data_error = psycopg.DataError

    def __init__(
        self, pool: ConnectionPool[Connection], serde: PlainSerializer, committers: Sequence[Committer]
    ) -> None:
        super().__init__(pool, serde=serde, writer=GroupWriter(*committers), width=CONNECTIONS)
        self.pool = pool
        self.lock = nullcontext()  # type: ignore[assignment]  # each call takes a connection of its own from the pool

    def close(self) -> None:
        """Wait for what is under way, then close every connection."""
        super().close()
        self.pool.close()

    def _stored_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return PostgresSaver.get_tuple(self, config)

    def _read_list(self, config: RunnableConfig | None, **options: Any) -> Iterator[CheckpointTuple]:
        return PostgresSaver.list(self, config, **options)

    def _stored_history(self, config: RunnableConfig, channels: Sequence[str]) -> Mapping[str, DeltaChannelHistory]:
        return PostgresSaver.get_delta_channel_history(self, config=config, channels=channels)

    @staticmethod
    def _try_advance_walks(*walk: Any, **more: Any) -> None:
        _, _, parents, *_ = walk
        if own_ancestor(parents) is not None:
            raise ValueError(OWN_ANCESTOR)
        PostgresSaver._try_advance_walks(*walk, **more)

    def _load_checkpoint_tuple(self, value: DictRow) -> CheckpointTuple:
        """As LangGraph's; raises BadCheckpointError for what is no checkpoint."""
        with naming(lambda: value):
            if not isinstance(value["checkpoint"], dict):
                raise TypeError(f"the checkpoint is {type(value['checkpoint']).__name__}, not an object")
            self._refuse_clear((value["checkpoint"].get("channel_values") or {}).values())
            return checked(super()._load_checkpoint_tuple(value), self.vault, self.seal)

    def _build_delta_channels_writes_history(self, **found: Any) -> dict[str, DeltaChannelHistory]:
        self._refuse_clear(found["seed_inline_by_ch"].values())
        return super()._build_delta_channels_writes_history(**found)

    def _refuse_clear(self, inline: Iterable[Any]) -> None:
        """Raise an error where a checkpoint's own JSON holds text, which it never does when there is a key."""
        if self.vault is not None and any(isinstance(value, str | list | dict) for value in inline):
            raise EncryptionKeyError("it holds text that is not encrypted, as all that is kept with this key must be")

    def _checkpoint_steps(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: Mapping[str, Any], versions: ChannelVersions
    ) -> list[Rows]:
        place = config["configurable"]
        thread_id, namespace = str(place["thread_id"]), place["checkpoint_ns"]
        values, of = checkpoint["channel_values"], checkpoint["channel_versions"]
        # A version of another saver's may be that of several values.
        long = {
            channel: version
            for channel, value in values.items()
            if isinstance(value, str) and len(value) > INLINE_CHARACTERS and "." in str(version := of.get(channel, ""))
        }
        hidden = str if self.vault is not None else ()  # every text, where there is a key
        aside = {
            channel: value
            for channel, value in values.items()
            if channel in long or not _fits_jsonb(value) or isinstance(value, hidden)
        }
        inline = {channel: value for channel, value in values.items() if channel not in aside}
        # As LangGraph's saver: a snapshot lies among the blobs, and this says so.
        inline |= {channel: True for channel, value in aside.items() if isinstance(value, DeltaSnapshot)}
        data = json.dumps({**checkpoint, "channel_values": inline})
        own_metadata = {name: value for name, value in metadata.items() if name != "writes"}  # as LangGraph's saver
        about = json.dumps(own_metadata if self.vault is None else self.vault.hide_metadata(own_metadata))
        # A long text always: an earlier release kept it in the checkpoints. A row that is there stays as it is.
        changed = {channel: version for channel, version in versions.items() if channel in aside} | long
        row = (thread_id, namespace, checkpoint["id"], place.get("checkpoint_id"), data, about)
        return [
            Rows("blobs", list(self._dump_blobs(thread_id, namespace, aside, changed))),
            Rows("checkpoints", [row]),
        ]

    def delete_thread(self, thread_id: str) -> None:
        names = with_paths(self.runs, str(thread_id))
        self.leases.leases.set_up()
        with self.pool.connection() as conn, conn.transaction():
            # In one transaction, though connections are in autocommit mode: of the thread nothing stays.
            for name in names:
                self._on(conn).delete_thread(name)
                for statement in FORGET_THREAD:
                    conn.execute(statement, {"thread_id": name})

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As LangGraph's; `"delete"` takes the threads' rows too."""
        if strategy != "delete" or isinstance(thread_ids, str):
            PostgresSaver.prune(self, thread_ids, strategy=strategy)
            return
        self.leases.leases.set_up()
        with self.pool.connection() as conn, conn.transaction():
            self._on(conn).prune(thread_ids, strategy=strategy)
            for thread_id in thread_ids:
                for statement in FORGET_THREAD:
                    conn.execute(statement, {"thread_id": str(thread_id)})

    aprune = in_db_executor(BaseCheckpointSaver.prune)

    def _on(self, conn: Connection) -> PostgresSaver:
        """LangGraph's saver on this one connection, so that what it writes joins a transaction of ours."""
        return PostgresSaver(conn, serde=self.serde)

    def _set_up_leases(self) -> None:
        if self.pool.closed:
            raise RuntimeError("the database was closed")
        with self.pool.connection() as conn, conn.transaction():
            # Even with IF NOT EXISTS, processes that make a table at once get in each other's way.
            conn.execute("SELECT pg_advisory_xact_lock(%s)", (LEASES_LOCK,))
            try:
                conn.execute(LEASES.set_up.encode())
            except psycopg.errors.ReadOnlySqlTransaction:
                raise PermissionError("the database is open for reading only") from None

    async def _aquery_lease(self, statement: str, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        # By its writer, behind what the thread's last run has put, and without a thread's detour.
        thread_id = str(values["thread_id"])
        return await self.writer.awrite(Statement(statement, values), thread_id=thread_id, urgent=True)

    def _query(self, statement: str, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        with self.pool.connection() as conn, conn.cursor(row_factory=tuple_row) as cur:
            return cur.execute(statement.encode(), values).fetchall()


def _set_up(conn: Connection, vault: Vault | None, shown: str) -> None:
    """Make the tables. LangGraph's own set-up fails when two processes do it at once."""
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
    check_key(partial(query_on, conn), vault, shown)
    conn.execute("SELECT pg_advisory_unlock(%s)", (SET_UP_LOCK,))


def _fits_jsonb(value: object) -> bool:
    """Return True if a value stands in the checkpoint's own JSON; every other has a row of its own, once a version."""
    if isinstance(value, str):
        return "\0" not in value and not SURROGATE.search(value)
    return value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))


def _first(conn: Connection, statement: str, *values: Any) -> Any:
    row = conn.execute(statement.encode(), values).fetchone()
    return next(iter(row.values())) if row else None


def _one_line(error: psycopg.Error) -> str:
    return error.diag.message_primary or " ".join(str(error).split()) or type(error).__name__
