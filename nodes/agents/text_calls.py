"""Tool calls that a model wrote as text: small local models often know the form and miss the channel for it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import Collection

    from langchain_core.messages import AIMessage

__all__ = ["read_text_calls"]


def read_text_calls(message: AIMessage, tools: Collection[str]) -> AIMessage:
    """Return the message with the tool calls that its text is, or the message itself.

    The whole text must be calls, each a JSON object with the name of a known tool and its arguments, bare, in a code
    fence, or between `<tool_call>` tags. A text that only speaks of a tool, or shows a call beside other words, is an
    answer.

    Args:
        message: What the model replied.
        tools: Names of the tools that it was offered.
    """
    if message.tool_calls:
        return message
    calls = [_call(part, tools) for part in _parts(str(message.text))]
    if not calls or not all(calls):
        return message
    return message.model_copy(update={"content": "", "tool_calls": calls})


def _parts(text: str) -> list[str]:
    """Return the pieces of a text that may each be a call."""
    bare = text.strip()
    if tagged := TAGGED.findall(bare):
        return tagged if not TAGGED.sub("", bare).strip() else [bare]
    if fenced := FENCED.findall(bare):
        return fenced if not FENCED.sub("", bare).strip() else [bare]
    return [bare] if bare else []


def _call(text: str, tools: Collection[str]) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("name") not in tools or not found.keys() <= {*KEYS, "parameters"}:
        return None
    arguments = found.get("arguments", found.get("parameters", {}))
    if not isinstance(arguments, dict):
        return None
    return {"name": found["name"], "args": arguments, "id": f"call_{uuid4().hex[:12]}", "type": "tool_call"}


KEYS = ("name", "arguments", "id", "type")
TAGGED = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)
FENCED = re.compile(r"```(?:json)?\s*\n(.*?)\n?```", re.DOTALL)
