"""Every checkpoint of a thread with the state it holds, read once from the database, whatever the saver. Internal.

LangGraph builds the value of a `DeltaChannel` anew for each checkpoint, from all writes before it: 100 rounds cost it
a hundred times what 10 rounds do. Here each value grows out of the one of the checkpoint before.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, DeltaChannelHistory

from ..checked_channels import Writes
from ..checked_values import check_found, naming
from ..dual import Logic, adrive, do, do_all, drive
from ..events import AGENT_RECORD, Record
from ..open_state import ConversationState
from .kind import kind_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.types import StateSnapshot

    Until: TypeAlias = Callable[[StateSnapshot], bool]

__all__ = ["astate_of", "check_stored", "schemas_of", "snapshot_at", "snapshots", "state_of"]


def state_of(graph: Any, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
    """Return `graph.get_state(config)`, having checked that it can be what the graph wrote.

    Args:
        graph: A compiled graph with a checkpointer. Of one that is not ours, values have any types.
        config: Of the thread, or of a checkpoint.
        subgraphs: As in `get_state`.

    Raises:
        BadCheckpointError: What is stored of the thread holds a value of a wrong type.
    """
    return drive(snapshot_at(graph, config, subgraphs=subgraphs))


async def astate_of(graph: Any, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
    """Async twin of `state_of`."""
    return await adrive(snapshot_at(graph, config, subgraphs=subgraphs))


def snapshot_at(
    graph: Any, config: RunnableConfig, *, subgraphs: bool = False, checkpoint: CheckpointTuple | None = None
) -> Logic[StateSnapshot]:
    """Return a snapshot for which the checkpoint is read once: `state_of` for sync and async callers.

    Args:
        graph: As in `state_of`.
        config: As in `state_of`.
        subgraphs: As in `state_of`.
        checkpoint: The checkpoint, where it was read already.
    """
    schemas = schemas_of(graph)
    if checkpoint is None and schemas:
        checkpoint = yield do(graph.checkpointer, "get_tuple", config)
    check_stored(checkpoint, schemas)
    reader = graph if checkpoint is None else _over_read_once(graph, schemas, checkpoint)
    with _named(config, schemas):
        return cast("StateSnapshot", (yield do(reader, "get_state", config, subgraphs=subgraphs)))


def check_stored(checkpoint: CheckpointTuple | None, schemas: tuple[type, ...], *, pending: bool = True) -> None:
    """Raise unless the values of a checkpoint have the types of some typed states of ours.

    Args:
        checkpoint: As a saver gives it.
        schemas: Of the graph that reads it.
        pending: Whether to look at what waits to be applied too.

    Raises:
        BadCheckpointError: A value has another type.
    """
    if checkpoint is not None and schemas:
        with _named(checkpoint.config, schemas):
            check_found(checkpoint, schemas, pending=pending)


def _named(config: RunnableConfig, schemas: tuple[type, ...]) -> AbstractContextManager[None]:
    """Return a context that names the thread in an error of its data; another's graph raises what it likes."""
    return naming(lambda: config["configurable"]) if schemas else nullcontext()


def schemas_of(graph: Any) -> tuple[type, ...]:
    """Return the typed states of a graph that are ours; a user's own keys may hold what the user likes."""
    if not kind_of(graph).keeps_record:
        return ()
    package = __name__.partition(".")[0]
    own_schemas = tuple(schema for schema in graph.builder.schemas if schema.__module__.partition(".")[0] == package)
    # Where a user's keys stand in all of them, the loop's are looked at all the same.
    return own_schemas or ((ConversationState,) if kind_of(graph).own else ())


def snapshots(graph: Any, config: RunnableConfig, until: Until | None = None) -> Logic[list[StateSnapshot]]:
    """Return the snapshots of `graph.get_state_history(config)`, newest first; values that did not change are shared.

    Args:
        graph: A compiled graph with a checkpointer.
        config: Of the thread.
        until: The first snapshot for which it holds is the last of them.
    """
    schemas = schemas_of(graph)
    with _named(config, schemas):
        reader = _over_read_once(graph, schemas)
        return cast("list[StateSnapshot]", (yield do_all(reader, "get_state_history", config, until=until)))


def _over_read_once(graph: Any, schemas: tuple[type, ...], checkpoint: CheckpointTuple | None = None) -> Any:
    if not isinstance(graph.checkpointer, BaseCheckpointSaver):
        return graph
    # A copy: the caller's graph keeps its saver.
    return graph.copy({"checkpointer": ReadOnce(graph, schemas, checkpoint)})


class ReadOnce(BaseCheckpointSaver[Any]):
    """One thread of another saver: after `list` or `alist`, the database is not asked again.

    Where the saver's `list` leaves out what was written at a checkpoint, its own history is asked, as LangGraph does.

    Args:
        graph: A graph on that saver.
        schemas: Its typed states of ours.
        newest: A checkpoint that was read already.
    """

    def __init__(self, graph: Any, schemas: tuple[type, ...], newest: CheckpointTuple | None = None) -> None:
        super().__init__(serde=graph.checkpointer.serde)
        self._schemas = schemas
        self._saver: BaseCheckpointSaver[Any] = graph.checkpointer
        # Its history, which is not asked here, would look whether the record is the one that was sealed.
        self._sealed = getattr(graph.checkpointer, "seal", None) is not None
        self._channels: Mapping[str, Any] = graph.channels
        self._record = AGENT_RECORD if AGENT_RECORD in graph.channels else "events"
        self._newest = newest
        self._checkpoints: dict[str, CheckpointTuple] = {}
        self._values: dict[tuple[str, str], Any] = {}

    def list(self, config: RunnableConfig | None, **which: Any) -> Iterator[CheckpointTuple]:
        checkpoints = list(self._saver.list(config, **which))
        if checkpoints and self._sealed:
            self._saver.get_delta_channel_history(config=checkpoints[0].config, channels=[self._record])
        yield from self._checked(checkpoints)

    async def alist(self, config: RunnableConfig | None, **which: Any) -> AsyncIterator[CheckpointTuple]:
        checkpoints = [checkpoint async for checkpoint in self._saver.alist(config, **which)]
        if checkpoints and self._sealed:
            await self._saver.aget_delta_channel_history(config=checkpoints[0].config, channels=[self._record])
        for checkpoint in self._checked(checkpoints):
            yield checkpoint

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._read_already(config) or self._saver.get_tuple(config)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._read_already(config) or await self._saver.aget_tuple(config)

    def _read_already(self, config: RunnableConfig) -> CheckpointTuple | None:
        if self._newest is None:
            return None
        newest = self._newest.config["configurable"]
        wanted = {"checkpoint_ns": "", "checkpoint_id": newest["checkpoint_id"], **config["configurable"]}
        same = all(wanted[key] == newest.get(key, "") for key in ("thread_id", "checkpoint_ns", "checkpoint_id"))
        return self._newest if same else None

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return self._history(config, channels) or self._saver.get_delta_channel_history(
            config=config, channels=channels
        )

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        history = self._history(config, channels)
        return history or await self._saver.aget_delta_channel_history(config=config, channels=channels)

    def _checked(self, checkpoints: Sequence[CheckpointTuple]) -> Sequence[CheckpointTuple]:
        for checkpoint in checkpoints:
            # What is written there is checked when it is replayed, in `_grow`.
            check_stored(checkpoint, self._schemas, pending=False)
        self._checkpoints = {_id(checkpoint.config): checkpoint for checkpoint in checkpoints}
        return checkpoints

    def _history(self, config: RunnableConfig, channels: Sequence[str]) -> dict[str, DeltaChannelHistory] | None:
        """Return each channel's value as the seed of a history without writes; `None` where not all of it was read."""
        histories: dict[str, DeltaChannelHistory] = {}
        for channel in channels:
            spec, checkpoint_id = self._channels.get(channel), _id(config)
            if not isinstance(spec, DeltaChannel) or not self._grow(channel, spec, checkpoint_id):
                return None
            histories[channel] = {"writes": [], "seed": _own(self._values[channel, checkpoint_id])}
        return histories

    def _grow(self, channel: str, spec: DeltaChannel[Any], checkpoint_id: str) -> bool:
        """Find the channel's value at a checkpoint that does not store it; return whether everything needed was read.

        It is what its parent's writes make of the parent's value, as in `get_delta_channel_history`.
        """
        missing = []
        while (channel, checkpoint_id) not in self._values:
            here = self._checkpoints.get(checkpoint_id)
            if here is None:
                return False
            if here.parent_config is None:
                self._values[channel, checkpoint_id] = spec.typ()
                break
            parent = self._checkpoints.get(_id(here.parent_config))
            # Some savers' `list` leaves writes out; their own history is asked then.
            if parent is None or parent.pending_writes is None:
                return False
            missing.append((checkpoint_id, parent))
            checkpoint_id = _id(parent.config)
            # A snapshot: nothing before it counts.
            if channel in parent.checkpoint["channel_values"]:
                break
        # The oldest first, since each value is the base of the next.
        for child, parent in reversed(missing):
            stored = parent.checkpoint["channel_values"]
            base = stored[channel] if channel in stored else self._values[channel, _id(parent.config)]
            grown = spec.from_checkpoint(base)
            grown.value = _own(grown.value)
            writes = Writes(write for write in parent.pending_writes or () if write[1] == channel)
            writes.place = partial(parent.config.__getitem__, "configurable")
            grown.replay_writes(writes)
            self._values[channel, child] = grown.get()
        return True


def _own(value: Any) -> Any:
    """Return a copy, since a reducer of somebody else's may change what it is given."""
    return value if isinstance(value, Record) else copy(value)


def _id(config: RunnableConfig) -> str:
    return str(config["configurable"]["checkpoint_id"])
