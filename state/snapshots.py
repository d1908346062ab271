"""Every checkpoint of a thread with the state it holds, read once from the database, whatever the saver.

LangGraph builds the value of a `DeltaChannel` anew for each checkpoint, from all writes before it: 100 rounds cost it
a hundred times what 10 rounds do. Here each value grows out of the one of the checkpoint before.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver

from .events import Record

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory
    from langgraph.types import StateSnapshot

__all__ = ["asnapshots", "snapshots"]


def snapshots(graph: Any, config: RunnableConfig) -> list[StateSnapshot]:
    """Return what `graph.get_state_history(config)` gives, newest first; values that did not change are shared.

    Args:
        graph: A compiled graph with a checkpointer.
        config: Of the thread.
    """
    return list(_over_read_once(graph).get_state_history(config))


async def asnapshots(graph: Any, config: RunnableConfig) -> list[StateSnapshot]:
    """Async twin of `snapshots`."""
    return [snapshot async for snapshot in _over_read_once(graph).aget_state_history(config)]


def _over_read_once(graph: Any) -> Any:
    if not isinstance(graph.checkpointer, BaseCheckpointSaver):
        return graph
    return graph.copy({"checkpointer": ReadOnce(graph.checkpointer, graph.channels)})


class ReadOnce(BaseCheckpointSaver[Any]):
    """One thread of another saver: after `list` or `alist`, the database is not asked again.

    Where the saver's `list` leaves out what was written at a checkpoint, its own history is asked, as LangGraph does.
    """

    def __init__(self, saver: BaseCheckpointSaver[Any], channels: Mapping[str, Any]) -> None:
        super().__init__(serde=saver.serde)
        self._saver = saver
        self._channels = channels
        self._found: dict[str, CheckpointTuple] = {}
        self._values: dict[tuple[str, str], Any] = {}

    def list(self, config: RunnableConfig | None, **which: Any) -> Iterator[CheckpointTuple]:
        yield from self._seen(list(self._saver.list(config, **which)))

    async def alist(self, config: RunnableConfig | None, **which: Any) -> AsyncIterator[CheckpointTuple]:
        for found in self._seen([found async for found in self._saver.alist(config, **which)]):
            yield found

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._saver.get_tuple(config)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._saver.aget_tuple(config)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        known = self._history(config, channels)
        return known or self._saver.get_delta_channel_history(config=config, channels=channels)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        known = self._history(config, channels)
        return known or await self._saver.aget_delta_channel_history(config=config, channels=channels)

    def _seen(self, tuples: Sequence[CheckpointTuple]) -> Sequence[CheckpointTuple]:
        self._found = {_id(found.config): found for found in tuples}
        return tuples

    def _history(self, config: RunnableConfig, channels: Sequence[str]) -> dict[str, DeltaChannelHistory] | None:
        """Return each channel's value as the seed of a history without writes, or `None` where it can't be told."""
        known: dict[str, DeltaChannelHistory] = {}
        for channel in channels:
            spec, checkpoint_id = self._channels.get(channel), _id(config)
            if not isinstance(spec, DeltaChannel) or not self._grow(channel, spec, checkpoint_id):
                return None
            known[channel] = {"writes": [], "seed": _own(self._values[channel, checkpoint_id])}
        return known

    def _grow(self, channel: str, spec: DeltaChannel[Any], checkpoint_id: str) -> bool:
        """Find the channel's value at a checkpoint that does not store it; return whether everything needed was read.

        It is what its parent's writes make of the parent's value, as in `get_delta_channel_history`.
        """
        missing = []
        while (channel, checkpoint_id) not in self._values:
            here = self._found.get(checkpoint_id)
            if here is None:
                return False
            if here.parent_config is None:
                self._values[channel, checkpoint_id] = spec.typ()
                break
            parent = self._found.get(_id(here.parent_config))
            if parent is None or parent.pending_writes is None:
                return False
            missing.append((checkpoint_id, parent))
            checkpoint_id = _id(parent.config)
            if channel in parent.checkpoint["channel_values"]:
                break
        for child, parent in reversed(missing):
            stored = parent.checkpoint["channel_values"]
            base = stored[channel] if channel in stored else self._values[channel, _id(parent.config)]
            grown = spec.from_checkpoint(base)
            grown.value = _own(grown.value)
            grown.replay_writes([write for write in parent.pending_writes or () if write[1] == channel])
            self._values[channel, child] = grown.get()
        return True


def _own(value: Any) -> Any:
    """A copy, as a reducer of somebody else's may change what it is given."""
    return value if isinstance(value, Record) else copy(value)


def _id(config: RunnableConfig) -> str:
    return str(config["configurable"]["checkpoint_id"])
