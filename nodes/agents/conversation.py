"""A conversation as the input of a run. Internal.

Its last user message is the task, and what was said before is its context.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence  # langgraph resolves the annotations of nodes and states at run time
from typing import TYPE_CHECKING, Annotated, Any

from langchain_core.messages import BaseMessage, HumanMessage, convert_to_messages, convert_to_openai_messages
from langgraph.channels import EphemeralValue
from typing_extensions import TypedDict

from ...state.schema import RefineState
from ...state.summary import current_run
from ..critics.model_critic import ModelCritic
from ..writing.prompt_injection import fence, opens_part
from ..writing.prompts import PromptedModel
from ..writing.replies import read_text
from .structured_answers import normalized, schema_in

if TYPE_CHECKING:
    from collections.abc import Generator

    from langchain_core.messages import AIMessage
    from langchain_core.runnables import RunnableConfig

    from ...state.events import Event
    from ..runtime.dual import Do

__all__ = [
    "ConversationCritic",
    "ConversationInput",
    "ConversationRefiner",
    "ConversationState",
    "before_task",
    "in_context",
    "read_conversation",
]


class ConversationInput(TypedDict, total=False):
    """The input of a run: a task, or a conversation. Limits stay with the thread until they are given again."""

    task: str
    messages: Any
    """Messages as LangChain takes them, oldest first, or one. The last user message is the task, also where one is
    given."""
    draft: str
    """A first answer of the caller's own: the agent is not run, and the run begins with feedback on this one."""
    limits: dict[str, Any]


class ConversationState(RefineState, total=False):
    """The state of a loop that takes conversations."""

    messages: Annotated[Any, EphemeralValue]
    """What the caller gave; gone after `prepare`, so that a later task of the thread is not taken for part of it."""
    conversation: list[dict[str, Any]]
    """The messages of the current task as plain data, oldest first; empty where it came without."""


def read_conversation(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state update that makes a task of the conversation that was given, if one was.

    Reads: messages. Writes: task, conversation.

    Raises:
        ValueError: The messages can't be read, or none is a user's.
    """
    given = state.get("messages")
    if not given:
        return {"conversation": []}
    try:
        messages = convert_to_messages([given] if _single(given) else given)
    except (ValueError, TypeError, NotImplementedError) as error:
        raise ValueError(f"messages must be a list of chat messages, not {given!r:.200} ({error})") from None
    asked = [message for message in messages if isinstance(message, HumanMessage)]
    if not asked:
        raise ValueError("messages hold no user message, so there is no task in them")
    return {"task": str(asked[-1].text), "conversation": convert_to_openai_messages(messages)}


def _single(given: Any) -> bool:
    """Return whether this is one message, in any of the forms that LangChain takes one, and no list."""
    pair = isinstance(given, tuple) and len(given) == 2 and all(isinstance(part, str) for part in given)
    return pair or isinstance(given, str | Mapping | BaseMessage)


def before_task(conversation: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages before the last user message."""
    asked = [index for index, message in enumerate(conversation) if message["role"] == "user"]
    return [dict(message) for message in conversation[: asked[-1]]] if asked else []


def in_context(task: str, events: Sequence[Event]) -> str:
    """Return the task as a prompt shows it: after what was said before it, where the draft's record holds that."""
    before: list[Any] = []
    for event in current_run(events):
        before = event.get("conversation") or before
    lines = [
        f"{SPEAKERS[message.type]}: {_said(text)}"
        for message in convert_to_messages(before)
        if message.type in SPEAKERS
        and (text := read_text(message) if message.type == "ai" else str(message.text)).strip()
    ]
    return "\n\n".join([BEFORE, *lines, f"{NOW}\n{_said(task)}"]) if lines else task


def _said(text: str) -> str:
    """Return what was said, in a fence where a line of it could pass for what somebody else said."""
    return fence(text) if opens_part(text, [BEFORE, NOW, *(f"{one}:" for one in SPEAKERS.values())]) else text


class ConversationCritic(ModelCritic):
    """A model as judge that is shown what was said before the task."""

    def messages(self, task: str, draft: str, history: Sequence[Event]) -> list[BaseMessage]:
        """Return what the judge is asked."""
        return super().messages(in_context(task, history), draft, history)


class ConversationRefiner(PromptedModel):
    """A model that revises and is shown what was said before the task; data is revised as data."""

    def messages(self, state: Mapping[str, Any]) -> list[BaseMessage]:
        """Return the messages that the model is asked with."""
        asked = super().messages({**state, "task": in_context(state["task"], state["events"])})
        schema = schema_in(state["events"])
        return asked if schema is None else [*asked, HumanMessage(AS_DATA.format(schema=json.dumps(schema)))]

    def logic(self, input: Mapping[str, Any], config: RunnableConfig | None) -> Generator[Do, Any, AIMessage]:  # noqa: A002
        reply = yield from super().logic(input, config)
        if schema_in(input["events"]) is None:
            return reply
        return reply.model_copy(update={"content": normalized(read_text(reply))})


AS_DATA = """\
The answer is data. Reply with one JSON object that fits this JSON Schema, and nothing else:
{schema}"""
SPEAKERS = {"system": "Instructions", "human": "User", "ai": "Assistant"}
BEFORE = "(What was said before:)"
NOW = "(Now the user asks:)"
