"""Run queue: so many at once, so many that wait, never two on one thread, and turns for all callers. Internal."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from .runs import QueueFullError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from .runs import Caller, Run

__all__ = ["RunQueue"]

RETRY_AFTER_S = 5


class RunQueue:
    """Runs that wait and runs under way.

    Whose turn is next: the caller who has the fewest runs under way, and of those the one who was served longest ago.
    A caller's own runs keep their order, but those of a thread that is busy are passed over.

    Args:
        work: Runs one; raises nothing.
        at_once: Runs under way, at most.
        waiting: Runs that wait, at most; where they are all others', a caller has a place besides.
    """

    def __init__(self, work: Callable[[Run], Coroutine[Any, Any, None]], *, at_once: int, waiting: int) -> None:
        self._work = work
        self._at_once = at_once
        self._waiting = waiting
        self._queues: dict[Caller, list[Run]] = {}
        """Of those who have a run that waits."""
        self._served: dict[Caller, int] = {}
        """The number of the last run that was begun for each."""
        self._begun = 0
        self._tasks: dict[Run, asyncio.Task[None]] = {}
        self._coming: Counter[Caller] = Counter()
        self._closed = False

    @property
    def queued(self) -> int:
        return sum(map(len, self._queues.values()))

    @property
    def running(self) -> int:
        return len(self._tasks)

    @contextmanager
    def place(self, caller: Caller) -> Iterator[None]:
        """Keep a place for a run of the caller's that is about to be added.

        Raises:
            QueueFullError: As many wait as may.
        """
        # What can begin at once takes no place among those that wait.
        free = max(self._at_once - len(self._tasks), 0)
        is_full = self.queued + self._coming.total() >= self._waiting + free
        has_place = self._coming[caller] > 0 or caller in self._queues or self._waiting == 0 or self._all_are(caller)
        if is_full and has_place:
            raise QueueFullError(RETRY_AFTER_S)
        self._coming[caller] += 1
        try:
            yield
        finally:
            # `-=` drops a count of zero, and `_all_are` takes each key for somebody.
            self._coming -= Counter({caller: 1})

    def add(self, run: Run) -> None:
        """Let a run wait for its turn, or begin it."""
        self._queues.setdefault(run.caller, []).append(run)
        self._pump()

    def remove(self, run: Run) -> bool:
        """Return whether the run was still waiting, and now is no longer."""
        if run not in (queue := self._queues.get(run.caller, [])):
            return False
        queue.remove(run)
        if not queue:
            del self._queues[run.caller]
        return True

    async def cancel(self, run: Run) -> bool:
        """Return whether the run was under way; it has ended now."""
        task = self._tasks.get(run)
        if task is None:
            return False
        task.cancel()
        # Not `await task`: its cancellation would be raised here, as if this caller were cancelled.
        await asyncio.wait([task])
        return True

    async def close(self) -> list[Run]:
        """Cancel what is under way and begin nothing more; return what waits."""
        self._closed = True
        # A copy: each task takes itself out when it is done.
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return [run for queue in self._queues.values() for run in queue]

    def _all_are(self, caller: Caller) -> bool:
        """Return whether nobody else's run waits."""
        return not (self._queues.keys() | self._coming.keys()) - {caller}

    def _pump(self) -> None:
        """Begin what may begin."""
        busy = {run.thread_id for run in self._tasks}
        under_way = Counter(run.caller for run in self._tasks)
        while not self._closed and len(self._tasks) < self._at_once and (run := self._next(busy, under_way)):
            busy.add(run.thread_id)
            under_way[run.caller] += 1
            self.remove(run)
            self._begun += 1
            self._served[run.caller] = self._begun
            self._tasks[run] = asyncio.create_task(self._work(run))
            self._tasks[run].add_done_callback(partial(self._done, run))

    def _next(self, busy: set[str], under_way: Counter[Caller]) -> Run | None:
        for caller in sorted(self._queues, key=lambda one: (under_way[one], self._served.get(one, 0))):
            for run in self._queues[caller]:
                if run.thread_id not in busy:
                    return run
        return None

    def _done(self, run: Run, _: asyncio.Task[None]) -> None:
        del self._tasks[run]
        self._pump()
