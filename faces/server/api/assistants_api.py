"""Assistants over HTTP: the presets that can be run, their schemas and their drawings. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Body, Request
from pydantic import Field
from starlette.responses import Response

from ..engine.runs import NotThereError
from .problems import answers
from .wire import RequestBody, json_response, selected

if TYPE_CHECKING:
    from ..engine.assistants import Assistant
    from ..engine.engine import Engine

__all__ = ["router"]

router = APIRouter(prefix="/assistants", tags=["assistants"], responses=answers(404))
SINCE = "2026-01-01T00:00:00+00:00"


class Search(RequestBody):
    """The search criteria of assistants."""

    graph_id: str | None = None
    name: str | None = None
    metadata: dict[str, Any] | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 10
    offset: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    sort_by: Literal["assistant_id", "created_at", "updated_at", "name", "graph_id"] | None = None
    sort_order: Literal["asc", "desc"] = "asc"
    select: list[str] | None = None


def shown(assistant: Assistant) -> dict[str, Any]:
    """Return an assistant as clients read it."""
    return {
        "assistant_id": assistant.id,
        "graph_id": assistant.id,
        "config": {},
        "context": {},
        "created_at": SINCE,
        "updated_at": SINCE,
        "metadata": {"created_by": "system"},
        "version": 1,
        "name": assistant.id,
        "description": assistant.served.line,
    }


def found(engine: Engine, search: Search) -> list[dict[str, Any]]:
    """Return every assistant that is listed and meant."""
    every = [shown(one) for one in engine.assistants().values() if one.served.listed]
    if search.sort_by is not None:
        key = search.sort_by
        every.sort(key=lambda one: str(one[key]), reverse=search.sort_order == "desc")
    wanted = (search.metadata or {}).items()
    return [
        one
        for one in every
        if search.graph_id in (None, one["graph_id"])
        and (search.name or "").lower() in one["name"].lower()
        and all(one["metadata"].get(name) == value for name, value in wanted)
    ]


@router.post("/search")
async def search(request: Request, body: Annotated[Search | None, Body()] = None) -> Response:
    """List assistants."""
    body = body or Search()
    every = found(request.app.state.engine, body)
    return json_response([selected(one, body.select) for one in every[body.offset : body.offset + body.limit]])


@router.post("/count")
async def count(request: Request, body: Annotated[Search | None, Body()] = None) -> Response:
    """Count assistants."""
    return json_response(len(found(request.app.state.engine, body or Search())))


@router.get("/{assistant_id}")
async def get(request: Request, assistant_id: str) -> Response:
    """Return an assistant."""
    return json_response(shown(request.app.state.engine.assistant(assistant_id)))


@router.get("/{assistant_id}/schemas")
async def schemas(request: Request, assistant_id: str) -> Response:
    """Return the JSON schemas of what the graph takes and gives."""
    graph = await request.app.state.engine.graph(assistant_id)
    return json_response(
        {
            "graph_id": assistant_id,
            "input_schema": graph.get_input_jsonschema(),
            "output_schema": graph.get_output_jsonschema(),
            "state_schema": _state_schema(graph),
            "config_schema": {},
            "context_schema": {},
        }
    )


@router.get("/{assistant_id}/graph")
async def drawing(request: Request, assistant_id: str, xray: bool | int = False) -> Response:
    """Return the nodes and edges of the graph."""
    graph = await request.app.state.engine.graph(assistant_id)
    depth = xray if isinstance(xray, bool) else min(max(xray, 0), 10)
    drawn = await graph.aget_graph(xray=depth)
    return json_response(drawn.to_json())


@router.post("/{assistant_id}/versions")
async def versions(request: Request, assistant_id: str, body: Annotated[Search | None, Body()] = None) -> Response:
    """Return the versions of an assistant; there is one, since a preset is not edited here."""
    body = body or Search()
    every = [shown(request.app.state.engine.assistant(assistant_id))]
    return json_response(every[body.offset : body.offset + body.limit])


@router.get("/{assistant_id}/subgraphs")
async def subgraphs(request: Request, assistant_id: str, recurse: bool = False) -> Response:
    """Return the subgraphs with their schemas."""
    return json_response(await _subgraphs(request, assistant_id, recurse=recurse))


@router.get("/{assistant_id}/subgraphs/{namespace}")
async def subgraph(request: Request, assistant_id: str, namespace: str, recurse: bool = False) -> Response:
    """Return the subgraph of a namespace with its schemas."""
    every = await _subgraphs(request, assistant_id, recurse=recurse)
    if namespace not in every:
        raise NotThereError("there is no such subgraph")
    return json_response({namespace: every[namespace]})


async def _subgraphs(request: Request, assistant_id: str, *, recurse: bool) -> dict[str, Any]:
    graph = await request.app.state.engine.graph(assistant_id)
    return {
        name: {"input_schema": one.get_input_jsonschema(), "output_schema": one.get_output_jsonschema()}
        for name, one in graph.get_subgraphs(recurse=recurse)
    }


def _state_schema(graph: Any) -> dict[str, Any] | None:
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        return TypeAdapter(graph.builder.state_schema).json_schema()
    except (PydanticUserError, NameError, TypeError, AttributeError):  # a channel that JSON can't describe
        return None
