"""Error responses in one JSON shape that LangGraph's and OpenAI's clients both read. Internal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ...state import BadCheckpointError
from ...state.storage.index import BadRunError
from ..engine.runs import LOG, BadRequestError, NotThereError, QueueFullError, QuotaSpentError, RefusedError, TakenError
from .wire import json_response

__all__ = ["EVENTS", "GUARDS", "REFUSED", "UNREADABLE", "Answers", "Problem", "answers", "handle_problems", "problem"]

NAMES = {404: "not_found", 405: "method_not_allowed"}


def problem(
    status: int, kind: str, message: str, *, headers: Mapping[str, str] | None = None, close: bool = False
) -> Response:
    """Return `{"error": {"type", "message", "code"}, "detail": message}`.

    Args:
        status: Of HTTP.
        kind: A word for programs.
        message: A sentence for people; holds no path, prompt, key or traceback.
        headers: Further ones.
        close: Whether the connection ends with it.
    """
    return json_response(
        {"error": {"type": kind, "message": message, "code": status}, "detail": message},
        {**(headers or {}), **({"Connection": "close"} if close else {})},
        status=status,
    )


def handle_problems(app: FastAPI) -> None:
    """Answer every error of the app in the one shape."""
    for kind in (RefusedError, *UNREADABLE, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, _answer)


REFUSALS: dict[type[Exception], tuple[int, str]] = {
    BadRequestError: (422, "bad_request"),
    NotThereError: (404, "not_found"),
    TakenError: (409, "conflict"),
    QueueFullError: (429, "queue_full"),
    QuotaSpentError: (429, "quota_spent"),
}
"""The status and the word for programs of each refusal of the engine."""


async def _answer(request: Request, error: Exception) -> Response:
    if isinstance(error, RefusedError):
        headers = None if error.retry_after_s is None else {"Retry-After": str(error.retry_after_s)}
        return problem(*REFUSALS[type(error)], str(error), headers=headers)
    if isinstance(error, RequestValidationError):
        # The place and what is wrong there, never what was sent.
        message = "; ".join(
            f"{'.'.join(str(part) for part in detail['loc'][1:])}: {detail['msg']}" for detail in error.errors()[:5]
        )
        return problem(422, "bad_request", message[:1000] or "the request makes no sense")
    if isinstance(error, HTTPException):
        status = error.status_code
        message = "there is nothing here" if status == 404 else "the request can't be served"
        return problem(status, NAMES.get(status, "bad_request"), message, headers=error.headers)
    if isinstance(error, UNREADABLE):
        LOG.error("%s", error)
        return problem(500, "bad_checkpoint", REFUSED)
    LOG.error("a request failed", exc_info=error)
    return problem(500, "internal", "something went wrong; the server's log says what")


UNREADABLE = (BadCheckpointError, BadRunError)
"""Errors of a thread whose stored rows are none of ours."""
REFUSED = "what is stored of this thread is refused; the server's log says why"

Answers: TypeAlias = dict[int | str, dict[str, Any]]


class ProblemDetail(BaseModel, extra="allow"):
    """A problem detail, for programs and for people."""

    type: str
    message: str
    code: int | str | None
    """The status of HTTP; on the paths of OpenAI's protocol OpenAI's word, or nothing."""


class Problem(BaseModel):
    """Every error of the server."""

    error: ProblemDetail
    detail: str = ""
    """The message once more, where LangGraph's clients read it."""


TOLD = {
    400: "The body is no JSON that can be read.",
    401: "A token is needed.",
    403: "The request comes from a page of another site.",
    404: "There is no such thing, or it is another caller's.",
    405: "The path is served, this method is not.",
    408: "The body took too long to arrive.",
    409: "The id is in use, or the thread is busy with a run.",
    413: "The body is too large.",
    415: "The body is no `application/json`.",
    422: "The request makes no sense, or asks for more than the server allows.",
    429: "Too many runs or bytes wait, or the caller's quota is used up; `Retry-After` says when to come again.",
    502: "The run failed.",
    503: "All requests in flight are longer than they may be; `Retry-After` says when to come again.",
    504: "The run took longer than the server allows.",
}

EVENTS: Answers = {200: {"description": "What happens, as server-sent events.", "content": {"text/event-stream": {}}}}


def answers(*statuses: int) -> Answers:
    """Return the description of these errors, as a route takes it for `responses`.

    Args:
        statuses: Of HTTP.
    """
    return {status: {"model": Problem, "description": TOLD[status]} for status in statuses}


GUARDS = answers(400, 401, 403, 405, 408, 413, 415, 422, 429, 503)
"""Responses of every path: a request is checked before it is served."""
