"""Tool calls in the journal: one that has a result is not made again, and each has a key to tell it by. Internal.

A result is kept as a model's reply is (see `redraft.nodes.runtime`), with the tool's name and arguments in place of
model and messages. Unlike a reply it is never forgotten while its thread is kept: what a tool did stays done.
"""

from __future__ import annotations

import json
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, ToolMessage
from pydantic import ValidationError

from ...state.dual import Do, adrive, do, drive
from ...state.storage.journal import KeptReply
from .journal import JOURNALED_CALL

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from langgraph.prebuilt.tool_node import ToolCallRequest

__all__ = ["idempotency_key", "journaled_tool_calls"]

KEY: ContextVar[str | None] = ContextVar("redraft_idempotency_key", default=None)


def idempotency_key() -> str | None:
    """Return the key of the tool call under way, for a tool to pass on to a service that acts once per key.

    A call that a crash cut off is made again with the same key; an equal call of a later turn, another round or another
    thread has another one. `None` outside a tool, and where the run keeps no journal.
    """
    return KEY.get()


def journaled_tool_calls(refusal: Callable[[ToolCallRequest], ToolMessage | None] | None = None) -> dict[str, Any]:
    """Return the wrappers of a `ToolNode` that make no finished call again.

    Args:
        refusal: Returns the answer to a call that is not to be made.
    """

    def once(request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]) -> Generator[Do, Any, Any]:
        refused = refusal(request) if refusal else None
        return refused if refused is not None else (yield from _once(request, execute))

    def wrap(request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]) -> Any:
        return drive(once(request, execute))

    async def awrap(request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]) -> Any:
        return await adrive(once(request, execute))

    return {"wrap_tool_call": wrap, "awrap_tool_call": awrap}


def _once(request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]) -> Generator[Do, Any, Any]:
    journaled, call = JOURNALED_CALL.get(), request.tool_call
    if journaled is None:
        return (yield Do(execute, execute, (request,)))
    # By its place in the conversation: a resumed agent has not made its earlier calls again, so they can't be counted.
    messages = request.state["messages"]
    calls = next(message.tool_calls for message in reversed(messages) if isinstance(message, AIMessage))
    place, args = f"{len(messages)}.{calls.index(call)}", json.dumps(call["args"], sort_keys=True, default=str)
    key = f"{journaled.node.key(journaled.place, place, call['name'], args)}.tool"
    if (row := (yield do(journaled.node, "read", key))) is not None:
        journaled.meter.pass_time(row.seconds)
        return _message(row.reply, call)
    before = KEY.set(key)
    try:
        result = yield Do(execute, execute, (request,))
    finally:
        KEY.reset(before)
    if (text := _text(result)) is not None:
        row = KeptReply(text, round(journaled.meter.elapsed, 6))
        yield do(journaled.node, "write", key, row, "a tool's result")
    return result


def _text(result: Any) -> str | None:
    """Return a tool's result as JSON, or `None` where it is a command to the graph or JSON can't hold it."""
    if not isinstance(result, ToolMessage):
        return None
    fields = {name: value for name in KEPT if (value := getattr(result, name))}
    try:
        return json.dumps(fields, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return None


def _message(text: str, call: Any) -> ToolMessage:
    try:
        fields = json.loads(text)
        if not isinstance(fields, dict) or not fields.keys() <= set(KEPT):
            raise ValueError("it holds something else than the result of a tool")
        return ToolMessage(**{"content": "", **fields}, tool_call_id=call["id"], name=call["name"])
    except (TypeError, RecursionError, ValidationError) as error:
        raise ValueError(str(error)) from None


KEPT = ("content", "status", "artifact", "additional_kwargs", "response_metadata")
