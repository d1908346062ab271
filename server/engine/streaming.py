"""Stream modes: what a graph streams, as a run sends it. Internal."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from .requests import MODES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.runtime import RunControl

    from .runs import Run

__all__ = ["stream_graph"]


async def stream_graph(run: Run, graph: Any, entry: Any, config: RunnableConfig, control: RunControl) -> None:
    """Stream the graph to its end, send what the run was asked to send, and keep its last values in `run.output`."""
    wanted, subgraphs = run.request["stream_modes"], run.request["subgraphs"]
    # The values are the run's output, whether the caller wants to see them or not.
    modes = list(dict.fromkeys(["values", *(MODES[mode] for mode in wanted if mode != "events")]))
    parts = _MessageParts()
    options = {
        "stream_mode": modes,
        "subgraphs": subgraphs,
        # What a step paid for is in the database before the next one begins.
        "durability": "sync",
        "control": control,
        **{name: value for name in ("interrupt_before", "interrupt_after") if (value := run.request.get(name))},
    }
    items = (
        _with_events(run, graph, entry, config, options)
        if "events" in wanted
        else graph.astream(entry, config, **options)
    )
    async for item in items:
        namespace, mode, data = item if subgraphs else ((), *item)
        if mode == "values" and not namespace:
            # what a person is asked comes by itself
            run.output = {**(run.output or {}), **data} if set(data) == {"__interrupt__"} else dict(data)
        suffix = "".join(f"|{part}" for part in namespace)
        if mode != "messages" and mode in wanted:
            run.send(mode + suffix, SHOWN[mode](data) if mode in SHOWN else data)
        if mode == "messages" and "messages-tuple" in wanted:
            run.send("messages" + suffix, list(data))
        if mode == "messages" and "messages" in wanted:
            for event, part in parts.read(*data):
                run.send(event + suffix, part)


async def _with_events(
    run: Run, graph: Any, entry: Any, config: RunnableConfig, options: Mapping[str, Any]
) -> AsyncIterator[Any]:
    """Give what the graph streams, and send all events of LangChain's besides."""
    root = str(uuid.UUID(run.id))
    config = {**config, "run_id": uuid.UUID(root)}
    async for event in graph.astream_events(entry, config, version="v2", **options):
        if event["event"] == "on_chain_stream" and event["run_id"] == root:
            yield event["data"]["chunk"]
        else:
            run.send("events", event)


def _checkpoint(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checkpoint as clients read it: with its place, and its parent's, beside LangGraph's configs."""
    places = {"checkpoint": payload["config"], "parent_checkpoint": payload.get("parent_config")}
    tasks = [
        {**{name: part for name, part in task.items() if name != "state"}, "checkpoint": _place(task["state"])}
        if task.get("state")
        else task
        for task in payload["tasks"]
    ]
    return {**payload, **{name: _place(config) for name, config in places.items()}, "tasks": tasks}


def _place(config: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return None if config is None else config["configurable"]


def _debug(data: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**data, "payload": _checkpoint(data["payload"])} if data["type"] == "checkpoint" else data


def _tool(data: Mapping[str, Any]) -> Mapping[str, Any]:
    # What a tool's error says may hold paths and keys.
    return {**data, "message": "the tool failed"} if data.get("event") == "tool-error" else data


SHOWN = {"checkpoints": _checkpoint, "debug": _debug, "tools": _tool}


class _MessageParts:
    """Puts the pieces of messages together."""

    def __init__(self) -> None:
        self._so_far: dict[str, Any] = {}

    def read(self, message: BaseMessage, metadata: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Give the events of one piece: `messages/metadata` for a new message, then `messages/partial` with what there
        is of it, or `messages/complete` with all of it."""
        from langchain_core.messages import BaseMessageChunk

        name = message.id or ""
        if name not in self._so_far:
            yield "messages/metadata", {name: {"metadata": dict(metadata)}}
        if not isinstance(message, BaseMessageChunk):
            self._so_far[name] = message
            yield "messages/complete", [message]
            return
        earlier = self._so_far.get(name)
        self._so_far[name] = message if earlier is None else earlier + message
        last = getattr(message, "chunk_position", None) == "last"
        yield "messages/complete" if last else "messages/partial", [self._so_far[name]]
