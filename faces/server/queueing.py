"""The queue: so many runs at once, so many that wait, and never two on one thread."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from .runs import QueueFullError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from .runs import Run

__all__ = ["RunQueue"]

RETRY_AFTER_S = 5


class RunQueue:
    """Runs that wait and runs under way.

    Args:
        work: Runs one; raises nothing.
        at_once: Runs under way, at most.
        waiting: Runs that wait, at most.
    """

    def __init__(self, work: Callable[[Run], Coroutine[Any, Any, None]], *, at_once: int, waiting: int) -> None:
        self._work = work
        self._at_once = at_once
        self._waiting = waiting
        self._queue: list[Run] = []
        self._tasks: dict[Run, asyncio.Task[None]] = {}
        self._coming = 0
        self._closed = False

    @property
    def queued(self) -> int:
        return len(self._queue)

    @property
    def running(self) -> int:
        return len(self._tasks)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Keep a place for a run that is about to be added.

        Raises:
            QueueFullError: As many wait as may.
        """
        free = max(self._at_once - len(self._tasks), 0)
        if len(self._queue) + self._coming >= self._waiting + free:
            raise QueueFullError(RETRY_AFTER_S)
        self._coming += 1
        try:
            yield
        finally:
            self._coming -= 1

    def add(self, run: Run) -> None:
        """Let a run wait for its turn, or begin it."""
        self._queue.append(run)
        self._pump()

    def remove(self, run: Run) -> bool:
        """Return whether the run was still waiting, and now is no longer."""
        if run not in self._queue:
            return False
        self._queue.remove(run)
        return True

    async def cancel(self, run: Run) -> bool:
        """Return whether the run was under way; it has ended now."""
        task = self._tasks.get(run)
        if task is None:
            return False
        task.cancel()
        await asyncio.wait([task])
        return True

    async def close(self) -> list[Run]:
        """Cancel what is under way and begin nothing more; return what waits."""
        self._closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return self._queue

    def _pump(self) -> None:
        """Begin what may begin: the first in the queue whose thread is free."""
        busy = {run.thread_id for run in self._tasks}
        for run in [] if self._closed else list(self._queue):
            if len(self._tasks) >= self._at_once:
                return
            if run.thread_id not in busy:
                busy.add(run.thread_id)
                self._queue.remove(run)
                self._tasks[run] = asyncio.create_task(self._work(run))
                self._tasks[run].add_done_callback(partial(self._done, run))

    def _done(self, run: Run, _: asyncio.Task[None]) -> None:
        del self._tasks[run]
        self._pump()
