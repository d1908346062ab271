"""The budget that the paths of one level share, and the bound on how many run at once. Internal."""

from __future__ import annotations

import asyncio
import threading
from bisect import insort
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from time import perf_counter
from typing import Any

from ...state.stopping import StopReason, spent_budget
from ...state.usage import Usage, add_usage
from ..runtime.meter import BudgetSpentError, Meter, Prices

__all__ = ["SharedBudget", "SharedBudgets", "Turns"]

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
            # In the order of the plans, whoever came first.
            insort(self._waiting, place)
            try:
                self._changed.wait_for(lambda: self._free and self._waiting[0] == place)
                self._free -= 1
            finally:
                # Also where waiting was interrupted: the place would hold up all behind it.
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
            # A semaphore belongs to one event loop.
            self._loop, self._tasks = loop, asyncio.Semaphore(self._most)
        return self._tasks


MOST_KEPT = 10_000
"""Budgets of searches that never ended go when that many others are newer; one that is missing is made anew."""


class SharedBudget(Meter):
    """Counts the calls of all paths of a level, and refuses any once a budget of the search is spent.

    Seconds are those in model calls, of all paths together, calls under way included.

    Args:
        prices: Turns tokens into dollars.
        spent: What the search had spent before.
        limits: Of the search.
        most: How many paths run at once.
    """

    def __init__(self, prices: Prices | None, spent: Usage, limits: Mapping[str, Any], most: int) -> None:
        super().__init__(prices)
        self.run_inline = False  # it may refuse a call; see Meter
        self.turns = Turns(most)
        self.accepted = False
        """True if a path was accepted, so that no further one need begin."""
        self.begun: set[str] = set()
        """Names of the paths that began."""
        self.error: Exception | None = None
        """Of a first draft that could not be written."""
        self._spent = spent
        self._limits = limits

    def closed_to(self, name: str, *, accepting: bool) -> str | None:
        """Return the reason why a path need not begin, or `None`; from then on it has begun.

        Args:
            name: Of the path. One that began before goes on in any case.
            accepting: Whether paths still begin when another was accepted.
        """
        stopped = self.spent_budget() or ("accepted" if self.accepted and not accepting else None)
        if stopped and name not in self.begun:
            return stopped
        self.begun.add(name)
        return None

    def spent_budget(self) -> StopReason | None:
        """Return the budget that is used up, or `None`."""
        with self._lock:
            now = perf_counter()
            seconds = self._in_calls + sum(now - call.start for call in self._calls.values())
        return spent_budget((), self._limits, besides=add_usage([self._spent, self.usage(seconds=seconds)]))

    def _check_budget(self) -> None:
        if budget := self.spent_budget():
            raise BudgetSpentError(budget)


class SharedBudgets:
    """The shared budgets of the searches that run in this process, by search and level.

    Args:
        prices: Turns tokens into dollars.
        most: How many paths of a search run at once.
    """

    def __init__(self, prices: Prices | None, *, most: int) -> None:
        self._prices = prices
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, int], SharedBudget] = OrderedDict()

    def find(self, search: str, level: int) -> SharedBudget | None:
        """Return the shared budget of a level, or `None` where this process has none, after a crash, say."""
        with self._lock:
            return self._kept.get((search, level))

    def begin(self, search: str, level: int, spent: Usage, limits: Mapping[str, Any]) -> SharedBudget:
        """Return the shared budget of a level, a new one where there is none: the first caller says what was spent."""
        with self._lock:
            shared = self._kept.setdefault((search, level), SharedBudget(self._prices, spent, limits, self._most))
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
            return shared

    def end(self, search: str, level: int) -> None:
        """Forget the shared budget of a level."""
        with self._lock:
            self._kept.pop((search, level), None)
