"""Type checks of stored values: what a database holds is refused where it is not of the state's types. Internal."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NotRequired, get_args, get_type_hints

from typing_extensions import TypedDict

from . import langgraph_internals  # whose names are imported when they are used: threads are read without LangGraph
from .events import FORMAT, Event, EventKind
from .first_nodes import UNREAD
from .limits import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from langgraph.checkpoint.base import CheckpointTuple
    from pydantic import TypeAdapter, ValidationError

__all__ = [
    "DATA_ERRORS",
    "BadCheckpointError",
    "bad_checkpoint",
    "bare",
    "check_found",
    "check_items",
    "check_update",
    "check_values",
    "first_fault",
    "naming",
    "refusal",
]


class BadCheckpointError(ValueError):
    """Stored data that are no checkpoint, or one that is not to be trusted. None of it is used."""


DATA_ERRORS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, NotImplementedError, RecursionError)
"""Errors that data of the wrong form cause in code that expects another."""
LIMITED = {"limits", "events"}
"""Channels in which limits stand, which have ranges besides types."""
KINDS = get_args(EventKind)
SHOWN_CHARACTERS = 80


@contextmanager
def naming(place: Callable[[], Mapping[str, Any]]) -> Iterator[None]:
    """Name the thread and the checkpoint in an error of the data that is raised within the block.

    Args:
        place: Tells the `thread_id` and, where it is known, the `checkpoint_id`.

    Raises:
        BadCheckpointError: What was read is refused.
    """
    try:
        yield
    # It is a ValueError as well, and names its place already.
    except BadCheckpointError:
        raise
    except DATA_ERRORS as error:
        raise bad_checkpoint(place(), error) from error


def bad_checkpoint(place: Mapping[str, Any], error: Exception) -> BadCheckpointError:
    """Return the error that refuses what stands at a place, for one that its data caused."""
    form = "" if isinstance(error, ValueError) else "it has not the form of a checkpoint: "
    return refusal(place, f"{form}{error or type(error).__name__}")


def refusal(place: Mapping[str, Any], reason: str) -> BadCheckpointError:
    """Return the error that refuses what stands at a place."""
    which = f", checkpoint {place['checkpoint_id']!r}" if place.get("checkpoint_id") else ""
    within = f" in {place['checkpoint_ns']!r}" if place.get("checkpoint_ns") else ""
    where = f"thread {place.get('thread_id')!r}{which}{within}"
    return BadCheckpointError(f"what the database holds of {where} is refused: {reason}")


GIVEN = {"task", "require", "limits"}
"""What a caller gives: until the first node has looked at it, anything."""
PLAIN = (str, int, float, list, type(None))


def check_found(found: CheckpointTuple, schemas: tuple[type, ...], *, pending: bool = True) -> None:
    """Raise an error unless each channel holds values of its type, stored alone or waiting to be applied.

    Args:
        found: As a saver gives it.
        schemas: The typed states of the graph that reads it.
        pending: Whether to look at what waits to be applied; of a past checkpoint that is done when it is replayed.

    Raises:
        ValueError: One does not; the message names the channel, what it holds and what would be right.
    """
    values: Mapping[str, Any] = found.checkpoint["channel_values"]
    waiting = [{channel: value} for _, channel, value in (found.pending_writes or ()) if pending]
    left_out = GIVEN if UNREAD & values.keys() else ()
    several = [
        {name: bare(value) for name, value in state.items() if name not in left_out} for state in (values, *waiting)
    ]
    check_values(_state_adapter(schemas), *several)


def check_update(values: Mapping[str, Any], schemas: tuple[type, ...], *, also: Sequence[str] = ()) -> None:
    """Raise an error unless a state update holds a value of its type for each channel, and no channel is unknown.

    Args:
        values: The update, as somebody who does not own the graph sends it.
        schemas: The typed states of the graph.
        also: What may be written there besides, by itself.

    Raises:
        ValueError: It does not; the message names the channel, what it holds and what would be right.
    """
    channels = {name for schema in schemas for name in get_type_hints(schema)}
    if unknown := sorted(values.keys() - channels):
        raise ValueError(
            f"there is no {unknown[0]!r:.80} in this state; there are {', '.join(sorted({*channels, *also}))}"
        )
    check_values(_state_adapter(schemas), values)
    # What reads a record asks each event for any field, also for one that only other kinds have.
    check_items("events", list[Event], values.get("events", []))


def check_items(channel: str, kind: Any, *several: Any) -> None:
    """Raise an error unless the items of lists, such as events, have the types that theirs says.

    Raises:
        ValueError: One has not; the message names the channel, the item, what it holds and what would be right.
    """
    check_values(_channel_adapter(channel, kind), *({channel: bare(items)} for items in several))


@cache
def _state_adapter(schemas: tuple[type, ...]) -> TypeAdapter[Any]:
    """Return a validator of all channels of some typed states at once; other channels may hold anything."""
    from pydantic import TypeAdapter

    typed = [get_type_hints(schema, include_extras=True) for schema in schemas]
    hints = {name: NotRequired[kind] for channels in typed for name, kind in channels.items()}
    return TypeAdapter(TypedDict("Values", hints))  # type: ignore[operator]


@cache
def _channel_adapter(channel: str, kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(TypedDict("Values", {channel: kind}))  # type: ignore[operator]


def bare(value: Any) -> Any:
    """Return the value that a snapshot or an `Overwrite` puts into the channel."""
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, langgraph_internals.DeltaSnapshot):
        return value.value
    overwrites, new = langgraph_internals.get_overwrite(value)
    return new if overwrites else value


def check_values(adapter: TypeAdapter[Any], *several: Mapping[str, Any]) -> None:
    """Raise ValueError unless each channel holds a value of its type, in each of several states.

    The message names the channel, what it holds and what would be right.
    """
    from pydantic import ValidationError

    for values in several:
        _refuse_later_format(values.get("events"))
        try:
            # Strict: lenient, pydantic takes "3" for 3, and what is used is the value as it is stored.
            adapter.validate_python(values, strict=True)
        except ValidationError as error:
            raise ValueError(_explained(error)) from None
        for channel in LIMITED & values.keys():
            for limits in _limits_in(channel, values[channel]):
                try:
                    # With its type: 1 and True are equal, and the cache would take one for the other.
                    _check_limits(*((name, type(value), value) for name, value in limits.items()))
                except (ValueError, TypeError) as error:
                    raise ValueError(f"its channel {channel!r} holds limits that make no sense: {error}") from None


def _refuse_later_format(events: Any) -> None:
    """Raise ValueError where a later release wrote events: by the rules of this one they could mean another thing."""
    for event in events if isinstance(events, list) else ():
        version = event.get("format") if isinstance(event, dict) else None
        if isinstance(version, int) and version > FORMAT:
            raise ValueError(
                f"a later redraft wrote it, in record format {version}; this one reads up to {FORMAT}: upgrade redraft"
            )


@lru_cache
def _check_limits(*limits: tuple[str, type, Any]) -> None:
    """Raise an error unless the limits make sense; a thread has the same ones in all its checkpoints."""
    Limits(**{name: value for name, _, value in limits})


def _limits_in(channel: str, value: Any) -> Sequence[Mapping[str, Any]]:
    if channel == "limits":
        return [value]
    return [event["limits"] for event in value if "limits" in event]


def first_fault(error: ValidationError) -> str:
    """Return the field that pydantic finds at fault first, and what is wrong with it."""
    fault = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, fault['loc'])) or 'the line'}: {fault['msg']}"


def _explained(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    channel, *path = first["loc"]
    # Of an event, its kind stands behind its place.
    path = [
        part
        for before, part in zip([channel, *path], path, strict=False)
        if not isinstance(before, int) or part not in KINDS
    ]
    where = ".".join(str(part) for part in path)
    if first["type"] == "missing":
        return f"its channel {channel!r} lacks {where}"
    if first["type"] == "union_tag_not_found":
        return f"its channel {channel!r} lacks {where}.kind"
    if first["type"] == "union_tag_invalid":
        context = first["ctx"]
        expected = context["expected_tags"]
        return f"its channel {channel!r} holds at {where}.kind {context['tag']!r}, which should be one of {expected}"
    value = repr(first["input"])
    value = value if len(value) <= SHOWN_CHARACTERS else f"{value[: SHOWN_CHARACTERS - 1]}…"
    right = first["msg"].removeprefix("Input ")
    return f"its channel {channel!r} holds {f'at {where} ' if where else ''}{value}, which {right}"
