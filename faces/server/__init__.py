"""Graphs over HTTP: `create_app(Settings(…))` is an ASGI app that LangGraph's clients and others can use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .app import create_app
    from .engine.engine import Engine
    from .settings import Settings

__all__ = ["Engine", "Settings", "create_app"]

_HOME = {"Engine": "engine.engine", "Settings": "settings", "create_app": "app"}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
