"""Threads over HTTP: made, found, described, copied, forked and deleted, each by its owner alone. Internal."""

from __future__ import annotations

import secrets
import uuid
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Request, Response
from pydantic import Field, model_validator

from ...nodes.runtime.killable import off_loop
from ...state import Thread, UnknownThreadError
from ..engine.call_options import checked_options
from ..engine.engine import Engine
from ..engine.ownership import LOCAL
from ..engine.requests import can_be_served, checked_id, checked_values
from ..engine.runs import LOG, BadRequestError, Caller, NotThereError
from ..engine.thread_records import ThreadRecord
from .guards import KnownCaller, KnownEngine
from .problems import REFUSED, UNREADABLE, answers
from .wire import (
    Few,
    Metadata,
    Page,
    RequestBody,
    checked_metadata,
    json_list,
    json_response,
    plain,
    selected,
    thread_state,
)

__all__ = ["router"]

router = APIRouter(prefix="/threads", tags=["threads"], responses=answers(404, 409))
Status = Literal["idle", "busy", "interrupted", "error"]


class Create(RequestBody):
    """A new thread."""

    thread_id: str | None = None
    metadata: Metadata | None = None
    if_exists: Literal["raise", "do_nothing"] = "raise"
    supersteps: list[Any] | None = None
    ttl: Any = None


class Search(Page):
    """The search criteria of threads."""

    metadata: Annotated[dict[str, Any] | None, Few] = None
    values: dict[str, Any] | None = None
    ids: Annotated[list[str], Field(max_length=1000)] | None = None
    status: Status | None = None
    sort_by: Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"] = "created_at"
    sort_order: Literal["asc", "desc"] = "desc"
    select: Annotated[list[str] | None, Few] = None
    extract: dict[str, str] | None = None


class Change(RequestBody):
    """Metadata that is put over a thread's."""

    metadata: Metadata = Field(default_factory=dict)
    ttl: Any = None


class Prune(RequestBody):
    """Threads that are no longer wanted."""

    thread_ids: Annotated[list[str], Field(max_length=1000)]
    strategy: str = "delete"


@router.post("")
async def create(engine: KnownEngine, caller: KnownCaller, body: Annotated[Create | None, Body()] = None) -> Response:
    """Make a thread."""
    body = body or Create()
    if body.supersteps:
        raise BadRequestError("supersteps are not served: copy a thread, or write its state")
    _check_ttl(body.ttl)
    metadata = body.metadata or {}
    name = metadata.get("graph_id")
    assistant = engine.presets.get(name).id if isinstance(name, str) else None
    record = await engine.owned.create(
        caller, body.thread_id, metadata=metadata, assistant=assistant, if_exists=body.if_exists
    )
    return json_response(await thread_json(engine, record))


@router.post("/search")
async def search(engine: KnownEngine, caller: KnownCaller, body: Annotated[Search | None, Body()] = None) -> Response:
    """List threads of the caller's."""
    body = body or Search()
    # Values are read thread by thread, so only where they are shown.
    with_values = body.select is None or {"values", "interrupts"} & set(body.select)
    async with engine.owned.looking(caller):
        page = await _matching(engine, caller, body, limit=body.limit, offset=body.offset)
        return await json_list(
            selected(await thread_json(engine, record, values=bool(with_values)), body.select) for record in page
        )


@router.post("/count")
async def count(engine: KnownEngine, caller: KnownCaller, body: Annotated[Search | None, Body()] = None) -> Response:
    """Count threads of the caller's."""
    async with engine.owned.looking(caller):
        return json_response(len(await _matching(engine, caller, body or Search())))


@router.post("/prune")
async def prune(engine: KnownEngine, caller: KnownCaller, body: Prune) -> Response:
    """Delete threads of the caller's with all they hold, and say how many."""
    if body.strategy != "delete":
        raise BadRequestError("strategy is delete: a thread keeps its history, which replays and forks need")
    pruned = 0
    for thread_id in dict.fromkeys(body.thread_ids):
        # One that is gone, or another's, is not counted; the rest is still deleted.
        with suppress(NotThereError):
            await engine.delete_thread(caller, thread_id)
            pruned += 1
    return json_response({"pruned_count": pruned})


@router.get("/{thread_id}")
async def get(engine: KnownEngine, caller: KnownCaller, thread_id: str) -> Response:
    """Return a thread with its values."""
    return json_response(await thread_json(engine, await engine.owned.thread(caller, thread_id)))


@router.patch("/{thread_id}", responses={204: {"description": "Where `Prefer: return=minimal` was asked for."}})
async def change(request: Request, engine: KnownEngine, caller: KnownCaller, thread_id: str, body: Change) -> Response:
    """Put metadata over a thread's."""
    _check_ttl(body.ttl)
    changed = await engine.owned.label(
        caller, thread_id, lambda metadata: checked_metadata({**metadata, **body.metadata})
    )
    if request.headers.get("prefer") == "return=minimal":
        return Response(status_code=204)
    return json_response(await thread_json(engine, changed))


@router.delete("/{thread_id}", status_code=204, response_class=Response)
async def delete(engine: KnownEngine, caller: KnownCaller, thread_id: str) -> None:
    """Delete a thread with all it holds."""
    await engine.delete_thread(caller, thread_id)


@router.post("/{thread_id}/copy")
async def copy(engine: KnownEngine, caller: KnownCaller, thread_id: str) -> Response:
    """Copy a thread with its history."""
    record = await engine.owned.thread(caller, thread_id)
    target = await engine.owned.create(caller, metadata=record.metadata, assistant=record.assistant)
    await engine.saver.acopy_thread(record.thread_id, target.thread_id)
    # The run under way goes on in the source alone.
    standing = "idle" if record.status == "busy" else record.status
    return json_response(await thread_json(engine, await engine.owned.stand(caller, target.thread_id, standing)))


async def thread_json(engine: Engine, record: ThreadRecord, *, values: bool = True) -> dict[str, Any]:
    """Return a thread as clients read it."""
    state: dict[str, Any] = {}
    broken: dict[str, Any] = {}
    if values:
        try:
            state = thread_state(await engine.graphs.state(record))
        except UNREADABLE as error:
            # It is shown as what it is: one that can't be read must not hide the others of a list.
            LOG.error("%s", error)
            broken = {"status": "error", "error": {"error": "BadCheckpointError", "message": REFUSED}}
    metadata = {"graph_id": record.assistant, "assistant_id": record.assistant} if record.assistant else {}
    interrupts = {task["id"]: task["interrupts"] for task in state.get("tasks", ()) if task["interrupts"]}
    status = record.status
    if interrupts and status == "idle":  # it asks at the shell, say: of that the server has noted nothing
        status = "interrupted"
    elif status == "interrupted" and state.get("values") and not state["next"]:  # it was answered there
        status = "idle"
    return {
        "thread_id": record.thread_id,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "metadata": {**metadata, **plain(record.metadata)},
        "status": status,
        "config": {},
        "values": state.get("values") or None,
        "interrupts": interrupts,
        "state_updated_at": state.get("created_at") or record.updated_at,
        "error": None,
        **broken,
    }


def _check_ttl(ttl: object) -> None:
    if ttl is not None:
        raise BadRequestError("ttl is not served for one thread; `redraft serve --default-ttl` sets it for all")


async def _matching(
    engine: Engine, caller: Caller, body: Search, *, limit: int | None = None, offset: int = 0
) -> list[ThreadRecord]:
    """Return the threads that are searched for, or a page of them, read in a thread of its caller's share."""
    if body.values:
        raise BadRequestError("threads are not searched by their values; use metadata")
    if body.extract:
        raise BadRequestError("extract is not served; select values")
    # A state has no time of its own here.
    by = body.sort_by.removeprefix("state_")
    read = partial(engine.records.threads, caller.id, ids=body.ids, by=by, order=body.sort_order)
    wanted = (body.metadata or {}).items()
    if not wanted and body.status not in ("idle", "interrupted"):
        return await off_loop(read, status=body.status, limit=limit, offset=offset)

    def agreeing() -> list[ThreadRecord]:
        known = ((record, {"graph_id": record.assistant, **record.metadata}) for record in read())
        return [record for record, named in known if all(named.get(name) == value for name, value in wanted)]

    every = await off_loop(agreeing)
    if body.status in ("idle", "interrupted"):
        standings = await engine.owned.standings(every)
        every = [record for record in every if standings[record.thread_id] == body.status]
    elif body.status is not None:
        every = [record for record in every if record.status == body.status]
    return every[offset:] if limit is None else every[offset : offset + limit]


PromptName = Annotated[str, Field(pattern="^[a-z]+_prompt$")]


class Fork(RequestBody, strict=True, extra="forbid"):
    """The place of a fork, what changes there, and under which assistant it goes on: by default, with the recipe that
    its parent was begun with."""

    at: Annotated[int, Field(ge=0, le=1_000_000)] | Annotated[str, Field(min_length=1, max_length=128)]
    """A round, 0 is the first draft; `best` or `last`; or the id of a checkpoint."""
    feedback: str | None = None
    """A change to the draft there; all later ones must meet it."""
    verifiers: list[Annotated[str, Field(max_length=10_000)]] = Field(default_factory=list, max_length=20)
    """Names of programs that tell if a draft does."""
    draft: Any = None
    """Replaces the draft there; it is judged anew. A text, or of a typed thread what its type takes, as JSON."""
    prompts: dict[PromptName, Annotated[str, Field(max_length=50_000)]] = Field(default_factory=dict)
    """Templates by their names in a recipe, `refine_prompt` say, in place of the thread's; on a server without tokens,
    whose only caller is who started it."""
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
    def _known(cls, fields: Any) -> Any:
        unknown = sorted(fields.keys() - cls.model_fields.keys()) if isinstance(fields, dict) else []
        if unknown:
            raise ValueError(f"there is no {unknown[0]!r:.80} in a fork; there are {', '.join(cls.model_fields)}")
        return fields


# The shell makes ids with slashes, such as those of a search's paths.
@router.post("/{thread_id:path}/fork")
async def fork(engine: KnownEngine, caller: KnownCaller, thread_id: str, body: Fork) -> Response:
    """Make a thread that begins in the middle of this one, which stays as it is; a run without input runs it."""
    parent = await engine.owned.thread(caller, thread_id)
    values = {"feedback": body.feedback or "", "draft": "" if body.draft is None else body.draft, "limits": body.limits}
    checked_values(values, engine.settings, typed=True)
    place = checked_id(body.at) if isinstance(body.at, str) else body.at
    graph, metadata = await _graph(engine, caller, parent, body)
    name = body.thread_id if body.thread_id is not None else _new_id(thread_id)
    assistant = body.assistant_id or parent.assistant
    # The insert decides whose the id is, before anything is written under it.
    record = await engine.owned.create(caller, name, metadata=body.metadata, assistant=assistant)
    changes = body.model_dump(include={"feedback", "verifiers", "draft", "limits"})
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


async def _graph(engine: Engine, caller: Caller, parent: ThreadRecord, body: Fork) -> tuple[Any, dict[str, Any]]:
    """Return the graph that forks a thread, and the metadata that say with which recipe the fork goes on."""
    if body.assistant_id is not None and body.prompts:
        raise BadRequestError("prompts are those of the thread's own recipe: leave assistant_id out")
    if body.assistant_id is not None:
        options = body.options or {}
        if options:
            options = await off_loop(checked_options, engine.presets.get(body.assistant_id), engine.settings, options)
        graph, recipe = await engine.graphs.assistant(body.assistant_id, body.model, options)
        own = {} if recipe is None else recipe.metadata()
        return graph, {"redraft_recipe": None, "redraft_preset": None, **own}
    if body.model is not None or body.options:
        raise BadRequestError("a model and options are those of an assistant: name it as assistant_id")
    if body.prompts and caller != LOCAL:
        raise BadRequestError("prompts are the server's own, and no caller's to change")
    graph, recipe = await (
        engine.graphs.with_prompts(parent, body.prompts) if body.prompts else engine.graphs.of_fork(parent)
    )
    return graph, {} if recipe is None else dict(recipe.metadata())


def _new_id(parent: str) -> str:
    return f"{parent}-{secrets.token_hex(3)}" if len(parent) <= 100 and can_be_served(parent) else str(uuid.uuid4())
