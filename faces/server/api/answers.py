"""Error responses of each path, for the OpenAPI description."""

from __future__ import annotations

from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict

__all__ = ["EVENTS", "GUARDS", "Answers", "Problem", "answers"]

Answers: TypeAlias = dict[int | str, dict[str, Any]]


class ProblemDetail(BaseModel):
    """A problem detail, for programs and for people."""

    model_config = ConfigDict(extra="allow")

    type: str
    message: str
    code: int | str | None
    """The status of HTTP; on the paths of OpenAI's protocol OpenAI's word, or nothing."""


class Problem(BaseModel):
    """Every error of the server."""

    error: ProblemDetail


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
    429: "Too many runs wait; `Retry-After` says when to come again.",
    502: "The run failed.",
    504: "The run took longer than the server allows.",
}

EVENTS: Answers = {200: {"description": "What happens, as server-sent events.", "content": {"text/event-stream": {}}}}


def answers(*statuses: int) -> Answers:
    """Return the description of these errors, as a route takes it for `responses`.

    Args:
        statuses: Of HTTP.
    """
    return {status: {"model": Problem, "description": TOLD[status]} for status in statuses}


GUARDS = answers(400, 401, 403, 405, 408, 413, 415, 422)
"""What every path may answer: by them a request is looked at before it is served."""
