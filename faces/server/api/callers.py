"""Authentication: tokens, compared in constant time. Without tokens, only programs and pages of this machine."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.requests import Request  # noqa: TC002  # fastapi reads the signature of what depends on it

from ..engine.runs import Caller
from ..page.assets_api import ASSETS
from ..settings import LOOPBACK
from .problems import problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["OPEN_PATHS", "CallerMiddleware", "require_caller"]

OPEN_PATHS = frozenset({"/healthz", *ASSETS})
"""What needs no token: it tells nothing of anybody's."""


class CallerMiddleware:
    """Refuses who has no token, before a byte of the body is read, and notes who asks.

    Without tokens it refuses what a page of another site sends through a browser on this machine.
    """

    def __init__(self, app: ASGIApp, *, tokens: Sequence[str], host: str) -> None:
        self._app = app
        self._tokens = [hashlib.sha256(token.encode()).digest() for token in tokens]
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
        await self._app(scope, receive, send)

    def _read(self, headers: Mapping[str, str], path: str) -> tuple[Any, Caller | None]:
        if self._tokens:
            if path in OPEN_PATHS:
                return None, None
            digest = hashlib.sha256(_given(headers).encode("utf-8", "replace")).digest()
            known = False
            for token in self._tokens:  # each is looked at, whichever it is
                known |= hmac.compare_digest(digest, token)
            if not known:
                told = {"WWW-Authenticate": "Bearer"}
                return problem(401, "unauthorized", "a token is needed: Authorization: Bearer …", headers=told), None
            return None, Caller(f"token-{digest.hex()[:16]}")
        host = headers.get("host", "")
        if _hostname(f"//{host}") not in self._hosts:
            return problem(403, "forbidden", "this server answers to the names of this machine only"), None
        origin = headers.get("origin")
        if origin is not None and _place(origin) != host:
            return problem(403, "forbidden", "pages of other sites can't use this server"), None
        return None, Caller("local")


def require_caller(request: Request) -> Caller:
    """Return who asks, as the middleware noted it; a dependency of FastAPI's."""
    caller = request.scope.get("state", {}).get("caller")
    if caller is None:
        raise RuntimeError("this path is open, so nobody knows who asks")
    found: Caller = caller
    return found


def _given(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")


def _hostname(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _place(url: str) -> str | None:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return None
