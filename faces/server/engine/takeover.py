"""Takeover of runs: those in flight when a server ended go on in another process. Internal."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ....state.storage.leases import alive, this_process
from .records import RunRecord, now
from .runs import Caller, Run

if TYPE_CHECKING:
    from collections.abc import Container

    from ....state.storage.index import RunIndex
    from .records import DbExecutor, Records

__all__ = ["Takeover", "run_of"]

STOOD = "stood_at"
"""Beside what a caller sent: where the thread stood when the process that has the run got it."""
DEAD_AFTER_S = 45.0
"""Silence after which a process on another machine counts as dead."""


class Takeover:
    """Notes the runs of this process, and takes those of dead ones.

    Args:
        records: The tables of runs.
        index: Says where a thread stands.
        db: Calls the database.
        most_attempts: A run of which so many processes died, one after another and without a step further, is given up:
            it may be what kills them.
    """

    def __init__(self, records: Records, index: RunIndex | None, db: DbExecutor, *, most_attempts: int) -> None:
        self._records = records
        self._index = index
        self._db = db
        self._most_attempts = most_attempts
        self._process = this_process()

    async def note(self, run: Run) -> None:
        """Keep a new run, as this process's."""
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
            process=self._process,
            beat=await self._db.read(self._records.clock),
        )
        await self._db.write(self._records.add_run, record)

    async def take(self, known: Container[str]) -> list[Run]:
        """Return the runs that nobody goes on with, as this process's from now on: the first created first.

        Args:
            known: Ids of the runs that are not looked at.
        """
        taken = []
        at = await self._db.read(self._records.clock)
        for record in await self._db.read(self._records.in_flight):
            if record.run_id in known or not _left(record, at):
                continue
            stands = await self._stands(record.thread_id)
            # In whatever direction: the clocks of the machines that wrote the two times may differ.
            moved = stands is not None and stands != record.request.get(STOOD)
            uncounted = not record.process or self._index is None  # it was left in an orderly way
            attempts = record.attempts if uncounted else 1 if moved else record.attempts + 1
            if attempts > self._most_attempts:
                told = {"error": "LostRunError", "message": "every server that ran it has died"}
                given_up: dict[str, Any] = {"status": "error", "error": told, "process": ""}
                await self._db.write(partial(self._records.change_run, record.run_id, now=now(), **given_up))
                continue
            request = {**record.request, STOOD: stands}
            claim = partial(self._records.take_over, record, self._process, request=request, attempts=attempts, beat=at)
            if await self._db.write(claim):
                run = run_of(record)
                run.status, run.attempts = "pending", attempts
                taken.append(run)
        return taken

    async def _stands(self, thread_id: str) -> str | None:
        """Return what changes whenever a thread moves; `None` where it has not begun, or nothing says."""
        row = None if self._index is None else await self._db.read(self._index.get, thread_id)
        return None if row is None else row.updated_at

    async def beat(self) -> None:
        """Say that this process lives."""
        at = await self._db.read(self._records.clock)
        await self._db.write(partial(self._records.beat, self._process, beat=at))


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
        begun=record.begun,
        attempts=record.attempts,
    )


def _left(record: RunRecord, at: float) -> bool:
    """Return whether nobody runs it any more, at this time of the database's."""
    if not record.process:
        return True
    # A process on this machine can be looked up; of one elsewhere only its silence tells.
    lives = alive(record.process)
    return lives is False or (lives is None and at - record.beat > DEAD_AFTER_S)
