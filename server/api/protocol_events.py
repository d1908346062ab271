"""LangChain's event protocol: what a run sends as the events of its thread that `useStream` reads. Internal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage, BaseMessageChunk
from langchain_core.messages.ai import add_usage

from ..engine.runs import TICK, Run, ServerEvent

__all__ = ["CHANNELS", "MODES", "ProtocolEvents", "matches"]

CHANNELS = ("values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "tasks", "custom")
MODES = ("values", "updates", "messages-tuple", "tools", "custom", "tasks", "checkpoints")
"""The stream modes of a run that a command begins."""
ENDS = {"success": "completed", "interrupted": "interrupted"}
"""How a run ends; in any other way it has failed."""


class _Item(NamedTuple):
    method: str
    namespace: Sequence[str]
    data: Any
    node: str | None = None


class ProtocolEvents:
    """Reads the events of one run, from its first on. The same events always have the same ids and numbers, so that
    a client that comes again knows those that it has seen."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._messages = MessageEvents()
        self._asked: set[str] = set()
        """Ids of the questions to a person that were told."""
        self._open: dict[tuple[str, ...], None] = {}
        """The subgraphs under way."""
        self._last = int(run.submitted_at * 1e6)

    def read(self, number: int, event: ServerEvent) -> list[dict[str, Any]]:
        """Return the protocol's events of one event."""
        self._last = event.at
        mode, *namespace = event.event.split("|")
        return [
            self._event(f"{number}.{part}", part, data)
            for part, data in enumerate(self._items(mode, namespace, event.data))
        ]

    def end(self) -> list[dict[str, Any]]:
        """Return the events after the last one of a run that has ended."""
        run = self._run
        how = ENDS.get(run.status, "failed")
        parts = [_Item("messages", (), data) for data in self._messages.end()]
        parts += [_Item("lifecycle", item, {"event": how, "graph_name": _graph(item)}) for item in self._open]
        error = {"error": run.error["message"]} if run.error is not None else {}
        parts.append(_Item("lifecycle", (), {"event": how, "graph_name": run.assistant, **error}))
        # Behind all that the last event may have become, and before the next.
        first = TICK - 1 - len(parts)
        return [self._event(f"end.{part}", first + part, item) for part, item in enumerate(parts)]

    def _items(self, mode: str, namespace: list[str], data: Any) -> Iterator[_Item]:
        if mode == "metadata":
            yield _Item("lifecycle", (), {"event": "running", "graph_name": self._run.assistant})
            return
        if mode not in CHANNELS:
            return
        yield from self._began(namespace)
        if mode == "messages":
            message, metadata = data
            for part in self._messages.read(message, metadata):
                yield _Item("messages", namespace, part, metadata.get("langgraph_node"))
        elif mode in ("values", "updates"):
            yield from self._state(mode, namespace, data)
        elif mode == "checkpoints":
            yield _Item("checkpoints", namespace, _checkpoint(data))
        elif mode == "custom":
            yield _Item("custom", namespace, {"payload": data})
        else:
            yield _Item(mode, namespace, data, data.get("name") if mode == "tasks" else None)
        if mode == "tasks" and "result" in data:
            yield from self._ended_task(namespace, data)

    def _state(self, mode: str, namespace: list[str], data: Any) -> Iterator[_Item]:
        if not isinstance(data, dict):
            yield _Item(mode, namespace, data)
            return
        for interrupt in data.get("__interrupt__", ()):
            if interrupt.id not in self._asked:
                self._asked.add(interrupt.id)
                # JavaScript's client reads the payload, Python's the value.
                yield _Item(
                    "input.requested",
                    namespace,
                    {"interrupt_id": interrupt.id, "payload": interrupt.value, "value": interrupt.value},
                )
        rest = {name: value for name, value in data.items() if name != "__interrupt__"}
        if rest or not data:
            yield _Item(mode, namespace, rest, next(iter(rest)) if mode == "updates" and len(rest) == 1 else None)

    def _began(self, namespace: Sequence[str]) -> Iterator[_Item]:
        for depth in range(1, len(namespace) + 1):
            place = tuple(namespace[:depth])
            if place not in self._open:
                self._open[place] = None
                yield _Item("lifecycle", place, {"event": "started", "graph_name": _graph(place)})

    def _ended_task(self, namespace: Sequence[str], data: Mapping[str, Any]) -> Iterator[_Item]:
        place = (*namespace, f"{data['name']}:{data['id']}")
        if place in self._open:
            del self._open[place]
            how = "failed" if data.get("error") else "interrupted" if data.get("interrupts") else "completed"
            yield _Item("lifecycle", place, {"event": how, "graph_name": _graph(place)})

    def _event(self, name: str, part: int, item: _Item) -> dict[str, Any]:
        params = {"namespace": list(item.namespace), "timestamp": self._last // 1000, "data": item.data}
        return {
            "type": "event",
            "event_id": f"{self._run.id}:{name}",
            "seq": self._last + min(part, TICK - 1),
            "method": item.method,
            "params": params if item.node is None else {**params, "node": item.node},
        }


def matches(
    event: Mapping[str, Any], channels: Sequence[str], namespaces: Sequence[Sequence[str]] | None, depth: int | None
) -> bool:
    """Return True for an event that a client subscribed to."""
    method = event["method"]
    if ("input" if method == "input.requested" else method) not in channels:
        return False
    inside = event["params"]["namespace"]
    return not namespaces or any(
        _begins(inside, prefix) and (depth is None or len(inside) - len(prefix) <= depth) for prefix in namespaces
    )


def _begins(namespace: Sequence[str], prefix: Sequence[str]) -> bool:
    """Return True where a namespace begins so; a part without a task's id stands for every task of this name."""
    return len(prefix) <= len(namespace) and all(
        wanted in (part, part.partition(":")[0]) for wanted, part in zip(prefix, namespace, strict=False)
    )


def _graph(namespace: Sequence[str]) -> str:
    return namespace[-1].partition(":")[0]


def _checkpoint(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checkpoint that a thread can be forked at."""
    parent = (data.get("parent_checkpoint") or {}).get("checkpoint_id")
    metadata = data["metadata"]
    return {
        "id": data["checkpoint"]["checkpoint_id"],
        **({"parent_id": parent} if parent else {}),
        "step": metadata.get("step"),
        "source": metadata.get("source"),
    }


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
    fields = {
        "provider": metadata.get("ls_provider"),
        "model": metadata.get("ls_model_name"),
        "langgraph_node": metadata.get("langgraph_node"),
    }
    call = getattr(message, "tool_call_id", None)
    return {
        "role": ROLES.get(message.type, message.type.lower()),
        "metadata": {name: value for name, value in fields.items() if value is not None},
        **({"tool_call_id": call} if call else {}),
    }


def _finished(block: dict[str, Any]) -> dict[str, Any]:
    """Return a block as it is when nothing more comes: a tool's arguments are read, or said to be none."""
    if block["type"] != "tool_call_chunk":
        return block
    fields = {name: part for name, part in block.items() if name not in ("type", "args", "index")}
    try:
        return {**fields, "type": "tool_call", "args": json.loads(block["args"] or "{}")}
    except ValueError:
        return {**fields, "type": "invalid_tool_call", "args": block["args"], "error": "the arguments are no JSON"}
