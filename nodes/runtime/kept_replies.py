"""Replies of models as the journal keeps them. Internal.

Plain JSON, validated when it is read, that names no class to build.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, Generation
from pydantic import ValidationError

from ...state.storage.journal import KeptReply

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["KeptMessage", "is_reused", "kept_reply", "reply_of"]

SHORTEST = 200
"""Characters of a text that is worth looking for in the record."""


class KeptMessage(AIMessage):
    """A reply from the journal. LangChain copies what it finds in a cache; the copy is the reply as the model gave it.

    LangChain would write into the copy that the call cost nothing, and budgets count what it cost when it was made.
    """

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> AIMessage:  # type: ignore[override]
        """Return the reply with its own usage."""
        message = AIMessage(**_fields(self))
        _in_use[id(message)] = message
        return message


_in_use: WeakValueDictionary[int, AIMessage] = WeakValueDictionary()
"""The replies out of a journal that are in use, by their `id`: nothing in them says where they are from."""


def is_reused(message: AIMessage | None) -> bool:
    """Return whether a reply is out of a journal, or of a cache of LangChain's, which marks it."""
    if message is None:
        return False
    return _in_use.get(id(message)) is message or "total_cost" in (message.usage_metadata or {})


def kept_reply(generations: Sequence[Generation], seconds: float) -> KeptReply | None:
    """Return a reply as it is kept, or `None` where it is no chat model's or JSON can't hold it.

    Args:
        generations: What the model replied.
        seconds: As `KeptReply` has them.
    """
    messages: list[Any] = [getattr(generation, "message", None) for generation in generations]
    if not messages or not all(isinstance(message, AIMessage) for message in messages):
        return None
    try:
        reply = json.dumps([_fields(message) for message in messages], allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return None
    text = messages[0].content
    repeatable = len(messages) == 1 and isinstance(text, str) and len(text) >= SHORTEST
    return KeptReply(reply, round(seconds, 6), text if repeatable else "")


def reply_of(text: str) -> list[Generation]:
    """Return a reply as LangChain's cache returns it.

    Raises:
        ValueError: The text is no reply of a model.
    """
    try:
        messages = json.loads(text)
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if not isinstance(messages, list) or not messages:
        raise ValueError("it is no list of messages")
    return [ChatGeneration(message=_message(fields)) for fields in messages]


def _message(fields: Any) -> AIMessage:
    if not isinstance(fields, dict) or not fields.keys() <= KEPT:
        raise ValueError("it holds something else than messages of a model")
    try:
        return KeptMessage.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _fields(message: Any) -> dict[str, Any]:
    return {name: getattr(message, name) for name in sorted(KEPT) if getattr(message, name, None)} | {
        "content": message.content
    }


KEPT = frozenset(
    [
        *("additional_kwargs", "content", "id", "invalid_tool_calls", "name"),
        *("response_metadata", "tool_calls", "usage_metadata"),
    ]
)
"""Fields of a message that are kept; all are data."""
