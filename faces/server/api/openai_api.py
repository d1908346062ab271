"""Refinement for every tool that speaks OpenAI's protocol: the model's name picks the workflow. Internal.

`redraft-<preset>` is run with the server's model, `redraft-<preset>/<upstream model>` with one of those that the server
allows. The run's progress comes as `reasoning_content`, its answer as `content`, `usage` counts all of its calls, and
`metadata` names its thread, stop reason and rounds. Whoever closes the connection cancels the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.routing import APIRoute

from ..engine.runs import BadRequestError, NotThereError, QueueFullError, QuotaSpentError, Run, TakenError
from ..progress_text import ProgressText
from .chat_completions import (
    DONE,
    ChatReply,
    ChatRequest,
    RequestRefusedError,
    error_body,
    graph_input,
    model_data,
    split_model,
    sse,
)
from .disconnect import CLIENT_LEFT, PING, UNBUFFERED, ended_before_disconnect, kept_open
from .guards import KnownCaller
from .problems import Answers, answers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping

    from ..engine.engine import Engine

__all__ = ["router"]

NO_RETRY = {"x-should-retry": "false"}
"""OpenAI's clients would pay for a failed run twice more."""


class _OpenAIRoute(APIRoute):
    """A route whose errors have OpenAI's shape."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        # Here and not in handlers of the app, which answer in the other protocol's shape.
        handle = super().get_route_handler()

        async def answered(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestRefusedError as error:
                return _error(error.status, str(error), param=error.param, code=error.code)
            except RequestValidationError as error:
                where, what = _first_problem(error)
                return _error(400, what, param=where)
            except QueueFullError as error:
                full = "the server is busy: too many runs are waiting"
                return _error(429, full, headers={"Retry-After": str(error.retry_after_s)})
            except QuotaSpentError as error:
                headers = {"Retry-After": str(error.retry_after_s), **NO_RETRY}
                return _error(429, str(error), code="insufficient_quota", headers=headers)
            except (BadRequestError, TakenError) as error:
                return _error(400, str(error))
            except NotThereError as error:
                return _error(404, str(error))
            except HTTPException as error:
                return _error(error.status_code, str(error.detail), headers=dict(error.headers or {}))

        return answered


ENDS: Answers = {
    200: {"content": {"text/event-stream": {}}, "description": "The answer, or with `stream` its pieces."},
    **answers(409, 429, 502, 504),
}
router = APIRouter(prefix="/v1", route_class=_OpenAIRoute, tags=["OpenAI"], responses=answers(404))


@router.get("/models")
async def models(request: Request, caller: KnownCaller) -> dict[str, Any]:
    """Return the workflows that can be named as models."""
    upstream = request.app.state.settings.models
    names = [name if spec is None else f"{name}/{spec}" for name in _presets(request) for spec in (None, *upstream)]
    return {"object": "list", "data": model_data(names)}


@router.get("/models/{name:path}")
async def model(name: str, request: Request, caller: KnownCaller) -> dict[str, Any]:
    """Return one of them."""
    preset, upstream = split_model(name, _presets(request), request.app.state.settings.models)
    return model_data([preset if upstream is None else f"{preset}/{upstream}"])[0]


@router.post("/chat/completions", responses=ENDS)
async def chat(body: ChatRequest, request: Request, caller: KnownCaller) -> Response:
    """Run a workflow on the last user message, and return its answer, whole or as a stream."""
    engine: Engine = request.app.state.engine
    body.check_supported()
    preset, upstream = split_model(body.model, _presets(request), request.app.state.settings.models)
    given = graph_input(body.messages, engine.assistants()[preset].preset.conversation)
    if body.limits is not None:
        given["limits"] = body.limits
    # Kept, since the reply names the thread, which can be read and forked then.
    run = await engine.submit(caller, preset, input=given, stream_modes=("custom",), model=upstream, keep=True)
    reply = ChatReply(run, body.model)
    if body.stream:
        counted = body.stream_options is not None and body.stream_options.include_usage
        pieces = kept_open(_pieces(run, reply, counted=counted), PING, cancels=(engine, run))
        return StreamingResponse(pieces, media_type="text/event-stream", headers=UNBUFFERED)
    if not await ended_before_disconnect(request, engine, run):
        return Response(status_code=CLIENT_LEFT)
    if problem := _problem(run):
        return _error(*problem, headers=NO_RETRY)
    return JSONResponse(reply.whole("".join([piece async for piece in _progress(run)])))


async def _pieces(run: Run, reply: ChatReply, *, counted: bool) -> AsyncIterator[bytes]:
    yield sse(reply.piece(role="assistant", content=""))
    async for text in _progress(run):
        yield sse(reply.piece(reasoning_content=text))
    if problem := _problem(run):
        status, message = problem
        yield sse(error_body(message, status=status))
        return
    yield sse(reply.piece(content=(run.output or {}).get("answer") or ""))
    yield sse(reply.last())
    if counted:
        yield sse(reply.counted())
    yield DONE


async def _progress(run: Run) -> AsyncIterator[str]:
    """Give what there is to read about a run, until it has ended."""
    progress = ProgressText()
    async for _, event in run.follow():
        if event.event == "custom" and (text := progress.lines(event.data)):
            yield text


def _problem(run: Run) -> tuple[int, str] | None:
    """Return the HTTP status and what is said of a run that ended without an answer."""
    if run.status == "success":
        return None
    told = {
        "interrupted": (409, "the run was cancelled"),
        "timeout": (504, "the run took longer than the server allows"),
    }
    return told.get(run.status) or (502, (run.error or {}).get("message") or "the run failed")


def _presets(request: Request) -> list[str]:
    """Return the names of the assistants that answer without a person."""
    engine: Engine = request.app.state.engine
    return [name for name, one in engine.assistants().items() if one.served.listed and not one.options.get("human")]


def _first_problem(error: RequestValidationError) -> tuple[str | None, str]:
    """Return the field and what is wrong with it, without repeating what was sent."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    return where or None, f"{where or 'the body'}: {first['msg']}"


def _error(
    status: int,
    message: str,
    *,
    param: str | None = None,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    return JSONResponse(error_body(message, status=status, param=param, code=code), status, headers=headers)
