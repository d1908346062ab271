"""Takeover of runs: those under way when a process died wait again, and go on in another. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....state.storage.leases import alive, this_process
from .records import Database, now

if TYPE_CHECKING:
    from collections.abc import Collection

    from ....state.storage.index import RunIndex
    from .runs import Run

__all__ = ["Takeover"]

STOOD = "stood_at"
"""Beside what a caller sent: where the thread stood when the run began to wait."""
LOST = {"error": "LostRunError", "message": "every server that ran it has died"}
DEAD_AFTER_S = 45.0
"""Silence after which a process on another machine counts as dead."""


class Takeover:
    """Notes new runs, and lets those of dead processes wait again.

    Args:
        db: The tables of runs.
        most_attempts: A run of which so many processes died, one after another and without a step further, is given up:
            it may be what kills them.
    """

    def __init__(self, db: Database, *, most_attempts: int) -> None:
        self._index: RunIndex | None = getattr(db.saver, "runs", None)
        self._db = db
        self._most_attempts = most_attempts
        self._process = this_process()
        self._not_here: set[str] = set()
        """Runs that this process has by the database, and that were not under way here at the last look."""

    async def note(self, run: Run, *, after_s: float = 0) -> None:
        """Keep a new run, which waits for whoever claims it, or first until so many seconds are over."""
        if after_s:
            run.beat = await self._db.read(self._db.records.clock) + after_s
        run.request = {**run.request, STOOD: await self._stands(run.thread_id)}
        await self._db.write(self._db.records.add_run, run)

    async def release(self, here: Collection[str]) -> list[str]:
        """Return abandoned runs to the queue, and the ids of those that were given up instead.

        Args:
            here: Ids of the runs that are under way in this process.
        """
        given_up = []
        at = await self._db.read(self._db.records.clock)
        runs = [run for run in await self._db.read(self._db.records.in_flight) if run.process]
        not_here = {run.id for run in runs if run.process == self._process and run.id not in here}
        # Seen twice: the first time it may just have been claimed, or be about to be written down as ended.
        lost, self._not_here = not_here & self._not_here, not_here
        for run in runs:
            is_lost = run.id in lost
            if not is_lost and not _left(run, at):
                continue
            stands = await self._stands(run.thread_id)
            # In whatever direction: the clocks of the machines that wrote the two times may differ.
            moved = stands is not None and stands != run.request.get(STOOD)
            attempts = run.attempts if is_lost or self._index is None else 1 if moved else run.attempts + 1
            if attempts > self._most_attempts:
                ended: dict[str, Any] = {"status": "error", "error": LOST, "process": ""}
                change = self._db.records.change_run
                if await self._db.write(change, run.id, now=now(), held_by=run.process, **ended):
                    given_up.append(run.id)
                continue
            request = {**run.request, STOOD: stands}
            await self._db.write(self._db.records.release, run, request=request, attempts=attempts)
        return given_up

    async def _stands(self, thread_id: str) -> str | None:
        """Return a mark that changes whenever a thread moves; `None` where it has not begun, or there is no index."""
        row = None if self._index is None else await self._db.read(self._index.get, thread_id)
        return None if row is None else row.updated_at

    async def beat(self) -> None:
        """Say that this process lives."""
        at = await self._db.read(self._db.records.clock)
        await self._db.write(self._db.records.beat, self._process, beat=at)


def _left(run: Run, at: float) -> bool:
    """Return True where the process that has a run has died, at this time by the database's clock."""
    # A process on this machine can be looked up; of one elsewhere only its silence tells.
    lives = alive(run.process)
    return lives is False or (lives is None and at - run.beat > DEAD_AFTER_S)
