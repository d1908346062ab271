"""The app: its guards, its routes, and the engine that lives as long as it does. Internal."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.responses import Response

from .api import agent_protocol_api, demo_api, metrics, openai_api
from .api.guards import BodyMiddleware, CallerMiddleware, HeaderMiddleware, mask_logs
from .api.problems import GUARDS, handle_problems
from .api.wire import dumps
from .engine.engine import Engine
from .page import assets_api, live_api, views_api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from .settings import Settings

__all__ = ["create_app"]


def create_app(settings: Settings, *, engine: Engine | None = None) -> FastAPI:
    """Return the app, as any ASGI server can run it.

    Args:
        settings: What it serves, to whom, and within which limits.
        engine: What runs the graphs; default: one on the settings' database. It starts and ends with the app.
    """
    engine = engine if engine is not None else Engine(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
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
    for part in (agent_protocol_api, openai_api, demo_api, metrics, assets_api, live_api, views_api):
        app.include_router(part.router)
    app.state.metrics = metrics.MetricsByCaller(engine)
    engine.on_finished.append(app.state.metrics.finished)

    @app.get("/healthz", tags=["health"])
    async def healthz() -> Response:
        """Say that the server lives."""
        return Response(dumps({"ok": True}), media_type="application/json")

    # the last added is asked first
    app.add_middleware(BodyMiddleware, max_bytes=settings.max_body_bytes, max_seconds=settings.max_body_seconds)
    open_paths = {"/healthz", *assets_api.ASSETS}
    app.add_middleware(
        CallerMiddleware,
        tokens=settings.tokens,
        metrics_tokens=settings.metrics_tokens,
        host=settings.host,
        open_paths=open_paths,
    )
    app.add_middleware(HeaderMiddleware)
    return app
