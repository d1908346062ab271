"""Replies of models as the journal keeps them. Internal.

Plain JSON, validated when it is read, that names no class to build.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, Generation
from pydantic import ValidationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["KeptMessage", "reply_of", "text_of"]


class KeptMessage(AIMessage):
    """A reply from the journal. LangChain copies what it finds in a cache; the copy is the reply as the model gave it.

    LangChain would write into the copy that the call cost nothing, and budgets count what it cost when it was made.
    """

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> AIMessage:  # type: ignore[override]
        """Return the reply with its own usage."""
        return AIMessage(**_fields(self))


def text_of(generations: Sequence[Generation]) -> str | None:
    """Return a reply as JSON, or `None` where it is no chat model's or JSON can't hold it: then it is not kept."""
    messages = [getattr(one, "message", None) for one in generations]
    if not messages or not all(isinstance(one, AIMessage) for one in messages):
        return None
    try:
        return json.dumps([_fields(one) for one in messages], allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return None


def reply_of(text: str) -> list[Generation]:
    """Return a reply as LangChain's cache returns it.

    Raises:
        ValueError: The text is no reply of a model.
    """
    try:
        found = json.loads(text)
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if not isinstance(found, list) or not found:
        raise ValueError("it is no list of messages")
    return [ChatGeneration(message=_message(fields)) for fields in found]


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
