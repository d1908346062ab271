"""Execution of one run: its graph streamed within a time limit, in the modes asked for, and its end noted. Internal."""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from langchain_core.messages import BaseMessage, BaseMessageChunk

from ...nodes.runtime.call_ceiling import under_ceiling
from ...nodes.runtime.killable import CALLER
from ...state import ChangedGraphError, Thread
from ...state.storage.lease_keeper import TAKEN_OVER
from ...state.storage.leases import LostLeaseError, this_process
from ...state.threads.kind import EditedRecordError, compared
from ...state.threads.lease import LeaseHolder
from ..watchdog import UNDER_WAY
from .records import now
from .requests import MODES
from .runs import LOG, BadRequestError, NotThereError, Run, RunStatus
from .thread_graphs import offering_fork

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from langchain_core.runnables import RunnableConfig
    from langgraph.runtime import RunControl

    from ...faces.run_config import RunConfig
    from .engine import Engine

__all__ = ["PASSED_ON", "Execution", "Finished"]

Finished: TypeAlias = "Callable[[Run, Mapping[str, Any] | None], None]"

INTERRUPT_ID = re.compile("[0-9a-f]{32}")
TOKENS_KEPT_S = 60.0
"""How long after its end the tokens of a run are kept for who reads slowly; the rest of what it sent is kept longer."""


class Execution:
    """Executes runs, each thread's one at a time."""

    def __init__(self, engine: Engine) -> None:
        self.cancelled: set[str] = set()
        """Ids of the runs that are being cancelled."""
        self._engine = engine
        self._leases = LeaseHolder(engine.saver)

    async def work(self, run: Run) -> None:
        """Run what this process has claimed to its end, and write down how it ended."""
        status: RunStatus | None = "error"
        lost = False
        CALLER.set(run.caller.id)  # in the task of this run alone
        UNDER_WAY.set(run.id)
        run.status, run.started_at = "running", time.time()
        self._engine.known.wake([run.thread_id])
        clock, ceiling = asyncio.timeout(self._engine.settings.max_seconds_a_run), None
        try:
            async with clock:
                run.send("metadata", {"run_id": run.id, "attempt": run.attempts})
                ceiling = await self._engine.ceilings.of_run(run)
                # The shell or another server may run the thread right now.
                async with self._leases.leased(run.thread_id, wait=True) as control:
                    stored = await self._engine.saver.aget_tuple({"configurable": {"thread_id": run.thread_id}})
                    # Its input is in the thread: given once more, the task would begin anew and be paid twice.
                    begun = run.begun or (stored is not None and stored.metadata.get("run_id") == run.id)
                    graph, recipe = await self._graph(run, begun=begun)
                    config = _config(run, recipe)
                    with under_ceiling(ceiling):
                        if begun:
                            run.begun = True
                            await self._change(run, begun=1)
                        entry, config = await _start(run, graph, config, begun=begun, new=stored is None)
                        status = await _drive(run, graph, entry, config, control)
        except asyncio.CancelledError:
            # Not raised again: how it ended is still to be written down, and the queue's tasks raise nothing.
            status = "interrupted" if run.id in self.cancelled else None
        except (BadRequestError, ChangedGraphError, EditedRecordError, NotThereError) as error:
            refusal = offering_fork(error.difference) if isinstance(error, ChangedGraphError) else error
            run.error = {"error": "BadRequestError", "message": str(refusal)[:1000]}
        except LostLeaseError:
            # Another server went on with it, or the shell, while this one stood still: the thread is theirs.
            status, lost = "interrupted", True
        except Exception as error:
            # Not `except TimeoutError`, which may be the model's own.
            if clock.expired():
                status = "timeout"
                message = f"the run took longer than {self._engine.settings.max_seconds_a_run:g} s"
                run.error = {"error": "RunTimeoutError", "message": message}
            else:  # what models and libraries say may hold prompts, paths and keys
                LOG.exception("run %s failed", run.id)
                run.error = upstream_error(error) or {
                    "error": type(error).__name__,
                    "message": "the run failed; the server's log says why",
                }
        finally:
            if ceiling is not None:
                await self._engine.db.write(ceiling.close)
                run.used = ceiling.used
            await self.ended(run, status, lost=lost)

    async def ended(self, run: Run, status: RunStatus | None, *, lost: bool = False, began: bool = True) -> None:
        """Write down how a run ended, where no other server has it by now.

        Args:
            run: The run.
            status: How; `None`: not at all, since this server stops and another goes on with it.
            lost: Another process runs its thread.
            began: Whether it may have changed its thread.
        """
        at = now()
        if status is None:
            run.here, run.status = False, "pending"
            # If this can't be written, the silence of this process tells others as much.
            with suppress(Exception):
                await self._change(run, status="pending", process="")
            run.wake()
            return
        if run.error is not None:
            run.send("error", run.error)
        if not lost:
            await self._engine.publisher.finish(run, status)
        try:
            if run.stateless and not lost:
                await self._engine.owned.erase(run.thread_id)
                await self._engine.db.write(self._engine.records.usage.forget, run.id)
            else:
                standing = {"success": "idle", "timeout": "error"}.get(status, status) if began else None
                end = partial(self._engine.records.end_run, run, status, now=at)
                await self._engine.db.write(end, held_by=this_process(), standing=standing)
        except Exception:
            LOG.exception("how run %s ended can't be written down", run.id)
        # Only now: who is told of the end finds it in the database, and counted.
        run.updated_at, run.ended_at, run.status = at, time.time(), status
        for finished in self._engine.on_finished:
            try:
                finished(run, run.output)
            except Exception:
                LOG.exception("counting run %s failed", run.id)
        run.wake()
        with suppress(Exception):  # whoever follows it elsewhere looks now and then
            await self._engine.publisher.tell_end(run)
        asyncio.get_running_loop().call_later(TOKENS_KEPT_S, run.forget_tokens)
        self.cancelled.discard(run.id)

    async def _graph(self, run: Run, *, begun: bool) -> tuple[Any, RunConfig | None]:
        """Return the graph that a run is on, and its recipe: for a new task the assistant's, else the thread's."""
        fresh = run.request.get("input") is not None
        if fresh and not begun:
            return await self._engine.graphs.assistant(run.assistant, run.model, run.options)
        record = await self._engine.owned.thread(run.caller, run.thread_id)
        try:
            return await self._engine.graphs.going_on(
                record, run.assistant, run.model, run.request.get("checkpoint_id")
            )
        except BadRequestError:
            if not fresh:
                raise
            # A server that had other models began it; the record says in what the graph of this one differs.
            return await self._engine.graphs.assistant(run.assistant, run.model, run.options)

    async def _change(self, run: Run, **changes: Any) -> None:
        change = partial(self._engine.records.change_run, run.id, now=now(), held_by=this_process())
        await self._engine.db.write(change, **changes)


def _config(run: Run, recipe: RunConfig | None) -> RunnableConfig:
    # A caller can't put a recipe or another mark of ours into the checkpoints.
    own = {name: value for name, value in run.metadata.items() if not name.startswith("redraft_")}
    rebuilds = recipe.metadata() if recipe is not None else {}
    config: Any = {
        "configurable": {"thread_id": run.thread_id},
        "metadata": {**own, "run_id": run.id, "graph_id": run.assistant, **rebuilds},
        **run.request.get("config", {}),
    }
    if checkpoint_id := run.request.get("checkpoint_id"):
        config["configurable"] |= {"checkpoint_id": checkpoint_id, "checkpoint_ns": ""}
    return cast("RunnableConfig", config)


async def _start(run: Run, graph: Any, config: RunnableConfig, *, begun: bool, new: bool) -> tuple[Any, RunnableConfig]:
    """Return the input or command that the graph is streamed with, and the config.

    Raises:
        BadRequestError: What was asked for makes no sense where the thread stands now.
        ChangedGraphError: The thread was begun with another graph.
    """
    request, thread = run.request, Thread(graph, run.thread_id)
    if begun:
        # Not at the checkpoint that was asked for, behind which the first attempt has worked already.
        at_end: RunnableConfig = {**config, "configurable": {"thread_id": run.thread_id}}
        # Nobody can be asked: where the server has another graph now, the record says in what it differs.
        return await thread.aready(allow_changes=True), compared(at_end)
    if (command := request.get("command")) is not None:
        return await _command(thread, command), config
    if request.get("input") is not None:
        return request["input"], config
    if new:
        raise BadRequestError('a new thread needs an input with a "task"')
    return (None, config) if request.get("checkpoint_id") else (await thread.aready(), compared(config))


async def _drive(run: Run, graph: Any, entry: Any, config: RunnableConfig, control: RunControl) -> RunStatus:
    """Run the graph, send what it streams, put its last values into `run.output`, and return how it ended.

    Args:
        run: What to run.
        graph: With the saver that holds the thread.
        entry: What it is streamed with.
        config: Where, and what is kept in each checkpoint.
        control: Asks it to stop between two steps.

    Raises:
        LostLeaseError: Another process has taken the thread over.
    """
    from langgraph.errors import GraphDrained

    try:
        await stream_graph(run, graph, entry, config, control)
    except GraphDrained as drained:
        # Somebody asked it to stop between two steps; the thread can go on.
        if drained.reason == TAKEN_OVER:
            raise LostLeaseError(run.thread_id) from None
        return "interrupted"
    if (run.output or {}).get("__interrupt__"):
        return "interrupted"
    # Where no node is named to stop at, what streams to its end has ended, and needn't be read again.
    may_stop = (
        run.request.get("interrupt_before")
        or run.request.get("interrupt_after")
        or graph.interrupt_before_nodes
        or graph.interrupt_after_nodes
    )
    if may_stop and (await graph.aget_state({"configurable": {"thread_id": run.thread_id}})).next:
        return "interrupted"
    return "success"


async def _command(thread: Thread, command: Mapping[str, Any]) -> Any:
    from langgraph.types import Command

    from ...state.threads.answers import pending_interrupts

    reply = command.get("resume")
    by_id = isinstance(reply, dict) and bool(reply) and all(INTERRUPT_ID.fullmatch(name) for name in reply)
    if reply is not None:
        stored = await thread.saver.aget_tuple(thread.config)
        open_ids = {question.id for question in pending_interrupts(stored)}
        if by_id and not reply.keys() <= open_ids:
            raise BadRequestError("no question of this id waits for an answer")
        # A reply is checked where a person is asked in a way that we know, or nobody is asked at all.
        if not open_ids or await thread.aquestion() is not None:
            try:
                for answer in reply.values() if by_id else [reply]:
                    await thread.aready_answer(answer)
            except ChangedGraphError:
                raise
            except (ValueError, LookupError) as error:
                raise BadRequestError(str(error)[:500]) from None
    return Command(resume=reply, update=command.get("update"), goto=command.get("goto") or ())


SAID = {
    401: "it does not accept this server's key",
    403: "this server's key may not use the model",
    429: "this server asked too often, or its quota there is used up",
}
PASSED_ON = frozenset(SAID)
"""Statuses that a caller's own request is answered with: what to do about them is known."""


def upstream_error(error: BaseException) -> dict[str, str] | None:
    """Describe the HTTP error of a provider behind a run's error; `None` where there is none.

    The provider's own message is left out: it may hold keys and prompts.
    """
    cause: BaseException | None = error
    while cause is not None:
        response = getattr(cause, "response", None)
        status = getattr(cause, "status_code", None) or getattr(response, "status_code", None)
        if isinstance(status, int) and 400 <= status < 600:
            why = f" ({SAID[status]})" if status in SAID else ""
            message = f"the run failed: the provider of its model answered {status}{why}"
            after = str((getattr(response, "headers", None) or {}).get("retry-after") or "")
            wait = {"retry_after_s": after} if after.isascii() and after.isdigit() and len(after) < 6 else {}
            return {"error": type(error).__name__, "message": message, "upstream_status": str(status), **wait}
        cause = cause.__cause__
    return None


JUDGING = "feedback"
"""The node in which critics are asked."""


async def stream_graph(run: Run, graph: Any, entry: Any, config: RunnableConfig, control: RunControl) -> None:
    """Stream the graph to its end, send what the run was asked to send, and keep its last values in `run.output`."""
    wanted, subgraphs = run.request["stream_modes"], run.request["subgraphs"]
    parts = _MessageParts() if "messages" in wanted else None
    # The values are the run's output, whether the caller wants to see them or not.
    options = {
        "stream_mode": list(dict.fromkeys(["values", *(MODES[mode] for mode in wanted if mode != "events")])),
        "subgraphs": subgraphs,
        "output_keys": graph.output_channels,
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
    chat = False
    async for item in items:
        namespace, mode, data = item if subgraphs else ((), *item)
        if mode == "values" and not namespace:
            chat = chat or bool(data.get("messages"))
            # what a person is asked comes by itself
            run.output = {**(run.output or {}), **data} if set(data) == {"__interrupt__"} else dict(data)
        suffix = "".join(f"|{part}" for part in namespace)
        if mode == "messages":
            # A client of a chat shows each message as one; what judges say is in the events.
            if chat and data[1].get("langgraph_node") == JUDGING:
                continue
            if "messages-tuple" in wanted:
                run.send("messages" + suffix, list(data))
            for event, part in () if parts is None else parts.read(*data):
                run.send(event + suffix, part)
        elif mode in wanted:
            run.send(mode + suffix, SHOWN[mode](data) if mode in SHOWN else data)


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
    return {
        **payload,
        **{name: _place(config) for name, config in places.items()},
        "tasks": [
            {**{name: part for name, part in task.items() if name != "state"}, "checkpoint": _place(task["state"])}
            if task.get("state")
            else task
            for task in payload["tasks"]
        ],
    }


def _place(config: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return None if config is None else config["configurable"]


SHOWN: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
    "checkpoints": _checkpoint,
    "debug": lambda data: {**data, "payload": _checkpoint(data["payload"])} if data["type"] == "checkpoint" else data,
    # What a tool's error says may hold paths and keys.
    "tools": lambda data: {**data, "message": "the tool failed"} if data.get("event") == "tool-error" else data,
}


class _MessageParts:
    """Puts the pieces of messages together."""

    def __init__(self) -> None:
        self._so_far: dict[str, Any] = {}

    def read(self, message: BaseMessage, metadata: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Give the events of one piece: `messages/metadata` for a new message, then `messages/partial` with what there
        is of it, or `messages/complete` with one that came whole."""
        name = message.id or ""
        if name not in self._so_far:
            yield "messages/metadata", {name: {"metadata": dict(metadata)}}
        if not isinstance(message, BaseMessageChunk):
            self._so_far[name] = message
            yield "messages/complete", [message]
            return
        earlier = self._so_far.get(name)
        self._so_far[name] = message if earlier is None else earlier + message
        yield "messages/partial", [self._so_far[name]]
