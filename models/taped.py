"""What a recording model and a replaying one share: the same key for the same call."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from pydantic import PrivateAttr

from .tape import Tape, request_key

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

__all__ = ["ASKED", "Taped", "provider_options"]

ASKED = "redraft_asked"
"""The option under which a schema or tools are bound in their neutral form, beside what a provider made of them."""


class Taped(BaseChatModel):
    """A chat model with a tape, and a count of how often it was asked each request."""

    _tape: Tape = PrivateAttr()
    _seen: Counter[str] = PrivateAttr(default_factory=Counter)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)

    def _position(
        self, messages: list[BaseMessage], stop: list[str] | None, options: dict[str, Any]
    ) -> tuple[str, int]:
        """The key of a call, and how many equal calls came before it."""
        request = request_key(messages, stop, _neutral(options.get(ASKED) or {}, provider_options(options)))
        with self._lock:
            self._seen[request] += 1
            return request, self._seen[request] - 1


def provider_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a call without our own."""
    return {name: value for name, value in options.items() if name != ASKED}


def _neutral(asked: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """The options a call is known by: the schema or tools themselves in place of a provider's way to ask for them."""
    ignored = {*asked.get("covers", ()), "stream_usage", "ls_structured_output_format"}
    rest = {name: value for name, value in options.items() if name not in ignored}
    return rest | {name: value for name, value in asked.items() if name != "covers"}
