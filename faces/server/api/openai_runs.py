"""What OpenAI's protocols have in common: errors in their shape, and the runs behind their requests. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from ..engine.runs import BadRequestError, NotThereError, QueueFullError, QuotaSpentError, TakenError
from ..engine.upstream import PASSED_ON
from ..progress_text import ProgressText
from .chat_completions import RequestRefusedError, error_body

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping

    from ..engine.engine import Engine
    from ..engine.runs import Run

__all__ = ["OpenAIRoute", "error_response", "presets", "problem_of", "progress", "retry_headers"]

NO_RETRY = {"x-should-retry": "false"}
"""OpenAI's clients would pay for a failed run twice more."""


class OpenAIRoute(APIRoute):
    """A route whose errors have OpenAI's shape."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        # Here and not in handlers of the app, which answer in the other protocol's shape.
        handle = super().get_route_handler()

        async def answered(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestRefusedError as error:
                return error_response(error.status, str(error), param=error.param, code=error.code)
            except RequestValidationError as error:
                where, what = _first_problem(error)
                return error_response(400, what, param=where)
            except QueueFullError as error:
                full = "the server is busy: too many runs are waiting"
                return error_response(429, full, headers={"Retry-After": str(error.retry_after_s)})
            except QuotaSpentError as error:
                headers = {"Retry-After": str(error.retry_after_s), **NO_RETRY}
                return error_response(429, str(error), code="insufficient_quota", headers=headers)
            except (BadRequestError, TakenError) as error:
                return error_response(400, str(error))
            except NotThereError as error:
                return error_response(404, str(error))
            except HTTPException as error:
                return error_response(error.status_code, str(error.detail), headers=dict(error.headers or {}))

        return answered


async def progress(run: Run) -> AsyncIterator[str]:
    """Give what there is to read about a run, until it has ended."""
    words = ProgressText()
    async for _, event in run.follow():
        if event.event == "custom" and (text := words.lines(event.data)):
            yield text


def problem_of(run: Run) -> tuple[int, str] | None:
    """Return the HTTP status and what is said of a run that ended without an answer."""
    if run.status == "success":
        return None
    told = {
        "interrupted": (409, "the run was cancelled"),
        "timeout": (504, "the run took longer than the server allows"),
    }
    error = run.error or {}
    upstream = int(error.get("upstream_status", 502))
    status = upstream if upstream in PASSED_ON else 502
    return told.get(run.status) or (status, error.get("message") or "the run failed")


def retry_headers(run: Run) -> dict[str, str]:
    """Return the headers of a failed run: not to be paid for again, and when its provider may be asked."""
    after = (run.error or {}).get("retry_after_s")
    return {**NO_RETRY, **({"Retry-After": after} if after else {})}


def presets(engine: Engine) -> list[str]:
    """Return the names of the assistants that answer without a person."""
    return [name for name, one in engine.assistants().items() if one.served.listed and not one.options.get("human")]


def _first_problem(error: RequestValidationError) -> tuple[str | None, str]:
    """Return the field and what is wrong with it, without repeating what was sent."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    return where or None, f"{where or 'the body'}: {first['msg']}"


def error_response(
    status: int,
    message: str,
    *,
    param: str | None = None,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    return JSONResponse(error_body(message, status=status, param=param, code=code), status, headers=headers)
