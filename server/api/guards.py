"""Guards of the server: authentication, limits of request bodies, and a log without credentials. Internal."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, cast
from urllib.parse import SplitResult, urlsplit

import orjson
from fastapi import Depends
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...nodes.runtime.killable import as_caller
from ...state.masking import mask_values_of, masked
from ..engine.engine import Engine
from ..engine.runs import Caller
from ..settings import LOOPBACK
from .problems import problem

__all__ = ["OPERATOR", "BodyMiddleware", "CallerMiddleware", "HeaderMiddleware", "KnownCaller", "KnownEngine",
           "mask_logs", "require_caller"]  # fmt: skip

OPERATOR = Caller("operator")
"""The holder of a token for the metrics of all callers, and for nothing else."""


class CallerMiddleware:
    """Refuses callers without a token before a byte of the body is read, and notes the caller.

    Without tokens it refuses what a page of another site sends through a browser on this machine.

    Args:
        app: What is guarded.
        tokens: Those that are known.
        metrics_tokens: Those of the operator.
        host: The name that the server listens on.
        open_paths: Paths that need no token: they tell nothing of anybody's.
        allow_origins: Other sites whose pages may send requests all the same.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        tokens: Sequence[str],
        host: str,
        open_paths: Collection[str],
        metrics_tokens: Sequence[str] = (),
        allow_origins: Collection[str] = (),
    ) -> None:
        self._app = app
        self._allow_origins = frozenset(allow_origins)
        self._open_paths = frozenset(open_paths)
        # As digests: all of one length for `compare_digest`, and no token is kept as it is.
        self._tokens = [hashlib.sha256(token.encode()).digest() for token in (*tokens, *metrics_tokens)]
        self._of_callers = len(tokens)
        self._hosts = {*LOOPBACK, host}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # there are no web sockets; the lifespan is the app's
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal, caller = self._read(headers, scope["path"])
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        scope.setdefault("state", {})["caller"] = caller
        with as_caller("" if caller is None else caller.id):
            await self._app(scope, receive, send)

    def _read(self, headers: Mapping[str, str], path: str) -> tuple[Any, Caller | None]:
        if self._of_callers:
            if path in self._open_paths:
                return None, None
            scheme, _, bearer = headers.get("authorization", "").partition(" ")
            token = bearer.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
            digest = hashlib.sha256(token.encode("utf-8", "replace")).digest()
            # each is looked at, whichever it is
            matches = [
                number for number, token_digest in enumerate(self._tokens) if hmac.compare_digest(digest, token_digest)
            ]
            if not matches:
                wanted = {"WWW-Authenticate": "Bearer"}
                return problem(401, "unauthorized", "a token is needed: Authorization: Bearer …", headers=wanted), None
            if matches[0] < self._of_callers:
                return None, Caller(f"token-{digest.hex()[:16]}")
            if path != "/metrics":
                return problem(403, "forbidden", "this token reads /metrics, and nothing else"), None
            return None, OPERATOR
        host = headers.get("host", "")
        # A page of another site may have its own name point at this machine (DNS rebinding).
        if _split(f"//{host}").hostname not in self._hosts:
            return problem(403, "forbidden", "this server answers to the names of this machine only"), None
        origin = headers.get("origin")
        # Only browsers name an origin, and there a page of another site can't leave it out.
        if origin is not None and origin not in self._allow_origins and _split(origin).netloc != host:
            return problem(403, "forbidden", "pages of other sites can't use this server"), None
        return None, Caller("local")


def require_caller(request: Request) -> Caller:
    """Return the caller that the middleware noted; a dependency of FastAPI's."""
    caller = request.scope.get("state", {}).get("caller")
    if caller is None:
        # A mistake of ours: better no answer than one for nobody in particular.
        raise RuntimeError("this path is open, so nobody knows who asks")
    return cast("Caller", caller)


def serving_engine(request: Request) -> Engine:
    """Return the engine of the app; a dependency of FastAPI's."""
    return cast("Engine", request.app.state.engine)


KnownCaller = Annotated[Caller, Depends(require_caller)]
"""The caller as a parameter of a route."""
KnownEngine = Annotated[Engine, Depends(serving_engine)]
"""The engine as a parameter of a route."""


class HeaderMiddleware:
    """Adds the headers that keep browsers from sniffing types and from showing answers to pages of other sites."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message.get("headers", ())
                names = {name.lower() for name, _ in headers}
                message = {**message, "headers": [*headers, *(one for one in PROTECTING if one[0] not in names)]}
            await send(message)

        await self._app(scope, receive, with_headers)


PROTECTING = (
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


DEEPEST = 64
UNTYPED = (b"", b"application/x-www-form-urlencoded")


MOST_VALUES = 65_536
"""Commas and brackets of a body, by which its values are counted before it is read: those of 1 MB can take a second."""
MOST_OF_ALL, MOST_OF_CALLER = 64, 16
"""How often the longest body fits into what all requests in flight may hold, and into what one caller's may."""
RETRY_AFTER = {"Retry-After": "5"}


class TooLongError(Exception):
    """The body is longer than it may be."""


class BodyRefusedError(Exception):
    """The body is not taken; the argument is the response that says why."""


class BodiesInFlight:
    """The bytes of requests that are not answered yet, by caller, each counted when it arrives.

    Args:
        longest: Of one body.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._of = Counter[str]()
        self._of_all = 0

    @contextmanager
    def counted(self, caller: str) -> Iterator[Callable[[int], None]]:
        """Give a function that counts bytes of one body until the block ends; it raises BodyRefusedError where the
        bodies in flight are longer than they may be: all of them, or those of this caller."""
        size = 0

        def add(count: int) -> None:
            nonlocal size
            size, self._of_all = size + count, self._of_all + count
            self._of[caller] += count
            of_caller = self._of[caller] > MOST_OF_CALLER * self._longest
            # Whoever holds just this one is served also where others hold all that there is.
            if of_caller or (self._of_all > MOST_OF_ALL * self._longest and self._of[caller] > size):
                status, whose = (429, "your") if of_caller else (503, "all")
                message = f"{whose} requests in flight are longer than they may be; try again in 5 s"
                raise BodyRefusedError(problem(status, "too_many", message, headers=RETRY_AFTER, close=True))

        try:
            yield add
        finally:
            self._of_all -= size
            self._of[caller] -= size


class BodyMiddleware:
    """Reads a body whole, also one that comes in pieces without a length, and refuses what is no plain JSON.

    What it passes on is written anew, so that nothing behind it meets a number, a text or a depth that a database or
    a reply could not hold.

    Args:
        app: What reads it.
        max_bytes: The longest that is read.
        max_seconds: How long it may take to arrive.
        untyped_paths: Paths whose bodies are JSON also where a client calls them a form, or nothing, as `curl -d` does.
    """

    def __init__(
        self, app: ASGIApp, *, max_bytes: int, max_seconds: float, untyped_paths: Collection[str] = ()
    ) -> None:
        self._app = app
        self._untyped_paths = frozenset(untyped_paths)
        self._max_bytes = max_bytes
        self._max_seconds = max_seconds
        self._in_flight = BodiesInFlight(max_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        caller = scope.get("state", {}).get("caller")
        with self._in_flight.counted("" if caller is None else caller.id) as count:
            try:
                body = await self._checked_body(scope, receive, count)
            except BodyRefusedError as error:
                await error.args[0](scope, receive, send)
                return
            if body is None:  # the client is gone
                return
            # The body that goes on is whole, and has another length.
            passed_on = [(name, value) for name, value in scope["headers"]
                    if name.lower() not in (b"content-length", b"transfer-encoding", b"content-type")]  # fmt: skip
            passed_on += [(b"content-type", b"application/json")] if body else []
            scope = {**scope, "headers": [*passed_on, (b"content-length", str(len(body)).encode())]}
            await self._app(scope, _replayed(body, receive), send)

    async def _checked_body(self, scope: Scope, receive: Receive, count: Callable[[int], None]) -> bytes | None:
        """Return the body of a request as it is passed on; `None` where the client leaves before its end.

        Raises:
            BodyRefusedError: It is not taken.
        """
        headers = {name.lower(): value for name, value in scope["headers"]}
        if headers.keys() >= {b"content-length", b"transfer-encoding"}:
            # A proxy that goes by the other one sees another end of the request (RFC 9112, 6.1).
            raise BodyRefusedError(problem(400, "bad_request", "a body has one length", close=True))
        try:
            async with asyncio.timeout(self._max_seconds):
                body = await self._read(headers.get(b"content-length", b""), receive, count)
        except TooLongError:
            message = f"the body is longer than {self._max_bytes} bytes"
            raise BodyRefusedError(problem(413, "too_large", message, close=True)) from None
        except TimeoutError:
            message = "the body took too long to arrive"
            raise BodyRefusedError(problem(408, "timeout", message, close=True)) from None
        if not body:
            return body
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != b"application/json" and (kind not in UNTYPED or scope["path"] not in self._untyped_paths):
            raise BodyRefusedError(problem(415, "unsupported", "a body must be application/json"))
        is_short = sum(map(body.count, b",[{")) <= MOST_VALUES
        try:
            return orjson.dumps(_checked(orjson.loads(body if is_short else b"")))
        except (ValueError, TypeError, RecursionError):
            bounds = f"at most {DEEPEST} levels deep and {MOST_VALUES} values"
            message = f"the body is no JSON that can be read: UTF-8, {bounds}"
            raise BodyRefusedError(problem(400, "bad_json", message)) from None

    async def _read(self, length: bytes, receive: Receive, count: Callable[[int], None]) -> bytes | None:
        if length.isdigit() and int(length) > self._max_bytes:
            raise TooLongError
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            part = message.get("body", b"")
            if len(body) + len(part) > self._max_bytes:
                raise TooLongError
            if part:
                count(len(part))
                body += part
            if not message.get("more_body"):
                return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        # After the body the client says that it is gone, some day.
        return unread.pop() if unread else await receive()

    return replay


def _checked(value: Any, depth: int = 0) -> Any:
    if depth > DEEPEST:
        raise ValueError("too deep")
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _checked(part, depth + 1)
    return value


LOGS = ("redraft.server", "uvicorn.error", "root", "mcp.server.lowlevel.server", "mcp.server.streamable_http",
        "mcp.server.streamable_http_manager", "a2a.server.routes.jsonrpc_dispatcher",
        "a2a.compat.v0_3.jsonrpc_adapter")  # fmt: skip
"""The SDKs of other agents' protocols say what a request had that could not be read; that of MCP on the root's."""


class _Masked(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        # The arguments are in the message now: put in once more, a % in it would raise.
        record.msg, record.args = masked(record.getMessage()), ()
        if record.exc_info and not record.exc_text:
            # Every formatter prints this text where it is there, so no handler shows the traceback as it was.
            record.exc_text = masked(logging.Formatter().formatException(record.exc_info))
        return True


# One object for all: a logger takes the same filter only once.
FILTER = _Masked()


def mask_logs() -> None:
    """Mask whatever is logged from now on by us, or by uvicorn about us; a second call does nothing more."""
    mask_values_of(os.environ)
    for name in LOGS:
        logging.getLogger(name).addFilter(FILTER)
