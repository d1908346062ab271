"""Channels of the state, which refuse what a database holds where it is not of the state's types. Internal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from langchain_core.messages import BaseMessage, HumanMessage, convert_to_messages
from langgraph.channels.delta import DeltaChannel
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages

from .checked_values import check_items, naming
from .events import Event, Record
from .langgraph_internals import MISSING, DeltaSnapshot

if TYPE_CHECKING:
    from langgraph.checkpoint.base import DeltaChannelHistory, PendingWrite


__all__ = [
    "NEVER",
    "CheckedDelta",
    "OwnDelta",
    "StoredOnce",
    "ThreadMessages",
    "Waiting",
    "Writes",
    "append_events",
    "given_messages",
    "last",
    "placed",
]


NEVER = 10**9
"""As often a channel is stored whole: only what each step added is."""
SLOTS = ("key", "typ", "reducer", "snapshot_frequency", "value", "kind")
"""What a channel of ours holds."""


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


class OwnDelta(DeltaChannel[Any]):
    """A `DeltaChannel` whose reducer changes no value in place: its copies share one."""

    __slots__ = ("kind",)

    def __init__(self, reducer: Callable[[Any, Any], Any], typ: Any = None, *, snapshot_frequency: int = 100) -> None:
        super().__init__(reducer, typ, snapshot_frequency=snapshot_frequency)
        self.kind = typ
        """The type with that of its items, which LangGraph takes off."""

    def copy(self) -> Self:
        # LangGraph copies a channel, and its value with it, for each decision where to go.
        new = object.__new__(type(self))
        for name in SLOTS:
            setattr(new, name, getattr(self, name))
        return new


class CheckedDelta(OwnDelta):
    """A `DeltaChannel` whose items, when they are read from a checkpointer, must be of their type.

    What a running node adds is not looked at: a step costs what it did.
    """

    __slots__ = ()

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """Return the channel with a stored value; raises ValueError where an item is of another type."""
        value = checkpoint.value if isinstance(checkpoint, DeltaSnapshot) else checkpoint
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
        known_values = {} if checked is None else checked
        new = [write for write in writes if known_values.get(id(write)) is not self.kind]
        check_items(self.key, self.kind, *(write[2] for write in new))
        known_values |= dict.fromkeys(map(id, new), self.kind)


def append_events(events: Sequence[Event], writes: Sequence[Sequence[Event]]) -> list[Event]:
    """Return the record with all writes appended, in order: the reducer of the `events` channel."""
    grown = Record(events)
    grown.summary = getattr(events, "summary", None)
    for write in writes:
        grown.extend(write)
    return grown


def last(_: Any, writes: Sequence[Any]) -> Any:
    """Return the last write: the reducer of a channel without one."""
    return writes[-1]


class StoredOnce(OwnDelta):
    """A long text that seldom changes: it stands in the checkpoint of the step which wrote it, in none that follow.

    Its snapshot is all that LangGraph's savers need to find it from a later checkpoint. In threads of earlier releases
    each checkpoint has it.
    """

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


class Turns(list[Any]):
    """The messages of a thread, as its channel holds them."""


class Waiting(list[Any]):
    """Messages of a task that waits, as a release wrote them that kept no conversation."""


def add_turns(turns: list[Any], writes: Sequence[Any]) -> list[Any]:
    """Return the messages of a thread with those of some writes: new ones behind, known ones (by id) replaced.

    A conversation that is given again from its beginning, and a system message that was said before, are no new ones.
    What is no message is left out: an error here would keep the thread from ever being read.
    """
    messages: list[Any] = [] if isinstance(turns, Waiting) else [*turns]
    ids, systems = _known(messages)
    for write in writes:
        written = _behind(messages, write)
        taken = {message.id for message in written}
        new: list[Any] = [
            message if message.id else message.model_copy(update={"id": _free(len(messages) + place, ids, taken)})
            for place, message in enumerate(written)
            if not (message.type == "system" and str(message.text) in systems)
            and (message.type != "remove" or message.id in ids or message.id == REMOVE_ALL_MESSAGES)
        ]
        if any(message.type == "remove" or message.id in ids for message in new):
            messages = add_messages(messages, new)  # type: ignore[assignment]  # lists give a list
            ids, systems = _known(messages)
        else:  # behind, without a look at all that stand there
            added: Any = add_messages([], new)
            messages += added
            more_ids, more_systems = _known(added)
            ids |= more_ids
            systems |= more_systems
    return Turns(messages)


def _behind(messages: Sequence[Any], write: Any) -> list[Any]:
    """Return the messages of a write, without those that stand there already where it begins with all of them."""
    try:
        written = convert_to_messages(write if isinstance(write, list) else [write])
    except (ValueError, TypeError, NotImplementedError):
        return []
    again = len(written) >= len(messages) and all(
        one.type == other.type and str(one.text) == str(other.text)
        for one, other in zip(messages, written, strict=False)
    )
    return written[len(messages) :] if again else written


def _free(number: int, ids: Collection[str], taken: set[str | None]) -> str:
    """Return the first number from this one on that is the id of no message, as an id that is taken now."""
    while (name := str(number)) in ids or name in taken:
        number += 1
    taken.add(name)
    return name


def _known(messages: Sequence[Any]) -> tuple[set[str], set[str]]:
    """Return the ids of messages, and the texts of those that are of the system."""
    systems = {str(message.text) for message in messages if message.type == "system"}
    return {message.id for message in messages}, systems


class ThreadMessages(OwnDelta):
    """The messages of a thread, of which each turn stores its own."""

    def __init__(self, reducer: Any = add_turns, typ: Any = list, *, snapshot_frequency: int = NEVER) -> None:
        # What the annotation says is of the values that callers may give.
        super().__init__(reducer, list, snapshot_frequency=snapshot_frequency)

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """Return the channel with a stored value."""
        plain = checkpoint is not MISSING and not isinstance(checkpoint, DeltaSnapshot | Turns)
        new = super().from_checkpoint(MISSING if plain else checkpoint)
        if plain and checkpoint:
            with suppress(ValueError):
                new.value = Waiting(given_messages(checkpoint))
        return new


def given_messages(given: Any) -> list[BaseMessage]:
    """Return messages in any of the forms that LangChain takes them, each with an id.

    Raises:
        ValueError: They can't be read, or none is a user's.
    """
    pair = isinstance(given, tuple) and len(given) == 2 and all(isinstance(part, str) for part in given)
    try:
        messages = convert_to_messages([given] if pair or isinstance(given, str | Mapping | BaseMessage) else given)
    except (ValueError, TypeError, NotImplementedError) as error:
        raise ValueError(f"messages must be a list of chat messages, not {given!r:.200} ({error})") from None
    if not any(isinstance(message, HumanMessage) for message in messages):
        raise ValueError("messages hold no user message, so there is no task in them")
    return [message if message.id else message.model_copy(update={"id": str(uuid4())}) for message in messages]
