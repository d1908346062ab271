"""Graphs over HTTP: `create_app(Settings(…))` is an ASGI app that LangGraph's clients and others can use. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._lazy import lazy_names

if TYPE_CHECKING:
    from .app import create_app
    from .engine.engine import Engine
    from .settings import Settings
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "redraft.faces.server.app": ["create_app"],
            "redraft.faces.server.engine.engine": ["Engine"],
            "redraft.faces.server.settings": ["Settings"],
        },
    )

__all__ = ["Engine", "Settings", "create_app"]
