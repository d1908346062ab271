"""Runs of other replicas, followed from here: what they send, and how they end. Internal."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .relay_records import END, SentEvent
from .runs import ENDED, LOG, Run, ServerEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .records import Database
    from .tending import Channel

__all__ = ["Follower", "is_recent"]

RENEW_S = 20.0
"""How often a wish is renewed."""
LOOK_S = 1.0
HEARD_LOOK_S = 10.0
"""How often to look where nothing was heard; the second holds while the channel is open."""
PATIENCE_S = 2.0
"""How long to wait for the last events of a run that has ended."""
PAGE = 100
RECENT_S = 120.0
"""How long after a run's end its events are asked for elsewhere."""
NO_EVENTS = 2**31 - 1


def is_recent(run: Run) -> bool:
    """Return True while the process that had a run may still send its events."""
    return not run.ended or time.time() - (run.ended_at or 0) < RECENT_S


@dataclass(eq=False)
class _Followed:
    run: Run
    readers: int = 0
    events: bool = False
    """Somebody reads what it sends, and not just how it ends."""
    hint: asyncio.Event = field(default_factory=asyncio.Event)
    look: bool = True
    """Its record is to be read next."""
    task: asyncio.Task[None] | None = None
    ended_since: float | None = None


class Follower:
    """Keeps runs of other processes current while somebody waits for them here.

    Args:
        db: The tables of runs.
        channel: Where other processes are heard.
    """

    def __init__(self, db: Database, channel: Channel) -> None:
        self._relay = db.records.relay
        self._db = db
        self._serde: Any = getattr(db.saver, "serde", None)
        self._channel = channel
        self._followed: dict[str, _Followed] = {}

    @contextmanager
    def watching(self, run: Run, *, events: bool) -> Iterator[None]:
        """Keep a run current within the block, wherever it is under way."""
        is_late = run.ended and is_recent(run) and self._relay.has_channel
        if run.here or (run.ended and not (is_late and events and not run.log)):
            yield
            return
        followed = self._followed.setdefault(run.id, _Followed(run))
        followed.readers += 1
        if events and not followed.events:
            followed.events = True
            followed.hint.set()
        run.is_behind = is_late
        if followed.task is None:
            followed.task = asyncio.create_task(self._follow(followed))
        try:
            yield
        finally:
            followed.readers -= 1
            if not followed.readers:
                self._drop(followed)

    def follows(self, run: Run) -> bool:
        """Return True where somebody here waits for a run that is under way elsewhere."""
        return run.id in self._followed and not run.here

    def heard(self, run_id: str, *, ended: bool) -> None:
        """Look at a run again, after a hint of another process."""
        if (followed := self._followed.get(run_id)) is not None:
            followed.look = followed.look or ended
            followed.hint.set()

    def heard_all(self) -> None:
        """Look at every run: something may have been missed."""
        for run_id in self._followed:
            self.heard(run_id, ended=True)

    def claimed(self, run: Run) -> None:
        """Follow a run no longer that begins here."""
        run.here = True
        if (followed := self._followed.get(run.id)) is not None and followed.task is not None:
            followed.task.cancel()

    async def cancel(self, run: Run) -> None:
        """Have whoever has a run cancel it, and return when it has ended."""
        await self._db.write(self._relay.wish, run.id, cancel=True)
        await self._db.write(self._relay.tell, f"wish:{run.id}")
        await run.wait()

    async def close(self) -> None:
        """Follow nothing more."""
        tasks = [followed.task for followed in self._followed.values() if followed.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _drop(self, followed: _Followed) -> None:
        if followed.task is not None:
            followed.task.cancel()
        if self._followed.get(followed.run.id) is followed:
            del self._followed[followed.run.id]

    async def _follow(self, followed: _Followed) -> None:
        renewed, wished_events = 0.0, False
        while True:
            followed.hint.clear()
            try:
                if self._relay.has_channel and (
                    time.monotonic() - renewed > RENEW_S or (followed.events and not wished_events)
                ):
                    renewed, wished_events = time.monotonic(), followed.events
                    await self._db.write(self._relay.wish, followed.run.id, events=followed.events)
                    await self._db.write(self._relay.tell, f"wish:{followed.run.id}")
                if await self._read(followed):
                    return
            except Exception:
                LOG.exception("run %s can't be followed", followed.run.id)
            wait_s = HEARD_LOOK_S if self._channel.is_open else LOOK_S
            if followed.ended_since is not None:
                wait_s = PATIENCE_S / 4
            try:
                async with asyncio.timeout(wait_s):
                    await followed.hint.wait()
            except TimeoutError:
                followed.look = True

    async def _read(self, followed: _Followed) -> bool:
        """Take over what is new of a run; return whether it has ended, with all of that."""
        run = followed.run
        end = await self._read_events(followed) if self._relay.has_channel else None
        whole = False
        if end is not None:
            last: dict[str, Any] = self._serde.loads_typed((end.tag, end.data))
            whole = not followed.events or (last["count"] is not None and len(run.log) >= last["count"])
        if not whole and not followed.look:
            return False
        followed.look = False
        record: Run | None = await self._db.read(self._db.records.run, run.id)
        if record is not None and record.status not in ENDED:
            if not run.ended:
                run.status = record.status
            return False
        followed.ended_since = followed.ended_since or time.monotonic()
        has_time = self._relay.has_channel and time.monotonic() - followed.ended_since < PATIENCE_S
        if not whole and has_time:
            return False
        if end is not None:
            run.output, run.error, run.used = last["output"], last["error"], last["used"]
            run.status = last["status"]
        elif record is not None:
            run.error, run.status = record.error, record.status
        else:  # it was deleted
            run.status = "interrupted"
        if record is not None:
            run.updated_at, run.status = record.updated_at, record.status
        run.is_behind = False
        run.wake()
        return True

    async def _read_events(self, followed: _Followed) -> SentEvent | None:
        """Take over the events that are new, and return what it ended with."""
        run, end = followed.run, None
        while True:
            start = len(run.log) if followed.events else NO_EVENTS
            rows = await self._db.read(self._relay.sent, run.id, start, PAGE)
            end = next((row for row in rows if row.number == END), None)
            fresh = [row for row in rows if row.number != END]
            if fresh and not run.log:
                wishes = await self._db.read(self._relay.wishes, [run.id])
                run.stream = wishes[0].stream if wishes else run.stream
            for row in fresh:
                if row.number != len(run.log):
                    break
                data = self._serde.loads_typed((row.tag, row.data))
                run.log.append(ServerEvent(row.event, data, row.at) if row.event else None)
            if fresh:
                run.wake()
            if len(rows) < PAGE or not fresh:
                return end
