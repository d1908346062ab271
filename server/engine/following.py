"""Runs followed across replicas: what those of others send is read, and what our own send is written. Internal."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from .background import Background
from .relay_records import END, SentEvent, Wish
from .runs import ENDED, LOG, Run, RunStatus, ServerEvent

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from .engine import Engine

__all__ = ["Follower", "Publisher", "is_recent"]

RENEW_S = 20.0
"""How often a wish is renewed."""
LOOK_S = 1.0
HEARD_LOOK_S = 10.0
"""How often to look where nothing was heard; the second holds while the channel is open."""
PATIENCE_S = 2.0
"""How long to wait for the last events of a run that has ended."""
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
    """Keeps runs of other processes current while somebody waits for them here."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._relay = engine.records.relay
        self._followed: dict[str, _Followed] = {}
        self.background = Background()

    @contextmanager
    def watching(self, run: Run, *, events: bool) -> Iterator[None]:
        """Keep a run current within the block, wherever it is under way."""
        is_late = run.ended and is_recent(run) and self._engine.records.has_channel
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
            followed.task = self.background.do(self._follow(followed))
        try:
            yield
        finally:
            followed.readers -= 1
            if not followed.readers:
                if followed.task is not None:
                    followed.task.cancel()
                if self._followed.get(run.id) is followed:
                    del self._followed[run.id]

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
        await self._engine.db.write(self._relay.wish, run.id, cancel=True)
        await self._engine.db.write(self._relay.tell, f"wish:{run.id}")
        await run.wait()

    async def _follow(self, followed: _Followed) -> None:
        renewed, wished_events = 0.0, False
        while True:
            followed.hint.clear()
            try:
                if self._engine.records.has_channel and (
                    time.monotonic() - renewed > RENEW_S or (followed.events and not wished_events)
                ):
                    renewed, wished_events = time.monotonic(), followed.events
                    await self._engine.db.write(self._relay.wish, followed.run.id, events=followed.events)
                    await self._engine.db.write(self._relay.tell, f"wish:{followed.run.id}")
                if await self._read(followed):
                    return
            except Exception:
                LOG.exception("run %s can't be followed", followed.run.id)
            wait_s = HEARD_LOOK_S if self._engine.channel.is_open else LOOK_S
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
        end = await self._read_events(followed) if self._engine.records.has_channel else None
        whole = False
        if end is not None:
            last: dict[str, Any] = self._engine.db.serde.loads_typed((end.tag, end.data))
            whole = not followed.events or (last["count"] is not None and len(run.log) >= last["count"])
        if not whole and not followed.look:
            return False
        followed.look = False
        record: Run | None = await self._engine.db.read(self._engine.records.run, run.id)
        if record is not None and record.status not in ENDED:
            if not run.ended:
                run.status = record.status
            return False
        followed.ended_since = followed.ended_since or time.monotonic()
        has_time = self._engine.records.has_channel and time.monotonic() - followed.ended_since < PATIENCE_S
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
            rows = await self._engine.db.read(self._relay.sent, run.id, start, PAGE)
            end = next((row for row in rows if row.number == END), None)
            fresh = [row for row in rows if row.number != END]
            if fresh and not run.log:
                wishes = await self._engine.db.read(self._relay.wishes, [run.id])
                run.stream = wishes[0].stream if wishes else run.stream
            for row in fresh:
                if row.number != len(run.log):
                    break
                data = self._engine.db.serde.loads_typed((row.tag, row.data))
                run.log.append(ServerEvent(row.event, data, row.at) if row.event else None)
            if fresh:
                run.wake()
            if len(rows) < PAGE or not fresh:
                return end


GATHER_S = 0.05
"""How long tokens are gathered, so that a stream is some rows a second and not one for each token."""
PAGE = 100


@dataclass(eq=False)
class _Publication:
    run: Run
    events: bool
    position: int
    """Of the next event."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Publisher:
    """Fulfils other processes' wishes for the runs of this one. Events that nobody follows elsewhere are not written.

    Without a channel nothing is published.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._relay = engine.records.relay
        self._open: dict[str, _Publication] = {}
        self._ended: WeakKeyDictionary[Run, bool] = WeakKeyDictionary()
        """Whose end is published, and whether with all events."""
        self.background = Background()

    async def claimed(self, runs: Sequence[Run]) -> list[Run]:
        """Let the numbers of events go on where the process before stopped, for runs that are about to begin.

        Returns:
            The runs to be cancelled.
        """
        if not self._engine.records.has_channel or not runs:
            return []
        by_id = {run.id: run for run in runs}
        wishes = await self._engine.db.read(self._relay.wishes, list(by_id))
        for wish in wishes:
            if wish.stream:
                run = by_id[wish.run_id]
                sent = await self._engine.db.read(self._relay.next_number, run.id)
                run.stream, run.log = wish.stream, [*run.log, *[None] * (sent - len(run.log))]
        return self._fulfil(wishes)

    async def look(self, run_ids: Collection[str]) -> list[Run]:
        """Read the wishes for these runs, and return the runs to be cancelled."""
        return self._fulfil(await self._engine.db.read(self._relay.wishes, run_ids))

    async def finish(self, run: Run, status: RunStatus) -> None:
        """Publish how a run ends, before that is written down: whoever reads it there has all that the run sent."""
        if (publication := self._open.get(run.id)) is not None:
            try:
                await self._flush(publication, status)
            except Exception:
                # It has ended all the same, and how is in its thread.
                LOG.exception("what run %s sent can't be published", run.id)

    async def tell_end(self, run: Run) -> None:
        """Wake who waits for a run elsewhere, now that its end is written down."""
        if run in self._ended:
            await self.tell(f"ended:{run.id}")

    async def tell(self, *hints: str) -> None:
        """Tell the other processes something, where they can hear it."""
        if self._engine.records.has_channel and hints:
            await self._engine.db.write(self._relay.tell, *hints)

    def _fulfil(self, wishes: Sequence[Wish]) -> list[Run]:
        cancelled = []
        for wish in wishes:
            run = self._engine.known.here.get(wish.run_id)
            if run is None:
                continue
            if wish.cancel and not run.ended:
                cancelled.append(run)
            publication = self._open.get(run.id)
            if publication is not None:
                if wish.events and not publication.events:
                    publication.events = True
                    run.wake()
            elif not (run.ended and wish.stream == run.stream and self._ended.get(run, False) >= wish.events
                      and run in self._ended):  # fmt: skip
                self._open[run.id] = publication = _Publication(run, wish.events, 0)
                self.background.do(self._publish(publication, wish))
        return cancelled

    async def _publish(self, publication: _Publication, wish: Wish) -> None:
        run = publication.run
        try:
            async with publication.lock:
                await self._engine.db.write(self._relay.name_stream, run.id, run.stream)
                if wish.stream == run.stream:
                    publication.position = await self._engine.db.read(self._relay.next_number, run.id)
            while True:
                changed = run.changed
                await self._flush(publication, run.status if run.ended else None)
                # One that waits again goes on elsewhere.
                if run.ended or run.status == "pending":
                    return
                await changed.wait()
                await asyncio.sleep(GATHER_S)
        except Exception:
            LOG.exception("what run %s sends can't be published", run.id)
        finally:
            self._open.pop(run.id, None)

    async def _flush(self, publication: _Publication, status: RunStatus | None) -> None:
        """Write what was sent since, and how the run ended."""
        run = publication.run
        async with publication.lock:
            is_new = False
            while publication.events and (batch := run.log[publication.position : publication.position + PAGE]):
                rows = []
                for number, event in enumerate(batch, publication.position):
                    name, data, at = event or ("", None, 0)
                    rows.append(SentEvent(number, name, at, *self._dumped(data)))
                await self._engine.db.write(self._relay.send, run.id, rows)
                publication.position += len(batch)
                is_new = True
            if status is not None and self._ended.get(run) is not publication.events:
                end = {"status": status, "error": run.error, "output": run.output, "used": run.used,
                       "count": publication.position if publication.events else None}  # fmt: skip
                await self._engine.db.write(self._relay.send, run.id, [SentEvent(END, "end", 0, *self._dumped(end))])
                self._ended[run] = publication.events
                is_new = True
            if is_new:
                await self._engine.db.write(self._relay.tell, f"sent:{run.id}")

    def _dumped(self, data: Any) -> tuple[str, bytes]:
        try:
            tag, content = self._engine.db.serde.dumps_typed(data)
        except (TypeError, ValueError):  # of a type of a user's own, which nobody could read back
            tag, content = self._engine.db.serde.dumps_typed(type(data).__name__)
        return tag, content
