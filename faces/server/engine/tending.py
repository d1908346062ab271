"""What a server does beside its runs: beats, takes over, hears other processes, and sweeps. Internal."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from .channel import Channel

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from ..settings import Settings
    from .following import Follower
    from .known_runs import KnownRuns
    from .publishing import Publisher
    from .queueing import RunQueue
    from .records import DbExecutor, Records
    from .runs import Run
    from .sweeping import Sweeper
    from .takeover import Takeover

__all__ = ["Background", "Tending"]

LOG = logging.getLogger("redraft.server")
BEAT_S = 10.0
LOOK_S = 2.0
"""How often is looked for what other processes of a PostgreSQL database left or wish, where they can't be heard."""


class Background:
    """Work on the database that nobody waits for; what goes wrong in it is logged."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin it."""

        async def done() -> None:
            try:
                await work
            except Exception:
                LOG.exception("the database can't be reached")

        task = asyncio.create_task(done())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Return when all is done."""
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Tending:
    """The tasks of a server that last as long as it does.

    Args:
        settings: Whether it works, and how long threads live.
        records: The tables of runs.
        db: Calls them.
        known: The runs.
        queue: Those of this process.
        takeover: Finds what dead processes left.
        follower: Hears of runs of other processes.
        publisher: Hears what other processes wish.
        sweeper: Deletes threads.
        background: Does what another process asks for.
        conninfo: Where other processes are heard; `None` where they can't be.
    """

    def __init__(
        self,
        settings: Settings,
        records: Records,
        db: DbExecutor,
        *,
        known: KnownRuns,
        queue: RunQueue,
        takeover: Takeover,
        follower: Follower,
        publisher: Publisher,
        sweeper: Sweeper,
        background: Background,
        conninfo: str | None,
    ) -> None:
        self._settings = settings
        self._relay = records.relay
        self._db = db
        self._known = known
        self._queue = queue
        self._takeover = takeover
        self._follower = follower
        self._publisher = publisher
        self._sweeper = sweeper
        self._do = background.do
        self._channel = None if conninfo is None else Channel(conninfo, self._heard)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Take over what dead processes left, and begin."""
        await self._take_over()
        work = [self._beat()]
        if self._channel is not None:
            work += [self._channel.listen(), self._look()]
        if self._settings.default_ttl is not None:
            work.append(self._sweep())
        self._tasks = [asyncio.create_task(one) for one in work]

    async def stop(self) -> None:
        """End it all."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def can_hear(self) -> bool:
        """Return whether other processes are heard."""
        return self._channel is not None and self._channel.is_open

    async def _take_over(self) -> None:
        """Let the runs that a dead process left wait again, and begin what may begin."""
        if self._settings.work:
            await self._takeover.release({run.id for run in self._under_way()})
            await self._queue.pump()

    def _under_way(self) -> list[Run]:
        return [run for run in self._known.here.values() if run in self._queue]

    def _heard(self, hint: str) -> None:
        """Act on what another process told; on nothing in particular, look at all."""
        what, _, name = hint.partition(":")
        if what in ("queued", ""):
            self._do(self._queue.pump())
        if what in ("sent", "ended"):
            self._follower.heard(name, ended=what == "ended")
        if what == "moved":
            self._known.wake([name])
        if what == "wish" and name in self._known.here:
            self._do(self._publisher.look([name]))
        if not what:
            self._follower.heard_all()
            self._known.wake()
            self._do(self._publisher.look([run.id for run in self._under_way()]))

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            if not self.can_hear():
                self._heard("")

    async def _sweep(self) -> None:
        while True:
            try:
                if swept := await self._sweeper.sweep():
                    LOG.info("%d threads were deleted: nobody touched them for their time to live", len(swept))
            except Exception:
                LOG.exception("threads whose time to live is over can't be deleted")
            await asyncio.sleep(60 * self._settings.sweep_interval_minutes)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            try:
                await self._takeover.beat()
                await self._take_over()
                if self._channel is not None:
                    self._heard("")
                    await self._db.write(self._relay.forget)
            except Exception:
                # It may come back; a server that no longer beats would lose its runs to others.
                LOG.exception("the database can't be reached")
