"""A2A over HTTP: the agent cards, and each assistant as JSON-RPC at `/a2a/<assistant>`. Internal."""

from __future__ import annotations

import asyncio
import os
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import cached_property
from importlib import import_module
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from ..api.problems import problem
from ..engine.engine import Engine

__all__ = ["A2ADoor"]

DEFAULT = "refine"


class A2ADoor:
    """An ASGI app that speaks A2A. The SDK is imported for the first request.

    Args:
        engine: Runs what is asked for.
    """

    paths = (
        "/.well-known/agent-card.json",
        "/a2a/{assistant_id}",
        "/a2a/{assistant_id}/.well-known/agent-card.json",
    )

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Return a context to serve in; there is nothing to begin or to end."""
        return nullcontext()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Its spans would carry what errors say, which may be texts.
        os.environ.setdefault("OTEL_INSTRUMENTATION_A2A_SDK_ENABLED", "false")
        await asyncio.to_thread(import_module, ".handler", __package__)
        request = Request(scope, receive)
        name = request.path_params.get("assistant_id") or request.query_params.get("assistant_id", DEFAULT)
        assistant = self._engine.presets.known.get(name)
        is_card = scope["path"].endswith("/agent-card.json")
        if assistant is None:
            await problem(404, "not_found", "there is no such assistant")(scope, receive, send)
        elif request.method != ("GET" if is_card else "POST"):
            await problem(405, "method_not_allowed", "a card is read, an agent is posted to")(scope, receive, send)
        elif is_card:
            from a2a.server.request_handlers.response_helpers import agent_card_to_dict

            from .handler import agent_card

            url = str(request.base_url.replace(path=f"/a2a/{name}"))
            card = agent_card(assistant, url=url, guarded=bool(self._engine.settings.tokens))
            await JSONResponse(agent_card_to_dict(card))(scope, receive, send)
        else:
            scope["state"]["assistant"] = name
            response = await self._dispatcher.handle_requests(request)
            await response(scope, receive, send)

    @cached_property
    def _dispatcher(self) -> Any:
        from a2a.server.routes.common import DefaultServerCallContextBuilder
        from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher

        from .handler import RunHandler

        class KnownCallers(DefaultServerCallContextBuilder):
            def build(self, request: Request) -> Any:
                context = super().build(request)
                state = request.scope["state"]
                context.state.update(caller=state["caller"], assistant=state["assistant"])
                return context

        return JsonRpcDispatcher(RunHandler(self._engine), KnownCallers(), enable_v0_3_compat=True)
