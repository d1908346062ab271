"""The store over HTTP, as LangGraph's clients use it. Internal."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from ..engine.item_records import Item
from ..engine.runs import BadRequestError
from .guards import KnownCaller, KnownEngine
from .runs_api import listed
from .wire import MOST_METADATA, Few, Page, RequestBody, dumps, json_list, json_response, one_by_one

__all__ = ["router"]

router = APIRouter(prefix="/store", tags=["store"])
Names = Annotated[list[str], Field(max_length=100)]


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


class Search(Page):
    """The search criteria of items."""

    namespace_prefix: Names = Field(default_factory=list)
    filter: Annotated[dict[str, Any] | None, Few] = None
    query: str | None = None


class Namespaces(Page):
    """The search criteria of namespaces."""

    prefix: Names | None = None
    suffix: Names | None = None
    max_depth: Annotated[int, Field(ge=1)] | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100


@router.put("/items", status_code=204, response_class=Response)
async def put(engine: KnownEngine, caller: KnownCaller, body: Put) -> None:
    """Keep a value under a namespace and a key."""
    if body.index:
        raise BadRequestError("index is not served: items are found by namespace and filter")
    if body.ttl is not None:
        raise BadRequestError("ttl is not served: an item stays until it is deleted")
    if len(dumps(body.value)) > MOST_METADATA:
        raise BadRequestError(f"a value has at most {MOST_METADATA} bytes of JSON")
    await engine.store.put(caller, body.namespace, body.key, body.value)


@router.get("/items")
async def get(request: Request, engine: KnownEngine, caller: KnownCaller, key: str) -> Response:
    """Return the item of a namespace and a key, or null."""
    names = [name for value in listed(request, "namespace") for name in value.split(".")]
    item = await engine.store.get(caller, names, key)
    return json_response(None if item is None else _item_json(item))


@router.delete("/items", status_code=204, response_class=Response)
async def remove(engine: KnownEngine, caller: KnownCaller, body: Remove) -> None:
    """Forget the item of a namespace and a key, where there is one."""
    await engine.store.remove(caller, body.namespace, body.key)


@router.post("/items/search")
async def search(engine: KnownEngine, caller: KnownCaller, body: Search) -> Response:
    """Return the items within a namespace, the last changed first."""
    if body.query:
        raise BadRequestError("query is not served: items are found by namespace and filter")
    items = await engine.store.search(caller, body.namespace_prefix, body.filter or {})
    listed_items = await json_list(one_by_one(map(_found_json, items[body.offset : body.offset + body.limit])))
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


def _found_json(item: Item) -> dict[str, Any]:
    return {**_item_json(item), "score": None}  # nothing is searched by meaning


def _item_json(item: Item) -> dict[str, Any]:
    return {**item._asdict(), "namespace": list(item.namespace)}
