"""Assistants over HTTP: the presets, and those that callers make of them, with schemas and drawings. Internal."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Response
from pydantic import Field, PydanticUserError, TypeAdapter

from ...nodes.runtime.killable import off_loop
from ..engine.call_options import call_options
from ..engine.engine import Engine
from ..engine.runs import BadRequestError, Caller, NotThereError
from .guards import KnownCaller, KnownEngine
from .problems import answers
from .wire import Few, Metadata, Page, RequestBody, json_list, json_response, one_by_one, selected

__all__ = ["router"]

router = APIRouter(prefix="/assistants", tags=["assistants"], responses=answers(404, 409))


class Search(Page):
    """The search criteria of assistants."""

    graph_id: str | None = None
    name: str | None = None
    metadata: Annotated[dict[str, Any] | None, Few] = None
    sort_by: Literal["assistant_id", "created_at", "updated_at", "name", "graph_id"] | None = None
    sort_order: Literal["asc", "desc"] = "asc"
    select: Annotated[list[str] | None, Few] = None


Text = Annotated[str, Field(max_length=500)]


class Change(RequestBody):
    """A new version of an assistant: what is left out stays. Options of the preset stand in `context`."""

    graph_id: str | None = None
    config: Metadata | None = None
    context: Metadata | None = None
    metadata: Metadata | None = None
    name: Text | None = None
    description: Text | None = None


class Create(Change):
    """A new assistant."""

    graph_id: str
    assistant_id: str | None = None
    if_exists: Literal["raise", "do_nothing"] = "raise"


class Latest(RequestBody):
    """The version that is to be run."""

    version: int


async def matching(engine: Engine, caller: Caller, search: Search) -> list[dict[str, Any]]:
    """Return every assistant that is listed and meant: the caller's own, then the presets."""
    every = await engine.saved.every(caller)
    if search.sort_by is not None:
        key = search.sort_by
        every.sort(key=lambda assistant: str(assistant[key]), reverse=search.sort_order == "desc")
    return [
        assistant
        for assistant in every
        if search.graph_id in (None, assistant["graph_id"])
        and (search.name or "").lower() in assistant["name"].lower()
        and all(assistant["metadata"].get(name) == value for name, value in (search.metadata or {}).items())
    ]


@router.post("")
async def create(engine: KnownEngine, caller: KnownCaller, body: Create) -> Response:
    """Make an assistant: a preset with a model and options of the caller's."""
    return json_response(
        await engine.saved.create(
            caller, body.assistant_id, body.model_dump(exclude={"assistant_id", "if_exists"}), if_exists=body.if_exists
        )
    )


@router.post("/search")
async def search(engine: KnownEngine, caller: KnownCaller, body: Annotated[Search | None, Body()] = None) -> Response:
    """List assistants."""
    body = body or Search()
    every = await matching(engine, caller, body)
    return await json_list(
        one_by_one(selected(assistant, body.select) for assistant in every[body.offset : body.offset + body.limit])
    )


@router.post("/count")
async def count(engine: KnownEngine, caller: KnownCaller, body: Annotated[Search | None, Body()] = None) -> Response:
    """Count assistants."""
    return json_response(len(await matching(engine, caller, body or Search())))


@router.get("/{assistant_id}")
async def get(engine: KnownEngine, caller: KnownCaller, assistant_id: str) -> Response:
    """Return an assistant."""
    return json_response(await engine.saved.get(caller, assistant_id))


@router.patch("/{assistant_id}")
async def update(engine: KnownEngine, caller: KnownCaller, assistant_id: str, body: Change) -> Response:
    """Add a version to an assistant of the caller's, and run it from now on."""
    return json_response(await engine.saved.update(caller, assistant_id, body.model_dump(exclude_none=True)))


@router.delete("/{assistant_id}", status_code=204, response_class=Response)
async def delete(engine: KnownEngine, caller: KnownCaller, assistant_id: str, delete_threads: bool = False) -> None:
    """Forget an assistant of the caller's; its threads stay."""
    if delete_threads:
        raise BadRequestError("delete_threads is not served: threads stay until they are deleted by themselves")
    await engine.saved.delete(caller, assistant_id)


@router.post("/{assistant_id}/latest")
async def set_latest(engine: KnownEngine, caller: KnownCaller, assistant_id: str, body: Latest) -> Response:
    """Run another version of an assistant of the caller's from now on."""
    return json_response(await engine.saved.set_latest(caller, assistant_id, body.version))


@router.get("/{assistant_id}/schemas")
async def schemas(engine: KnownEngine, caller: KnownCaller, assistant_id: str) -> Response:
    """Return the JSON schemas of what the graph takes and gives, and of the options that a caller may set."""
    preset, graph = await _graph(engine, caller, assistant_id)
    return json_response(await off_loop(_schemas, engine, preset, graph))


def _schemas(engine: Engine, preset: str, graph: Any) -> dict[str, Any]:
    options = call_options(engine.presets.get(preset), engine.settings).model_json_schema()
    options["properties"] = {
        **options.get("properties", {}),
        "model": {"enum": [engine.settings.model, *engine.settings.models], "description": "Writes."},
    }
    return {
        "graph_id": preset,
        "input_schema": graph.get_input_jsonschema(),
        "output_schema": graph.get_output_jsonschema(),
        "state_schema": _state_schema(graph),
        "config_schema": options,
        "context_schema": options,
    }


@router.get("/{assistant_id}/graph")
async def drawing(engine: KnownEngine, caller: KnownCaller, assistant_id: str, xray: bool | int = False) -> Response:
    """Return the nodes and edges of the graph."""
    _, graph = await _graph(engine, caller, assistant_id)
    depth = xray if isinstance(xray, bool) else min(max(xray, 0), 10)
    return json_response((await graph.aget_graph(xray=depth)).to_json())


@router.post("/{assistant_id}/versions")
async def versions(
    engine: KnownEngine, caller: KnownCaller, assistant_id: str, body: Annotated[Search | None, Body()] = None
) -> Response:
    """Return the versions of an assistant, the newest first; a preset has one."""
    body = body or Search()
    every = await engine.saved.versions(caller, assistant_id)
    every = [
        version
        for version in every
        if all(version["metadata"].get(name) == value for name, value in (body.metadata or {}).items())
    ]
    return await json_list(one_by_one(every[body.offset : body.offset + body.limit]))


@router.get("/{assistant_id}/subgraphs")
async def subgraphs(engine: KnownEngine, caller: KnownCaller, assistant_id: str, recurse: bool = False) -> Response:
    """Return the subgraphs with their schemas."""
    return json_response(await _subgraphs(engine, caller, assistant_id, recurse=recurse))


@router.get("/{assistant_id}/subgraphs/{namespace}")
async def subgraph(
    engine: KnownEngine, caller: KnownCaller, assistant_id: str, namespace: str, recurse: bool = False
) -> Response:
    """Return the subgraph of a namespace with its schemas."""
    every = await _subgraphs(engine, caller, assistant_id, recurse=recurse)
    if namespace not in every:
        raise NotThereError("there is no such subgraph")
    return json_response({namespace: every[namespace]})


async def _graph(engine: Engine, caller: Caller, assistant_id: str) -> tuple[str, Any]:
    """Return the preset of an assistant, and its graph."""
    preset, model, options = await engine.saved.resolved(caller, assistant_id)
    return preset, (await engine.graphs.assistant(preset, model, options))[0]


async def _subgraphs(engine: Engine, caller: Caller, assistant_id: str, *, recurse: bool) -> dict[str, Any]:
    _, graph = await _graph(engine, caller, assistant_id)
    return {
        name: {"input_schema": subgraph.get_input_jsonschema(), "output_schema": subgraph.get_output_jsonschema()}
        for name, subgraph in graph.get_subgraphs(recurse=recurse)
    }


def _state_schema(graph: Any) -> dict[str, Any] | None:
    try:
        return TypeAdapter(graph.builder.state_schema).json_schema()
    except (PydanticUserError, NameError, TypeError, AttributeError):  # a channel that JSON can't describe
        return None
