"""States of threads over HTTP: now, at a checkpoint, all of them, and written to, which forks. Internal."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Response
from langgraph.types import StateSnapshot
from pydantic import Field, model_validator

from ...state import BadCheckpointError
from ...state.threads.kind import EditedRecordError, kind_of
from ...state.threads.snapshots import astate_of
from ..engine.engine import Engine
from ..engine.requests import checked_id, checked_input, checked_update, checked_values, given_to
from ..engine.runs import BadRequestError, Caller, NotThereError, TakenError
from ..settings import Settings
from .guards import KnownCaller, KnownEngine
from .problems import answers
from .wire import Few, RequestBody, json_list, json_response, thread_state

__all__ = ["router"]

router = APIRouter(prefix="/threads/{thread_id}", tags=["threads"], responses=answers(404, 409))


class Place(RequestBody):
    """A checkpoint of a thread. What it says about the thread itself is not looked at."""

    checkpoint_id: str | None = None
    checkpoint_ns: Annotated[str, Field(max_length=500)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_a_config(cls, given: Any) -> Any:
        """Read a config too, which holds a checkpoint under `configurable`."""
        return given.get("configurable", given) if isinstance(given, dict) else given


class At(RequestBody):
    """The checkpoint of a state."""

    checkpoint: Place = Field(default_factory=Place)
    subgraphs: bool = False


class Update(RequestBody):
    """A state update, with the node and checkpoint that it follows."""

    values: dict[str, Any] | list[dict[str, Any]] | None = None
    as_node: str | None = None
    checkpoint: Place | None = None
    checkpoint_id: str | None = None


class Past(RequestBody):
    """The selection of earlier states; metadata are looked for by plain names and values."""

    limit: Annotated[int, Field(ge=1, le=1000)] = 10
    before: str | Place | None = None
    metadata: Annotated[
        dict[Annotated[str, Field(pattern=r"^[^\W\d]\w{0,63}$")], str | int | float | bool | None] | None, Few
    ] = None
    checkpoint: Place | None = None


@router.get("/state")
async def latest(engine: KnownEngine, caller: KnownCaller, thread_id: str, subgraphs: bool = False) -> Response:
    """Return the newest state."""
    return await _state(engine, caller, thread_id, Place(), subgraphs=subgraphs)


@router.get("/state/{checkpoint_id}")
async def earlier(
    engine: KnownEngine, caller: KnownCaller, thread_id: str, checkpoint_id: str, subgraphs: bool = False
) -> Response:
    """Return the state at a checkpoint."""
    return await _state(engine, caller, thread_id, Place(checkpoint_id=checkpoint_id), subgraphs=subgraphs)


@router.post("/state/checkpoint")
async def at_checkpoint(engine: KnownEngine, caller: KnownCaller, thread_id: str, body: At) -> Response:
    """Return the state at a checkpoint."""
    return await _state(engine, caller, thread_id, body.checkpoint, subgraphs=body.subgraphs)


@router.post("/state")
async def update(engine: KnownEngine, caller: KnownCaller, thread_id: str, body: Update) -> Response:
    """Write a state after a checkpoint, as if a node had; a run without input goes on from there.

    `feedback` or a `draft`, and `limits`, do there what they do to a fork, within the thread.
    """
    from langgraph.errors import InvalidUpdateError

    record = await engine.owned.thread(caller, thread_id)
    if record.status == "busy":
        raise TakenError("the thread is busy with a run")
    if isinstance(body.values, list):
        raise BadRequestError("values must be an object")
    place = body.checkpoint or Place(checkpoint_id=body.checkpoint_id)
    graph = await engine.graphs.reader(record, place.checkpoint_id and checked_id(place.checkpoint_id))
    if body.as_node is not None and body.as_node not in graph.nodes:
        raise BadRequestError(f"as_node is one of {', '.join(name for name in graph.nodes if name[:2] != '__')}")
    config = await _config(graph, thread_id, place)
    values, as_node = body.values, body.as_node
    if values is not None:
        before = await astate_of(graph, config)
        values, as_node = _update(values, as_node, engine.settings, graph, before)
        # What goes on from there goes on with the recipe of that place.
        recipe = {name: part for name, part in (before.metadata or {}).items() if name in RECIPE}
        config = {**config, "metadata": recipe}
    try:
        written = await graph.aupdate_state(config, values, as_node=as_node)
    except BadCheckpointError:
        raise
    except EditedRecordError as error:
        raise BadRequestError(str(error)[:500]) from error
    except (InvalidUpdateError, ValueError) as error:  # the latter: no such subgraph
        raise BadRequestError("this can't be written there; name the node with as_node") from error
    snapshot = thread_state(await graph.aget_state(written))
    standing = "interrupted" if snapshot["next"] else "idle"
    await engine.owned.stand(caller, thread_id, standing)
    return json_response({"checkpoint": snapshot["checkpoint"], "configurable": snapshot["checkpoint"],
                  "checkpoint_id": snapshot["checkpoint_id"]})  # fmt: skip


@router.post("/history")
async def history(
    engine: KnownEngine, caller: KnownCaller, thread_id: str, body: Annotated[Past | None, Body()] = None
) -> Response:
    """Return states, the newest first."""
    return await _history(engine, caller, thread_id, body or Past())


@router.get("/history")
async def history_by_url(
    engine: KnownEngine, caller: KnownCaller, thread_id: str, limit: int = 10, before: str | None = None
) -> Response:
    """Return states, the newest first."""
    return await _history(engine, caller, thread_id, Past(limit=min(max(limit, 1), 1000), before=before))


async def _history(engine: Engine, caller: Caller, thread_id: str, body: Past) -> Response:
    graph = await engine.graphs.reader(await engine.owned.thread(caller, thread_id))
    config = await _config(graph, thread_id, Place(checkpoint_ns=(body.checkpoint or Place()).checkpoint_ns))
    before = Place(checkpoint_id=body.before) if isinstance(body.before, str) else body.before
    limits: dict[str, Any] = {"limit": body.limit}
    if before is not None and before.checkpoint_id:
        limits["before"] = _configurable(thread_id, before)
    if body.metadata:
        limits["filter"] = body.metadata
    async with engine.db.turns[caller.id]:
        return await json_list(thread_state(snapshot) async for snapshot in graph.aget_state_history(config, **limits))


RECIPE = ("redraft_preset", "redraft_recipe")


def _update(
    values: dict[str, Any], as_node: str | None, settings: Settings, graph: Any, before: StateSnapshot
) -> tuple[dict[str, Any], str | None]:
    """Return the values to write and the node to write them as; raise BadRequestError for what makes no sense there."""
    kind = kind_of(graph)
    if as_node is None:
        checked_values(values, settings)
        try:
            point = kind.meant_by(before, values)
        except ValueError as error:
            raise BadRequestError(str(error)[:500]) from error
        if point is not None:
            return point.values, point.as_node
    elif as_node == "__start__":
        inputs = given_to(graph)
        if others := sorted(values.keys() - set(inputs)):
            raise BadRequestError(f"an input holds {', '.join(inputs)}, not {others[0]!r:.80}")
        return checked_input(values, settings), as_node
    elif as_node in kind.entries and not (kind.begun(before) and before.values.get("limits")):
        raise BadRequestError("the run has not begun at this checkpoint: give a task as the input of a run")
    elif kind.forkable and {"feedback", "draft"} & values.keys():
        raise BadRequestError("feedback and a draft are written without as_node: they go where the draft is")
    return checked_update(values, settings, graph), as_node


async def _state(engine: Engine, caller: Caller, thread_id: str, place: Place, *, subgraphs: bool) -> Response:
    graph = await engine.graphs.reader(await engine.owned.thread(caller, thread_id))
    config = await _config(graph, thread_id, place)
    return json_response(thread_state(await astate_of(graph, config, subgraphs=subgraphs)))


async def _config(graph: Any, thread_id: str, place: Place) -> Any:
    """Return the config of a checkpoint; raise NotThereError where there is none."""
    config = _configurable(thread_id, place)
    named = place.checkpoint_id or place.checkpoint_ns
    if named and await graph.checkpointer.aget_tuple(config) is None:
        raise NotThereError("there is no such checkpoint")
    return config


def _configurable(thread_id: str, place: Place) -> dict[str, Any]:
    where: dict[str, Any] = {"thread_id": thread_id, "checkpoint_ns": place.checkpoint_ns or ""}
    if place.checkpoint_id:
        where["checkpoint_id"] = checked_id(place.checkpoint_id)
    return {"configurable": where}
