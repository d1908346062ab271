"""Order of a thread's checkpoints, and what those that were listed together know of each other. Internal.

Checkpoints are in the order of their ids, and an id begins with a time. So whoever has read a checkpoint makes only ids
behind it from then on, whatever its clock says: order is that of reading and writing in the database (a logical clock).

LangGraph asks a saver for the writes before each checkpoint of a history, so that fifty steps at the end of a long
thread cost fifty readings of the whole of it. A checkpoint that a saver has listed knows those beside it: what led to
one is what led to its parent, and what was written there, which `list` gave.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from uuid import UUID

from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory
from langgraph.checkpoint.base import id as checkpoint_ids

from ..checked_channels import Writes
from ..checked_values import refusal
from ..langgraph_internals import DeltaSnapshot
from .trust import OWN_ANCESTOR, own_ancestor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig

    Read: TypeAlias = Callable[[RunnableConfig, Sequence[str]], Mapping[str, DeltaChannelHistory]]

__all__ = ["ClockError", "ListedPlace", "histories", "is_older", "listed", "read_checkpoint"]


class ClockError(RuntimeError):
    """The id of a new checkpoint is before that of the thread's newest one, behind which nobody would find it.

    Args:
        checkpoint_id: The new one's.
        newest: The newest one's.
    """

    def __init__(self, checkpoint_id: str, newest: str) -> None:
        super().__init__(
            f"the clock of this machine is behind: the checkpoint {checkpoint_id} would be hidden behind {newest}, "
            "which the thread has already; nothing was written"
        )


def read_checkpoint(checkpoint_id: str) -> None:
    """Let every id that is made in this process from now on be behind this one."""
    try:
        uuid = UUID(checkpoint_id)
    except (ValueError, TypeError, AttributeError):
        return  # not made by LangGraph
    if uuid.version != VERSION:
        return
    # As LangGraph's `uuid6` writes it: 48 bits, the version, 12 bits.
    at = (uuid.int >> 80 << 12) | (uuid.int >> 64 & 0xFFF)
    latest = vars(checkpoint_ids).get(LATEST)
    if (latest is None or latest < at) and at < LAST:
        vars(checkpoint_ids)[LATEST] = at


VERSION = 6
LATEST = "_last_v6_timestamp"
"""The time in the last id that LangGraph made in this process, which the next one is behind."""
LAST = 1 << 59
"""An id that is later was not made by a clock."""


class ListedPlace(dict[str, Any]):
    """The names of a checkpoint, with those that it was listed with; they go when nobody looks at them any more."""

    __slots__ = ("together",)

    def __init__(self, names: Mapping[str, Any], together: Together) -> None:
        super().__init__(names)
        self.together = together


class Together:
    """The checkpoints of one `list`."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, ...], CheckpointTuple] = {}
        self.read: dict[tuple[str, ...], DeltaChannelHistory] = {}
        """By checkpoint and channel, what led to those whose parents were not listed."""
        self.checked: dict[int, Any] = {}
        """Which writes were looked at already, for all of them; see `Writes`."""


def listed(tuples: Iterable[CheckpointTuple]) -> Iterator[CheckpointTuple]:
    """Return an iterator over checkpoints that know each other.

    Raises:
        BadCheckpointError: One is its own ancestor.
    """
    together = Together()
    for one in tuples:
        config: RunnableConfig = {**one.config, "configurable": ListedPlace(one.config["configurable"], together)}
        together.found[_key(config)] = one._replace(config=config)
    parents = {key: one.parent_config and _key(one.parent_config) for key, one in together.found.items()}
    if (circle := own_ancestor(parents)) is not None:
        raise refusal(dict(zip(NAMES, circle, strict=True)), OWN_ANCESTOR)
    return iter(list(together.found.values()))


def histories(config: RunnableConfig, channels: Sequence[str], read: Read) -> Mapping[str, DeltaChannelHistory]:
    """Read the deltas of channels, as LangGraph's `get_delta_channel_history`.

    Args:
        config: Of the checkpoint, which was listed.
        channels: Which.
        read: Reads it from the database.
    """
    place = cast("ListedPlace", config["configurable"])
    return {channel: _history(place, channel, channels, read) for channel in channels}


def is_older(config: RunnableConfig) -> bool:
    """Return True if a checkpoint was listed with newer ones."""
    place = config["configurable"]
    return isinstance(place, ListedPlace) and _key(config) != next(iter(place.together.found))


def _history(place: ListedPlace, channel: str, together_with: Sequence[str], read: Read) -> DeltaChannelHistory:
    together, here = place.together, place.together.found[_key({"configurable": place})]
    later: list[CheckpointTuple] = []
    while True:
        parent = together.found.get(_key(here.parent_config)) if here.parent_config else None
        if parent is None or parent.pending_writes is None:
            key = _key(here.config)
            if (*key, channel) not in together.read:
                together.read |= {(*key, name): found for name, found in read(here.config, together_with).items()}
            before = together.read[*key, channel]
            break
        later.append(parent)
        if channel in parent.checkpoint["channel_values"]:
            before = {"writes": [], "seed": parent.checkpoint["channel_values"][channel]}
            break
        here = parent
    writes = Writes(before["writes"])
    for one in reversed(later):
        writes += [write for write in one.pending_writes or () if write[1] == channel]
    writes.place, writes.checked = (lambda: place), together.checked
    return {"writes": writes, "seed": _own(before["seed"])} if "seed" in before else {"writes": writes}


def _own(value: Any) -> Any:
    """Return a copy, since a reducer may change what it is given, and others begin with it too."""
    return DeltaSnapshot(copy(value.value)) if isinstance(value, DeltaSnapshot) else copy(value)


NAMES = ("thread_id", "checkpoint_ns", "checkpoint_id")


def _key(config: RunnableConfig) -> tuple[str, ...]:
    names = config["configurable"]
    return str(names["thread_id"]), str(names.get("checkpoint_ns", "")), str(names["checkpoint_id"])
