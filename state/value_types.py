"""The values of a run as its typed state says they are; a value of another type, read from a database, is refused.

LangGraph checks no types. A node's mistake shows at once; what somebody else wrote into a database would show in the
middle of a later step, or as half a page.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NotRequired, get_type_hints

from langgraph.channels.binop import _get_overwrite
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from typing_extensions import TypedDict

from .limits import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langgraph.checkpoint.base import CheckpointTuple
    from pydantic import TypeAdapter, ValidationError

__all__ = ["bare", "check_found", "check_items"]

MARKS = {"head", "accepted_by", "oracle"}
"""Channels by which a run of ours is known where the graph that reads it is not: two of them are enough."""
LIMITED = {"limits", "events"}
"""Channels in which limits stand, which have ranges besides types."""
GIVEN = {"task", "limits"}
"""What a caller gives: until the first node has looked at it, anything."""
PLAIN = (str, int, float, list, type(None))
UNREAD = {"__start__", "branch:to:prepare", "branch:to:begin"}
"""Channels that are there while a task waits for the first node."""
SHOWN_CHARACTERS = 80


def check_found(found: CheckpointTuple, schemas: tuple[type, ...] = (), *, pending: bool = True) -> None:
    """Return if each channel holds a value of its type, what is stored of it alone and what waits to be applied.

    Args:
        found: As a saver gives it.
        schemas: The typed states of the graph that reads it. Default: the loop's, where it seems to be a run of ours.
        pending: Whether to look at what waits to be applied; of a past checkpoint that is done when it is replayed.

    Raises:
        ValueError: One does not; the message names the channel, what it holds and what would be right.
    """
    values: Mapping[str, Any] = found.checkpoint["channel_values"]
    if not schemas:
        if len(MARKS & values.keys()) < 2:
            return
        from .schema import RefineState

        schemas = (RefineState,)
    adapter = _state_adapter(schemas)
    left_out = GIVEN if UNREAD & values.keys() else ()
    _check(adapter, {name: bare(value) for name, value in values.items() if name not in left_out})
    for _, channel, value in (found.pending_writes or ()) if pending else ():
        if channel not in left_out:
            _check(adapter, {channel: bare(value)})


def check_items(channel: str, kind: Any, items: Any) -> None:
    """Return if the items of a list, such as events, have the types that theirs says.

    Raises:
        ValueError: One has not; the message names the channel, the item, what it holds and what would be right.
    """
    _check(_channel_adapter(channel, kind), {channel: items})


@cache
def _state_adapter(schemas: tuple[type, ...]) -> TypeAdapter[Any]:
    """Return what checks all channels of some typed states at once, where they are there; others may hold anything."""
    from pydantic import TypeAdapter

    hints = {name: NotRequired[kind] for schema in schemas for name, kind in get_type_hints(schema).items()}
    return TypeAdapter(TypedDict("Values", hints))  # type: ignore[operator]


@cache
def _channel_adapter(channel: str, kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(TypedDict("Values", {channel: kind}))  # type: ignore[operator]


def _check(adapter: TypeAdapter[Any], values: Mapping[str, Any]) -> None:
    from pydantic import ValidationError

    try:
        adapter.validate_python(values, strict=True)
    except ValidationError as error:
        raise ValueError(_explained(error)) from None
    for channel in LIMITED & values.keys():
        for limits in _limits_in(channel, values[channel]):
            try:
                _check_limits(*((name, type(value), value) for name, value in limits.items()))
            except (ValueError, TypeError) as error:
                raise ValueError(f"its channel {channel!r} holds limits that make no sense: {error}") from None


@lru_cache
def _check_limits(*limits: tuple[str, type, Any]) -> None:
    """Return if they make sense; a thread has the same ones in all its checkpoints."""
    Limits(**{name: value for name, _, value in limits})


def _limits_in(channel: str, value: Any) -> Sequence[Mapping[str, Any]]:
    if channel == "limits":
        return [value]
    return [event["limits"] for event in value if "limits" in event]


def bare(value: Any) -> Any:
    """Return what a snapshot or an `Overwrite` puts into the channel."""
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, _DeltaSnapshot):
        return value.value
    overwrites, new = _get_overwrite(value)
    return new if overwrites else value


def _explained(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    channel, *path = first["loc"]
    where = ".".join(str(part) for part in path)
    if first["type"] == "missing":
        return f"its channel {channel!r} lacks {where}"
    shown = repr(first["input"])
    shown = shown if len(shown) <= SHOWN_CHARACTERS else f"{shown[: SHOWN_CHARACTERS - 1]}…"
    right = first["msg"].removeprefix("Input ")
    return f"its channel {channel!r} holds {f'at {where} ' if where else ''}{shown}, which {right}"
