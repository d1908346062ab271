"""Refinement for every tool that speaks OpenAI's protocol: the model's name picks the workflow. Internal.

`redraft-<preset>` is run with the server's model, `redraft-<preset>/<upstream model>` with one of those that the server
allows. The run's progress comes as `reasoning_content`, its answer as `content`, `usage` counts all of its calls, and
`metadata` names its thread, stop reason and rounds. Whoever closes the connection cancels the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from ..engine.runs import Run
from .chat_completions import (
    DONE,
    ChatReply,
    ChatRequest,
    error_body,
    graph_input,
    model_data,
    split_model,
    sse,
)
from .client_tools import calls_in, functions_of
from .disconnect import CLIENT_LEFT, PING, UNBUFFERED, ended_before_disconnect, kept_open
from .guards import KnownCaller, KnownEngine
from .openai_runs import OpenAIRoute, error_response, presets, problem_of, progress, retry_headers
from .problems import Answers, answers
from .structured_format import format_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


__all__ = ["router"]

ENDS: Answers = {
    200: {"content": {"text/event-stream": {}}, "description": "The answer, or with `stream` its pieces."},
    **answers(409, 429, 502, 504),
}
router = APIRouter(prefix="/v1", route_class=OpenAIRoute, tags=["OpenAI"], responses=answers(404))


@router.get("/models")
async def models(engine: KnownEngine, caller: KnownCaller) -> dict[str, Any]:
    """Return the workflows that can be named as models."""
    upstream = engine.settings.models
    names = [name if spec is None else f"{name}/{spec}" for name in presets(engine) for spec in (None, *upstream)]
    return {"object": "list", "data": model_data(names)}


@router.get("/models/{name:path}")
async def model(name: str, engine: KnownEngine, caller: KnownCaller) -> dict[str, Any]:
    """Return one of them."""
    preset, upstream = split_model(name, presets(engine), engine.settings.models)
    return model_data([preset if upstream is None else f"{preset}/{upstream}"])[0]


@router.post("/chat/completions", responses=ENDS)
async def chat(body: ChatRequest, request: Request, engine: KnownEngine, caller: KnownCaller) -> Response:
    """Run a workflow on the last user message, and return its answer, whole or as a stream."""
    body.check_supported()
    preset, upstream = split_model(body.model, presets(engine), engine.settings.models)
    assistant, form = engine.assistants()[preset], format_of(body.response_format, param="response_format")
    options = {
        **(form.options(assistant, param="response_format") if form else {}),
        **(offered := functions_of(body.tools, body.tool_choice, assistant)),
    }
    instruction = form.instruction if form else ""
    given = graph_input(body.messages, assistant.preset.conversation, instruction, tools=bool(offered))
    if body.limits is not None:
        given["limits"] = body.limits
    # Kept, since the reply names the thread, which can be read and forked then.
    asked: dict[str, Any] = {"stream_modes": ("custom",), "model": upstream, "options": options}
    run = await engine.submit(caller, preset, input=given, keep=True, **asked)
    reply = ChatReply(run, body.model, form)
    if body.stream:
        counted = body.stream_options is not None and body.stream_options.include_usage
        pieces = kept_open(_pieces(run, reply, counted=counted), PING, cancels=(engine, run))
        return StreamingResponse(pieces, media_type="text/event-stream", headers=UNBUFFERED)
    if not await ended_before_disconnect(request, engine, run):
        return Response(status_code=CLIENT_LEFT)
    if problem := problem_of(run):
        return error_response(*problem, headers=retry_headers(run))
    reply.calls = calls_in(run.output or {}, run.options)
    return JSONResponse(reply.whole("".join([piece async for piece in progress(run)])))


async def _pieces(run: Run, reply: ChatReply, *, counted: bool) -> AsyncIterator[bytes]:
    yield sse(reply.piece(role="assistant", content=""))
    async for text in progress(run):
        yield sse(reply.piece(reasoning_content=text))
    if problem := problem_of(run):
        status, message = problem
        yield sse(error_body(message, status=status))
        return
    reply.calls = calls_in(run.output or {}, run.options)
    yield sse(reply.piece(**reply.delta()))
    yield sse(reply.last())
    if counted:
        yield sse(reply.counted())
    yield DONE
