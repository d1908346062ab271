"""Checkpoints and the runs index in this process's memory. Internal."""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import get_checkpoint_metadata
from langgraph.checkpoint.memory import InMemorySaver

from ..checked_channels import naming
from ..dual import drive
from .foreign_runs import ForeignLease, ForeignRuns, is_of_run
from .group_writer import UNHELD
from .housekeeping import Housekeeping, StoredThread, StoredWrite, held_versions, own_snapshots, place_of
from .index import PATH, Position, RunIndex, RunRow, Runs, row_from_checkpoint, with_paths
from .journal import JournalInMemory
from .lease_keeper import LeaseKeeper
from .leases import LeasesInMemory, LostLeaseError
from .listed import histories, listed
from .trust import PlainSerializer, checked, name_key

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

    from .lease_keeper import Lease
    from .seal import Seal

__all__ = ["IndexedMemorySaver"]


class IndexedMemorySaver(Housekeeping, InMemorySaver):
    """LangGraph's in-memory saver, safe from many threads, with its threads listed in `runs`. It dies with the process.

    Its async methods are LangGraph's, which call the sync ones: each holds the lock for microseconds.

    Args:
        allow: Types of one's own that may be kept, as databases have it; `None`: whatever LangGraph's serializer takes.
        seal: Seals checkpoints; default: none is sealed.
    """

    def __init__(self, *, allow: Iterable[type] | None = (), seal: Seal | None = None) -> None:
        super().__init__(serde=None if allow is None else PlainSerializer(allow=allow))
        self.seal = seal
        self.lock = threading.RLock()
        self.runs = RunsInMemory(self.lock)
        self.journal = JournalInMemory()
        self._held = LeasesInMemory()
        self.leases = LeaseKeeper(self._held)
        self.foreign = ForeignRuns(self.leases)

    def close(self) -> None:
        """Give up every lease; every saver can be closed."""
        self.leases.close()

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint; raises as those of databases do."""
        if self.foreign.begins(config):
            drive(self.foreign.begin(config))
        with self.lock:
            found = super().get_tuple(config)
        return None if found is None else self._unsealed(found)

    def _unsealed(self, found: CheckpointTuple) -> CheckpointTuple:
        if self.seal is None:
            return found
        with naming(lambda: found.config["configurable"]):
            return checked(found, None, self.seal, pending=False)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  (the base class names it)
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        with self.lock:
            return listed(map(self._unsealed, super().list(config, filter=filter, before=before, limit=limit)))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        lease = self.leases.lease_of(config)
        if lease is None and is_of_run(config, metadata):
            lease = drive(self.foreign.begin(config))
        with self._fenced(config, lease, checkpoint["channel_values"]):
            previous = self.runs.get(str(config["configurable"]["thread_id"]))
            known = get_checkpoint_metadata(config, metadata)
            row = row_from_checkpoint(config, checkpoint, known, previous=previous)
            saved = super().put(config, checkpoint, self._sealed(config, checkpoint, metadata), new_versions)
            if row is not None:
                self.runs.upsert(row)
        if isinstance(lease, ForeignLease):
            self.foreign.wrote(lease, config, checkpoint)
        return saved

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        lease = self.leases.lease_of(config)
        with self._fenced(config, lease, dict(writes)):
            super().put_writes(config, writes, task_id, task_path)
        if isinstance(lease, ForeignLease):
            self.foreign.wrote_of_task(lease, config, writes)

    @contextmanager
    def _fenced(self, config: RunnableConfig, lease: Lease | None, values: Mapping[str, Any]) -> Iterator[None]:
        """Let the block write these values to a thread that no other run has."""
        if isinstance(lease, ForeignLease):
            lease.works(config)
        thread_id = str(config["configurable"]["thread_id"])
        with self.lock:
            if not self._held.admits(thread_id, UNHELD if lease is None else lease.fence):
                if lease is not None:
                    raise LostLeaseError(thread_id)
                drive(self.leases.free(thread_id))
            try:
                yield
            except (ValueError, TypeError) as error:
                name_key(self.serde, values, error)
                raise

    def delete_thread(self, thread_id: str) -> None:
        names = with_paths(self.runs, str(thread_id))
        with self.lock:
            for name in names:
                super().delete_thread(name)
                self.runs.delete(name)
                self._held.forget(name)
        for name in names:
            self.journal.forget(name)

    def _stored(self, thread_id: str) -> StoredThread:
        with self.lock:
            found = own_snapshots([*self.list({"configurable": {"thread_id": thread_id}})])
            # By namespace, in the order in which they began.
            found.sort(key=lambda one: one.config["configurable"]["checkpoint_id"])
            writes = {
                (namespace, checkpoint_id): [
                    StoredWrite(task_id, path, index, channel, self.serde.loads_typed(typed))
                    for (_, index), (task_id, channel, typed, path) in stored.items()
                ]
                for (thread, namespace, checkpoint_id), stored in self.writes.items()
                if thread == thread_id
            }
        return StoredThread(thread_id, found, writes)

    def _keep(self, thread: StoredThread) -> None:
        with self.lock:
            for one in thread.checkpoints:
                self.put(place_of(one, thread.thread_id), one.checkpoint, one.metadata, held_versions(one))
            for (namespace, checkpoint_id), writes in thread.writes.items():
                self.writes[thread.thread_id, namespace, checkpoint_id] = {
                    (write.task_id, write.index): (
                        *(write.task_id, write.channel),
                        *(self.serde.dumps_typed(write.value), write.task_path),
                    )
                    for write in writes
                }

    def sizes(self, thread_ids: Sequence[str]) -> dict[str, int]:
        sizes = dict.fromkeys(thread_ids, 0)
        with self.lock:
            data = [
                (thread_id, content)
                for thread_id, namespaces in self.storage.items()
                for checkpoints in namespaces.values()
                for checkpoint, about, _ in checkpoints.values()
                for _, content in (checkpoint, about)
            ]
            data += [(thread_id, content) for (thread_id, *_), (_, content) in self.blobs.items()]
            for (thread_id, *_), written in self.writes.items():
                data += [(thread_id, content) for _, _, (_, content), _ in written.values()]
        for thread_id, content in data:
            if thread_id in sizes:
                sizes[thread_id] += len(content)
        return sizes

    def _drop(self, thread_id: str, places: Sequence[tuple[str, str]]) -> None:
        with self.lock:
            for namespace, checkpoint_id in places:
                self.storage[thread_id][namespace].pop(checkpoint_id, None)
                self.writes.pop((thread_id, namespace, checkpoint_id), None)
            newest = self.get_tuple({"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}})
            previous = self.runs.get(thread_id)
            row = newest and row_from_checkpoint(newest.config, newest.checkpoint, newest.metadata, previous=previous)
            if row is not None:
                self.runs.upsert(row)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        found = histories(config, channels, self._read_history)
        self._check_sealed(config, found, super().get_tuple)
        return found

    def _read_history(self, config: RunnableConfig, channels: Sequence[str]) -> Mapping[str, DeltaChannelHistory]:
        with self.lock:
            return super().get_delta_channel_history(config=config, channels=channels)


class RunsInMemory(RunIndex):
    """The `RunIndex` of a process: rows by thread, and their order."""

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self._rows: dict[str, RunRow] = {}
        self._order: list[Position] = []

    def upsert(self, row: RunRow) -> None:
        """Take the row in; `created_at` is that of the row it replaces."""
        if row.thread_id not in self._rows:
            insort(self._order, row.position)
        self._rows[row.thread_id] = row

    def delete(self, thread_id: str) -> None:
        """Forget the thread, if it is known."""
        if row := self._rows.pop(thread_id, None):
            del self._order[bisect_left(self._order, row.position)]

    def get(self, thread_id: str) -> RunRow | None:
        with self._lock:
            return self._rows.get(thread_id)

    def children(self, thread_id: str) -> Runs:
        with self._lock:
            rows = (self._rows[name] for _, name in self._order)
            return [row for row in rows if row.parent_thread_id == thread_id]

    def ids(self, prefix: str = "", *, limit: int = 1000) -> Sequence[str]:
        with self._lock:
            rows = sorted(self._rows.values(), key=lambda row: (row.updated_at, row.thread_id), reverse=True)
        found = [name for row in rows if (name := row.thread_id).startswith(prefix) and not PATH.search(name)]
        return found[:limit]

    def list(
        self,
        *,
        limit: int = 50,
        before: Position | None = None,
        preset: str | None = None,
        stop_reason: str | None = None,
        parent: str | None = None,
    ) -> Runs:
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit!r}")
        page: Runs = []
        with self._lock:
            end = len(self._order) if before is None else bisect_left(self._order, tuple(before))
            for index in range(end - 1, -1, -1):
                row = self._rows[self._order[index][1]]
                if (
                    preset in (None, row.preset)
                    and stop_reason in (None, row.stop_reason or "running")
                    and parent in (None, row.parent_thread_id)
                ):
                    page.append(row)
                if len(page) == limit:
                    break
        return page
