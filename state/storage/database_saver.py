"""Saver for `invoke` and `ainvoke` over a database: reads on its own threads, writes in groups. Internal."""

from __future__ import annotations

from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, get_checkpoint_metadata
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT

from ..dual import Do, adrive, do, drive
from .checkpoint_order import check_order, read_checkpoint
from .db_executor import in_db_executor
from .group_writer import UNHELD, GroupWriter, Rows
from .housekeeping import Housekeeping, StoredThread, StoredWrite, held_versions, own_snapshots
from .index import RunIndex, RunsTable, row_from_checkpoint, stored_sizes, stored_values
from .journal import RECORDS, Journal, JournalInMemory, JournalTable
from .lease_keeper import RUNS, LeaseKeeper
from .leases import LeaseDialect, LeaseTable, LostLeaseError
from .listed import histories
from .memory import RunsInMemory
from .thread_rows import off_rows
from .trust import naming_keys

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Generator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
    )

    from .group_writer import Committer
    from .index import Query
    from .lease_keeper import Lease
    from .thread_rows import ThreadRows
    from .trust import PlainSerializer

    T = TypeVar("T")
    Logic: TypeAlias = Generator[Do, Any, T]

__all__ = ["DatabaseSaver"]


class DatabaseSaver(Housekeeping, BaseCheckpointSaver[str]):
    """Core of a database's saver, to be put first among its bases. Nothing of it blocks an event loop.

    A database says how it reads (`_read_tuple`, `list`, `_read_history`, safe from several threads), which
    rows a checkpoint is, and in `inserts` how rows get into its tables. `list` has read everything when it returns, so
    a consumer of `alist` may use the saver as it likes.

    A run takes its thread's lease when it reads where the thread stands, and writes under that lease; see
    `lease_keeper`.

    Args:
        saver: Arguments of the saver that it is mixed into.
        serde: Reads and writes values.
        committers: One for each writer thread.
        width: How many calls the database serves at once.
    """

    serde: PlainSerializer
    inserts: Mapping[str, Any]
    """By `checkpoints`, `writes` (which replace), `new_writes` (which don't), `runs`, `replies` (which don't) and
    `shorter_replies` (which do)."""
    writes_table: tuple[str, str]
    """The table of what tasks wrote, and its column of values."""
    lengths: Mapping[str, str]
    """How many bytes a row of each table holds."""
    rows_of: Callable[[Query, str], ThreadRows]
    """Reads the rows of a thread."""
    lease_dialect: LeaseDialect
    lease_table_missing: type[Exception]
    """Raised by a statement on a table that is not there."""

    def __init__(self, *saver: Any, serde: PlainSerializer, committers: Sequence[Committer], width: int) -> None:
        super().__init__(*saver, serde=serde)
        self.vault = serde.vault
        """Encrypts what is kept; `None` where there is no key."""
        self.seal = serde.seal
        self.db_executor = ThreadPoolExecutor(width, thread_name_prefix="redraft-database")
        self.writer = GroupWriter(*committers)
        self.runs: RunIndex = RunsTable(self._query, self.vault, db_executor=self.db_executor)
        self.leases = LeaseKeeper(
            LeaseTable(
                self._query_lease,
                self._aquery_lease,
                set_up=self._set_up_leases,
                dialect=self.lease_dialect,
                missing=self.lease_table_missing,
                db_executor=self.db_executor,
            )
        )
        self.journal: Journal = JournalTable(
            self._query,
            self.writer,
            self.inserts["replies"],
            self.vault,
            leases=self.leases,
            shorten=self.inserts["shorter_replies"],
            written=self._written,
            db_executor=self.db_executor,
        )

    def read_only(self, tables: Collection[str]) -> None:
        """Do without the tables that a database lacks, as LangGraph's own savers leave it: nothing is written to it."""
        self.lengths = {table: length for table, length in self.lengths.items() if table in tables}
        if "redraft_journal" not in tables:
            self.journal = JournalInMemory()
        if "runs" in tables:
            return
        self.runs = RunsInMemory(RLock())
        rows = self._query("SELECT DISTINCT thread_id FROM checkpoints WHERE checkpoint_ns = ''", {})
        for (thread_id,) in rows:
            place: RunnableConfig = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
            if (found := self.get_tuple(place)) is not None:
                values: dict[str, Any] = found.checkpoint["channel_values"]
                if "task" not in values and "task" in found.checkpoint["channel_versions"]:
                    led = self.get_delta_channel_history(config=found.config, channels=["task"])["task"]
                    values = {**values, "task": led.get("seed")}
                whole: Any = {**found.checkpoint, "channel_values": values}
                row = row_from_checkpoint(found.config, whole, found.metadata)
                if row is not None:
                    self.runs.upsert(row)

    def close(self) -> None:
        """Wait for what is under way, and commit what was put."""
        # First the calls under way, which may still put something.
        self.db_executor.shutdown()
        self.leases.close()
        self.writer.close()

    @abstractmethod
    def _query(self, statement: str, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Run one statement with `%(name)s` parameters, commit, and return its rows."""

    def _query_lease(self, statement: str, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        return self._query(statement, values)

    _aquery_lease = in_db_executor(_query_lease)

    @abstractmethod
    def _set_up_leases(self) -> None:
        """Make the table of leases where it is not there."""

    @abstractmethod
    def _read_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return what LangGraph's `get_tuple` returns."""

    @abstractmethod
    def _checkpoint_steps(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: Mapping[str, Any], versions: ChannelVersions
    ) -> list[Rows]:
        """Return the rows that LangGraph's saver writes. Serialised here, so that a bad value stops its caller only."""

    # reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint; raises BusyThreadError where it is read to begin a run and somebody else runs the
        thread."""
        if self.leases.begins(config):
            drive(self.leases.begin(config))
        elif thread_id := self._awaited(config):
            self.writer.write(thread_id=thread_id)
        return None if self.leases.begins_fresh(config) else self._noted(config, self._read_tuple(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        if self.leases.begins(config):
            await adrive(self.leases.begin(config))
        elif thread_id := self._awaited(config):
            await self.writer.awrite(thread_id=thread_id)
        if self.leases.begins_fresh(config):
            return None
        return self._noted(config, await self._aread_tuple(config))

    _aread_tuple = in_db_executor(_read_tuple)

    def _awaited(self, config: RunnableConfig) -> str | None:
        """Return the thread that is read, where what a run of it wrote is on its way, and no run reads it."""
        thread_id = str(config["configurable"]["thread_id"])
        return thread_id if self.writer.awaits(thread_id) and not self.leases.in_run(config) else None

    def _noted(self, config: RunnableConfig, found: CheckpointTuple | None) -> CheckpointTuple | None:
        if found is not None:
            read_checkpoint(found.checkpoint["id"])
            self.leases.read(config, found.checkpoint["id"])
        return found

    @abstractmethod
    def _read_history(self, config: RunnableConfig, channels: Sequence[str]) -> Mapping[str, DeltaChannelHistory]:
        """Return what LangGraph's `get_delta_channel_history` returns."""

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        found = histories(config, channels, self._read_history)
        self._check_sealed(config, found, self._read_tuple)
        return found

    aget_delta_channel_history = in_db_executor(BaseCheckpointSaver.get_delta_channel_history)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  (the base class names it)
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        for found in await _alist(self, config, filter=filter, before=before, limit=limit):
            yield found

    def read_rows(self, read: Callable[[ThreadRows], T], thread_id: str) -> T | None:
        """Return what is read off a thread's rows; `None` where there is any doubt, or they are encrypted or sealed."""
        plain = self.vault is None and self.seal is None
        return off_rows(read, partial(self.rows_of, self._query, thread_id)) if plain else None

    aread_rows = in_db_executor(read_rows)

    # writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save the checkpoint and its thread's row in one transaction: both or neither.

        Raises:
            LostLeaseError: Another run has taken the thread over.
            BusyThreadError: Somebody runs the thread, and this is no write of a run (`update_state`, say).
            ClockError: The checkpoint would not be the newest of its thread.
        """
        self.leases.works(config)
        return drive(self._put(config, checkpoint, metadata, new_versions))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await adrive(self._put(config, checkpoint, metadata, new_versions))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a task wrote; raises as `put`."""
        self.leases.works(config)
        drive(self._put_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await adrive(self._put_writes(config, writes, task_id, task_path))

    def _put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, versions: ChannelVersions
    ) -> Logic[RunnableConfig]:
        thread_id, steps = self._of_checkpoint(config, checkpoint, metadata, versions)
        lease = self.leases.lease_of(config)
        if lease is None and metadata.get("source") in RUNS and self.leases.in_run(config):
            # A graph that a node runs on another thread.
            lease = yield from self.leases.begin(config)
        if lease is not None:
            check_order(checkpoint["id"], lease.newest.get(config["configurable"]["checkpoint_ns"]))
        yield from self._write(lease, thread_id, "checkpoint", steps)
        if lease is not None:
            self.leases.wrote(lease, config, checkpoint)
        return _saved(config, checkpoint)

    def _put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> Logic[None]:
        thread_id, task, rows = self._of_writes(config, writes, task_id, task_path)
        lease = self.leases.lease_of(config)
        last = any(channel in (ERROR, INTERRUPT) for channel, _ in writes)
        steps = [rows]
        if lease is not None and isinstance(self.journal, JournalTable):
            namespace, checkpoint_id, _ = task
            steps += self.journal.referring(lease, namespace, checkpoint_id, writes)
        if lease is not None and self.leases.goes_on(lease, config, last=last):
            # The checkpoint that follows is waited for.
            lease.fresh = False
            lease.ahead = yield do(self.writer, "put_ahead", *steps, thread_id=thread_id, fence=lease.fence)
        else:
            yield from self._write(lease, thread_id, task, steps)
        if lease is not None:
            self.leases.wrote(lease, config, None, last=last)

    def _write(self, lease: Lease | None, thread_id: str, key: object, steps: Sequence[Rows]) -> Logic[None]:
        fence = UNHELD
        if lease is not None:
            fence, lease.fresh = lease.fence, False
        write = do(self.writer, "write", *steps, thread_id=thread_id, key=key, fence=fence)
        if not self.leases.leases.is_set_up:
            yield do(self.leases.leases, "set_up")
        try:
            yield write
        except LostLeaseError:
            if lease is not None:
                raise
            yield from self.leases.free(thread_id)
            yield write

    def _written(self, thread_id: str, namespace: str, checkpoint_id: str) -> list[Any]:
        """Return what was written to a thread's record at a checkpoint."""
        table, value = self.writes_table
        found = self._query(
            f"SELECT type, {value} FROM {table} WHERE thread_id = %(thread_id)s AND checkpoint_ns = %(namespace)s "  # noqa: S608
            f"AND checkpoint_id = %(checkpoint_id)s AND channel IN {RECORDS}",
            {"thread_id": thread_id, "namespace": namespace, "checkpoint_id": checkpoint_id},
        )
        return [self.serde.loads_typed((kind, data)) for kind, data in found]

    adelete_thread = in_db_executor(BaseCheckpointSaver.delete_thread)

    def _stored(self, thread_id: str) -> StoredThread:
        found = own_snapshots([*self.list({"configurable": {"thread_id": thread_id}})][::-1])
        table, value = self.writes_table
        statement = (
            f"SELECT checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, {value} FROM {table} "  # noqa: S608
            "WHERE thread_id = %(thread_id)s ORDER BY checkpoint_ns, checkpoint_id, task_path, task_id, idx"
        )
        writes: dict[tuple[str, str], list[StoredWrite]] = {}
        for namespace, checkpoint_id, task, path, index, channel, kind, data in self._query(
            statement, {"thread_id": thread_id}
        ):
            write = StoredWrite(task, path, index, channel, self.serde.loads_typed((kind, data)))
            writes.setdefault((str(namespace), str(checkpoint_id)), []).append(write)
        return StoredThread(thread_id, found, writes)

    def _keep(self, thread: StoredThread) -> None:
        steps: list[Rows] = []
        row = None
        for one in thread.checkpoints:
            config, known = _at(one, thread.thread_id), get_checkpoint_metadata({}, one.metadata)
            sealed = self._sealed(config, one.checkpoint, known)
            steps += self._checkpoint_steps(config, one.checkpoint, sealed, held_versions(one))
            if (newer := row_from_checkpoint(config, one.checkpoint, known)) is not None:
                row = newer if row is None else newer.after(row)
        for (namespace, checkpoint_id), writes in thread.writes.items():
            place = thread.thread_id, namespace, checkpoint_id
            rows: list[Sequence[Any]] = [
                (*place, one.task_id, one.task_path, one.index, one.channel, *self.serde.dumps_typed(one.value))
                for one in writes
            ]
            steps.append(Rows(self.inserts["new_writes"], rows))
        if row is not None:
            steps.append(Rows(self.inserts["runs"], [stored_values(row, self.vault)]))
        self.writer.write(*steps, thread_id=thread.thread_id, key="checkpoint")

    def sizes(self, thread_ids: Sequence[str]) -> dict[str, int]:
        return stored_sizes(self._query, self.lengths, thread_ids)

    def _drop(self, thread_id: str, places: Sequence[tuple[str, str]]) -> None:
        for table in ("checkpoints", self.writes_table[0]):
            for namespace, checkpoint_id in places:
                statement = (
                    f"DELETE FROM {table} WHERE thread_id = %(thread_id)s AND checkpoint_ns = %(namespace)s "  # noqa: S608
                    "AND checkpoint_id = %(checkpoint_id)s RETURNING checkpoint_id"
                )
                values = {"thread_id": thread_id, "namespace": namespace, "checkpoint_id": checkpoint_id}
                self._query(statement, values)
        newest = self.get_tuple({"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}})
        if newest is not None:
            row = row_from_checkpoint(newest.config, newest.checkpoint, newest.metadata)
            if row is not None:
                rows = Rows(self.inserts["runs"], [stored_values(row, self.vault)])
                self.writer.write(rows, thread_id=thread_id, key="checkpoint")

    def _of_checkpoint(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, versions: ChannelVersions
    ) -> tuple[str, list[Rows]]:
        """Return whose checkpoint it is, and all that is written of it."""
        known = get_checkpoint_metadata(config, metadata)
        with naming_keys(self.serde, checkpoint["channel_values"]):
            steps = self._checkpoint_steps(config, checkpoint, self._sealed(config, checkpoint, known), versions)
        if (row := row_from_checkpoint(config, checkpoint, known)) is not None:
            steps.append(Rows(self.inserts["runs"], [stored_values(row, self.vault)]))
        return str(config["configurable"]["thread_id"]), steps

    def _of_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> tuple[str, tuple[str, str, str], Rows]:
        """Return the thread, what it is of (namespace, checkpoint, task), and the rows.

        What a task wrote stays; its errors and pauses are replaced.
        """
        place = config["configurable"]
        thread_id, task = str(place["thread_id"]), (str(place["checkpoint_ns"]), str(place["checkpoint_id"]), task_id)
        with naming_keys(self.serde, dict(writes)):
            rows: list[Sequence[Any]] = [
                (thread_id, *task, task_path, WRITES_IDX_MAP.get(channel, index), channel, *dumped)
                for index, (channel, value) in enumerate(writes)
                for dumped in [self.serde.dumps_typed(value)]
            ]
        # As LangGraph's savers decide it.
        replaced = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        return thread_id, task, Rows(self.inserts["writes" if replaced else "new_writes"], rows)


def _at(one: CheckpointTuple, thread_id: str) -> RunnableConfig:
    """Return what a checkpoint of a thread is put with: its parent stands where its own id comes."""
    parent = one.parent_config["configurable"]["checkpoint_id"] if one.parent_config else None
    namespace = one.config["configurable"].get("checkpoint_ns", "")
    place = {"thread_id": thread_id, "checkpoint_ns": namespace}
    return {"configurable": place if parent is None else {**place, "checkpoint_id": parent}}


_alist = in_db_executor(BaseCheckpointSaver.list)


def _saved(config: RunnableConfig, checkpoint: Checkpoint) -> RunnableConfig:
    names = {name: config["configurable"][name] for name in ("thread_id", "checkpoint_ns")}
    return {"configurable": {**names, "checkpoint_id": checkpoint["id"]}}
