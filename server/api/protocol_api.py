"""Threads over LangChain's event protocol: commands, and streams of all that happens on a thread. Internal.

`useStream` of `@langchain/react` and `client.threads.stream` of LangGraph's clients speak it. A stream is its own
subscription: it ends when the client closes it, and goes on from run to run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field, ValidationError

from ...state.threads.answers import pending_interrupts
from ..engine.call_options import problems_in
from ..engine.engine import Engine
from ..engine.requests import can_be_id
from ..engine.runs import BadRequestError, Caller, NotThereError, Run, TakenError, tick
from .disconnect import event_stream
from .guards import KnownCaller, KnownEngine
from .problems import EVENTS, answers
from .protocol_events import CHANNELS, MODES, ProtocolEvents, matches
from .runs_api import Config, RunRequest, listed, submitted
from .wire import Metadata, RequestBody, json_response, sse

__all__ = ["router"]

router = APIRouter(prefix="/threads/{thread_id}", tags=["threads"], responses=answers(404))

Name = Annotated[str, Field(max_length=200)]


class Command(RequestBody):
    """A command of the protocol."""

    id: int
    method: Name
    params: dict[str, Any] = Field(default_factory=dict)


class Wanted(RequestBody):
    """The selection of a stream."""

    channels: Annotated[list[Name], Field(min_length=1, max_length=100)]
    namespaces: Annotated[list[Annotated[list[Name], Field(max_length=50)]], Field(max_length=1000)] | None = None
    depth: Annotated[int, Field(ge=0)] | None = None
    since: Annotated[int, Field(ge=0)] | None = None
    """Only what came after the event of this number."""


class _RefusedError(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@router.post("/stream/events", response_class=StreamingResponse, responses=EVENTS)
async def stream_events(engine: KnownEngine, caller: KnownCaller, thread_id: str, body: Wanted) -> Response:
    """Send what happens on a thread, from run to run, as events of the protocol.

    A thread that is not there yet is waited for, since a client may listen before its first command.
    """
    _check_id(thread_id)
    if wrong := [name for name in body.channels if name not in CHANNELS and not name.startswith("custom:")]:
        raise BadRequestError(f"channels are {', '.join(CHANNELS)}, not {wrong[0]!r:.80}")

    async def events() -> AsyncIterator[bytes]:
        async for run in engine.known.begun_on(caller, thread_id, after=body.since):
            async for event in _protocol_events(run):
                if event["seq"] > (body.since or 0) and matches(event, body.channels, body.namespaces, body.depth):
                    yield sse(event, event["method"], event["seq"])

    return event_stream(events())


@router.post("/commands")
async def command(engine: KnownEngine, caller: KnownCaller, thread_id: str, body: Command) -> Response:
    """Begin a run, or answer what a person is asked; the thread is made where it is not there."""
    _check_id(thread_id)
    # Whatever the command begins comes after it, and what clients see again from before does not.
    applied = tick()
    if (act := COMMANDS.get(body.method)) is None:
        message = f"{', '.join(COMMANDS)} are served, not {body.method!r:.80}"
        return json_response({"type": "error", "id": body.id, "error": "unknown_command", "message": message})
    try:
        result = await act(engine, caller, thread_id, body.params)
    except (_RefusedError, BadRequestError, NotThereError, TakenError) as error:
        code = error.code if isinstance(error, _RefusedError) else "invalid_argument"
        return json_response({"type": "error", "id": body.id, "error": code, "message": str(error)})
    return json_response({"type": "success", "id": body.id, "result": result, "meta": {"applied_through_seq": applied}})


@router.get("/stream", response_class=StreamingResponse, responses=EVENTS)
async def join_stream(request: Request, engine: KnownEngine, caller: KnownCaller, thread_id: str) -> Response:
    """Send what the runs of a thread send, from run to run: from now on, or after the event of `Last-Event-ID`."""
    await engine.owned.thread(caller, thread_id)
    modes = listed(request, "stream_mode") or ["run_modes"]
    if not set(modes) <= {"run_modes", "lifecycle"}:
        raise BadRequestError("stream modes of a thread are run_modes and lifecycle")
    last = request.headers.get("last-event-id", "")
    after = int(last) if last.isascii() and last.isdigit() and len(last) < 20 else 0 if last == "-" else None

    async def events() -> AsyncIterator[bytes]:
        async for run in engine.known.begun_on(caller, thread_id, after=after):
            if after is None and run.ended:
                continue
            async for _, event in run.follow():
                if event.at > (after or 0) and ("run_modes" in modes or event.event == "metadata"):
                    yield sse(event.data, event.event, event.at)
            yield sse({"run_id": run.id, "status": "run_done"}, "metadata")

    return event_stream(events())


async def _protocol_events(run: Run) -> AsyncIterator[dict[str, Any]]:
    reader = ProtocolEvents(run)
    async for number, event in run.follow():
        for sent in reader.read(number, event):
            yield sent
    for sent in reader.end():
        yield sent


class Start(RequestBody):
    """The parameters of `run.start`."""

    assistant_id: str
    input: Any = None
    config: Config | None = None
    metadata: Metadata | None = None
    multitaskStrategy: Literal["reject", "interrupt", "rollback", "enqueue"] | None = None  # noqa: N815


class Answer(RequestBody):
    """One answer of `input.respond`."""

    interrupt_id: str
    response: Any = None


class Respond(RequestBody):
    """The parameters of `input.respond`: one answer, or several at once."""

    interrupt_id: str | None = None
    response: Any = None
    responses: Annotated[list[Answer], Field(min_length=1, max_length=100)] | None = None
    update: dict[str, Any] | None = None
    goto: Any = None
    config: Config | None = None
    metadata: Metadata | None = None


async def _start(engine: Engine, caller: Caller, thread_id: str, params: dict[str, Any]) -> dict[str, Any]:
    start = _read(Start, params)
    entry: dict[str, Any] = {"input": start.input}
    begins = isinstance(start.input, dict) and not {"task", "messages"}.isdisjoint(start.input)
    if start.input is not None and not begins:
        record = await engine.owned.find(caller, thread_id)
        if record is not None and record.status != "busy" and await engine.owned.waits(record):
            entry = {"command": {"resume": start.input}}
    run = await _submitted(engine, caller, thread_id, start, multitask=start.multitaskStrategy, **entry)
    return {"run_id": run.id}


async def _respond(engine: Engine, caller: Caller, thread_id: str, params: dict[str, Any]) -> dict[str, Any]:
    respond = _read(Respond, params)
    record = await engine.owned.thread(caller, thread_id)
    if record.assistant is None:
        raise _RefusedError("no_such_run", "no run of this thread waits for an answer")
    answers = respond.responses or [Answer(interrupt_id=respond.interrupt_id or "", response=respond.response)]
    resume = {answer.interrupt_id: answer.response for answer in answers}
    # One that is still under way may be about to ask; its answer waits for its end.
    if record.status != "busy":
        stored = await engine.saver.aget_tuple({"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}})
        if not resume.keys() <= {answer.id for answer in pending_interrupts(stored)}:
            raise _RefusedError("no_such_interrupt", "no question of this id waits for an answer")
    run = await _submitted(
        engine,
        caller,
        thread_id,
        respond,
        assistant=record.assistant,
        command={"resume": resume, "update": respond.update, "goto": respond.goto},
    )
    return {"run_id": run.id}


async def _submitted(
    engine: Engine,
    caller: Caller,
    thread_id: str,
    params: Start | Respond,
    *,
    assistant: str = "",
    multitask: Literal["reject", "interrupt", "rollback", "enqueue"] | None = None,
    **entry: Any,
) -> Run:
    checkpoint = (params.config or Config()).configurable.get("checkpoint_id")
    return await submitted(
        engine,
        caller,
        thread_id,
        RunRequest(
            assistant_id=params.assistant_id if isinstance(params, Start) else assistant,
            config=params.config,
            metadata=params.metadata,
            checkpoint={"checkpoint_id": checkpoint} if checkpoint is not None else None,
            stream_mode=list(MODES),
            stream_subgraphs=True,
            if_not_exists="create",
            multitask_strategy=multitask or "enqueue",
            **entry,
        ),
    )


async def _tree(engine: Engine, caller: Caller, thread_id: str, _: dict[str, Any]) -> dict[str, Any]:
    record = await engine.owned.thread(caller, thread_id)
    standing = (await engine.owned.standings([record]))[thread_id]
    standing = {"busy": "running", "interrupted": "interrupted", "error": "failed"}.get(standing, "completed")
    return {"tree": {"namespace": [], "status": standing, "graph_name": record.assistant or "root"}}


COMMANDS = {"run.start": _start, "input.respond": _respond, "agent.getTree": _tree}


def _read(kind: Any, params: dict[str, Any]) -> Any:
    try:
        return kind(**params)
    except ValidationError as error:
        raise _RefusedError("invalid_argument", problems_in(error)) from None


def _check_id(thread_id: str) -> None:
    if not can_be_id(thread_id):
        raise NotThereError("there is no such thread")
