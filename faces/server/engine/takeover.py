"""Takeover of runs: those in flight when a server ended go on in another process. Internal."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from ....state.threads.lease import alive, this_process
from .records import RunRecord, now
from .runs import Caller, Run

if TYPE_CHECKING:
    from collections.abc import Container

    from .records import DbExecutor, Records

__all__ = ["Takeover", "run_of"]

MOST_ATTEMPTS = 3
"""A run whose process died so often is given up: it may be what kills them."""

DEAD_AFTER_S = 45.0
"""Silence after which a process on another machine counts as dead."""


class Takeover:
    """Notes the runs of this process, and takes those of dead ones."""

    def __init__(self, records: Records, db: DbExecutor) -> None:
        self._records = records
        self._db = db
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
            beat=time.time(),
        )
        await self._db.write(self._records.add_run, record)

    async def take(self, known: Container[str]) -> list[Run]:
        """Return the runs that nobody goes on with, as this process's from now on: the first created first.

        Args:
            known: Ids of the runs that are not looked at.
        """
        taken = []
        for record in await self._db.read(self._records.in_flight):
            if record.run_id in known or not _left(record):
                continue
            if record.attempts >= MOST_ATTEMPTS and record.process:
                told = {"error": "LostRunError", "message": "every server that ran it has died"}
                given_up = {"status": "error", "error": told, "process": ""}
                await self._db.write(partial(self._records.change_run, record.run_id, now=now(), **given_up))
                continue
            claim = partial(self._records.take_over, record, self._process, beat=time.time())
            if await self._db.write(claim):
                run = run_of(record)
                run.status, run.attempts = "pending", record.attempts + bool(record.process)
                taken.append(run)
        return taken

    async def beat(self) -> None:
        """Say that this process lives."""
        await self._db.write(partial(self._records.beat, self._process, beat=time.time()))


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


def _left(record: RunRecord) -> bool:
    """Return whether nobody runs it any more."""
    if not record.process:
        return True
    # A process on this machine can be looked up; of one elsewhere only its silence tells.
    lives = alive(record.process)
    return lives is False or (lives is None and time.time() - record.beat > DEAD_AFTER_S)
