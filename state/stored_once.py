"""Channel of a long text that seldom changes: it is stored where it was written, not in each checkpoint. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langgraph.channels.delta import DeltaChannel

from .langgraph_internals import MISSING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

__all__ = ["StoredOnce"]


def last(_: Any, writes: Sequence[Any]) -> Any:
    """Return what was written last: the reducer of a channel without one."""
    return writes[-1]


class StoredOnce(DeltaChannel[Any]):
    """A last value that stands in the checkpoint of the step which wrote it, and in none of those that follow.

    Its snapshot is all that LangGraph's savers need to find it from a later checkpoint. In threads of earlier releases
    each checkpoint has it.
    """

    def __init__(self, reducer: Any = last, typ: Any = None, *, snapshot_frequency: int = 1) -> None:
        super().__init__(reducer, typ, snapshot_frequency=snapshot_frequency)

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """Return the channel with a stored value, or without one."""
        new = super().from_checkpoint(checkpoint)
        if checkpoint is MISSING or new.value is None:
            new.value = MISSING
        return new

    def get(self) -> Any:
        """Return the value, or `None`: LangGraph stores what a branch begins with also where nothing was written."""
        return None if self.value is MISSING else self.value

    def update(self, values: Sequence[Any]) -> bool:
        """Take the last of these; one that is there already changes nothing, so that it is stored no second time."""
        before = self.value
        return super().update(values) and (before is MISSING or self.value != before)
