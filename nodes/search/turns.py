"""A bound on paths that run at once: later ones wait for a turn, in a thread or in an event loop."""

from __future__ import annotations

import asyncio
import threading
from bisect import insort
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager

__all__ = ["Turns"]

MOMENT_S = 1.0
"""How long a path waits for those before it to come. They do within a millisecond, but one may have failed to."""


class Turns:
    """Turns for at most so many at once, in the order of the plans.

    LangGraph's own `max_concurrency` holds beside it. It alone won't do: streamed synchronously, a graph that may use
    one thread waits for ever, since waiting for what is streamed takes that thread. And threads that begin one after
    the other come in any order, where an event loop's tasks keep theirs.

    Args:
        most: How many, 1 up.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._free = most
        self._changed = threading.Condition()
        self._came: set[str] = set()
        self._waiting: list[int] = []
        """The places of those that wait, in order."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: asyncio.Semaphore | None = None

    @contextmanager
    def turn(self, name: str, siblings: Sequence[str], *, begun: Collection[str]) -> Iterator[None]:
        """Wait for one's turn, and hold it within the block.

        Args:
            name: Of the path.
            siblings: Names of the paths of its level, in the order of their turns.
            begun: Names of those that have had theirs, and may not come again.
        """
        place = siblings.index(name)
        before = set(siblings[:place]).difference(begun)
        with self._changed:
            self._came.add(name)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._came.issuperset(before), MOMENT_S)
            insort(self._waiting, place)
            try:
                self._changed.wait_for(lambda: self._free and self._waiting[0] == place)
                self._free -= 1
            finally:
                self._waiting.remove(place)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._free += 1
                self._changed.notify_all()

    def aturn(self) -> AbstractAsyncContextManager[object]:
        """Async twin of `turn`, in whichever event loop runs; tasks come in order."""
        loop = asyncio.get_running_loop()
        if self._tasks is None or self._loop is not loop:
            self._loop, self._tasks = loop, asyncio.Semaphore(self._most)
        return self._tasks
