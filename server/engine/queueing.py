"""Run queue: so many at once here, so many that wait in the database, and turns for all callers. Internal."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from .runs import LOG, Caller, QueueFullError, Run

__all__ = ["RunQueue"]

RETRY_AFTER_S = 5


class RunQueue:
    """The runs under way in this process, and its share of those that wait in the database.

    Args:
        work: Runs one; raises nothing.
        claim: Makes up to so many of the waiting runs this process's, and returns them.
        count: Returns how many runs wait by the ids of their callers, and how many this process has claimed.
        at_once: Runs under way in this process, at most; 0 for one that runs none.
        waiting: Runs that wait, at most; where they are all others', a caller has a place besides.
    """

    def __init__(
        self,
        work: Callable[[Run], Coroutine[Any, Any, None]],
        claim: Callable[[int], Awaitable[list[Run]]],
        count: Callable[[], Awaitable[tuple[Mapping[str, int], int]]],
        *,
        at_once: int,
        waiting: int,
    ) -> None:
        self._work = work
        self._claim = claim
        self._count = count
        self._at_once = at_once
        self._waiting = waiting
        self._tasks: dict[Run, asyncio.Task[None]] = {}
        self._coming: Counter[str] = Counter()
        self._asked = False
        self._pumping: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def running(self) -> int:
        return len(self._tasks)

    def __contains__(self, run: Run) -> bool:
        """Return True for a run that is under way here."""
        return run in self._tasks

    async def queued(self) -> int:
        """Return the number of runs that wait, in all processes."""
        return sum((await self._count())[0].values())

    @asynccontextmanager
    async def place(self, caller: Caller) -> AsyncIterator[None]:
        """Keep a place for a run of the caller's that is about to be added.

        Raises:
            QueueFullError: As many wait as may.
        """
        waiting, claimed = await self._count()
        # What can begin at once takes no place among those that wait.
        free = max(self._at_once - claimed, 0)
        is_full = sum(waiting.values()) + self._coming.total() >= self._waiting + free
        all_are = not (waiting.keys() | self._coming.keys()) - {caller.id}
        if is_full and (caller.id in waiting or self._coming[caller.id] or not self._waiting or all_are):
            message = f"too many runs are waiting; try again in {RETRY_AFTER_S} s"
            raise QueueFullError(message, retry_after_s=RETRY_AFTER_S)
        self._coming[caller.id] += 1
        try:
            yield
        finally:
            # `-=` drops a count of zero, and each key above is taken for somebody.
            self._coming -= Counter({caller.id: 1})

    async def pump(self) -> None:
        """Begin what may begin."""
        if (pumping := self._pumped()) is not None:
            # A task of its own: a caller who leaves meanwhile takes no claimed run along.
            await asyncio.shield(pumping)

    async def cancel(self, run: Run) -> bool:
        """End a run that is under way here; False for any other."""
        task = self._tasks.get(run)
        if task is None:
            return False
        task.cancel()
        # Not `await task`: its cancellation would be raised here, as if this caller were cancelled.
        await asyncio.wait([task])
        return True

    async def close(self) -> None:
        """Cancel what is under way, and begin nothing more."""
        self._closed = True
        if self._pumping is not None:
            await asyncio.wait([self._pumping])
        # A copy: each task takes itself out when it is done.
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _pumped(self) -> asyncio.Task[None] | None:
        if self._closed or not self._at_once:
            return None
        self._asked = True
        if self._pumping is None or self._pumping.done():
            self._pumping = asyncio.create_task(self._pump())
        return self._pumping

    async def _pump(self) -> None:
        while self._asked and not self._closed and (free := self._at_once - len(self._tasks)) > 0:
            self._asked = False
            try:
                claimed = await self._claim(free)
            except Exception:
                # It may come back, and what waits is asked for again then.
                LOG.exception("waiting runs can't be claimed")
                return
            for run in claimed:
                self._tasks[run] = asyncio.create_task(self._work(run))
                self._tasks[run].add_done_callback(partial(self._done, run))

    def _done(self, run: Run, _: asyncio.Task[None]) -> None:
        del self._tasks[run]
        self._pumped()
