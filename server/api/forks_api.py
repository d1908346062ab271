"""Forks of threads over HTTP: a new thread of the caller's that begins in the middle of one of theirs. Internal."""

from __future__ import annotations

import secrets
import uuid
from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import ConfigDict, Field, model_validator

from ...state import Thread, UnknownThreadError
from ..engine.call_options import checked_options
from ..engine.engine import Engine
from ..engine.records import ThreadRecord
from ..engine.requests import can_be_served, checked_id, checked_values
from ..engine.runs import BadRequestError, NotThereError
from .guards import KnownCaller, KnownEngine
from .problems import UNREADABLE, answers
from .threads_api import thread_json
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
    parent = await engine.owned.thread(caller, thread_id)
    values = {"feedback": body.feedback or "", "draft": body.draft or "", "limits": body.limits}
    checked_values(values, engine.settings)
    place = checked_id(body.at) if isinstance(body.at, str) else body.at
    graph, metadata = await _graph(engine, parent, body)
    name = body.thread_id if body.thread_id is not None else _new_id(thread_id)
    assistant = body.assistant_id or parent.assistant
    # The insert decides whose the id is, before anything is written under it.
    record = await engine.owned.create(caller, name, metadata=body.metadata, assistant=assistant)
    changes = body.model_dump(include={"feedback", "draft", "limits"})
    try:
        await Thread(graph, thread_id).afork(at=place, thread_id=record.thread_id, metadata=metadata, **changes)
    except BaseException as error:
        await engine.owned.erase(record.thread_id)
        if isinstance(error, UnknownThreadError):
            raise NotThereError("there is no such checkpoint, or nothing was run on the thread yet") from error
        # What is stored may be refused too, which is none of the caller's fault.
        if isinstance(error, ValueError) and not isinstance(error, UNREADABLE):
            raise BadRequestError(str(error)[:500]) from error
        raise
    return json_response(await thread_json(engine, await engine.owned.thread(caller, record.thread_id)))


async def _graph(engine: Engine, parent: ThreadRecord, body: Fork) -> tuple[Any, dict[str, Any]]:
    """Return the graph that forks a thread, and the metadata that say with which recipe the fork goes on."""
    if body.assistant_id is not None:
        options = body.options or {}
        if options:
            options = checked_options(engine.assistant(body.assistant_id), engine.settings, options)
        graph, recipe = await engine.graphs.assistant(body.assistant_id, body.model, options)
        own = {} if recipe is None else recipe.metadata()
        return graph, {"redraft_recipe": None, "redraft_preset": None, **own}
    if body.model is not None or body.options:
        raise BadRequestError("a model and options are those of an assistant: name it as assistant_id")
    graph, recipe = await engine.graphs.of_fork(parent)
    return graph, {} if recipe is None else dict(recipe.metadata())


def _new_id(parent: str) -> str:
    return f"{parent}-{secrets.token_hex(3)}" if len(parent) <= 100 and can_be_served(parent) else str(uuid.uuid4())
