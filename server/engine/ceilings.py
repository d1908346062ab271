"""Ceilings of the server: calls, tokens and dollars of a run, and of a caller a day. Internal.

They hold where calls are made, whatever graph makes them, and are kept in the database, so that they outlive a process
and are the same for all servers of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from ...models import PriceTable
from ...nodes.runtime.call_ceiling import CallCeiling
from ...state import Usage
from ...state.usage import NO_USAGE, add_usage
from ..settings import Settings
from .records import Database
from .runs import LOG, Caller, QuotaSpentError, Run

__all__ = ["Ceilings"]


SOON = 10
"""Of a run that has used less than this part of its budgets, calls are written down together."""
WRITTEN_S = 1.0
"""So many seconds later at the latest, which is what a kill loses."""


class Ceilings:
    """The budgets of runs and the daily quotas of callers.

    Args:
        settings: The ceilings.
        db: What was used.
        prices: Turns tokens into dollars.
        called: Told of each call that was made, with its run and usage, in the thread that made it.
    """

    def __init__(
        self,
        settings: Settings,
        db: Database,
        prices: PriceTable,
        called: Sequence[Callable[[Run, Usage], None]] = (),
    ) -> None:
        self._settings = settings
        self._records = db.records.usage
        self._db = db
        self._prices = prices
        self._called = called
        self._has_quota = any(value is not None for value in self._of_day())

    async def check(self, caller: Caller) -> None:
        """Raise QuotaSpentError where a caller has used up what they may use today."""
        if self._has_quota:
            used, left_s = await self._db.read(self._records.today, caller.id)
            if spent := _spent(used, *self._of_day()):
                renews_at = (datetime.now(UTC) + timedelta(seconds=left_s + 0.5)).isoformat(timespec="seconds")
                message = f"the quota of {UNITS[spent]} a day is used up; it renews at {renews_at}"
                raise QuotaSpentError(message, retry_after_s=int(left_s) + 1)

    async def of_run(self, run: Run) -> CallCeiling:
        """Return the ceiling of a run's calls: it refuses those beyond the run's budget or its caller's quota."""
        # One that another process had begun has used something already.
        before = NO_USAGE if not run.begun and run.attempts == 1 else await self._db.read(self._records.of_run, run.id)
        settings, lock = self._settings, threading.Lock()
        most = (settings.max_calls_a_run, settings.max_tokens_a_run, settings.max_cost_usd_a_run)
        soon = [None if one is None else one / SOON for one in most]
        unsettled, written_at = NO_USAGE.copy(), time.monotonic()

        def refuse(used: Usage) -> str | None:
            whole = add_usage([before, used])
            if budget := _spent(whole, *most):
                return budget
            if self._has_quota and _spent(self._records.today(run.caller.id)[0], *self._of_day()):
                return "quota"
            return None

        def settle(used: Usage) -> None:
            nonlocal unsettled
            for called in self._called:
                called(run, used)
            with lock:
                unsettled = add_usage([unsettled, used])
            near = self._has_quota or _spent(add_usage([before, ceiling.used]), *soon)
            if near or time.monotonic() > written_at + WRITTEN_S:
                write()

        def write() -> None:
            nonlocal unsettled, written_at
            with lock:
                used, unsettled, written_at = unsettled, NO_USAGE.copy(), time.monotonic()
            try:
                if used["calls"] or used["total_tokens"]:
                    self._records.add(run.id, run.caller.id, used)
            except Exception:
                # Its reply is paid for, and is not lost for this; it is added with the next call's.
                LOG.exception("what a call used can't be written down")
                with lock:
                    unsettled = add_usage([unsettled, used])

        ceiling = CallCeiling(self._prices, refuse=refuse, settle=settle, close=write)
        return ceiling

    def _of_day(self) -> tuple[int | None, int | None, float | None]:
        settings = self._settings
        return settings.max_calls_a_day, settings.max_tokens_a_day, settings.max_cost_usd_a_day


UNITS = {"call_budget": "calls", "token_budget": "tokens", "cost_budget": "dollars"}


def _spent(used: Usage, calls: float | None, tokens: float | None, dollars: float | None) -> str | None:
    """Return the budget that is used up; one whose use is not known counts as such."""
    if calls is not None and used["calls"] >= calls:
        return "call_budget"
    if tokens is not None and (used["total_tokens"] >= tokens or used.get("uncounted_calls")):
        return "token_budget"
    if dollars is not None and (used["cost_usd"] is None or used["cost_usd"] >= dollars):
        return "cost_budget"
    return None
