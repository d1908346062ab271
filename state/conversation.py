"""Conversation of a thread: the state that holds its messages, and its turns as the record has them. Internal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence  # langgraph resolves the annotations of states at run time
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from typing_extensions import TypedDict

from .checked_channels import ThreadMessages
from .events import digest
from .schema import RefineOutput, RefineState
from .summary import current_run

if TYPE_CHECKING:
    from .events import Event

__all__ = [
    "ConversationInput",
    "ConversationOutput",
    "ConversationState",
    "answer_id",
    "before_task",
    "conversation_of",
    "kept_conversation",
    "said_so_far",
]


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
