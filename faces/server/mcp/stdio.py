"""MCP over stdin and stdout, for a client that starts the server itself. Internal."""

from __future__ import annotations

import sys
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

import anyio
from mcp.server.stdio import stdio_server

from ..engine.engine import Engine
from ..engine.ownership import LOCAL
from .calls import settled
from .server import mcp_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anyio import AsyncFile

    from ..settings import Settings

__all__ = ["serve_stdio"]


async def serve_stdio(settings: Settings) -> None:
    """Serve until the client closes stdin.

    Raises:
        ValueError: The database or the model can't be used.
        OSError: The database can't be opened.
        ImportError: An extra is missing.
    """
    engine = Engine(settings)
    try:
        await engine.start()
        server = mcp_server(engine, LOCAL)
        with _files() as files:
            async with stdio_server(*files) as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())
        await settled()
    finally:
        await engine.stop()


@contextmanager
def _files() -> Iterator[tuple[AsyncFile[str], AsyncFile[str]]]:
    """Give stdin and stdout; whatever else prints meanwhile would be taken for a message, and goes to stderr."""
    # Not the process's own, which the SDK would close.
    with (
        open(0, encoding="utf-8", errors="replace", closefd=False) as stdin,
        open(1, "w", encoding="utf-8", closefd=False) as stdout,
        redirect_stdout(sys.stderr),
    ):
        yield anyio.wrap_file(stdin), anyio.wrap_file(stdout)
