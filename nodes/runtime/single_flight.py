"""Replies as the journal keeps them: plain JSON that is validated when it is read, and names no class to be built."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, Generation
from pydantic import ValidationError

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

__all__ = ["Flight", "Flights", "KeptMessage", "caller", "reply_of", "text_of"]


class KeptMessage(AIMessage):
    """A reply out of the journal, of which LangChain's copy is the reply as it was: with its own usage, and no more."""

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> AIMessage:  # type: ignore[override]
        """Return the reply; LangChain would note that it cost nothing."""
        return AIMessage(**_fields(self))


def text_of(generations: Sequence[Generation]) -> str | None:
    """Return the JSON of a reply, or `None` where it is no chat model's or JSON can't hold it: it is not kept then."""
    messages = [getattr(one, "message", None) for one in generations]
    if not messages or not all(isinstance(one, AIMessage) for one in messages):
        return None
    try:
        return json.dumps([_fields(one) for one in messages], allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return None


def reply_of(text: str) -> list[Generation]:
    """Return a reply as a model returns it.

    Raises:
        ValueError: This is no reply of a model.
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
    {
        "additional_kwargs",
        "content",
        "id",
        "invalid_tool_calls",
        "name",
        "response_metadata",
        "tool_calls",
        "usage_metadata",
    }
)
"""Fields of a message that are kept; all are data."""


def caller() -> Hashable:
    """Return who makes a call right now: the task, or else the thread. Each makes one call at a time."""
    try:
        return asyncio.current_task() or threading.get_ident()
    except RuntimeError:
        return threading.get_ident()


def _loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@dataclass(frozen=True)
class Flight:
    """One call that somebody makes."""

    result: Future[Any] = field(default_factory=Future)
    """The reply, or `None` where none came."""
    loop: asyncio.AbstractEventLoop | None = field(default_factory=_loop)
    """Where it is made, when that is an event loop."""

    def wait(self) -> Any:
        """Return the reply, or `None`; at once where waiting here would keep the call itself from ending."""
        if self.loop is not None and self.loop is _loop():
            return None
        return self.result.result()

    async def await_(self) -> Any:
        """Async twin of `wait`; a waiter that is cancelled leaves the call alone."""
        return await asyncio.shield(asyncio.wrap_future(self.result))


class Flights:
    """The calls in flight, by their key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flights: dict[Hashable, Flight] = {}

    def board(self, key: Hashable) -> tuple[Flight, bool]:
        """Return the flight of a call, and whether it begins now: then who boarded makes the call and lands it."""
        with self._lock:
            known = self._flights.get(key)
            if known is not None:
                return known, False
            self._flights[key] = begun = Flight()
            return begun, True

    def land(self, key: Hashable, flight: Flight, reply: Any = None) -> None:
        """End a flight with its reply, or with `None`: then one of those who waited makes the call."""
        with self._lock:
            if self._flights.get(key) is flight:
                del self._flights[key]
        if not flight.result.done():
            flight.result.set_result(reply)
