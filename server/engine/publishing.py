"""Publication of the events of this process's runs, for those who follow them on other replicas. Internal."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from .background import Background
from .relay_records import END, SentEvent, Wish
from .runs import LOG, Run, RunStatus

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from .known_runs import KnownRuns
    from .records import Database

__all__ = ["Publisher"]

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

    Args:
        db: The tables of wishes and events; without a channel nothing is published.
        known: The runs that are, or were, under way here.
    """

    def __init__(self, db: Database, known: KnownRuns) -> None:
        self._records = db.records.relay
        self._db = db
        # Serialises what runs send, and encrypts it where the database is.
        self._serde: Any = getattr(db.saver, "serde", None)
        self._known = known
        self._open: dict[str, _Publication] = {}
        self._ended: WeakKeyDictionary[Run, bool] = WeakKeyDictionary()
        """Whose end is published, and whether with all events."""
        self._background = Background()

    async def claimed(self, runs: Sequence[Run]) -> list[Run]:
        """Let the numbers of events go on where the process before stopped, for runs that are about to begin.

        Returns:
            The runs to be cancelled.
        """
        if not self._records.has_channel or not runs:
            return []
        by_id = {run.id: run for run in runs}
        wishes = await self._db.read(self._records.wishes, list(by_id))
        for wish in wishes:
            if wish.stream:
                run = by_id[wish.run_id]
                sent = await self._db.read(self._records.next_number, run.id)
                run.stream, run.log = wish.stream, [*run.log, *[None] * (sent - len(run.log))]
        return self._fulfil(wishes)

    async def look(self, run_ids: Collection[str]) -> list[Run]:
        """Read the wishes for these runs, and return the runs to be cancelled."""
        if not self._records.has_channel or not run_ids:
            return []
        return self._fulfil(await self._db.read(self._records.wishes, list(run_ids)))

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

    async def tell(self, what: str) -> None:
        """Tell the other processes something, where they can hear it."""
        if self._records.has_channel:
            await self._db.write(self._records.tell, what)

    async def close(self) -> None:
        """Publish nothing more."""
        await self._background.close(cancel=True)

    def _fulfil(self, wishes: Sequence[Wish]) -> list[Run]:
        cancelled = []
        for wish in wishes:
            run = self._known.here.get(wish.run_id)
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
                self._background.do(self._publish(publication, wish))
        return cancelled

    async def _publish(self, publication: _Publication, wish: Wish) -> None:
        run = publication.run
        try:
            async with publication.lock:
                await self._db.write(self._records.name_stream, run.id, run.stream)
                if wish.stream == run.stream:
                    publication.position = await self._db.read(self._records.next_number, run.id)
            while True:
                changed = run.change()
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
                await self._db.write(self._records.send, run.id, rows)
                publication.position += len(batch)
                is_new = True
            if status is not None and self._ended.get(run) is not publication.events:
                end = {"status": status, "error": run.error, "output": run.output, "used": run.used,
                       "count": publication.position if publication.events else None}  # fmt: skip
                await self._db.write(self._records.send, run.id, [SentEvent(END, "end", 0, *self._dumped(end))])
                self._ended[run] = publication.events
                is_new = True
            if is_new:
                await self._db.write(self._records.tell, f"sent:{run.id}")

    def _dumped(self, data: Any) -> tuple[str, bytes]:
        try:
            tag, content = self._serde.dumps_typed(data)
        except (TypeError, ValueError):  # of a type of a user's own, which nobody could read back
            tag, content = self._serde.dumps_typed(type(data).__name__)
        return tag, content
