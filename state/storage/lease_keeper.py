"""The leases that the runs of this process hold in one database: taken, kept alive beside the runs, given up. Internal.

A run of a graph of ours says where it begins and ends, and so does a `with` block of `redraft.state.threads.lease`. For
any other graph that is guessed, in `foreign_runs`. A run's `RunControl` is in every config of the run, those of nested
graphs too, and so tells runs apart.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
import weakref
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from langgraph.runtime import RunControl, Runtime

from ..dual import Do, Logic
from ..langgraph_internals import RUNTIME
from .leases import BEAT_S, LEASE_S, BusyThreadError, Leases, Runner, alive, this_process

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

    from langchain_core.runnables import RunnableConfig


__all__ = ["LOOK_S", "REQUESTED", "TAKEN_OVER", "Lease", "LeaseKeeper", "control_of", "driver", "works"]

LOG = logging.getLogger("redraft")

LOOK_S = 0.5
"""How often a process looks who wants its runs to stop, and which of them have ended."""
PATIENCE_S = 1.5
"""How long to wait for a run of another process that may be ending just now."""
IDLE_S = 2.0
REMEMBERED = 1000
"""How many threads' last tokens are remembered."""

REQUESTED = "stopped on request"
TAKEN_OVER = "another process runs the thread now"


@dataclass(eq=False)
class Lease:
    """A lease that a run of this process holds, or held."""

    thread_id: str
    control: RunControl
    """Of the run; held, so that no other object has its `id`."""
    fence: int = 0
    """The fencing token; 0 until the lease is taken."""
    token: str = field(default_factory=partial(secrets.token_hex, 8))
    """Names the run, in the database."""
    over: bool = False
    """The run has ended: anybody may take the thread."""
    given_up: bool = False
    """The database knows that it has ended."""
    lost: bool = False
    """Another run has taken the thread over."""
    pausing_at: str | None = None
    """The checkpoint at which a task failed or asked a person: no other follows it."""
    newest: dict[str, str] = field(default_factory=dict)
    """By namespace, the id of the newest checkpoint when the run began."""
    fresh: bool = False
    """Nothing was kept of the thread when it was taken, and nothing was written since."""
    sole: bool = True
    """Not given up since it was taken."""
    sure_until: float = 0.0
    """By `CLOCK`: until then nobody else can have taken it, also where this process did not get on meanwhile."""
    calls: set[str] = field(default_factory=set)
    """The calls that the journal may hold; all that it holds, when `calls_read`."""
    calls_read: bool = False
    said: dict[str, tuple[str, Any]] = field(default_factory=dict)
    """By its text, each of the last replies that no event has repeated yet: the call, and the reply."""
    ahead: Future[Any] | asyncio.Future[Any] | None = None
    """What its last task wrote, on its way into the database."""

    def lacks(self, call: str) -> bool:
        """Return True if the journal can't hold a call: it did not when it was read, and nobody else writes it."""
        return self.calls_read and call not in self.calls and self.is_sole()

    def is_sole(self) -> bool:
        """Return True if nobody else can have written to the thread since the lease was taken."""
        return self.sole and not self.lost and CLOCK() < self.sure_until

    def gone(self) -> bool:
        """Return True if the run can write nothing any more."""
        return self.over

    def ended(self) -> bool:
        """Return True if the run has ended."""
        return self.over


CLOCK: Callable[[], float] = time.monotonic
if hasattr(time, "CLOCK_BOOTTIME"):  # it goes on while the machine sleeps
    CLOCK = partial(time.clock_gettime, time.CLOCK_BOOTTIME)

_LIVE: weakref.WeakValueDictionary[str, Lease] = weakref.WeakValueDictionary()
"""The leases of this process by their tokens, whatever saver they were taken with."""
_WITHIN: ContextVar[tuple[tuple[LeaseKeeper, Lease], ...]] = ContextVar("redraft_leases", default=())
"""The leases of the `with` blocks around."""


class LeaseKeeper:
    """The leases that the runs of this process hold in one database.

    Args:
        leases: Where they are held.
    """

    def __init__(self, leases: Leases) -> None:
        self.leases = leases
        self.runs: dict[tuple[int, str], Lease] = {}
        """By the `id` of its control and its thread, the lease of each run."""
        self.latest: dict[str, Lease] = {}
        """By thread, the lease that a run of this process has, or had last."""
        self._ended: dict[str, int] = {}
        """The last tokens of threads that this process ran and runs no more."""
        self._lock = threading.Lock()
        self.looked_at = 0.0
        """By the monotonic clock, when `look` was called last."""
        self._queue: SimpleQueue[weakref.ref[Lease] | bool] = SimpleQueue()
        """The leases of runs that are gone; `True` to look at all, `False` to end. Finalisers may put into it."""
        self._keeper: threading.Thread | None = None

    # take and give back

    def take(self, lease: Lease) -> Logic[Lease]:
        """Take a lease, of a thread that nobody runs; it is kept alive until `finish` or `leave`.

        A lease whose run has ended or died is taken over. Another process's run may be ending just now, and is waited
        for a moment.

        Raises:
            BusyThreadError: Somebody runs the thread right now.
        """
        thread_id = lease.thread_id
        lease.sure_until = CLOCK() + LEASE_S
        # Before the database has it: another thread of this process may see the row at once.
        _LIVE[lease.token] = lease
        runner = yield from self._claim(thread_id, LEASE_S, lease.token)
        lease.fence, lease.fresh, lease.calls_read = runner.fence, runner.fresh, runner.fresh
        with self._lock:
            self._ended.pop(thread_id, None)
            self.runs[id(lease.control), thread_id] = self.latest[thread_id] = lease
            if self._keeper is None or not self._keeper.is_alive():
                self._keeper = threading.Thread(target=self._keep, name="redraft-leases", daemon=True)
                self._keeper.start()
        return lease

    def finish(self, lease: Lease | weakref.ref[Lease]) -> None:
        """Say that a run has ended. In this process it has at once; the database hears of it in the background.

        Nothing is waited for and no lock taken: an abandoned generator ends in whatever thread collects the garbage.
        """
        if isinstance(lease, Lease):
            lease.over, lease.sole = True, False
            self._queue.put(True)
        else:
            self._queue.put(lease)

    def enter(self, lease: Lease) -> None:
        """Let what is written from here on, in this context, be written under a lease."""
        _WITHIN.set((*_WITHIN.get(), (self, lease)))

    def leave(self, lease: Lease) -> Do:
        """Give a lease up in this process, at once, and return the call that gives it up in the database."""
        _WITHIN.set(tuple(one for one in _WITHIN.get() if one[1] is not lease))
        self._forget(lease)
        return Do(self.leases.renew, self.leases.arenew, ([lease.fence], 0.0))

    def free(self, thread_id: str) -> Logic[None]:
        """Let `UNHELD` writes, such as those of `update_state`, be taken again after one was refused.

        Raises:
            BusyThreadError: Somebody runs the thread right now.
        """
        yield from self._claim(thread_id, 0.0, secrets.token_hex(8))

    def look_for_ends(self) -> None:
        """Have it looked at once which runs have ended."""
        self._queue.put(True)

    def look(self) -> None:
        """End the runs, before their next steps, that somebody wants to stop, or that another run has followed."""
        self.looked_at = time.monotonic()
        held = self._held()
        standing = self.leases.standing([lease.fence for lease in held]) if held else {}
        for lease in held:
            if lease.fence not in standing:
                lease.lost = True
                lease.control.request_drain(TAKEN_OVER)
            elif standing[lease.fence]:
                lease.control.request_drain(REQUESTED)

    # which lease it is

    def lease_of(self, config: RunnableConfig) -> Lease | None:
        """Return the lease under which something is written; `None` where no run writes it."""
        place = config["configurable"]
        return self.find(str(place["thread_id"]), control_of(place))

    def find(self, thread_id: str, control: RunControl | None) -> Lease | None:
        """Return the lease of a thread that a run with this control has, or the `with` block around."""
        if control is not None and (lease := self.runs.get((id(control), thread_id))):
            return lease
        for keeper, lease in reversed(_WITHIN.get()):
            if keeper is self and lease.thread_id == thread_id:
                return lease
        return None

    def close(self) -> None:
        """Give up every lease that is held; where the database is lost or full, they end when they expire."""
        with self._lock:
            held = [lease for lease in self.runs.values() if not lease.given_up]
            self.runs.clear()
            self.latest.clear()
            keeper, self._keeper = self._keeper, None
        if keeper is not None and keeper.is_alive():
            self._queue.put(False)
            if keeper is not threading.current_thread():
                keeper.join()
        try:
            if held:
                self.leases.renew([lease.fence for lease in held], 0.0)
        except Exception as error:
            LOG.warning("the leases of threads can't be given up: %s", error)
        for lease in held:
            lease.over = lease.given_up = True

    # within

    def _claim(self, thread_id: str, seconds: float, token: str) -> Logic[Runner]:
        until = time.monotonic() + PATIENCE_S
        runner = Runner(token, this_process())
        follows = self._ended.get(thread_id, 0)
        while True:
            options = {"seconds": seconds, "follows": follows}
            taken: Runner | None = yield Do(self.leases.take, self.leases.atake, (thread_id, runner), options)
            if taken is not None:
                return taken
            other: Runner | None = yield Do(self.leases.get, self.leases.aget, (thread_id,))
            if other is None:  # it was given up between the two statements
                continue
            if works(other) is False:
                follows = other.fence
            elif other.process == runner.process or time.monotonic() > until:
                busy = BusyThreadError(f"the thread {thread_id!r} is being run right now, by {other.described}")
                busy.elsewhere = other.process != runner.process
                raise busy
            else:
                yield Do(time.sleep, asyncio.sleep, (0.05,))

    def _forget(self, lease: Lease) -> None:
        lease.over, lease.given_up, lease.sole = True, True, False
        with self._lock:
            place = id(lease.control), lease.thread_id
            if self.runs.get(place) is lease:  # a control may be used again
                del self.runs[place]
            if self.latest.get(lease.thread_id) is lease:
                del self.latest[lease.thread_id]
            if len(self._ended) > REMEMBERED:
                self._ended.clear()
            self._ended[lease.thread_id] = lease.fence

    def _keep(self) -> None:
        """Renew what is held and give up what has ended, until nothing is held."""
        beat = idle = time.monotonic()
        while (gone := self._awaited()) is not None:
            now = time.monotonic()
            try:
                if self._give_up(gone) or now - beat > BEAT_S:
                    self._renew()
                    beat = now
                if now - self.looked_at >= LOOK_S:
                    self.look()
            except Exception as error:
                # The database may come back; until then a lease holds as long as it was taken for.
                LOG.warning("the leases of threads can't be renewed: %s", error)
            with self._lock:
                if self.runs:
                    idle = now
                elif now - idle > IDLE_S and self._queue.empty():
                    self._keeper = None
                    return

    def _awaited(self) -> set[Lease] | None:
        """Return the leases whose runs are gone, as soon as there is one to look at; `None` where this is closed."""
        gone: set[Lease] = set()
        try:
            item = self._queue.get(timeout=LOOK_S)
            while item is not False:
                if item is not True and (lease := item()) is not None:
                    gone.add(lease)
                item = self._queue.get_nowait()
        except Empty:
            return gone
        return None

    def _give_up(self, gone: set[Lease]) -> bool:
        """Give up the leases of runs that have ended; return whether one goes on that seemed to have ended."""
        with self._lock:
            every = list(self.runs.values())
        gone = gone.union(lease for lease in every if lease.gone())
        # Seen once: one that ends from here on is given up the next time.
        ended = gone.union(lease for lease in every if lease.over)
        unsaid = [lease for lease in ended if not lease.given_up]
        for lease in unsaid:
            lease.sole = False
        if unsaid:
            self.leases.renew([lease.fence for lease in unsaid], 0.0)
        again = any(lease.given_up and lease not in ended for lease in every)
        # Where it only seems to have ended its entry stays: what it still writes is written under its own token.
        for lease in every:
            lease.given_up = lease in ended
        for lease in gone:
            self._forget(lease)
        return again

    def _renew(self) -> None:
        if held := self._held():
            sure_until = CLOCK() + LEASE_S
            self.leases.renew([lease.fence for lease in held], LEASE_S)
            for lease in held:
                lease.sure_until = sure_until

    def _held(self) -> list[Lease]:
        with self._lock:
            return [lease for lease in self.runs.values() if not lease.given_up and not lease.lost]


def works(runner: Runner) -> bool | None:
    """Return True if the run of a lease that has not expired is still under way; `None` where that can't be known."""
    if runner.process != this_process():
        return alive(runner.process)
    lease = _LIVE.get(runner.token)
    return lease is not None and not lease.ended()


def control_of(place: Mapping[str, Any]) -> RunControl | None:
    """Return the control of the run that a config's `configurable` is of."""
    runtime = place.get(RUNTIME)
    return runtime.control if isinstance(runtime, Runtime) else None


def driver() -> Any:
    """Return the asyncio task or thread that does the work here."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    return threading.current_thread() if task is None else task
