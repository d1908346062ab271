"""OpenAI's protocols in common: models that are workflows, errors in their shape, runs as answers. Internal."""

from __future__ import annotations

from calendar import timegm
from time import strptime
from typing import TYPE_CHECKING, Any

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from ..engine.execution import PASSED_ON
from ..engine.runs import NotThereError, QueueFullError, QuotaSpentError, RefusedError, Run
from ..progress_text import progress
from .disconnect import CLIENT_LEFT, ended_before_disconnect, event_stream
from .openai_options import RequestRefusedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping

    from ..engine.assistants import Assistant
    from ..engine.engine import Engine

__all__ = [
    "OpenAIRoute",
    "answered",
    "error_body",
    "model_data",
    "presets",
    "problem_of",
    "reasoning",
    "run_facts",
    "split_model",
    "unix_seconds",
]

PREFIX = "redraft-"
NO_RETRY = {"x-should-retry": "false"}
"""OpenAI's clients would pay for a failed run twice more."""
FACTS = ("stop_reason", "rounds", "score", "accepted_by")
KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class OpenAIRoute(APIRoute):
    """A route whose errors have OpenAI's shape."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        # Here and not in handlers of the app, which answer in the other protocol's shape.
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestRefusedError as error:
                return _error(error.status, str(error), param=error.param, code=error.code)
            except RequestValidationError as error:
                first = error.errors()[0]
                where = ".".join(str(part) for part in first["loc"] if part != "body")
                # Without repeating what was sent.
                return _error(400, f"{where or 'the body'}: {first['msg']}", param=where or None)
            except RefusedError as error:
                return _refusal(error)
            except HTTPException as error:
                return _error(error.status_code, str(error.detail), headers=dict(error.headers or {}))

        return handled


def presets(engine: Engine) -> dict[str, Assistant]:
    """Return the assistants that answer without a person, by name."""
    return {
        name: assistant
        for name, assistant in engine.assistants().items()
        if assistant.served.listed and not assistant.options.get("human")
    }


def split_model(name: str, presets: Iterable[str], upstream: Iterable[str]) -> tuple[str, str | None]:
    """Return the preset and the upstream model (`None`: the server's own) that a model's name stands for.

    Args:
        name: `redraft-<preset>`, or `redraft-<preset>/<upstream model>`.
        presets: Those that are served.
        upstream: The models that callers may choose.

    Raises:
        RequestRefusedError: It stands for none; 404, as OpenAI answers.
    """
    preset, slash, model = name.removeprefix(PREFIX).partition("/")
    if not name.startswith(PREFIX) or preset not in presets or (slash and model not in upstream):
        raise RequestRefusedError(
            f"The model {name!r:.120} does not exist; GET /v1/models lists those that do.",
            param="model",
            code="model_not_found",
            status=404,
        )
    return preset, model if slash else None


def model_data(names: Iterable[str]) -> list[dict[str, Any]]:
    """Return models as `/v1/models` lists them.

    Args:
        names: Presets, or `preset/upstream model`.
    """
    return [{"id": f"{PREFIX}{name}", "object": "model", "created": 0, "owned_by": "redraft"} for name in names]


async def answered(
    request: Request,
    engine: Engine,
    run: Run,
    *,
    events: AsyncIterator[bytes] | None,
    whole: Callable[[], Awaitable[Any]],
) -> Response:
    """Return the answer of a run, which is cancelled where the client leaves before that.

    Args:
        request: Whose client it is.
        engine: Runs it.
        run: The run.
        events: The answer as a stream; `None` for one that wants it whole.
        whole: Returns it, once the run has ended well.
    """
    if events is not None:
        return event_stream(events, cancels=(engine, run))
    if not await ended_before_disconnect(request, engine, run):
        return Response(status_code=CLIENT_LEFT)
    if problem := problem_of(run):
        after = (run.error or {}).get("retry_after_s")
        return _error(*problem, headers={**NO_RETRY, **({"Retry-After": after} if after else {})})
    return JSONResponse(await whole())


async def reasoning(run: Run) -> str:
    """Return a run's progress in words, once it has ended."""
    return "".join([text async for text in progress(run)])


def problem_of(run: Run) -> tuple[int, str] | None:
    """Return the HTTP status and the message of a run that ended without an answer."""
    if run.status == "success":
        return None
    if run.status == "interrupted":
        return 409, "the run was cancelled"
    if run.status == "timeout":
        return 504, "the run took longer than the server allows"
    error = run.error or {}
    upstream = int(error.get("upstream_status", 502))
    return upstream if upstream in PASSED_ON else 502, error.get("message") or "the run failed"


def run_facts(run: Run, output: Mapping[str, Any]) -> dict[str, str]:
    """Return thread, stop reason, rounds, score and who accepted; texts only, since clients expect no other."""
    facts = {"thread_id": run.thread_id, "rounds": 0, **{name: output.get(name) for name in FACTS}}
    return {name: str(value) for name, value in facts.items() if value is not None}


def error_body(message: str, *, status: int, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """Return an error as OpenAI words it; the client makes an exception of its status."""
    kind = KINDS.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def unix_seconds(moment: str) -> int:
    """Return a moment as seconds since the epoch."""
    return timegm(strptime(moment[:19], "%Y-%m-%dT%H:%M:%S"))


def _refusal(error: RefusedError) -> Response:
    wait = {"Retry-After": str(error.retry_after_s)}
    if isinstance(error, QueueFullError):
        return _error(429, "the server is busy: too many runs are waiting", headers=wait)
    if isinstance(error, QuotaSpentError):
        return _error(429, str(error), code="insufficient_quota", headers={**wait, **NO_RETRY})
    return _error(404 if isinstance(error, NotThereError) else 400, str(error))


def _error(
    status: int, message: str, *, param: str | None = None, code: str | None = None, headers: Any = None
) -> Response:
    return JSONResponse(error_body(message, status=status, param=param, code=code), status, headers=headers)
