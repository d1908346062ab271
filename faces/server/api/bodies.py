"""Request body limits: JSON only, of bounded size and depth, received in bounded time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson

from .problems import problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["BodyMiddleware"]

DEEPEST = 64


class TooLongError(Exception):
    """The body is longer than it may be."""


class BodyMiddleware:
    """Reads a body whole, also one that comes in pieces without a length, and refuses what is no plain JSON.

    What it passes on is written anew, so that nothing behind it meets a number, a text or a depth that a database or
    a reply could not hold.
    """

    def __init__(self, app: ASGIApp, *, max_bytes: int, max_seconds: float) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._max_seconds = max_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        try:
            async with asyncio.timeout(self._max_seconds):
                body = await self._read(headers.get(b"content-length", b""), receive)
        except TooLongError:
            refusal = problem(413, "too_large", f"the body is longer than {self._max_bytes} bytes", close=True)
            await refusal(scope, receive, send)
            return
        except TimeoutError:
            await problem(408, "timeout", "the body took too long to arrive", close=True)(scope, receive, send)
            return
        if body is None:  # the client is gone
            return
        if body:
            kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
            if kind != b"application/json":
                await problem(415, "unsupported", "a body must be application/json")(scope, receive, send)
                return
            try:
                body = orjson.dumps(_checked(orjson.loads(body)))
            except (ValueError, TypeError, RecursionError):
                told = f"the body is no JSON that can be read: UTF-8, at most {DEEPEST} levels deep"
                await problem(400, "bad_json", told)(scope, receive, send)
                return
        kept = [(name, value) for name, value in scope["headers"]
                if name.lower() not in (b"content-length", b"transfer-encoding")]  # fmt: skip
        scope = {**scope, "headers": [*kept, (b"content-length", str(len(body)).encode())]}
        await self._app(scope, _replayed(body, receive), send)

    async def _read(self, length: bytes, receive: Receive) -> bytes | None:
        if length.isdigit() and int(length) > self._max_bytes:
            raise TooLongError
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if len(body) > self._max_bytes:
                raise TooLongError
            if not message.get("more_body"):
                return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()  # that the client is gone, some day
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _checked(value: Any, depth: int = 0) -> Any:
    if depth > DEEPEST:
        raise ValueError("too deep")
    if isinstance(value, dict):
        for part in value.values():
            _checked(part, depth + 1)
    elif isinstance(value, list):
        for part in value:
            _checked(part, depth + 1)
    return value
