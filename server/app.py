"""The app: its guards, its routes, and the engine that lives as long as it does. Internal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any

from fastapi import FastAPI, Response
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

from .a2a.door import A2ADoor
from .api import (
    assistants_api,
    chat_completions_api,
    demo_api,
    metrics,
    protocol_api,
    responses_api,
    runs_api,
    store_api,
    thread_states_api,
    threads_api,
)
from .api.guards import BodyMiddleware, CallerMiddleware, HeaderMiddleware, mask_logs
from .api.problems import GUARDS, handle_problems, problem
from .api.webhooks import Webhooks
from .engine.engine import Engine
from .mcp.door import McpDoor
from .page import home_api, live_api, meta_api, views_api
from .settings import Settings

__all__ = ["NOT_SERVED", "create_app"]

EXPOSED = ("Content-Location", "Location", "Retry-After", "X-Pagination-Next", "X-Pagination-Total",
           "Mcp-Session-Id")  # fmt: skip
"""Headers that LangGraph's client and MCP's read, and a page of another site else does not see."""

CRONS = "runs at set times are not served; let the system's scheduler ask for them"

STORAGE = "how many bytes a thread takes is not served; the database tells how much it holds"

NOT_SERVED = {
    ("GET", "/threads/{thread_id}/storage"): STORAGE,
    ("POST", "/threads/{thread_id}/runs/crons"): CRONS,
    ("POST", "/runs/crons"): CRONS,
    ("GET", "/runs/crons/{cron_id}"): CRONS,
    ("PATCH", "/runs/crons/{cron_id}"): CRONS,
    ("DELETE", "/runs/crons/{cron_id}"): CRONS,
    ("POST", "/runs/crons/search"): CRONS,
    ("POST", "/runs/crons/count"): CRONS,
}
"""By method and path, the reason; an answer with one helps more than a bare 404."""


def create_app(settings: Settings, *, engine: Engine | None = None) -> FastAPI:
    """Return the app, as any ASGI server can run it.

    Args:
        settings: What it serves, to whom, and within which limits.
        engine: What runs the graphs; default: one on the settings' database. It starts and ends with the app.
    """
    engine = engine if engine is not None else Engine(settings)
    # The protocols of other agents whose extra is installed, each an app with paths and a life of its own.
    protocols: list[tuple[str, Any]] = [("mcp", McpDoor), ("a2a", A2ADoor)]
    doors = [door(engine) for extra, door in protocols if find_spec(extra)]

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for door in doors:
                await stack.enter_async_context(door.opened())
            await engine.start()
            try:
                yield
            finally:
                await engine.stop()

    app = FastAPI(
        title="redraft",
        description="LangGraph workflows that draft, get feedback, check and refine.",
        lifespan=lifespan,
        docs_url=None,  # its page loads scripts from another site
        redoc_url=None,
        redirect_slashes=False,
        responses=GUARDS,
    )
    mask_logs()
    app.state.engine, app.state.settings = engine, settings
    handle_problems(app)
    # LangGraph's clients, then OpenAI's, then ours.
    api = (assistants_api, threads_api, thread_states_api, runs_api, protocol_api, store_api)
    own = (demo_api, metrics, meta_api, home_api, live_api, views_api)
    for part in (*api, chat_completions_api, responses_api, *own):
        app.include_router(part.router)
    for (method, path), reason in NOT_SERVED.items():
        app.add_api_route(path, partial(_refuse, reason), methods=[method], include_in_schema=False)
    app.router.routes.extend(Route(path, door, include_in_schema=False) for door in doors for path in door.paths)
    app.state.metrics = metrics.MetricsByCaller(engine)
    engine.on_called.append(app.state.metrics.called)
    engine.on_finished.append(app.state.metrics.finished)
    engine.on_finished.append(Webhooks(runs_api.run_json, settings.allow_webhooks).finished)

    # the last added is asked first
    app.add_middleware(
        BodyMiddleware,
        max_bytes=settings.max_body_bytes,
        max_seconds=settings.max_body_seconds,
        untyped_paths={"/demo/self-refine"},
    )
    app.add_middleware(
        CallerMiddleware,
        tokens=settings.tokens,
        metrics_tokens=settings.metrics_tokens,
        host=settings.host,
        open_paths=meta_api.OPEN,
        allow_origins=settings.allow_origins,
    )
    app.add_middleware(HeaderMiddleware)
    if settings.allow_origins:
        # Before the token is asked for: a browser's preflight carries none.
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.allow_origins,
            allow_methods=("GET", "POST", "PUT", "PATCH", "DELETE"),
            allow_headers=("*",),
            expose_headers=EXPOSED,
            allow_private_network=True,
        )
    return app


async def _refuse(reason: str) -> Response:
    return problem(404, "not_served", reason)
