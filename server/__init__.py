"""Graphs over HTTP: `create_app(Settings(…))` is an ASGI app that LangGraph's clients and others can use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .app import create_app
    from .engine.engine import Engine
    from .settings import Settings
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "redraft.server.app": ["create_app"],
            "redraft.server.engine.engine": ["Engine"],
            "redraft.server.settings": ["Settings"],
        },
    )

__all__ = ["Engine", "Settings", "create_app"]
