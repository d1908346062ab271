"""One run of a graph, from where it starts to where it ends, with all it sends on the way."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ....state import Thread
from ..api.messages import MessageParts
from .requests import MODES
from .runs import BadRequestError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from langgraph.runtime import RunControl

    from .runs import Run, RunStatus

__all__ = ["drive"]

INTERRUPT_ID = re.compile("[0-9a-f]{32}")


async def drive(
    run: Run, graph: Any, control: RunControl, *, metadata: Mapping[str, str], mark_begun: Callable[[], Awaitable[None]]
) -> RunStatus:
    """Run the graph, send what it streams, put its last values into `run.output`, and return how it ended.

    Args:
        run: What to run.
        graph: With the saver that holds the thread.
        control: Asks it to stop between two steps.
        metadata: What rebuilds the graph, kept in each checkpoint.
        mark_begun: Called before a run that a process before this one had begun goes on.

    Raises:
        BadRequestError: What was asked for makes no sense where the thread stands now.
    """
    from langgraph.errors import GraphDrained

    told = {name: value for name, value in run.metadata.items() if not name.startswith("redraft_")}
    config: dict[str, Any] = {
        "configurable": {"thread_id": run.thread_id},
        "metadata": {**told, "run_id": run.id, "graph_id": run.assistant, **metadata},
        **run.request.get("config", {}),
    }
    if checkpoint_id := run.request.get("checkpoint_id"):
        config["configurable"] |= {"checkpoint_id": checkpoint_id, "checkpoint_ns": ""}
    given, config = await _start(run, graph, config, mark_begun)
    try:
        await _stream(run, graph, given, config, control)
    except GraphDrained:
        return "interrupted"
    if (run.output or {}).get("__interrupt__"):
        return "interrupted"
    if _may_stop(run, graph) and (await graph.aget_state({"configurable": {"thread_id": run.thread_id}})).next:
        return "interrupted"
    return "success"


def _may_stop(run: Run, graph: Any) -> bool:
    """Return whether nodes are named to stop at; else what streams to its end has ended, and needn't be read again."""
    asked = run.request.get("interrupt_before") or run.request.get("interrupt_after")
    return bool(asked or graph.interrupt_before_nodes or graph.interrupt_after_nodes)


async def _start(
    run: Run, graph: Any, config: dict[str, Any], mark_begun: Callable[[], Awaitable[None]]
) -> tuple[Any, dict[str, Any]]:
    """Return what the graph is streamed with, and where."""
    request, thread = run.request, Thread(graph, run.thread_id)
    stored = await graph.checkpointer.aget_tuple(thread.config)
    if run.begun or (stored is not None and stored.metadata.get("run_id") == run.id):
        await mark_begun()
        at_end = {**config, "configurable": {"thread_id": run.thread_id}}
        return await thread.aready(), at_end
    if (command := request.get("command")) is not None:
        return await _command(thread, command), config
    if request.get("input") is not None:
        return request["input"], config
    if stored is None:
        raise BadRequestError('a new thread needs an input with a "task"')
    return None if request.get("checkpoint_id") else await thread.aready(), config


async def _command(thread: Thread, given: Mapping[str, Any]) -> Any:
    from langgraph.types import Command, Send

    goto = [Send(one["node"], one["input"]) if isinstance(one, dict) else one for one in given.get("goto", [])]
    reply = given.get("resume")
    by_id = isinstance(reply, dict) and bool(reply) and all(INTERRUPT_ID.fullmatch(name) for name in reply)
    if reply is not None and not by_id and await _asked(thread):
        try:
            await thread.aready_answer(reply)
        except (ValueError, LookupError) as error:
            raise BadRequestError(str(error)[:500]) from None
    if reply is not None:
        return Command(resume=reply, update=given.get("update"), goto=goto)
    return Command(update=given.get("update"), goto=goto)


async def _asked(thread: Thread) -> bool:
    """Return whether a person is asked in a way that we know, or nobody is asked at all."""
    from ....state.threads.answers import pending_interrupts

    stored = await thread.saver.aget_tuple(thread.config)
    return stored is None or not pending_interrupts(stored) or await thread.aquestion() is not None


async def _stream(run: Run, graph: Any, given: Any, config: dict[str, Any], control: RunControl) -> None:
    asked = run.request["stream_modes"]
    modes = list(dict.fromkeys(["values", *(MODES[mode] for mode in asked)]))
    parts = MessageParts()
    stops = {name: value for name in ("interrupt_before", "interrupt_after") if (value := run.request.get(name))}
    stream = graph.astream(
        given,
        config,
        stream_mode=modes,
        subgraphs=run.request["subgraphs"],
        durability="sync",
        control=control,
        **stops,
    )
    async for item in stream:
        namespace, mode, data = item if run.request["subgraphs"] else ((), *item)
        if mode == "values" and not namespace:
            # what a person is asked comes by itself
            run.output = {**(run.output or {}), **data} if set(data) == {"__interrupt__"} else dict(data)
        suffix = "".join(f"|{part}" for part in namespace)
        if mode != "messages" and mode in asked:
            run.send(mode + suffix, data)
        if mode == "messages" and "messages-tuple" in asked:
            run.send("messages" + suffix, list(data))
        if mode == "messages" and "messages" in asked:
            for event, part in parts.read(*data):
                run.send(event + suffix, part)
