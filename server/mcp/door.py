"""MCP over HTTP: `/mcp`, where each caller has sessions of their own. Internal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus
from starlette.types import Receive, Scope, Send

from ..api.problems import problem
from ..engine.engine import Engine
from ..engine.runs import LOG, Caller

__all__ = ["MOST_SESSIONS", "McpDoor"]

MOST_SESSIONS = 64
"""Sessions of a caller; one that nothing is asked of for half an hour is closed."""


class McpDoor:
    """An ASGI app that speaks MCP. The SDK is imported for the first request.

    A session manager of the SDK each caller: nobody reaches another's session, nor takes the room for theirs.

    Args:
        engine: Runs what tools ask for.
    """

    paths = ("/mcp",)

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._managers: dict[Caller, Any] = {}
        self._opening = asyncio.Lock()
        self._tasks: TaskGroup | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Serve within this context; sessions end with it."""
        raised: Exception | None = None
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                yield
            except Exception as error:
                raised = error
            finally:
                self._tasks = None
                self._managers.clear()
                tasks.cancel_scope.cancel()
        if raised is not None:
            raise raised

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        tasks = self._tasks
        if tasks is None:
            await problem(503, "unavailable", "the server is starting or ending")(scope, receive, send)
            return
        # As the middleware noted it; without it there is no answer.
        caller: Caller = scope["state"]["caller"]
        async with self._opening:
            if caller not in self._managers:
                await asyncio.to_thread(import_module, ".server", __package__)
                self._managers[caller] = await tasks.start(self._manage, caller)
        await self._managers[caller].handle_request(scope, receive, send)

    async def _manage(self, caller: Caller, *, task_status: TaskStatus[Any]) -> None:
        """Keep a caller's session manager; the task that opened it must close it."""
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from .server import mcp_server

        logging.getLogger(TRANSPORT).addFilter(_tells_something)
        manager = StreamableHTTPSessionManager(mcp_server(self._engine, caller), max_sessions=MOST_SESSIONS)
        try:
            async with manager.run():
                task_status.started(manager)
                await anyio.sleep_forever()
        except Exception:
            # Raised here it would end the server, for everybody.
            LOG.exception("the MCP sessions of a caller have failed")
            self._managers.pop(caller, None)


TRANSPORT = "mcp.server.streamable_http"


def _tells_something(record: logging.LogRecord) -> bool:
    """Return False for the traceback that the SDK logs of each stream whose client leaves."""
    return not (record.exc_info and isinstance(record.exc_info[1], anyio.ClosedResourceError))
