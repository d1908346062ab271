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

DEAD_AFTER_S = 45.0
"""Silence after which a process on another machine counts as dead."""


class Takeover:
    """Notes the runs of this process, and takes those of dead ones.

    Args:
        records: The tables of runs.
        index: Says when a thread last moved.
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
            request=run.request,
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
            attempts = await self._attempts(record)
            if attempts > self._most_attempts:
                told = {"error": "LostRunError", "message": "every server that ran it has died"}
                given_up: dict[str, Any] = {"status": "error", "error": told, "process": ""}
                await self._db.write(partial(self._records.change_run, record.run_id, now=now(), **given_up))
                continue
            claim = partial(self._records.take_over, record, self._process, attempts=attempts, beat=at)
            if await self._db.write(claim):
                run = run_of(record)
                run.status, run.attempts = "pending", attempts
                taken.append(run)
        return taken

    async def _attempts(self, record: RunRecord) -> int:
        """Return how many processes will have had a run since it last moved, once it is taken."""
        if not record.process or self._index is None:  # left in an orderly way
            return record.attempts
        row = await self._db.read(self._index.get, record.thread_id)
        # A record is written when a process begins to work, so a later checkpoint is that process's.
        moved = row is not None and row.updated_at > record.updated_at
        return 1 if moved else record.attempts + 1

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
