"""Takeover of runs: those under way when a process died wait again, and go on in another. Internal."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ...state.storage.leases import alive, this_process
from .records import Database, RunRecord, now
from .runs import ENDED, Caller, Run

if TYPE_CHECKING:
    from collections.abc import Collection

    from ...state.storage.index import RunIndex

__all__ = ["Takeover", "run_of"]

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
        at = await self._db.read(self._db.records.clock) if after_s else 0.0
        record = RunRecord(
            run_id=run.id,
            thread_id=run.thread_id,
            owner=run.caller.id,
            assistant=run.assistant,
            model=run.model,
            request={**run.request, STOOD: await self._stands(run.thread_id)},
            metadata=run.metadata,
            stateless=run.stateless,
            status=run.status,
            error=run.error,
            created_at=run.created_at,
            updated_at=run.updated_at,
            begun=run.begun,
            attempts=run.attempts,
            process="",
            beat=at + after_s,
        )
        await self._db.write(self._db.records.add_run, record)

    async def release(self, here: Collection[str]) -> list[str]:
        """Return abandoned runs to the queue, and the ids of those that were given up instead.

        Args:
            here: Ids of the runs that are under way in this process.
        """
        given_up = []
        at = await self._db.read(self._db.records.clock)
        records = [record for record in await self._db.read(self._db.records.in_flight) if record.process]
        not_here = {one.run_id for one in records if one.process == self._process and one.run_id not in here}
        # Seen twice: the first time it may just have been claimed, or be about to be written down as ended.
        lost, self._not_here = not_here & self._not_here, not_here
        for record in records:
            is_lost = record.run_id in lost
            if not is_lost and not _left(record, at):
                continue
            stands = await self._stands(record.thread_id)
            # In whatever direction: the clocks of the machines that wrote the two times may differ.
            moved = stands is not None and stands != record.request.get(STOOD)
            attempts = record.attempts if is_lost or self._index is None else 1 if moved else record.attempts + 1
            if attempts > self._most_attempts:
                ended: dict[str, Any] = {"status": "error", "error": LOST, "process": ""}
                change = self._db.records.change_run
                if await self._db.write(change, record.run_id, now=now(), held_by=record.process, **ended):
                    given_up.append(record.run_id)
                continue
            request = {**record.request, STOOD: stands}
            await self._db.write(self._db.records.release, record, request=request, attempts=attempts)
        return given_up

    async def _stands(self, thread_id: str) -> str | None:
        """Return a mark that changes whenever a thread moves; `None` where it has not begun, or there is no index."""
        row = None if self._index is None else await self._db.read(self._index.get, thread_id)
        return None if row is None else row.updated_at

    async def beat(self) -> None:
        """Say that this process lives."""
        at = await self._db.read(self._db.records.clock)
        await self._db.write(self._db.records.beat, self._process, beat=at)


def run_of(record: RunRecord) -> Run:
    """Return a run as the database knows it."""
    return Run(
        id=record.run_id,
        thread_id=record.thread_id,
        assistant=record.assistant,
        caller=Caller(record.owner),
        created_at=record.created_at,
        request=record.request,
        model=record.model,
        metadata=record.metadata,
        stateless=record.stateless,
        status=record.status,
        updated_at=record.updated_at,
        error=record.error,
        submitted_at=_seconds(record.created_at),
        begun=record.begun,
        attempts=record.attempts,
        ended_at=_seconds(record.updated_at) if record.status in ENDED else None,
    )


def _seconds(moment: str) -> float:
    try:
        return datetime.fromisoformat(moment).timestamp()
    except ValueError:  # somebody else wrote the row
        return time.time()


def _left(record: RunRecord, at: float) -> bool:
    """Return True where the process that has a run has died, at this time by the database's clock."""
    # A process on this machine can be looked up; of one elsewhere only its silence tells.
    lives = alive(record.process)
    return lives is False or (lives is None and at - record.beat > DEAD_AFTER_S)
