"""Chat models whose calls go into batches: OpenAI's, servers that speak its protocol, and Anthropic's. Internal.

A request is taken out where the provider's SDK hands it to its HTTP client, and the reply is put in there. So the
model keeps its tools, its structured output and its errors. What failed for a passing reason the SDK sends again, and
that request, which it marks as a repetition, goes out by itself.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from concurrent.futures import Future
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import httpx2

from .batches import OK, Batch, Batches, Reply, Service, State
from .openai_chat import Instead
from .prices import BATCH

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

__all__ = ["batched"]


def batched(model: BaseChatModel, batches: Batches) -> BaseChatModel:
    """Return a chat model whose calls are collected in `batches` from now on; it is the same object.

    Raises:
        ValueError: It is of a provider without batches, or the server refuses.
    """
    given: Any = model
    service: Any
    if hasattr(model, "root_async_client"):
        plain, client, service = given.root_client, given.root_async_client, _OpenAI
    elif type(model).__module__.partition(".")[0] == "langchain_anthropic":
        plain, client, service = given._client, given._async_client, _Anthropic
    else:
        raise ValueError(f"{type(model).__name__} takes no batches: {TAKERS} do")
    if isinstance(client._client, Instead):
        return model
    sdk = import_module(type(client).__module__.partition(".")[0])
    try:
        service(plain, sdk).listed.list(limit=1)
    except sdk.APIError as error:
        raise ValueError(f"{client.base_url} takes no batches ({error}): {TAKERS} do") from error
    model.disable_streaming = True
    _collect(plain, client, service(client, sdk), batches)
    return model


TAKERS = "openai:NAME, anthropic:NAME and servers with OpenAI's /v1/batches"


def _collect(plain: Any, client: Any, service: Service, batches: Batches) -> None:
    """Have both clients of a provider's SDK send their calls through `batches`, and all else as before."""
    usual, usual_async = plain._client, client._client
    base = client.base_url.path.rstrip("/")

    def asked(request: httpx2.Request) -> Future[Reply | None] | None:
        path = request.url.path.removeprefix(base)
        again = request.headers.get("x-stainless-retry-count", "0") != "0"
        if path not in ENDPOINTS or again or request.url.query:
            return None
        body = json.loads(request.content)
        place = f"{client.base_url}#{body.get('model')}"
        return None if body.get("stream") else batches.ask(service, place, path, request.content)

    def send(request: httpx2.Request, **options: Any) -> httpx2.Response:
        future = asked(request)
        reply = None if future is None else future.result()
        return usual.send(request, **options) if reply is None else _response(reply, request)

    async def asend(request: httpx2.Request, **options: Any) -> httpx2.Response:
        future = asked(request)
        reply = None if future is None else await asyncio.wrap_future(future)
        if reply is not None:
            return _response(reply, request)
        if request.url.path.removeprefix(base) in ENDPOINTS:
            return await usual_async.send(request, **options)  # type: ignore[no-any-return]
        # In the loop of the batches, which is another than that in which the usual client has its connections.
        trust = {"verify": _trusted(), "trust_env": usual_async.trust_env}
        async with httpx2.AsyncClient(**trust, follow_redirects=True) as client_here:
            response = await client_here.send(request, **options)
            await response.aread()
            return response

    plain._client, client._client = Instead(usual, send=send), Instead(usual_async, send=asend)


ENDPOINTS = ("/chat/completions", "/responses", "/v1/messages")
"""Paths of calls that can go into a batch, below the address of a provider."""


@cache
def _trusted() -> ssl.SSLContext:
    """Return the certificates that are trusted, which take long to read."""
    return httpx2.create_ssl_context()


def _response(reply: Reply, request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(reply.status, json=reply.body, request=request)


class _OpenAI:
    """OpenAI's interface: calls in a file, which is answered by one or two others."""

    def __init__(self, client: Any, sdk: Any) -> None:
        self._client = client
        self.listed = client.batches
        self.passing = _passing(sdk)

    async def submit(self, mark: str, path: str, calls: Mapping[str, Any]) -> str:
        to = f"/v1{path}"
        asked = [{"custom_id": call, "method": "POST", "url": to, "body": body} for call, body in calls.items()]
        lines = "\n".join(map(json.dumps, asked)).encode()
        file = await self._client.files.create(file=("calls.jsonl", lines), purpose="batch")
        batch = {"input_file_id": file.id, "endpoint": to, "completion_window": "24h", "metadata": {MARK: mark}}
        return str((await self._client.post("/batches", body=batch, **ONCE))["id"])

    async def candidates(self, batch: Batch) -> list[str]:
        async for one in self.listed.list(limit=100):
            if (one.metadata or {}).get(MARK) == batch.mark:
                return [one.id]
            if one.created_at < batch.at - CLOCKS_S:
                break
        return []

    async def look(self, batch_id: str) -> State:
        batch = await self.listed.retrieve(batch_id)
        done = batch.request_counts.completed + batch.request_counts.failed if batch.request_counts else 0
        errors = (batch.errors and batch.errors.data) or []
        refused = "; ".join(str(error.message) for error in errors) or "it says not why"
        ended = batch.status not in {"validating", "in_progress", "finalizing", "cancelling"}
        return State(done, ended, refused if batch.status == "failed" else "")

    async def replies(self, batch_id: str) -> dict[str, Reply]:
        batch = await self.listed.retrieve(batch_id)
        found = {}
        for file in filter(None, (batch.output_file_id, batch.error_file_id)):
            # Not by `splitlines`: JSON may hold the other signs that end lines.
            for line in filter(str.strip, (await self._client.files.content(file)).text.split("\n")):
                entry = json.loads(line)
                if response := entry.get("response"):
                    tier = {"service_tier": BATCH} if response["status_code"] == OK else {}
                    found[entry["custom_id"]] = Reply(response["status_code"], {**response["body"], **tier})
        return found


class _Anthropic:
    """Anthropic's interface: calls in a request, and nothing beside them to know a batch by."""

    def __init__(self, client: Any, sdk: Any) -> None:
        self._client = client
        self.listed = client.messages.batches
        self.passing = _passing(sdk)

    async def submit(self, mark: str, path: str, calls: Mapping[str, Any]) -> str:
        body = {"requests": [{"custom_id": call, "params": body} for call, body in calls.items()]}
        return str((await self._client.post(f"{path}/batches", body=body, **ONCE))["id"])

    async def candidates(self, batch: Batch) -> list[str]:
        found = []
        async for one in self.listed.list(limit=100):
            if one.created_at.timestamp() < batch.at - CLOCKS_S:
                break
            if sum(one.request_counts.to_dict().values()) == len(batch.calls):
                found.append(one.id)
        return found

    async def look(self, batch_id: str) -> State:
        batch = await self.listed.retrieve(batch_id)
        counts = batch.request_counts.to_dict()
        return State(sum(counts.values()) - counts["processing"], batch.processing_status == "ended")

    async def replies(self, batch_id: str) -> dict[str, Reply]:
        found = {}
        async for entry in await self.listed.results(batch_id):
            result = entry.result
            if result.type == "succeeded":
                message = result.message.to_dict(mode="json")
                message["usage"]["service_tier"] = BATCH
                found[entry.custom_id] = Reply(OK, message)
            elif result.type == "errored":
                status = STATUS.get(result.error.error.type, 500)
                found[entry.custom_id] = Reply(status, result.error.to_dict(mode="json"))
        return found


def _passing(sdk: Any) -> tuple[type[Exception], ...]:
    return (sdk.APIConnectionError, sdk.InternalServerError, sdk.RateLimitError)


MARK = "redraft"
ONCE: dict[str, Any] = {"cast_to": object, "options": {"max_retries": 0}}
"""Options of a request that is not repeated by the SDK: what seems lost may have come there."""
CLOCKS_S = 3600.0
"""By so much a provider's clock may differ from ours."""
STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""HTTP status of each kind of error, which a batch says by its name only."""
