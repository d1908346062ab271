"""What runs of this process send, written down for those who follow them on other replicas. Internal."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from .relay_records import END, SentEvent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from .records import DbExecutor
    from .relay_records import RelayRecords, Wish
    from .runs import Run, RunStatus

__all__ = ["Publisher"]

LOG = logging.getLogger("redraft.server")
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
    """Fulfils what other processes wish of the runs of this one. What nobody follows elsewhere is not written.

    Args:
        records: The tables of wishes and events; without a channel nothing is published.
        db: Calls them.
        serde: Serialises what runs send, and encrypts it where the database is.
        find: Returns a run that is, or was, under way here.
        cancel: Cancels one.
    """

    def __init__(
        self,
        records: RelayRecords,
        db: DbExecutor,
        serde: Any,
        *,
        find: Callable[[str], Run | None],
        cancel: Callable[[Run], Awaitable[None]],
    ) -> None:
        self._records = records
        self._db = db
        self._serde = serde
        self._find = find
        self._cancel = cancel
        self._open: dict[str, _Publication] = {}
        self._ended: WeakKeyDictionary[Run, bool] = WeakKeyDictionary()
        """Whose end is published, and whether with all events."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def claimed(self, runs: Sequence[Run]) -> None:
        """Let the numbers of events go on where the process before stopped, for runs that are about to begin."""
        if not self._records.has_channel or not runs:
            return
        by_id = {run.id: run for run in runs}
        wishes = await self._db.read(self._records.wishes, list(by_id))
        for wish in wishes:
            if wish.stream:
                run = by_id[wish.run_id]
                sent = await self._db.read(self._records.next_number, run.id)
                run.stream, run.log = wish.stream, [*run.log, *[None] * (sent - len(run.log))]
        self._fulfil(wishes)

    async def look(self, run_ids: Collection[str]) -> None:
        """Look what is wished of these runs."""
        if self._records.has_channel and run_ids:
            self._fulfil(await self._db.read(self._records.wishes, list(run_ids)))

    async def finish(self, run: Run, status: RunStatus) -> None:
        """Publish how a run ends, before that is written down: whoever reads it there has all that the run sent."""
        if (one := self._open.get(run.id)) is not None:
            try:
                await self._flush(one, status)
            except Exception:
                # It has ended all the same, and how is in its thread.
                LOG.exception("what run %s sent can't be published", run.id)

    async def tell_end(self, run: Run) -> None:
        """Wake who waits for a run elsewhere, now that its end is written down."""
        if run in self._ended:
            await self.tell(f"ended:{run.id}")

    async def tell(self, what: str) -> None:
        """Tell the other processes something, where they can hear it."""
        if self._records.has_channel:
            await self._db.write(self._records.tell, what)

    async def close(self) -> None:
        """Publish nothing more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _fulfil(self, wishes: Sequence[Wish]) -> None:
        for wish in wishes:
            run = self._find(wish.run_id)
            if run is None:
                continue
            if wish.cancel and not run.ended:
                self._do(self._cancel(run))
            one = self._open.get(run.id)
            if one is not None:
                if wish.events and not one.events:
                    one.events = True
                    run.wake()
            elif not (run.ended and wish.stream == run.stream and self._ended.get(run, False) >= wish.events
                      and run in self._ended):  # fmt: skip
                self._open[run.id] = one = _Publication(run, wish.events, 0)
                self._do(self._publish(one, wish))

    def _do(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _publish(self, one: _Publication, wish: Wish) -> None:
        run = one.run
        try:
            async with one.lock:
                await self._db.write(self._records.name_stream, run.id, run.stream)
                if wish.stream == run.stream:
                    one.position = await self._db.read(self._records.next_number, run.id)
            while True:
                changed = run.change()
                await self._flush(one, run.status if run.ended else None)
                # One that waits again goes on elsewhere.
                if run.ended or run.status == "pending":
                    return
                await changed.wait()
                await asyncio.sleep(GATHER_S)
        except Exception:
            LOG.exception("what run %s sends can't be published", run.id)
        finally:
            self._open.pop(run.id, None)

    async def _flush(self, one: _Publication, status: RunStatus | None) -> None:
        """Write what was sent since, and how the run ended."""
        run = one.run
        async with one.lock:
            told = False
            while one.events and (batch := run.log[one.position : one.position + PAGE]):
                rows = []
                for number, event in enumerate(batch, one.position):
                    name, data, at = event or ("", None, 0)
                    rows.append(SentEvent(number, name, at, *self._dumped(data)))
                await self._db.write(self._records.send, run.id, rows)
                one.position += len(batch)
                told = True
            if status is not None and self._ended.get(run) is not one.events:
                end = {"status": status, "error": run.error, "output": run.output, "used": run.used,
                       "count": one.position if one.events else None}  # fmt: skip
                await self._db.write(self._records.send, run.id, [SentEvent(END, "end", 0, *self._dumped(end))])
                self._ended[run] = one.events
                told = True
            if told:
                await self._db.write(partial(self._records.tell, f"sent:{run.id}"))

    def _dumped(self, data: Any) -> tuple[str, bytes]:
        try:
            tag, content = self._serde.dumps_typed(data)
        except (TypeError, ValueError):  # of a type of a user's own, which nobody could read back
            tag, content = self._serde.dumps_typed(type(data).__name__)
        return tag, content
