"""How many runs at once the models of a batch bear. Internal."""

from __future__ import annotations

import asyncio
import threading
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_core.callbacks import BaseCallbackHandler

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import AsyncGenerator, Callable, Coroutine

__all__ = ["Pace", "WatchedRun", "at_pace"]

Job = TypeVar("Job")
Result = TypeVar("Result")

FIRST, MOST = 8, 256
"""Runs at once: at first, and at most, where nobody says how many."""
WORTH = 1.2
"""Twice as many at once must bring so many times as many calls a second, to be worth it."""
TOO_MANY = frozenset({429, 503, 529})
"""HTTP statuses by which a server asks for fewer calls."""


class Pace:
    """Finds how many runs at once the models of a batch bear, by what becomes of their calls.

    Twice as many while that brings more calls a second; half as many when a server asks for fewer (429, 503, 529); from
    then on one more for as many calls without that. Retries that a client makes by itself are not seen.

    Args:
        fixed: So many, whatever comes of it.
    """

    def __init__(self, fixed: int | None = None) -> None:
        self.limit = fixed or FIRST
        self._adapts, self._doubles, self._grows = fixed is None, True, False
        self._lock = threading.Lock()
        self._rate = 0.0
        self._begin()

    def _begin(self) -> None:
        self._calls, self._began = 0, perf_counter()

    def answered(self) -> None:
        """Count a call, and look again once each run under way has made two."""
        with self._lock:
            self._calls += 1
            if not self._adapts or self._calls < 2 * self.limit:
                return
            rate = self._calls / (perf_counter() - self._began)
            if not self._doubles:
                self.limit += self._grows
            elif rate > WORTH * self._rate:
                self._rate, self.limit = rate, 2 * self.limit
            else:  # the half did as well
                self._doubles, self.limit = False, self.limit // 2
            self.limit = min(self.limit, MOST)
            self._begin()

    def refused(self) -> None:
        """Make it half as many, once for the calls that were under way."""
        with self._lock:
            if self._adapts and (self._calls or self._doubles):
                self._doubles, self._grows, self.limit = False, True, max(self.limit // 2, 1)
                self._begin()


async def at_pace(
    pace: Pace, waiting: deque[Job], start: Callable[[Job], Coroutine[Any, Any, Result]]
) -> AsyncGenerator[Result, None]:
    """Work on what waits, as much at once as the pace says, and yield results as they come.

    What is under way when this is closed is cancelled: enter it by `contextlib.aclosing`.

    Args:
        pace: How much at once.
        waiting: What is to be done; more may be put there meanwhile.
        start: Works on one.
    """
    running: set[asyncio.Task[Result]] = set()
    try:
        while waiting or running:
            while waiting and len(running) < pace.limit:
                running.add(asyncio.create_task(start(waiting.popleft())))
            # It may be more at once by then, though nothing has ended.
            ended, running = await asyncio.wait(running, timeout=1, return_when=asyncio.FIRST_COMPLETED)
            for task in sorted(ended, key=_raised):  # what a result cost is not lost with the one that raised
                yield task.result()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _raised(task: asyncio.Task[Any]) -> bool:
    return task.cancelled() or task.exception() is not None


class WatchedRun(BaseCallbackHandler):
    """Tells the pace what becomes of the calls of one run."""

    run_inline = True

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.refused = False
        """A server asked for fewer calls."""

    def on_llm_end(self, response: Any, **_: Any) -> None:
        self.pace.answered()

    def on_llm_error(self, error: BaseException, **_: Any) -> None:
        if _status(error) in TOO_MANY:
            self.refused = True
            self.pace.refused()


def _status(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    return getattr(error, "status_code", None) or getattr(response, "status_code", None)
