"""How many paths run at once: whoever comes later waits for a turn, in a thread or in an event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

__all__ = ["Turns"]


class Turns:
    """Turns for at most so many at once.

    LangGraph's own `max_concurrency` holds beside it. It alone won't do: streamed synchronously, a graph that may use
    one thread waits for ever, since waiting for what is streamed takes that thread.

    Args:
        most: How many, 1 up.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._threads = threading.Semaphore(most)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: asyncio.Semaphore | None = None

    def turn(self) -> AbstractContextManager[object]:
        """Return what to hold while it is one's turn."""
        return self._threads

    def aturn(self) -> AbstractAsyncContextManager[object]:
        """Async twin of `turn`, in whichever event loop runs."""
        loop = asyncio.get_running_loop()
        if self._tasks is None or self._loop is not loop:
            self._loop, self._tasks = loop, asyncio.Semaphore(self._most)
        return self._tasks
