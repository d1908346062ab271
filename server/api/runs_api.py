"""Runs over HTTP: waited for, streamed, in the background, joined, listed and cancelled. Internal."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from ..engine.engine import Engine
from ..engine.requests import checked_modes
from ..engine.runs import BadRequestError, Caller, NotThereError, Run, Submission
from .disconnect import event_stream, kept_open
from .guards import KnownCaller, KnownEngine
from .problems import EVENTS, answers
from .webhooks import checked_webhook
from .wire import Metadata, RequestBody, dumps, event_bytes, json_list, json_response, one_by_one, plain, selected

__all__ = ["Config", "RunRequest", "event_after", "listed", "router", "run_json", "submitted"]

MOST_LATER_S = 604_800
router = APIRouter(tags=["runs"], responses=answers(404, 409, 429))


class Config(RequestBody):
    """The keys of LangGraph's `config` that are read."""

    recursion_limit: Annotated[int, Field(ge=1, le=10_000)] | None = None
    configurable: dict[str, Any] = Field(default_factory=dict)
    """The model and options of an assistant, as `context` has them."""


class RunRequest(RequestBody):
    """A run that is asked for. What LangGraph's clients send besides is not looked at."""

    assistant_id: str
    input: Any = None
    command: dict[str, Any] | None = None
    config: Config | None = None
    metadata: Metadata | None = None
    stream_mode: str | list[str] | None = None
    stream_subgraphs: bool = False
    interrupt_before: str | list[str] | None = None
    interrupt_after: str | list[str] | None = None
    checkpoint: dict[str, Any] | None = None
    checkpoint_id: str | None = None
    multitask_strategy: Literal["reject", "interrupt", "rollback", "enqueue"] = "enqueue"
    if_not_exists: Literal["create", "reject"] = "reject"
    on_disconnect: Literal["cancel", "continue"] = "continue"
    on_completion: Literal["delete", "keep"] = "delete"
    after_seconds: Annotated[float, Field(ge=0, le=MOST_LATER_S)] | None = None
    webhook: str | None = None
    context: dict[str, Any] | None = None


class CancelMany(RequestBody):
    """The runs to cancel: those of these ids, or all of a status; of one thread, or of every thread."""

    thread_id: str | None = None
    run_ids: Annotated[list[str], Field(max_length=1000)] | None = None
    status: Literal["pending", "running", "all"] | None = None


@router.post("/threads/{thread_id}/runs")
async def create(engine: KnownEngine, caller: KnownCaller, thread_id: str, body: RunRequest) -> Response:
    """Start a run in the background."""
    run = await submitted(engine, caller, thread_id, body)
    return json_response(_created(run), _where(run))


@router.post("/threads/{thread_id}/runs/wait")
async def wait(engine: KnownEngine, caller: KnownCaller, thread_id: str, body: RunRequest) -> Response:
    """Run, and return the output."""
    return _joined(engine, await submitted(engine, caller, thread_id, body), cancel=body.on_disconnect == "cancel")


@router.post("/threads/{thread_id}/runs/stream", response_class=StreamingResponse, responses=EVENTS)
async def stream(engine: KnownEngine, caller: KnownCaller, thread_id: str, body: RunRequest) -> Response:
    """Run, and send what happens."""
    return _streamed(engine, await submitted(engine, caller, thread_id, body), cancel=body.on_disconnect == "cancel")


@router.post("/runs")
async def create_stateless(engine: KnownEngine, caller: KnownCaller, body: RunRequest) -> Response:
    """Start a run in the background whose thread is deleted when it has ended."""
    run = await submitted(engine, caller, None, body)
    return json_response(_created(run), _where(run))


@router.post("/runs/wait")
async def wait_stateless(engine: KnownEngine, caller: KnownCaller, body: RunRequest) -> Response:
    """Run without a thread, and return the output."""
    return _joined(engine, await submitted(engine, caller, None, body), cancel=body.on_disconnect == "cancel")


@router.post("/runs/stream", response_class=StreamingResponse, responses=EVENTS)
async def stream_stateless(engine: KnownEngine, caller: KnownCaller, body: RunRequest) -> Response:
    """Run without a thread, and send what happens."""
    return _streamed(engine, await submitted(engine, caller, None, body), cancel=body.on_disconnect == "cancel")


@router.post("/runs/batch")
async def create_batch(
    engine: KnownEngine, caller: KnownCaller, body: Annotated[list[RunRequest], Field(min_length=1, max_length=100)]
) -> Response:
    """Start runs without a thread in the background: all of them, or none."""
    runs: list[Run] = []
    try:
        for request in body:
            runs.append(await submitted(engine, caller, None, request))  # noqa: PERF401  # kept, should a later one fail
    except Exception:
        for run in reversed(runs):  # those that wait before the one that runs, or its end would begin them
            await engine.forget(caller, run.id)
            with suppress(NotThereError):  # a thread that was to be deleted is gone with its run
                await engine.delete_thread(caller, run.thread_id)
        raise
    return json_response([_created(run) for run in runs])


@router.post("/runs/cancel", status_code=204, response_class=Response)
async def cancel_many(engine: KnownEngine, caller: KnownCaller, body: CancelMany, action: str = "interrupt") -> None:
    """End runs where they stand."""
    _check_action(action)
    if (body.run_ids is None) == (body.status is None):
        raise BadRequestError("name the runs by run_ids, or by status: pending, running or all")
    statuses = (body.status,) if body.status in ("pending", "running") else ("pending", "running")
    await engine.cancel_many(caller, thread_id=body.thread_id, run_ids=body.run_ids, statuses=statuses)


@router.get("/threads/{thread_id}/runs")
async def every(
    request: Request,
    engine: KnownEngine,
    caller: KnownCaller,
    thread_id: str,
    limit: int = 10,
    offset: int = 0,
    status: str | None = None,
    select: Annotated[list[str] | None, Query()] = None,
) -> Response:
    """List the runs of a thread, the newest first."""
    names = frozenset(listed(request, "select")) or None
    runs = [run for run in await engine.runs(caller, thread_id) if status in (None, run.status)]
    start = max(offset, 0)
    return await json_list(
        one_by_one(selected(run_json(run), names) for run in runs[start : start + min(max(limit, 0), 1000)])
    )


@router.get("/threads/{thread_id}/runs/{run_id}")
async def get(engine: KnownEngine, caller: KnownCaller, thread_id: str, run_id: str) -> Response:
    """Return a run."""
    return json_response(run_json(await _run(engine, caller, thread_id, run_id)))


@router.get("/threads/{thread_id}/runs/{run_id}/join")
async def join(engine: KnownEngine, caller: KnownCaller, thread_id: str, run_id: str) -> Response:
    """Wait for a run, and return its output."""
    return _joined(engine, await _run(engine, caller, thread_id, run_id))


@router.get("/threads/{thread_id}/runs/{run_id}/stream", response_class=StreamingResponse, responses=EVENTS)
async def join_stream(
    request: Request,
    engine: KnownEngine,
    caller: KnownCaller,
    thread_id: str,
    run_id: str,
    cancel_on_disconnect: bool = False,
) -> Response:
    """Send what a run sends: from its beginning, or after the event that `Last-Event-ID` names."""
    modes = listed(request, "stream_mode")
    only = checked_modes(modes) if modes else None
    return _streamed(
        engine,
        await _run(engine, caller, thread_id, run_id),
        cancel=cancel_on_disconnect,
        after=event_after(request),
        only=only,
    )


@router.post("/threads/{thread_id}/runs/{run_id}/cancel", status_code=204, response_class=Response)
async def cancel(
    engine: KnownEngine, caller: KnownCaller, thread_id: str, run_id: str, action: str = "interrupt"
) -> None:
    """End a run where it stands."""
    _check_action(action)
    await engine.cancel(caller, (await _run(engine, caller, thread_id, run_id)).id)


@router.delete("/threads/{thread_id}/runs/{run_id}", status_code=204, response_class=Response)
async def delete(engine: KnownEngine, caller: KnownCaller, thread_id: str, run_id: str) -> None:
    """Forget a run, which is cancelled first; its thread stays."""
    await engine.forget(caller, (await _run(engine, caller, thread_id, run_id)).id)


def listed(request: Request, name: str) -> list[str]:
    """Return the values of a parameter: repeated, as Python's client sends it, or one list as JSON, as JavaScript's."""
    values = [value for value in request.query_params.getlist(name) if value]
    if len(values) == 1 and values[0].startswith("["):
        try:
            names = json.loads(values[0])
        except (ValueError, RecursionError):
            names = None
        if not isinstance(names, list) or not all(isinstance(item, str) for item in names):
            raise BadRequestError(f"{name} is a name, or a list of names as JSON")
        return names
    return values


def event_after(request: Request) -> tuple[str, int] | None:
    """Return the stream and the number of the event that `Last-Event-ID` names; `None` where it names none."""
    stream, _, number = request.headers.get("last-event-id", "").partition("-")
    # The header may hold anything: only so many digits as a number of ours can have.
    return (stream, int(number)) if number.isascii() and number.isdigit() and len(number) < 10 else None


def run_json(run: Run) -> dict[str, Any]:
    """Return a run as clients read it."""
    return {
        "run_id": run.id,
        "thread_id": run.thread_id,
        "assistant_id": run.metadata.get("assistant_id", run.assistant),
        "created_at": run.created_at,
        "updated_at": run.updated_at,
        "status": run.status,
        "metadata": {"graph_id": run.assistant, "assistant_id": run.assistant, **plain(run.metadata)},
        "kwargs": {},
        "multitask_strategy": "enqueue",
        **({"error": run.error} if run.error else {}),
    }


def _created(run: Run) -> dict[str, Any]:
    """Return a run as it was when it was asked for."""
    return {**run_json(run), "status": "pending"}


def _check_action(action: str) -> None:
    if action != "interrupt":
        raise BadRequestError("action is interrupt: what a run has written stays; a new run may roll back another")


async def submitted(engine: Engine, caller: Caller, thread_id: str | None, body: RunRequest) -> Run:
    """Queue a run that is asked for, and return it."""
    if body.multitask_strategy == "rollback" and body.command is not None:
        raise BadRequestError("a command answers the run under way, which a rollback would undo")
    config = body.config or Config()
    given = await engine.saved.resolved(caller, body.assistant_id, body.context, config.configurable)
    preset, model, options = given
    # A run of an assistant of the caller's is its preset's; which one it was stands in its metadata.
    saved = {} if preset == body.assistant_id else {"assistant_id": body.assistant_id}
    return await engine.submit(
        caller,
        Submission(
            assistant=preset,
            thread_id=thread_id,
            input=body.input,
            command=body.command,
            recursion_limit=config.recursion_limit,
            checkpoint_id=(body.checkpoint or {}).get("checkpoint_id", body.checkpoint_id),
            stream_modes=body.stream_mode,
            subgraphs=body.stream_subgraphs,
            model=model,
            options=options,
            metadata={**(body.metadata or {}), **saved},
            interrupt_before=body.interrupt_before,
            interrupt_after=body.interrupt_after,
            if_not_exists=body.if_not_exists,
            multitask=body.multitask_strategy,
            keep=body.on_completion == "keep",
            after_s=body.after_seconds or 0,
            webhook=None if body.webhook is None else checked_webhook(body.webhook, engine.settings.allow_webhooks),
        ),
    )


async def _run(engine: Engine, caller: Caller, thread_id: str, run_id: str) -> Run:
    run: Run = await engine.run(caller, run_id)
    if run.thread_id != thread_id:
        raise NotThereError("there is no such run")
    return run


def _joined(engine: Engine, run: Run, *, cancel: bool = False) -> Response:
    """Return a reply that comes when the run has ended; spaces before it keep the connection.

    `cancel` ends the run where the client leaves before that.
    """

    async def output() -> AsyncIterator[bytes]:
        yield dumps(await engine.join(run))

    reply = kept_open(output(), b" ", cancels=(engine, run) if cancel else None)
    headers = {**_where(run), "Location": f"{_path(run)}/join"}
    return StreamingResponse(reply, media_type="application/json", headers=headers)


def _streamed(
    engine: Engine,
    run: Run,
    *,
    cancel: bool,
    after: tuple[str, int] | None = None,
    only: tuple[str, ...] | None = None,
) -> Response:
    """Return the events of a run as they come."""
    wanted = (
        None if only is None else {"metadata", "error", *("messages" if "messages" in mode else mode for mode in only)}
    )

    async def events() -> AsyncIterator[bytes]:
        async for number, event in run.follow(after):
            # The mode stands before a subgraph's namespace, after `|`, and before a part of messages, after `/`.
            if wanted is None or re.split("[|/]", event.event)[0] in wanted:
                yield event_bytes(run, number, event)

    headers = {**_where(run), "Location": f"{_path(run)}/stream"}
    return event_stream(events(), cancels=(engine, run) if cancel else None, headers=headers)


def _path(run: Run) -> str:
    return f"/threads/{run.thread_id}/runs/{run.id}"


def _where(run: Run) -> dict[str, str]:
    return {"Content-Location": _path(run)}
