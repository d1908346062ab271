"""Housekeeping of a server: heartbeat, takeover, messages of other processes, and the sweep. Internal."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

from ...state import BusyThreadError
from ...state.storage.leases import alive, this_process
from ...state.threads.lease import LeaseHolder
from .background import Background
from .relay_records import CHANNEL
from .runs import LOG, Run

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ...state.storage.index import RunIndex
    from .engine import Engine
    from .thread_records import ThreadRecord

__all__ = ["Channel", "Tending"]

BEAT_S = 10.0
RECONNECT_S = 2.0
LOOK_S = 2.0
"""How often is looked for what other processes of a PostgreSQL database left or wish, where they can't be heard."""


STOOD = "stood_at"
"""Beside what a caller sent: where the thread stood when the run began to wait."""
HUNG = "hung"
"""Beside it: how many processes were killed with the run under way, since their event loops stood still."""
MOST_HUNG = 2
QUARANTINED = "it is not taken up again by itself; a run without input, or `redraft resume`, goes on with its thread"
LOST = {"error": "LostRunError", "message": f"every server that ran it has died; {QUARANTINED}"}
STOPPED = {"error": "QuarantinedRunError", "message": f"stopped two servers; {QUARANTINED}"}
SILENT_AFTER_S = 25.0
"""Silence after which a process may stand still. Where it dies next, it was killed for that."""
DEAD_AFTER_S = 45.0
"""Silence after which a process counts as dead: one on another machine, and one that lives and stands still."""


class Channel:
    """Hears what other processes tell. What was missed is looked up, so that a hint that is lost costs only time.

    Args:
        conninfo: Of the database; `None` where processes can't be heard.
    """

    def __init__(self, conninfo: str | None) -> None:
        self.conninfo = conninfo
        self.is_open = False

    async def listen(self, heard: Callable[[str], None]) -> None:
        """Listen until cancelled; a connection that broke is made anew.

        Args:
            heard: Called with each hint, and with an empty one whenever some may have been missed.
        """
        import psycopg

        assert self.conninfo is not None  # noqa: S101  # nobody listens else

        while True:
            try:
                async with await psycopg.AsyncConnection.connect(self.conninfo, autocommit=True) as conn:
                    await conn.execute(f"LISTEN {CHANNEL}")
                    self.is_open = True
                    heard("")
                    async for notice in conn.notifies():
                        heard(notice.payload)
            except psycopg.Error as error:
                # Also a kind of event loop that psycopg can't use: then all is looked up now and then.
                LOG.debug("what other processes tell can't be heard: %s", type(error).__name__)
            finally:
                self.is_open = False
            await asyncio.sleep(RECONNECT_S)


class Tending:
    """The tasks of a server that last as long as it does."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._index: RunIndex = engine.saver.runs
        self.lasting = Background()
        self._leases = LeaseHolder(engine.saver)
        self._process = this_process()
        self._not_here: set[str] = set()
        """Runs that this process has by the database, and that were not under way here at the last look."""
        self._silent: set[str] = set()
        """Processes of this machine that lived at the last look, and had been silent for long."""
        self._dead: set[str] = set()
        """Those that had died by the last look."""

    async def start(self) -> None:
        """Take over what dead processes left, and begin."""
        await self._take_over()
        self.lasting.do(self._beat())
        if self._engine.channel.conninfo is not None:
            self.lasting.do(self._engine.channel.listen(self._heard))
            self.lasting.do(self._look())
        if self._engine.settings.default_ttl is not None:
            self.lasting.do(self._sweep())

    async def note(self, run: Run, *, after_s: float = 0, thread_at: str | None = None) -> bool:
        """Keep a new run, which waits for whoever claims it, or first until so many seconds are over.

        Args:
            run: The run.
            after_s: The seconds.
            thread_at: When its thread was made for it, which is noted too; `None`: it is there.

        Returns:
            `False` where the id of that thread has come into use.
        """
        if after_s:
            run.beat = await self._engine.db.read(self._engine.records.clock) + after_s
        run.request = {**run.request, STOOD: await self._stands(run.thread_id) if thread_at is None else None}
        # A process that executes none leaves it to the others at once.
        tell = not self._engine.settings.work and not after_s
        return await self._engine.db.write(self._engine.records.add_run, run, thread_at=thread_at, tell=tell)

    async def _take_over(self) -> None:
        """Return the runs of dead processes to the queue, end those of which too many have died, and begin what may
        begin."""
        if not self._engine.settings.work:
            return
        here = {run.id for run in self._under_way()}
        at = await self._engine.db.read(self._engine.records.clock)
        runs = [run for run in await self._engine.db.read(self._engine.records.in_flight) if run.process]
        not_here = {run.id for run in runs if run.process == self._process and run.id not in here}
        # Seen twice: the first time it may just have been claimed, or be about to be written down as ended.
        lost, self._not_here = not_here & self._not_here, not_here
        before = self._silent, self._dead
        self._silent, self._dead = set(), set()
        for run in runs:
            fate = "spared" if run.id in lost else self._fate(run, at, *before)
            if fate != "stays":
                await self._follow(run, fate)
        await self._engine.queue.pump()

    def _fate(
        self, run: Run, at: float, silent: Collection[str], dead: Collection[str]
    ) -> Literal["stays", "died", "hung", "spared"]:
        """Return the fate of a run with its process: it stays there, the process died, or died of standing still
        in this run's code, or in another's.

        Args:
            run: The run.
            at: The time, by the database's clock.
            silent: Processes that lived at the last look, and had been silent for long.
            dead: Those that had died by then.
        """
        name, lives, silent_s = run.process, alive(run.process), at - run.beat
        if silent_s > SILENT_AFTER_S and (lives or name in silent):
            self._silent.add(name)
        if (executed := self._engine.hung.get(name)) is not None:
            return "hung" if run.id in (executed or {run.id}) else "spared"
        if name in silent:
            # The one after it says soon whose code it stood in. Seen twice, since all are silent when a machine wakes.
            return "stays" if silent_s <= DEAD_AFTER_S else "hung"
        if lives is None:  # it is elsewhere, and known by its silence alone
            return "stays" if silent_s <= DEAD_AFTER_S else "died"
        if not lives:
            self._dead.add(name)
        # Where processes share a database, the one after it is left the time to say that it stood still.
        return "stays" if lives or (self._engine.records.has_channel and name not in dead) else "died"

    async def _follow(self, run: Run, fate: str) -> None:
        """Return a run that was left to the queue, or end it."""
        stands = await self._stands(run.thread_id)
        # In whatever direction: the clocks of the machines that wrote the two times may differ. Where it has moved, the
        # process that died is the first that died of it where it stands now.
        moved = stands is not None and stands != run.request.get(STOOD)
        attempts = run.attempts if fate == "spared" else 2 if moved else run.attempts + 1
        deaths = run.request.get(HUNG, 0) + (fate == "hung")
        reason = STOPPED if deaths >= MOST_HUNG else LOST if attempts > self._engine.settings.max_attempts else None
        request = {**run.request, STOOD: stands, HUNG: deaths}
        to = "" if reason is None else self._process
        release = self._engine.records.release
        if await self._engine.db.write(release, run, request=request, attempts=attempts, to=to) and reason:
            # This process has it now, so that none takes it up again.
            LOG.error("run %s is given up: %s; thread %s", run.id, reason["message"], run.thread_id)
            run = self._engine.known.claimed(run)
            run.error, run.stateless = reason, False  # what there is of its thread is kept for whoever looks into it
            await self._engine.execution.ended(run, "error")
            await self._engine.known.tell_moved([run.thread_id])
            await self._engine.db.write(self._engine.records.mark_quarantined, run.thread_id)

    async def _stands(self, thread_id: str) -> str | None:
        """Return a mark that changes whenever a thread moves; `None` where it has not begun."""
        row = await self._engine.db.read(self._index.get, thread_id)
        return None if row is None else row.updated_at

    def _under_way(self) -> list[Run]:
        return [run for run in self._engine.known.here.values() if run in self._engine.queue]

    def _heard(self, hint: str) -> None:
        """Act on a hint of another process; an empty one means that some may have been missed."""
        what, _, name = hint.partition(":")
        if what in ("queued", ""):
            self._engine.background.do(self._engine.queue.pump())
        if what in ("sent", "ended"):
            self._engine.follower.heard(name, ended=what == "ended")
        if what == "moved":
            self._engine.known.wake([name])
        if what == "wish" and name in self._engine.known.here:
            self._engine.background.do(self._fulfil([name]))
        if not what:
            self._engine.follower.heard_all()
            self._engine.known.wake()
            self._engine.background.do(self._fulfil([run.id for run in self._under_way()]))

    async def _fulfil(self, run_ids: list[str]) -> None:
        """Do what other processes wish of these runs."""
        for run in await self._engine.publisher.look(run_ids):
            self._engine.ending.begin(run)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            if not self._engine.channel.is_open:
                self._heard("")

    async def _sweep(self) -> None:
        while True:
            try:
                if swept := await self.sweep():
                    LOG.info("%d threads were deleted: nobody touched them for their time to live", len(swept))
            except Exception:
                LOG.exception("threads whose time to live is over can't be deleted")
            await asyncio.sleep(60 * self._engine.settings.sweep_interval_minutes)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            try:
                at = await self._engine.db.read(self._engine.records.clock)
                await self._engine.db.write(self._engine.records.beat, self._process, beat=at)
                await self._take_over()
                if self._engine.channel.conninfo is not None:
                    self._heard("")
                    await self._engine.db.write(self._engine.records.relay.forget)
            except Exception:
                # It may come back; a server that no longer beats would lose its runs to others.
                LOG.exception("the database can't be reached")

    async def sweep(self, at: datetime | None = None) -> list[str]:
        """Delete what has not moved for the time to live, and return the thread ids, the longest untouched first.

        A server with tokens deletes what callers with tokens have, one without what is everybody's: what callers
        without a token, the shell and Python made there. Neither touches a thread that somebody runs.

        Args:
            at: The time; default: now.
        """
        if self._engine.settings.default_ttl is None:
            return []
        before = (at or datetime.now(UTC)) - timedelta(minutes=self._engine.settings.default_ttl)
        limit = before.isoformat(timespec="microseconds")
        if everybodys := not self._engine.settings.tokens:
            await self._engine.owned.adopt()
        deleted: list[str] = []
        last = ("", "")
        while len(deleted) < self._engine.settings.sweep_limit:
            page = await self._engine.db.read(self._engine.records.untouched, limit, after=last, local=everybodys)
            if not page:
                break
            deleted += [
                record.thread_id
                for record in page[: self._engine.settings.sweep_limit - len(deleted)]
                if await self._over(record, limit) and await self._delete(record, limit)
            ]
            last = (page[-1].updated_at, page[-1].thread_id)
        return deleted

    async def _over(self, record: ThreadRecord, limit: str) -> bool:
        """Return True where nobody uses the thread, neither a caller nor the shell, which does not tell the server."""
        if record.status == "busy" or record.updated_at >= limit:
            return False
        row = await self._engine.saver.runs.aget(record.thread_id)
        if row is not None and row.updated_at >= limit:
            return False
        if self._engine.settings.ttl_includes_interrupted:
            return True
        return not await self._engine.owned.waits(record)

    async def _delete(self, record: ThreadRecord, limit: str) -> bool:
        try:
            async with self._leases.leased(record.thread_id):
                # Somebody may have come since; from here on nobody runs it.
                again = await self._engine.db.read(self._engine.records.thread, record.thread_id)
                if again is None or not await self._over(again, limit):
                    return False
                await self._engine.owned.erase(record.thread_id)
                self._engine.known.forget(record.thread_id)
                return True
        except BusyThreadError:
            return False
