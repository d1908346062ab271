"""Forks of threads over HTTP. Internal."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import ConfigDict, Field, model_validator
from starlette.responses import Response

from ..engine.forking import fork_thread
from .guards import KnownCaller, KnownEngine
from .problems import answers
from .threads_api import shown
from .wire import Metadata, RequestBody, json_response

__all__ = ["router"]

router = APIRouter(prefix="/threads", tags=["threads"], responses=answers(404, 409))


class Fork(RequestBody):
    """The place of a fork, what changes there, and under which assistant it goes on: by default, with the recipe that
    its parent was begun with."""

    model_config = ConfigDict(strict=True, extra="forbid")

    at: Annotated[int, Field(ge=0, le=1_000_000)] | Annotated[str, Field(min_length=1, max_length=128)]
    """A round, 0 is the first draft; or the id of a checkpoint."""
    feedback: str | None = None
    """Replaces what was said about the draft there, and with it its acceptance."""
    draft: str | None = None
    """Replaces the draft there; it is judged anew."""
    limits: dict[str, Any] | None = None
    """Those not named stay."""
    assistant_id: str | None = None
    model: str | None = None
    """Of those that the server allows; of the assistant that is named."""
    options: dict[str, Any] | None = None
    """Of the assistant that is named."""
    thread_id: str | None = None
    """Of the fork."""
    metadata: Metadata | None = None

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: Any) -> Any:
        unknown = sorted(given.keys() - cls.model_fields.keys()) if isinstance(given, dict) else []
        if unknown:
            raise ValueError(f"there is no {unknown[0]!r:.80} in a fork; there are {', '.join(cls.model_fields)}")
        return given


# The shell makes ids with slashes, such as those of a search's paths.
@router.post("/{thread_id:path}/fork")
async def fork(engine: KnownEngine, caller: KnownCaller, thread_id: str, body: Fork) -> Response:
    """Make a thread that begins in the middle of this one, which stays as it is; a run without input runs it."""
    made = await fork_thread(
        engine,
        caller,
        thread_id,
        at=body.at,
        feedback=body.feedback,
        draft=body.draft,
        limits=body.limits,
        assistant=body.assistant_id,
        model=body.model,
        options=body.options,
        new_id=body.thread_id,
        metadata=body.metadata,
    )
    return json_response(await shown(engine, await engine.owned.thread(caller, made.thread_id)))
