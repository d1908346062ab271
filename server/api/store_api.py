"""The store over HTTP, as LangGraph's clients use it. Internal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from ..engine.item_records import Item
from ..engine.runs import BadRequestError
from .guards import KnownCaller, KnownEngine
from .runs_api import listed
from .wire import MOST_METADATA, RequestBody, dumps, json_list, json_response

__all__ = ["router"]

router = APIRouter(prefix="/store", tags=["store"])
Names = Annotated[list[str], Field(max_length=100)]
Limit = Annotated[int, Field(ge=1, le=1000)]
Offset = Annotated[int, Field(ge=0, le=1_000_000)]


class Put(RequestBody):
    """A value to keep."""

    namespace: Names
    key: str
    value: dict[str, Any]
    index: bool | list[str] | None = None
    ttl: Any = None


class Remove(RequestBody):
    """A value to forget."""

    namespace: Names = Field(default_factory=list)
    key: str


class Search(RequestBody):
    """The search criteria of items."""

    namespace_prefix: Names = Field(default_factory=list)
    filter: dict[str, Any] | None = None
    limit: Limit = 10
    offset: Offset = 0
    query: str | None = None


class Namespaces(RequestBody):
    """The search criteria of namespaces."""

    prefix: Names | None = None
    suffix: Names | None = None
    max_depth: Annotated[int, Field(ge=1)] | None = None
    limit: Limit = 100
    offset: Offset = 0


@router.put("/items", status_code=204)
async def put(engine: KnownEngine, caller: KnownCaller, body: Put) -> Response:
    """Keep a value under a namespace and a key."""
    if body.index:
        raise BadRequestError("index is not served: items are found by namespace and filter")
    if body.ttl is not None:
        raise BadRequestError("ttl is not served: an item stays until it is deleted")
    if len(dumps(body.value)) > MOST_METADATA:
        raise BadRequestError(f"a value has at most {MOST_METADATA} bytes of JSON")
    await engine.store.put(caller, body.namespace, body.key, body.value)
    return Response(status_code=204)


@router.get("/items")
async def get(request: Request, engine: KnownEngine, caller: KnownCaller, key: str) -> Response:
    """Return the item of a namespace and a key, or null."""
    names = [name for value in listed(request, "namespace") for name in value.split(".")]
    item = await engine.store.get(caller, names, key)
    return json_response(None if item is None else _item_json(item))


@router.delete("/items", status_code=204)
async def remove(engine: KnownEngine, caller: KnownCaller, body: Remove) -> Response:
    """Forget the item of a namespace and a key, where there is one."""
    await engine.store.remove(caller, body.namespace, body.key)
    return Response(status_code=204)


@router.post("/items/search")
async def search(engine: KnownEngine, caller: KnownCaller, body: Search) -> Response:
    """Return the items within a namespace, the last changed first."""
    if body.query:
        raise BadRequestError("query is not served: items are found by namespace and filter")
    items = await engine.store.search(caller, body.namespace_prefix, body.filter or {})

    async def page() -> AsyncIterator[Any]:
        for item in items[body.offset : body.offset + body.limit]:
            yield _item_json(item)

    listed_items = await json_list(page())
    return Response(b'{"items":' + bytes(listed_items.body) + b"}", media_type="application/json")


@router.post("/namespaces")
async def namespaces(engine: KnownEngine, caller: KnownCaller, body: Namespaces) -> Response:
    """Return the namespaces that hold items."""
    every = await engine.store.namespaces(
        caller, prefix=body.prefix or (), suffix=body.suffix or (), depth=body.max_depth
    )
    return json_response(
        {"namespaces": [list(namespace) for namespace in every[body.offset : body.offset + body.limit]]}
    )


def _item_json(item: Item) -> dict[str, Any]:
    return {**item._asdict(), "namespace": list(item.namespace)}
