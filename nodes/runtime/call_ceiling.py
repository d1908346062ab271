"""Call ceiling of a run: every model call below it is counted, and refused beyond what a server allows. Internal.

A `Meter` counts one node's call; a ceiling counts all of a run, whichever graph, agent, tool or judge makes them.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from langchain_core.tracers.context import register_configure_hook

from ...state.usage import NO_USAGE, Usage
from .journal import is_reused
from .meter import METER, BudgetSpentError, Meter, Prices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from langchain_core.outputs import LLMResult


__all__ = ["CallCeiling", "under_ceiling"]


class CallCeiling(Meter):
    """Counts the model calls made under it, those that fail too, and asks before each whether it may be made.

    A reply out of the journal or a cache is no call: it was counted when it came.

    Args:
        prices: Turns tokens into dollars.
        refuse: From what was used here to the budget that is spent, or `None`. Calls under way are counted as calls.
        settle: Told what each call used, when it has ended.
        close: Called when the run is over, after the last of these.
    """

    def __init__(
        self,
        prices: Prices | None,
        *,
        refuse: Callable[[Usage], str | None],
        settle: Callable[[Usage], None],
        close: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(prices)
        self.run_inline = False  # it may refuse a call; see Meter
        self._refuse = refuse
        self._settle = settle
        self._close = close
        # Of two calls that begin at once, the second is refused where there is room for one.
        self._begins = threading.Lock()
        self._under_way = 0

    @property
    def used(self) -> Usage:
        """The usage so far."""
        return self.usage(seconds=0.0)

    def _check_budget(self) -> None:
        with self._begins:
            so_far = self.used
            so_far["calls"] += self._under_way
            if budget := self._refuse(so_far):
                if (meter := METER.get()) is not None:
                    meter.refused = budget
                raise BudgetSpentError(budget)
            self._under_way += 1

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """Count one finished call, unless its reply was there already."""
        used = self._of_call(response, run_id)
        self._ended(None if is_reused(self._message(response)) else used)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **options: Any) -> None:
        """Count a failed call, with what it is billed for."""
        super().on_llm_error(error, run_id=run_id, **options)
        if getattr(error, "completion", None) is None:  # else it was counted as one that was answered
            self._ended({**NO_USAGE, "calls": 1})

    def close(self) -> None:
        """Count the calls that are still under way when their run is over: nobody waits for them, and they are paid."""
        while self._under_way:
            self._ended({**NO_USAGE, "calls": 1})
        self._close()

    def _ended(self, used: Usage | None) -> None:
        with self._begins:
            if not self._under_way:  # it was counted when its run was over, and comes after all
                used = None if used is None else {**used, "calls": 0}
            self._under_way = max(self._under_way - 1, 0)
            if used is not None:
                self._add(used)
        if used is not None:
            self._settle(used)


CEILING: ContextVar[CallCeiling | None] = ContextVar("redraft_call_ceiling", default=None)
register_configure_hook(CEILING, inheritable=True)


@contextmanager
def under_ceiling(ceiling: CallCeiling) -> Iterator[None]:
    """Count every model call within the block, and refuse those that are beyond the ceiling."""
    before = CEILING.set(ceiling)
    try:
        yield
    finally:
        CEILING.reset(before)
