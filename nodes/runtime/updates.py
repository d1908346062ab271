"""What a replaced node may return besides its own result, and what it may not touch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...state.events import record

__all__ = ["extra_update"]

OWNED = frozenset(
    ["events", "head", "answer", "stop_reason", "rounds", "score", "accepted_by", "oracle", "usage", "remaining_steps"]
)
"""State keys that the loop's own nodes write."""

RESULT_KEYS = frozenset(["draft", "text", "messages"])


def extra_update(state: Mapping[str, Any], result: Any, *, by: str) -> dict[str, Any]:
    """Return the update that a callable standing in for a node asks for: its own keys, and its events sealed.

    Args:
        state: The state that the events are appended to.
        result: What it returned; anything but a mapping asks for nothing.
        by: Who it is, for events that don't say.
    """
    if not isinstance(result, Mapping):
        return {}
    extra = {key: value for key, value in result.items() if key not in OWNED | RESULT_KEYS}
    news = [
        {"by": by, "round": 0, **{key: value for key, value in event.items() if key != "prev"}}
        for event in result.get("events", [])
    ]
    return {**extra, **record(state, *news)}
