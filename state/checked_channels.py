"""Type checks of stored values: what a database holds is refused where it is not of the state's types. Internal."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NotRequired, get_args, get_type_hints

from langgraph._internal._typing import MISSING
from langgraph.channels.binop import _get_overwrite
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from typing_extensions import TypedDict

from .events import FORMAT, Event, EventKind, Record
from .limits import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Self

    from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory, PendingWrite
    from pydantic import TypeAdapter, ValidationError

__all__ = [
    "BadCheckpointError",
    "CheckedDelta",
    "Writes",
    "bare",
    "check_found",
    "check_items",
    "check_update",
    "naming",
    "placed",
    "refusal",
]


class BadCheckpointError(ValueError):
    """Stored data that are no checkpoint, or one that is not to be trusted. None of it is used."""


DATA_ERRORS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, NotImplementedError, RecursionError)
"""Errors that data of the wrong form cause in code that expects another."""


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
        form = "" if isinstance(error, ValueError) else "it has not the form of a checkpoint: "
        raise refusal(place(), f"{form}{error or type(error).__name__}") from error


def refusal(place: Mapping[str, Any], reason: str) -> BadCheckpointError:
    """Return the error that refuses what stands at a place."""
    which = f", checkpoint {place['checkpoint_id']!r}" if place.get("checkpoint_id") else ""
    within = f" in {place['checkpoint_ns']!r}" if place.get("checkpoint_ns") else ""
    where = f"thread {place.get('thread_id')!r}{which}{within}"
    return BadCheckpointError(f"what the database holds of {where} is refused: {reason}")


LIMITED = {"limits", "events"}
"""Channels in which limits stand, which have ranges besides types."""
GIVEN = {"task", "limits"}
"""What a caller gives: until the first node has looked at it, anything."""
PLAIN = (str, int, float, list, type(None))
UNREAD = {"__start__", "branch:to:prepare", "branch:to:begin"}
"""Channels that are there while a task waits for the first node."""
KINDS = get_args(EventKind)
SHOWN_CHARACTERS = 80


def check_found(found: CheckpointTuple, schemas: tuple[type, ...], *, pending: bool = True) -> None:
    """Return if each channel holds a value of its type, what is stored of it alone and what waits to be applied.

    Args:
        found: As a saver gives it.
        schemas: The typed states of the graph that reads it.
        pending: Whether to look at what waits to be applied; of a past checkpoint that is done when it is replayed.

    Raises:
        ValueError: One does not; the message names the channel, what it holds and what would be right.
    """
    values: Mapping[str, Any] = found.checkpoint["channel_values"]
    adapter = _state_adapter(schemas)
    left_out = GIVEN if UNREAD & values.keys() else ()
    _check(adapter, {name: bare(value) for name, value in values.items() if name not in left_out})
    for _, channel, value in (found.pending_writes or ()) if pending else ():
        if channel not in left_out:
            _check(adapter, {channel: bare(value)})


def check_update(values: Mapping[str, Any], schemas: tuple[type, ...], *, also: Sequence[str] = ()) -> None:
    """Return if a state update holds a value of its type for each channel, and no channel is unknown.

    Args:
        values: The update, as somebody who does not own the graph sends it.
        schemas: The typed states of the graph.
        also: What may be written there besides, by itself.

    Raises:
        ValueError: It does not; the message names the channel, what it holds and what would be right.
    """
    known = {name for schema in schemas for name in get_type_hints(schema)}
    if unknown := sorted(values.keys() - known):
        raise ValueError(
            f"there is no {unknown[0]!r:.80} in this state; there are {', '.join(sorted({*known, *also}))}"
        )
    _check(_state_adapter(schemas), values)
    # What reads a record asks each event for any field, also for one that only other kinds have.
    check_items("events", list[Event], values.get("events", []))


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

    hints = {name: NotRequired[kind] for schema in schemas for name, kind in _hints(schema)}
    return TypeAdapter(TypedDict("Values", hints))  # type: ignore[operator]


def _hints(schema: type) -> Iterable[tuple[str, Any]]:
    return get_type_hints(schema, include_extras=True).items()


@cache
def _channel_adapter(channel: str, kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(TypedDict("Values", {channel: kind}))  # type: ignore[operator]


def _check(adapter: TypeAdapter[Any], values: Mapping[str, Any]) -> None:
    from pydantic import ValidationError

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
        found = event.get("format") if isinstance(event, dict) else None
        if isinstance(found, int) and found > FORMAT:
            raise ValueError(
                f"a later redraft wrote it, in record format {found}; this one reads up to {FORMAT}: upgrade redraft"
            )


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
    shown = repr(first["input"])
    shown = shown if len(shown) <= SHOWN_CHARACTERS else f"{shown[: SHOWN_CHARACTERS - 1]}…"
    right = first["msg"].removeprefix("Input ")
    return f"its channel {channel!r} holds {f'at {where} ' if where else ''}{shown}, which {right}"


class Writes(list["PendingWrite"]):
    """Writes that know whose they are."""

    place: Callable[[], Mapping[str, Any]] | None = None
    checked: dict[int, Any] | None = None
    """By the `id` of a write that lives as long as this, the type that it was found to be of; several may share it."""


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
        # LangGraph copies channels, and knows nothing of `kind`.
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
        checked: dict[int, Any] | None = getattr(writes, "checked", None)
        known = {} if checked is None else checked
        for write in writes:
            if known.get(id(write)) is not self.kind:
                check_items(self.key, self.kind, bare(write[2]))
                known[id(write)] = self.kind
