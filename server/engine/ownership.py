"""Ownership of threads: each caller makes, finds and changes their own, and sees no other. Internal."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence, Set
from contextlib import asynccontextmanager, suppress
from typing import Any

from ...faces.sessions import every_row
from ...nodes.runtime.killable import off_loop
from ...state import BadCheckpointError, RunRow
from ...state.storage.index import BadRunError
from ...state.threads.answers import pending_interrupts
from .records import Database, now
from .requests import can_be_id, checked_id
from .runs import Caller, NotThereError, TakenError
from .thread_records import ThreadRecord

__all__ = ["IN_USE", "LOCAL", "OwnedThreads"]

LOCAL = Caller("local")
IN_USE = "this thread id is in use"
FEW = 20
"""So many threads are looked up one by one; for more, all that have not ended are looked through."""


class OwnedThreads:
    """The threads of a database by their owners. Who needs no token also has those that the shell and Python made."""

    def __init__(self, db: Database) -> None:
        self._saver = db.saver
        self._db = db

    async def create(
        self,
        caller: Caller,
        thread_id: str | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
        assistant: str | None = None,
        if_exists: str = "raise",
    ) -> ThreadRecord:
        """Note a new thread as the caller's, and return it.

        Raises:
            BadRequestError: The id is none.
            TakenError: It is in use.
        """
        existing = None if thread_id is None else await self.find(caller, checked_id(thread_id))
        if existing is None:
            record = await self._new(caller, thread_id, metadata=metadata, assistant=assistant)
            if await self._db.write(self._db.records.add_thread, record):
                return record
            # Another request has been quicker since the look before it.
            existing = await self.find(caller, record.thread_id)
        if existing is None or if_exists != "do_nothing":
            raise TakenError(IN_USE)
        return existing

    async def _new(
        self, caller: Caller, thread_id: str | None, *, assistant: str | None, metadata: Mapping[str, Any] | None = None
    ) -> ThreadRecord:
        """Return the record of a thread that is none of the caller's by now, which is to be noted as theirs."""
        # What the shell or Python made is not this caller's to take; who needs no token has all of that by now.
        if thread_id is not None and caller != LOCAL and await self._saver.runs.aget(thread_id) is not None:
            raise TakenError(IN_USE)
        at = now()
        return ThreadRecord(thread_id or str(uuid.uuid4()), caller.id, assistant, metadata or {}, "idle", at, at)

    async def thread(self, caller: Caller, thread_id: str) -> ThreadRecord:
        """Return a thread of the caller's.

        Raises:
            NotThereError: There is none of this id, or it is another's.
        """
        if (record := await self.find(caller, thread_id)) is None:
            raise NotThereError("there is no such thread")
        return record

    @asynccontextmanager
    async def looking(self, caller: Caller) -> AsyncIterator[None]:
        """Look through the caller's threads within the block: one request of theirs at a time, so that many that read
        much keep nobody else waiting."""
        async with self._db.turns[caller.id]:
            if caller == LOCAL:
                await self.adopt()
            yield

    async def standings(self, records: Sequence[ThreadRecord]) -> dict[str, str]:
        """Return the status of each thread as it stands, also where the shell or Python ran it on since: of that the
        server has noted nothing."""
        statuses = {record.thread_id: record.status for record in records}
        noted = {record.thread_id: record for record in records if record.status in ("idle", "interrupted")}
        unfinished = await off_loop(self._unfinished, noted.keys())
        for name, record in noted.items():
            if (record.status == "idle") == (name in unfinished):
                with suppress(BadCheckpointError):  # what can't be read stands as it was noted
                    statuses[name] = "interrupted" if await self.waits(record) else "idle"
        return statuses

    def _unfinished(self, thread_ids: Set[str]) -> Set[str]:
        """Return those of these threads whose last run has not ended, by the index."""
        if len(thread_ids) < FEW:
            rows = [self._saver.runs.get(name) for name in thread_ids]
            return {row.thread_id for row in rows if row is not None and row.stop_reason is None}
        return thread_ids & {row.thread_id for row in every_row(self._saver.runs, stop_reason="running")}

    async def waits(self, record: ThreadRecord) -> bool:
        """Return True where a thread waits for a person, or its run was broken off."""
        if record.status == "interrupted":
            row = await self._saver.runs.aget(record.thread_id)
            return row is None or row.stop_reason is None
        return await off_loop(self.asks, record.thread_id)

    def asks(self, thread_id: str) -> bool:
        """Return True where a thread waits for a person, by its saved writes.

        Raises:
            BadCheckpointError: Its last checkpoint can't be read.
        """
        stored = self._saver.get_tuple({"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}})
        return bool(pending_interrupts(stored))

    async def stand(self, caller: Caller, thread_id: str, status: str) -> ThreadRecord:
        """Write how a thread of the caller's stands, and return it."""
        await self.thread(caller, thread_id)
        await self._db.write(self._db.records.change_thread, thread_id, now=now(), status=status)
        return await self.thread(caller, thread_id)

    async def label(
        self, caller: Caller, thread_id: str, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    ) -> ThreadRecord:
        """Write what a function makes of the metadata of a thread of the caller's, and return it."""
        change_thread = self._db.records.change_thread
        while True:
            record = await self.thread(caller, thread_id)
            metadata = change(record.metadata)
            # Only as it was read: else of two requests at once one would undo what the other has put over them.
            if await self._db.write(change_thread, thread_id, now=now(), instead=record, metadata=metadata):
                return await self.thread(caller, thread_id)

    async def erase(self, thread_id: str) -> None:
        """Delete a thread that nothing runs on, whoever owns it."""
        # The record goes last: without it nobody could ask for the rest to be deleted.
        await self._saver.adelete_thread(thread_id)
        await self._db.write(self._db.records.remove_thread, thread_id)

    async def find(self, caller: Caller, thread_id: str) -> ThreadRecord | None:
        """Return a thread of the caller's, or `None`. Who needs no token also has those that the shell and Python
        made."""
        if not can_be_id(thread_id):
            return None
        record = await self._db.read(self._db.records.thread, thread_id)
        if record is None and caller == LOCAL and (row := await self._saver.runs.aget(thread_id)):
            await self._db.write(self._db.records.add_thread, _record_of(row))
            record = await self._db.read(self._db.records.thread, thread_id)
        return record if record is not None and record.owner == caller.id else None

    async def adopt(self) -> None:
        """Note the threads that the shell and Python made; where there are none, nothing is written."""
        after = ""
        while names := await self._db.read(self._db.records.strangers, after):
            for after in names:
                with suppress(BadRunError):  # what can't be read hides no other
                    if (row := await self._saver.runs.aget(after)) is not None:
                        await self._db.write(self._db.records.add_thread, _record_of(row))

    async def thread_for(
        self, caller: Caller, thread_id: str | None, assistant: str, if_not_exists: str
    ) -> tuple[ThreadRecord, bool]:
        """Return the thread of a run, and whether it is new: without an id, and also with one where it may be. Who
        notes the run notes that one too.

        Raises:
            BadRequestError: The id is none.
            NotThereError: There is no such thread.
            TakenError: The id is another's.
        """
        record = None if thread_id is None else await self.find(caller, checked_id(thread_id))
        if record is None and (thread_id is None or if_not_exists == "create"):
            return await self._new(caller, thread_id, assistant=assistant), True
        if record is None:
            raise NotThereError("there is no such thread")
        if record.assistant != assistant:
            await self._db.write(self._db.records.change_thread, record.thread_id, now=now(), assistant=assistant)
        return record, False


def _record_of(row: RunRow) -> ThreadRecord:
    return ThreadRecord(row.thread_id, LOCAL.id, row.preset, {}, "idle", row.created_at, row.updated_at)
