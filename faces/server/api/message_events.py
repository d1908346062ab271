"""Messages as LangChain's event protocol streams them: started, added to block by block, finished. Internal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from langchain_core.messages import BaseMessage

__all__ = ["MessageEvents"]

ADDED_TO = {"text": "text", "reasoning": "reasoning", "tool_call_chunk": "args"}
"""Blocks that come in pieces, and the field that grows."""
ROLES = {"AIMessageChunk": "ai", "HumanMessageChunk": "human", "SystemMessageChunk": "system"}


class MessageEvents:
    """Reads the pieces of a run's messages. Several may come at once; each event names its message."""

    def __init__(self) -> None:
        self._open: dict[str, dict[Any, dict[str, Any]]] = {}
        """The blocks of the messages that are not finished."""
        self._usage: dict[str, Any] = {}
        self._finished: set[str] = set()

    def read(self, message: BaseMessage, metadata: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Give the events of one piece, or of a whole message."""
        from langchain_core.messages import BaseMessageChunk

        name = message.id or ""
        if name in self._finished:
            return
        if name not in self._open:
            self._open[name] = {}
            yield {"event": "message-start", "id": name, **_start(message, metadata)}
        blocks = self._open[name]
        for position, block in enumerate(message.content_blocks):
            yield from self._block(name, blocks, position, dict(block))
        if usage := getattr(message, "usage_metadata", None):
            from langchain_core.messages.ai import add_usage

            self._usage[name] = add_usage(self._usage.get(name), usage)
        if not isinstance(message, BaseMessageChunk) or getattr(message, "chunk_position", None) == "last":
            yield from self._finish(name)

    def end(self) -> Iterator[dict[str, Any]]:
        """Finish the messages that a run left as they were."""
        for name in list(self._open):
            yield from self._finish(name)

    def _block(
        self, name: str, blocks: dict[Any, dict[str, Any]], position: int, block: dict[str, Any]
    ) -> Iterator[dict[str, Any]]:
        kind = block["type"]
        grows = ADDED_TO.get(kind)
        # Pieces without an index belong together by their type.
        key = block.get("index", (kind, 0 if grows else position))
        index = list(blocks).index(key) if key in blocks else len(blocks)
        if key not in blocks:
            blocks[key] = {**block, grows: ""} if grows else block
            started = blocks[key] if grows else {name: part for name, part in block.items() if name not in HEAVY}
            yield {"event": "content-block-start", "id": name, "index": index, "content": dict(started)}
        if grows and (piece := block.get(grows)):
            whole = blocks[key]
            whole |= {field: part for field, part in block.items() if part is not None and field != grows}
            whole[grows] = (whole[grows] or "") + piece
            delta = {"type": "tool-call-delta" if grows == "args" else f"{kind}-delta", grows: piece}
            yield {"event": "content-block-delta", "id": name, "index": index, "delta": delta}

    def _finish(self, name: str) -> Iterator[dict[str, Any]]:
        for index, block in enumerate(self._open.pop(name).values()):
            yield {"event": "content-block-finish", "id": name, "index": index, "content": _finished(block)}
        usage = self._usage.pop(name, None)
        yield {"event": "message-finish", "id": name, **({"usage": usage} if usage else {})}
        self._finished.add(name)


HEAVY = ("args", "base64", "data", "output", "value")
"""Fields of blocks that come whole; they are sent once, at the end."""


def _start(message: BaseMessage, metadata: Mapping[str, Any]) -> dict[str, Any]:
    given = {
        "provider": metadata.get("ls_provider"),
        "model": metadata.get("ls_model_name"),
        "langgraph_node": metadata.get("langgraph_node"),
    }
    call = getattr(message, "tool_call_id", None)
    return {
        "role": ROLES.get(message.type, message.type.lower()),
        "metadata": {name: value for name, value in given.items() if value is not None},
        **({"tool_call_id": call} if call else {}),
    }


def _finished(block: dict[str, Any]) -> dict[str, Any]:
    """Return a block as it is when nothing more comes: a tool's arguments are read, or said to be none."""
    if block["type"] != "tool_call_chunk":
        return block
    told = {name: part for name, part in block.items() if name not in ("type", "args", "index")}
    try:
        return {**told, "type": "tool_call", "args": json.loads(block["args"] or "{}")}
    except ValueError:
        return {**told, "type": "invalid_tool_call", "args": block["args"], "error": "the arguments are no JSON"}
