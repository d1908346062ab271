"""Conversation of a thread: the channel that holds its messages, and its turns as the record has them. Internal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence  # langgraph resolves the annotations of states at run time
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, NotRequired
from uuid import uuid4

from langchain_core.messages import BaseMessage, HumanMessage, convert_to_messages
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from typing_extensions import TypedDict

from .checked_channels import OwnDelta
from .events import digest
from .langgraph_internals import MISSING, DeltaSnapshot
from .schema import NEVER, RefineOutput, RefineState
from .summary import current_run

if TYPE_CHECKING:
    from typing import Self

    from .events import Event

__all__ = [
    "ConversationInput",
    "ConversationOutput",
    "ConversationState",
    "ThreadMessages",
    "Waiting",
    "answer_id",
    "before_task",
    "conversation_of",
    "given_messages",
    "kept_conversation",
    "said_so_far",
]


class Turns(list[Any]):
    """The messages of a thread, as its channel holds them."""


class Waiting(list[Any]):
    """Messages of a task that waits, as a release wrote them that kept no conversation."""


def add_turns(turns: list[Any], writes: Sequence[Any]) -> list[Any]:
    """Return the messages of a thread with those of some writes: new ones behind, known ones (by id) replaced.

    A conversation that is given again from its beginning, and a system message that was said before, are no new ones.
    What is no message is left out: an error here would keep the thread from ever being read.
    """
    messages: Any = [] if isinstance(turns, Waiting) else turns
    for write in writes:
        try:
            written = convert_to_messages(write if isinstance(write, list) else [write])
        except (ValueError, TypeError, NotImplementedError):
            continue
        if len(written) >= len(messages) and all(map(_same, messages, written)):
            written = written[len(messages) :]
        ids, systems = (
            {message.id for message in messages},
            {str(message.text) for message in messages if message.type == "system"},
        )
        new: list[Any] = [
            message if message.id else message.model_copy(update={"id": f"{len(messages) + place}"})
            for place, message in enumerate(written)
            if not (message.type == "system" and str(message.text) in systems)
            and (message.type != "remove" or message.id in {*ids, REMOVE_ALL_MESSAGES})
        ]
        messages = add_messages(messages, new)
    return Turns(messages)


def _same(one: BaseMessage, other: BaseMessage) -> bool:
    return one.type == other.type and str(one.text) == str(other.text)


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


class ConversationInput(TypedDict, total=False):
    """The input of a run: a task, or a conversation. Limits stay with the thread until they are given again."""

    task: str
    messages: Any
    """New messages as LangChain takes them, oldest first, or one; the thread knows what was said before. The last user
    message is the task, also where one is given."""
    draft: str
    """A first answer of the caller's own: none is written, and the run begins with feedback on this one."""
    limits: dict[str, Any]


class ConversationState(RefineState, total=False):
    """The state of a loop that takes conversations."""

    messages: Annotated[Any, ThreadMessages()]
    """All turns of the thread that came as messages, with their answers."""
    conversation: list[dict[str, Any]]
    """The current task's messages, in threads of releases before they were in the record."""


class ConversationOutput(RefineOutput):
    """The output of a run."""

    messages: NotRequired[list[Any]]
    """The thread's conversation, the answer last; empty where no turn of it came as messages."""


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


def said_so_far(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return the conversation up to the thread's last task that came in one, as plain data, oldest first.

    A task event holds what was said since the one before it, the last answer included.
    """
    turns: list[dict[str, Any]] = []
    for event in events:
        if event["kind"] == "task" and "conversation" in event:
            turns = [*(turns if event.get("continues") else []), *event["conversation"]]
    return turns


def conversation_of(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return the messages of the current task as plain data, itself the last user's; empty where it came without."""
    run = current_run(events)
    if not run:
        return []
    if run[0]["kind"] == "task" and "conversation" in run[0]:
        return said_so_far(events)
    # Earlier releases kept what was said before on the draft.
    before = next((event["conversation"] for event in run if event.get("conversation")), None)
    return [] if before is None else [*before, {"role": "user", "content": run[0]["text"]}]


def kept_conversation(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the conversation that a middleware or an earlier release keeps in the state, where it is that of the
    current task."""
    turns = state.get("conversation") or []
    last = next((turn for turn in reversed(turns) if isinstance(turn, Mapping) and turn.get("role") == "user"), {})
    return list(turns) if last.get("content") == state["task"] else []


def before_task(conversation: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages before the last user message."""
    of_user = [index for index, message in enumerate(conversation) if message["role"] == "user"]
    return [dict(message) for message in conversation[: of_user[-1]]] if of_user else []


def answer_id(events: Sequence[Event]) -> str | None:
    """Return the id of the current task's answer among the thread's messages; `None` where it came without any."""
    run = current_run(events)
    return f"answer-{digest(run[0])}" if run and "conversation" in run[0] else None
