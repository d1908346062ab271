"""Conversations as input of a graph, also of one that takes a task only. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....state.conversation import given_messages
from .runs import BadRequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ....graphs.preset import Conversation

__all__ = ["conversation_input", "task_of"]


def task_of(messages: Any, conversation: Conversation) -> str:
    """Return the task that a conversation is to a graph that takes no messages.

    The last user message is the task, and what comes after it is left out. What was said before, system messages first
    of all, is put before it; where programs read the task that is the system messages only, and a search gets its
    query and nothing else.

    Args:
        messages: In any of the forms that LangChain takes.
        conversation: What of it the graph is told, as its preset says.

    Raises:
        BadRequestError: They are none, or there is no user message.
    """
    try:
        read = given_messages(messages)
    except ValueError as error:
        raise BadRequestError(str(error)[:500]) from None
    said = [{"role": ROLES[one.type], "content": str(one.text)} for one in read if one.type in ROLES]
    last = max(index for index, one in enumerate(said) if one["role"] == "user")
    before, task = [one for one in said[:last] if one["content"].strip()], said[last]["content"]
    if conversation == "none":
        before = []
    elif conversation == "system":
        before = [one for one in before if one["role"] == "system"]
    return _after(before, task)


def conversation_input(messages: Any, conversation: Conversation) -> dict[str, Any]:
    """Return what a graph is given for a conversation: the messages where it takes them, else a task.

    Raises:
        BadRequestError: They are none, or there is no user message.
    """
    return {"messages": messages} if conversation == "messages" else {"task": task_of(messages, conversation)}


def _after(before: Sequence[dict[str, str]], task: str) -> str:
    if not before:
        return task
    from ....nodes.writing.conversation import in_context
    from ....state.events import record, task_event

    said = [*before, {"role": "user", "content": task}]
    events: Any = record({}, task_event(task, {}, {}, conversation=said))["events"]
    return in_context(task, events)


ROLES = {"system": "system", "human": "user", "ai": "assistant"}
"""Types of messages as graphs know them; what tools said elsewhere is left out."""
