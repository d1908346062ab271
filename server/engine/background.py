"""Background work: tasks that nobody waits for, held until they are done. Internal."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from .runs import LOG

__all__ = ["Background"]


class Background:
    """Tasks of one owner; what goes wrong in one is logged."""

    def __init__(self) -> None:
        # asyncio keeps only a weak reference to a task: one that nobody holds may vanish before it is done.
        self._tasks: set[asyncio.Task[None]] = set()

    def do(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[None]:
        """Begin it, and return its task."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            LOG.error("work in the background failed", exc_info=error)

    async def close(self, *, cancel: bool = False) -> None:
        """Wait until all is done, or cancel it first."""
        tasks = list(self._tasks)
        for task in tasks if cancel else ():
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
