"""A conversation as the input of a run: its last user message is the task, the others its context. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage, HumanMessage, convert_to_messages, convert_to_openai_messages

from ...state.checked_channels import Waiting
from ...state.conversation import before_task, conversation_of, said_so_far
from .prompt_injection import fence, opens_part
from .replies import read_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...state.events import Event

__all__ = ["in_context", "read_conversation", "with_context"]


def read_conversation(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the task in the input's messages, if it has any, and the part of the conversation the record lacks.

    Reads: task, messages, events.
    """
    messages = state.get("messages")
    waits = isinstance(messages, Waiting)
    if not messages or not (waits or state.get("task") is None):
        return {}
    conversation = convert_to_openai_messages(messages)
    recorded = said_so_far(state.get("events") or [])
    update: dict[str, Any] = {
        "task": str([message for message in messages if isinstance(message, HumanMessage)][-1].text),
        "conversation": conversation,
    }
    if recorded and conversation[: len(recorded)] == recorded:
        update |= {"conversation": conversation[len(recorded) :], "continues": True}
    return {**update, "messages": list(messages)} if waits else update


def in_context(task: str, events: Sequence[Event]) -> str:
    """Return the task as a prompt shows it: after what was said before it, where the record holds that."""
    before = before_task(conversation_of(events))
    return with_context(task, convert_to_messages(before)) if before else task


def with_context(task: str, before: Sequence[BaseMessage]) -> str:
    """Return the task after the messages that were said before it; alone where none were."""
    lines = [
        f"{SPEAKERS[message.type]}: {_quoted(text)}"
        for message in before
        if message.type in SPEAKERS
        and (text := read_text(message) if message.type == "ai" else str(message.text)).strip()
    ]
    return "\n\n".join([BEFORE, *lines, f"{NOW}\n{_quoted(task)}"]) if lines else task


def _quoted(text: str) -> str:
    """Quote a turn: in a fence where a line of it could pass for somebody else's turn."""
    return fence(text) if opens_part(text, [BEFORE, NOW, *(f"{name}:" for name in SPEAKERS.values())]) else text


SPEAKERS = {"system": "Instructions", "human": "User", "ai": "Assistant"}
BEFORE = "(What was said before:)"
NOW = "(Now the user asks:)"
