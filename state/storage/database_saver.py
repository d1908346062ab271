"""Saver for `invoke` and `ainvoke` over a database: reads on its own threads, writes in groups. Internal."""

from __future__ import annotations

import builtins
import json
from abc import abstractmethod
from asyncio import get_running_loop
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT

from ..checked_channels import placed
from ..checked_values import DATA_ERRORS, BadCheckpointError, bad_checkpoint, naming
from ..dual import Logic, adrive, do, drive, in_db_executor
from ..events import AGENT_RECORD
from ..langgraph_internals import RUNTIME
from .encryption import split_filter
from .foreign_runs import ForeignLease, ForeignRuns
from .group_writer import UNHELD, GroupWriter, Rows
from .housekeeping import Housekeeping, StoredThread, StoredWrite, held_versions, own_snapshots, place_of
from .index import Query, RunIndex, row_from_checkpoint, states_under_way, stored_sizes, stored_values
from .journal import RECORDS, Journal
from .lease_keeper import Lease, LeaseKeeper, control_of
from .leases import LeaseDialect, Leases, LostLeaseError, alive
from .listed import ClockError, ListedPlace, histories, is_older, listed, read_checkpoint
from .thread_rows import ThreadRows, off_rows
from .trust import PlainSerializer, name_key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig

    T = TypeVar("T")

__all__ = ["DatabaseSaver"]

SELECT_NEWEST = (
    "SELECT checkpoint_id FROM checkpoints WHERE thread_id = %(thread_id)s AND checkpoint_ns = %(namespace)s "
    "ORDER BY checkpoint_id DESC LIMIT 1"
)


_to_json = json.JSONEncoder(ensure_ascii=False).encode


class DatabaseSaver(Housekeeping, BaseCheckpointSaver[str]):
    """Core of a database's saver, to be put first among its bases. Nothing of it blocks an event loop.

    A database says how it reads (`_stored_tuple`, `_read_list`, `_stored_history`, safe from several threads), which
    rows a checkpoint is, and in `inserts` how rows get into its tables. `list` has read everything when it returns, so
    a consumer of `alist` may use the saver as it likes.

    What a run writes is written under the lease of its thread, which it took when it began; see `lease_keeper`.

    Args:
        saver: Arguments of the saver that it is mixed into.
        serde: Reads and writes values.
        writer: Writes to the database; the saver closes it.
        width: How many calls the database serves at once; 0 where nothing can make them wait.
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

    def __init__(self, *saver: Any, serde: Any, writer: GroupWriter, width: int) -> None:
        super().__init__(*saver, serde=serde)
        self.vault = serde.vault
        """Encrypts what is kept; `None` where there is no key."""
        self.seal = serde.seal
        self.db_executor = ThreadPoolExecutor(width, thread_name_prefix="redraft-database") if width else None
        self.writer = writer
        self.runs = RunIndex(self._query, self.vault, db_executor=self.db_executor)
        self.leases = LeaseKeeper(Leases(self))
        self._beside: DatabaseSaver | None = None

    @cached_property
    def journal(self) -> Journal:
        """The replies of finished calls."""
        return Journal(self)

    @cached_property
    def foreign(self) -> ForeignRuns:
        """The runs of graphs that don't say where they begin."""
        return ForeignRuns(self.leases)

    def read_only(self, tables: Collection[str], beside: DatabaseSaver) -> None:
        """Do without the tables that a database lacks, as LangGraph's own savers leave it: nothing is written to it.

        Args:
            tables: Those that it has.
            beside: An empty one in memory, whose tables are used in place of those that it has not; it is closed with
                this one.
        """
        self._beside = beside
        self.lengths = {table: length for table, length in self.lengths.items() if table in tables}
        if "redraft_journal" not in tables:
            self.journal = beside.journal
        if "runs" in tables:
            return
        self.runs = beside.runs
        for (thread_id,) in self._query("SELECT DISTINCT thread_id FROM checkpoints WHERE checkpoint_ns = ''", {}):
            stored = self.get_tuple({"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}})
            if stored is None:
                continue
            values: dict[str, Any] = stored.checkpoint["channel_values"]
            if "task" not in values and "task" in stored.checkpoint["channel_versions"]:
                led = self.get_delta_channel_history(config=stored.config, channels=["task"])["task"]
                values = {**values, "task": led.get("seed")}
            whole: Any = {**stored.checkpoint, "channel_values": values}
            if (row := row_from_checkpoint(stored.config, whole, stored.metadata)) is not None:
                beside.writer.write(Rows(beside.inserts["runs"], [stored_values(row, None)]))

    def close(self) -> None:
        """Wait for what is under way, and commit what was put."""
        # First the calls under way, which may still put something.
        if self.db_executor is not None:
            self.db_executor.shutdown()
        self.leases.close()
        self.writer.close()
        if self._beside is not None:
            self._beside.close()

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
    def _stored_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Read a checkpoint, as LangGraph's `get_tuple`."""

    def _checkpoint_steps(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: Mapping[str, Any], versions: ChannelVersions
    ) -> list[Rows]:
        """Return the rows that LangGraph's saver writes: one, as for SQLite, where a database keeps no value apart.

        Serialised here, so that a bad value stops its caller only.
        """
        place = config["configurable"]
        stored = metadata if self.vault is None else self.vault.hide_metadata(metadata)
        row = (
            str(place["thread_id"]),
            place["checkpoint_ns"],
            checkpoint["id"],
            place.get("checkpoint_id"),
            *self.serde.dumps_typed(checkpoint),
            # As LangGraph's saver: a lone surrogate in metadata is dropped.
            _to_json(stored).encode("utf-8", "ignore"),
        )
        return [Rows(self.inserts["checkpoints"], [row])]

    # reading

    def _place(self, config: RunnableConfig) -> Mapping[str, Any]:
        """Return the names of the checkpoint that is meant: the newest where none is named."""
        place = config["configurable"]
        if place.get("checkpoint_id"):
            return place
        where = {"thread_id": str(place["thread_id"]), "namespace": place.get("checkpoint_ns", "")}
        rows = self._query(SELECT_NEWEST, where)
        return {**place, "checkpoint_id": rows[0][0] if rows else None}

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint.

        Raises:
            BusyThreadError: With it a run of somebody else's graph seems to begin, and the thread is being run.
        """
        thread_id = str(config["configurable"]["thread_id"])
        if RUNTIME in config["configurable"]:
            if self._has_no_run(config) and self.foreign.begins(config):
                drive(self.foreign.begin(config))
        elif thread_id in self.writer.ahead:
            self.writer.write(thread_id=thread_id)
        return None if self._is_new(thread_id) else self._noted(config, self._read_tuple(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread_id = str(config["configurable"]["thread_id"])
        if RUNTIME in config["configurable"]:
            if self._has_no_run(config) and self.foreign.begins(config):
                await adrive(self.foreign.begin(config))
        elif thread_id in self.writer.ahead:
            await self.writer.awrite(thread_id=thread_id)
        return None if self._is_new(thread_id) else self._noted(config, await self._aread_tuple(config))

    def _read_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        try:
            return self._stored_tuple(config)
        except BadCheckpointError:
            raise
        except DATA_ERRORS as error:
            raise bad_checkpoint(self._place(config), error) from error

    _aread_tuple = in_db_executor(_read_tuple)

    def _has_no_run(self, config: RunnableConfig) -> bool:
        """Return True if it is not known of which run a config is: nobody has said where that begins."""
        lease = self.leases.lease_of(config)
        return lease is None or isinstance(lease, ForeignLease)

    def _is_new(self, thread_id: str) -> bool:
        """Return True if nothing is kept of a thread: this process saw that when it took the lease."""
        lease = self.leases.latest.get(thread_id)
        return lease is not None and lease.fresh and lease.is_sole()

    def _noted(self, config: RunnableConfig, stored: CheckpointTuple | None) -> CheckpointTuple | None:
        """Note which checkpoint is the newest: ids that are made from now on are behind it."""
        if stored is not None:
            read_checkpoint(stored.checkpoint["id"])
            place = config["configurable"]
            if RUNTIME in place and not place.get("checkpoint_id") and (lease := self.leases.lease_of(config)):
                lease.newest.setdefault(str(place.get("checkpoint_ns") or ""), stored.checkpoint["id"])
        return stored

    @abstractmethod
    def _stored_history(self, config: RunnableConfig, channels: Sequence[str]) -> Mapping[str, DeltaChannelHistory]:
        """Read a channel's deltas, as LangGraph's `get_delta_channel_history`."""

    def _read_history(self, config: RunnableConfig, channels: Sequence[str]) -> Mapping[str, DeltaChannelHistory]:
        try:
            return placed(self._stored_history(config, channels), partial(self._place, config))
        except BadCheckpointError:
            raise
        except DATA_ERRORS as error:
            raise bad_checkpoint(self._place(config), error) from error

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        alone = not isinstance(config["configurable"], ListedPlace)
        history = self._read_history(config, channels) if alone else histories(config, channels, self._read_history)
        # What led to a checkpoint is what was sealed; of several, to the newest.
        if self.seal is not None and {"events", "task", AGENT_RECORD} & history.keys() and not is_older(config):
            with naming(lambda: config["configurable"]):
                self.seal.check_record(self._read_tuple(config), history, self._read_tuple)
        return history

    aget_delta_channel_history = in_db_executor(BaseCheckpointSaver.get_delta_channel_history)

    @abstractmethod
    def _read_list(self, config: RunnableConfig | None, **options: Any) -> Iterator[CheckpointTuple]:
        """Yield what LangGraph's `list` yields."""

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  (the base class names it)
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Return all that match, read before this returns: nothing is held while a caller looks at them."""
        clear, matches = (filter or None, None) if self.vault is None else split_filter(filter)
        # Where a part of the filter is applied here, the database can't count what matches.
        checkpoints = self._read_list(config, filter=clear, before=before, limit=None if matches else limit)
        return listed(checkpoints if matches is None else islice(builtins.filter(matches, checkpoints), limit))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  (the base class names it)
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        for checkpoint in await _alist(self, config, filter=filter, before=before, limit=limit):
            yield checkpoint

    def read_rows(self, read: Callable[[ThreadRows], T], thread_id: str) -> T | None:
        """Read a thread off its rows; return `None` in any doubt, or where they are encrypted or sealed."""
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
        lease = self._lease_of(config) or drive(self._begun(config, metadata))
        thread_id, steps = self._of_checkpoint(lease, config, checkpoint, metadata, new_versions)
        self._write(lease, thread_id, "checkpoint", steps)
        return self._saved(lease, config, checkpoint)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        lease = self._lease_of(config) or await adrive(self._begun(config, metadata))
        options: dict[str, Any] = {"key": "checkpoint", "fence": _fence(lease), "loop": get_running_loop()}
        thread_id, steps = self._of_checkpoint(lease, config, checkpoint, metadata, new_versions)
        try:
            await self.writer.put(*steps, thread_id=thread_id, **options)
        except LostLeaseError:
            if lease is not None:
                raise
            await adrive(self.leases.free(thread_id))
            await self.writer.put(*steps, thread_id=thread_id, **options)
        return self._saved(lease, config, checkpoint)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a task wrote; raises as `put`. The checkpoint that follows it is waited for, where there is one."""
        lease = self._lease_of(config) or drive(self._begun(config, {}))
        thread_id, task, steps = self._of_writes(lease, config, writes, task_id, task_path)
        if lease is not None and _goes_on(lease, config, writes):
            lease.ahead = self.writer.put(*steps, thread_id=thread_id, key=task, fence=_fence(lease), ahead=True)
        else:
            self._write(lease, thread_id, task, steps)
        if isinstance(lease, ForeignLease):
            self.foreign.wrote_of_task(lease, config, writes)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        lease = self._lease_of(config) or await adrive(self._begun(config, {}))
        followed = lease is not None and _goes_on(lease, config, writes)
        options: dict[str, Any] = {"fence": _fence(lease), "loop": get_running_loop()}
        thread_id, task, steps = self._of_writes(lease, config, writes, task_id, task_path)
        put = self.writer.put(*steps, thread_id=thread_id, key=task, ahead=followed, **options)
        if lease is not None and followed:
            lease.ahead = put
        else:
            try:
                await put
            except LostLeaseError:
                if lease is not None:
                    raise
                await adrive(self.leases.free(thread_id))
                await self.writer.put(*steps, thread_id=thread_id, key=task, **options)
        if isinstance(lease, ForeignLease):
            self.foreign.wrote_of_task(lease, config, writes)

    def _write(self, lease: Lease | None, thread_id: str, key: object, steps: Sequence[Rows]) -> None:
        """Write what belongs together under a lease, or while nobody runs the thread."""
        options: dict[str, Any] = {"thread_id": thread_id, "key": key, "fence": _fence(lease)}
        try:
            self.writer.write(*steps, **options)
        except LostLeaseError:
            if lease is not None:
                raise
            drive(self.leases.free(thread_id))
            self.writer.write(*steps, **options)

    def _lease_of(self, config: RunnableConfig) -> Lease | None:
        """Return the lease under which something is written; `None` where no run writes it."""
        place = config["configurable"]
        control = getattr(place.get(RUNTIME), "control", None)
        lease = self.leases.runs.get((id(control), str(place["thread_id"]))) or self.leases.lease_of(config)
        if isinstance(lease, ForeignLease):
            lease.works(config)
        return lease

    def _begun(self, config: RunnableConfig, metadata: Mapping[str, Any]) -> Logic[Lease | None]:
        """Make the table of leases where it is not there, and take one for a graph that a node runs on another
        thread."""
        if not self.leases.leases.is_set_up:
            yield do(self.leases.leases, "set_up")
        # Other checkpoints are made by `update_state`.
        if metadata.get("source") in ("input", "loop") and control_of(config["configurable"]) is not None:
            return (yield from self.foreign.begin(config))
        return None

    def _saved(self, lease: Lease | None, config: RunnableConfig, checkpoint: Checkpoint) -> RunnableConfig:
        """Return the config of a checkpoint that is saved."""
        if isinstance(lease, ForeignLease):
            self.foreign.wrote(lease, config, checkpoint)
        place = config["configurable"]
        names = {"thread_id": place["thread_id"], "checkpoint_ns": place["checkpoint_ns"]}
        return {"configurable": {**names, "checkpoint_id": checkpoint["id"]}}

    def _written(self, thread_id: str, namespace: str, checkpoint_id: str) -> builtins.list[Any]:
        """Return the writes to a thread's record at a checkpoint."""
        table, value = self.writes_table
        rows = self._query(
            f"SELECT type, {value} FROM {table} WHERE thread_id = %(thread_id)s AND checkpoint_ns = %(namespace)s "  # noqa: S608
            f"AND checkpoint_id = %(checkpoint_id)s AND channel IN {RECORDS}",
            {"thread_id": thread_id, "namespace": namespace, "checkpoint_id": checkpoint_id},
        )
        return [self.serde.loads_typed((kind, data)) for kind, data in rows]

    adelete_thread = in_db_executor(BaseCheckpointSaver.delete_thread)

    def _stored(self, thread_id: str) -> StoredThread:
        checkpoints = own_snapshots([*self.list({"configurable": {"thread_id": thread_id}})][::-1])
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
        return StoredThread(thread_id, checkpoints, writes)

    def _keep(self, thread: StoredThread) -> None:
        steps: list[Rows] = []
        row = None
        for one in thread.checkpoints:
            config, own_metadata = place_of(one, thread.thread_id), get_checkpoint_metadata({}, one.metadata)
            sealed = self._sealed(config, one.checkpoint, own_metadata)
            steps += self._checkpoint_steps(config, one.checkpoint, sealed, held_versions(one))
            if (newer := row_from_checkpoint(config, one.checkpoint, own_metadata)) is not None:
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
        if thread.replies:
            steps.append(self.journal.rows(thread.thread_id, thread.replies))
        self.leases.leases.set_up()
        self._write(None, thread.thread_id, "checkpoint", steps)

    def sizes(self, thread_ids: Sequence[str]) -> dict[str, int]:
        return stored_sizes(self._query, self.lengths, thread_ids)

    def under_way(self, thread_ids: Sequence[str]) -> dict[str, str]:
        """Return of each thread that is `running`, or `waiting` for a person, which of the two."""
        found = states_under_way(self._query, {self.writes_table[0]}, thread_ids)
        return found | {
            one: "running"
            for one in thread_ids
            if (runner := self.leases.leases.get(one)) and alive(runner.process) is not False
        }

    def _drop(self, thread_id: str, places: Sequence[tuple[str, str]]) -> None:
        for table in ("checkpoints", self.writes_table[0]):
            statement = (
                f"DELETE FROM {table} WHERE thread_id = %(thread_id)s AND checkpoint_ns = %(namespace)s "  # noqa: S608
                "AND checkpoint_id = %(checkpoint_id)s RETURNING checkpoint_id"
            )
            for namespace, checkpoint_id in places:
                self._query(statement, {"thread_id": thread_id, "namespace": namespace, "checkpoint_id": checkpoint_id})
        newest = self.get_tuple({"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}})
        row = newest and row_from_checkpoint(newest.config, newest.checkpoint, newest.metadata)
        if row is not None:
            rows = Rows(self.inserts["runs"], [stored_values(row, self.vault)])
            self.writer.write(rows, thread_id=thread_id, key="checkpoint")

    def _of_checkpoint(
        self,
        lease: Lease | None,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        versions: ChannelVersions,
    ) -> tuple[str, builtins.list[Rows]]:
        """Return whose checkpoint it is, and all that is written of it; raises ClockError."""
        newest = lease and lease.newest.get(config["configurable"]["checkpoint_ns"])
        if newest and checkpoint["id"] < newest:
            raise ClockError(checkpoint["id"], newest)
        own_metadata: Any = get_checkpoint_metadata(config, metadata)
        sealed = own_metadata if self.seal is None else self._sealed(config, checkpoint, own_metadata)
        try:
            steps = self._checkpoint_steps(config, checkpoint, sealed, versions)
        except (ValueError, TypeError) as error:
            name_key(self.serde, checkpoint["channel_values"], error)
            raise
        if (row := row_from_checkpoint(config, checkpoint, own_metadata)) is not None:
            steps.append(Rows(self.inserts["runs"], [stored_values(row, self.vault)]))
        return str(config["configurable"]["thread_id"]), steps

    def _of_writes(
        self,
        lease: Lease | None,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> tuple[str, tuple[str, str, str], builtins.list[Rows]]:
        """Return the thread, what it is of (namespace, checkpoint, task), and the rows.

        What a task wrote stays; its errors and pauses are replaced.
        """
        place = config["configurable"]
        thread_id, task = str(place["thread_id"]), (str(place["checkpoint_ns"]), str(place["checkpoint_id"]), task_id)
        rows: list[Sequence[Any]] = []
        # As LangGraph's savers decide it.
        replaced = True
        try:
            for index, (channel, value) in enumerate(writes):
                replaced = replaced and channel in WRITES_IDX_MAP
                at = WRITES_IDX_MAP.get(channel, index)
                rows.append((thread_id, *task, task_path, at, channel, *self.serde.dumps_typed(value)))
        except (ValueError, TypeError) as error:
            name_key(self.serde, dict(writes), error)
            raise
        steps = [Rows(self.inserts["writes" if replaced else "new_writes"], rows)]
        if lease is not None and lease.said:
            steps += self.journal.referring(lease, task[0], task[1], writes)
        return thread_id, task, steps


def _fence(lease: Lease | None) -> int:
    """Return the token that something is written under, by which the lease is not fresh any more."""
    if lease is None:
        return UNHELD
    lease.fresh = False
    return lease.fence


def _goes_on(lease: Lease, config: RunnableConfig, writes: Sequence[tuple[str, Any]]) -> bool:
    """Return True if a checkpoint of the run follows what one of its tasks wrote."""
    checkpoint_id = config["configurable"]["checkpoint_id"]
    if any(channel in (ERROR, INTERRUPT) for channel, _ in writes):
        lease.pausing_at = checkpoint_id
    return not lease.over and lease.pausing_at != checkpoint_id


_alist = in_db_executor(BaseCheckpointSaver.list)
