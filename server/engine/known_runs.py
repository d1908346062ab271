"""The runs that one process knows: one object a run, also for those of other processes. Internal."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from .following import is_recent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from .engine import Engine
    from .runs import Caller, Run

__all__ = ["KnownRuns"]

REMEMBERED = 500
"""Ended runs whose events are kept for who joins late."""


class KnownRuns:
    """Holds one object a run for all who look at it, and wakes those who wait for the runs of a thread."""

    def __init__(self, engine: Engine) -> None:
        self.here: dict[str, Run] = {}
        """Those that are, or were, under way in this process."""
        self._elsewhere: WeakValueDictionary[str, Run] = WeakValueDictionary()
        """Those that somebody here looks at, while another process has them, or none yet."""
        self._engine = engine
        # Each is there as long as somebody waits for it.
        self._moved: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()

    def add(self, run: Run) -> None:
        """Know a run from now on, as long as somebody looks at it."""
        run.watch = self._engine.follower.watching
        self._elsewhere[run.id] = run

    def of(self, stored: Run) -> Run:
        """Return the one object that this process has for a run, brought up to date where another process has it."""
        run = self.here.get(stored.id) or self._elsewhere.get(stored.id)
        if run is None:
            self.add(stored)
            return stored
        if not run.here and not self._engine.follower.follows(run):
            run.status, run.error, run.ended_at = stored.status, stored.error, stored.ended_at
            run.begun, run.attempts, run.updated_at = stored.begun, stored.attempts, stored.updated_at
        return run

    def claimed(self, stored: Run) -> Run:
        """Return a run that this process has just claimed."""
        run = self.of(stored)
        run.begun, run.attempts, run.status = stored.begun, stored.attempts, stored.status
        self.begins_here(run)
        return run

    async def on_thread(self, thread_id: str) -> list[Run]:
        """Return every run of a thread, the last created first."""
        return [self.of(stored) for stored in await self._engine.db.read(self._engine.records.runs, thread_id)]

    def begins_here(self, run: Run) -> None:
        """Have a run, and forget the events of those that ended long ago."""
        self._engine.follower.claimed(run)
        self.here[run.id] = run
        # At twice as many, so that they are not all looked through for each new run.
        if len(self.here) > 2 * REMEMBERED:
            ended = [old for old in self.here.values() if old.ended]
            for old in ended[: max(len(ended) - REMEMBERED, 0)]:
                del self.here[old.id]

    async def remove(self, run_id: str) -> None:
        """Forget a run, here and in the database."""
        self.here.pop(run_id, None)
        await self._engine.db.write(self._engine.records.remove_run, run_id)

    def forget(self, thread_id: str) -> None:
        """Forget the runs of a thread that was deleted."""
        for run in [run for run in self.here.values() if run.thread_id == thread_id]:
            del self.here[run.id]

    async def begun_on(self, caller: Caller, thread_id: str, *, after: int | None = None) -> AsyncIterator[Run]:
        """Give each run of the caller's on a thread when it begins, without end; of those before, where `after` names
        no event, what is under way and the last that ended."""
        seen: set[str] = set()
        while True:
            moved = self._moved.setdefault(thread_id, asyncio.Event())
            own = [run for run in reversed(await self.on_thread(thread_id)) if run.caller.id == caller.id]
            # What one sent that ended a while ago in another process is kept nowhere.
            begun = [run for run in own if run.status != "pending" and (run.here or is_recent(run))]
            ended = [run for run in begun if run.ended]
            if not seen and after is None:
                seen |= {run.id for run in ended[:-1]}
            for run in begun:
                if run.id not in seen:
                    seen.add(run.id)
                    yield run
            seen.add("")  # from now on every run is new
            await moved.wait()

    def wake(self, thread_ids: Iterable[str] | None = None) -> None:
        """Wake who waits here for the runs of these threads, or of any: one has begun, or was cancelled before."""
        for thread_id in list(self._moved) if thread_ids is None else thread_ids:
            if (moved := self._moved.pop(thread_id, None)) is not None:
                moved.set()

    async def tell_moved(self, thread_ids: list[str]) -> None:
        """Wake who waits for the runs of these threads, in every process."""
        self.wake(thread_ids)
        await self._engine.publisher.tell(*(f"moved:{thread_id}" for thread_id in thread_ids))
