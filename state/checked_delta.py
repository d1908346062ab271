"""A channel that grows by what each step adds, and believes nothing that a database says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langgraph._internal._typing import MISSING
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from .events import Record
from .refusals import naming
from .value_types import bare, check_items

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Self

    from langgraph.checkpoint.base import DeltaChannelHistory, PendingWrite

__all__ = ["CheckedDelta", "Writes", "placed"]


class Writes(list["PendingWrite"]):
    """Writes that know whose they are."""

    place: Callable[[], Mapping[str, Any]] | None = None


def placed(
    histories: Mapping[str, DeltaChannelHistory], place: Callable[[], Mapping[str, Any]]
) -> Mapping[str, DeltaChannelHistory]:
    """Return the histories of some channels with writes that know whose they are.

    Args:
        histories: As a saver gives them.
        place: Tells the `thread_id` and the `checkpoint_id`.
    """
    for history in histories.values():
        history["writes"] = writes = Writes(history["writes"])
        writes.place = place
    return histories


class CheckedDelta(DeltaChannel[Any]):
    """A `DeltaChannel` whose items, when they are read from a checkpointer, must be of their type.

    What a running node adds is not looked at: a step costs what it did.
    """

    __slots__ = ("kind",)

    def __init__(self, reducer: Callable[[Any, Any], Any], typ: Any = None, *, snapshot_frequency: int = 100) -> None:
        super().__init__(reducer, typ, snapshot_frequency=snapshot_frequency)
        self.kind = typ
        """The type with that of its items, which LangGraph takes off."""

    def copy(self) -> Self:
        new = super().copy()
        new.kind = self.kind
        return new

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """Return the channel with a stored value; raises ValueError where an item is of another type."""
        value = checkpoint.value if isinstance(checkpoint, _DeltaSnapshot) else checkpoint
        if value is not MISSING and not isinstance(value, Record):  # a record was made here, of checked writes
            check_items(self.key, self.kind, value)
        new = super().from_checkpoint(checkpoint)
        new.kind = self.kind
        return new

    def replay_writes(self, writes: Sequence[PendingWrite]) -> None:
        """Apply stored writes.

        Raises:
            BadCheckpointError: An item is of another type.
            ValueError: The same, where the writes don't know whose they are.
        """
        place = getattr(writes, "place", None)
        if place is None:
            self._check(writes)
        else:
            with naming(place):
                self._check(writes)
        super().replay_writes(writes)

    def _check(self, writes: Sequence[PendingWrite]) -> None:
        for _, _, value in writes:
            check_items(self.key, self.kind, bare(value))
