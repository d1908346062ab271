"""Order of a thread's checkpoints, which no clock of a machine decides. Internal.

Checkpoints are in the order of their ids, and an id begins with a time. So whoever has read a checkpoint makes only ids
behind it from then on, whatever its clock says: order is that of reading and writing in the database (a logical clock).
"""

from __future__ import annotations

from uuid import UUID

from langgraph.checkpoint.base import id as checkpoint_ids

__all__ = ["ClockError", "read_checkpoint"]


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
