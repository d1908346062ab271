"""Time to live of threads: those that nobody has touched for so long are deleted. Internal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ....state.threads.lease import BusyThreadError, LeaseHolder
from .ownership import LOCAL, OwnedThreads

if TYPE_CHECKING:
    from ..settings import Settings
    from .records import Database, ThreadRecord

__all__ = ["Sweeper"]


class Sweeper:
    """Deletes the threads of a server's callers when their time to live is over; one that moves lives on.

    A server with tokens deletes what callers with tokens have, one without what is everybody's: what callers without a
    token, the shell and Python made there. Neither touches a thread that somebody runs.

    Args:
        owned: The threads.
        db: Their tables.
        settings: `default_ttl`, `sweep_limit` and `ttl_includes_interrupted`.
    """

    def __init__(
        self,
        owned: OwnedThreads,
        db: Database,
        settings: Settings,
    ) -> None:
        self._saver = db.saver
        self._owned = owned
        self._db = db
        self._leases = LeaseHolder(db.saver)
        self._settings = settings

    async def sweep(self, at: datetime | None = None) -> list[str]:
        """Delete what has not moved for the time to live, and return the thread ids, the longest untouched first.

        Args:
            at: The time; default: now.
        """
        if self._settings.default_ttl is None:
            return []
        before = (at or datetime.now(UTC)) - timedelta(minutes=self._settings.default_ttl)
        limit = before.isoformat(timespec="microseconds")
        if everybodys := not self._settings.tokens:
            await self._owned.every(LOCAL)  # takes in those that the shell and Python made
        deleted: list[str] = []
        last = ("", "")
        while len(deleted) < self._settings.sweep_limit:
            page = await self._db.read(self._db.records.untouched, limit, after=last, local=everybodys)
            if not page:
                break
            deleted += [
                record.thread_id
                for record in page[: self._settings.sweep_limit - len(deleted)]
                if await self._over(record, limit) and await self._delete(record, limit)
            ]
            last = (page[-1].updated_at, page[-1].thread_id)
        return deleted

    async def _over(self, record: ThreadRecord, limit: str) -> bool:
        """Return True where nobody uses the thread, neither a caller nor the shell, which does not tell the server."""
        if record.status == "busy" or record.updated_at >= limit:
            return False
        row = await self._saver.runs.aget(record.thread_id)
        if row is not None and row.updated_at >= limit:
            return False
        if self._settings.ttl_includes_interrupted:
            return True
        return not await self._owned.waits(record)

    async def _delete(self, record: ThreadRecord, limit: str) -> bool:
        try:
            async with self._leases.leased(record.thread_id):
                # Somebody may have come since; from here on nobody runs it.
                again = await self._db.read(self._db.records.thread, record.thread_id)
                if again is None or not await self._over(again, limit):
                    return False
                await self._owned.erase(record.thread_id)
                return True
        except BusyThreadError:
            return False
