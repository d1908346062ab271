"""Which lease a run of a graph holds: taken when it begins, kept alive beside it, given up when it has ended. Internal.

A saver is not told that a run begins or ends. A run begins with a read whose config has LangGraph's own runtime and is
no task's; its `RunControl` is in every config of the run, those of nested graphs too, and so tells runs apart.
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
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from langgraph.runtime import Runtime

from ..dual import Do, do
from .leases import BEAT_S, LEASE_S, BusyThreadError, Runner, alive, this_process

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from concurrent.futures import Future

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import Checkpoint
    from langgraph.runtime import RunControl

    from .leases import Leases, Taken

    T = TypeVar("T")
    Logic: TypeAlias = Generator[Do, Any, T]

__all__ = ["LOOK_S", "REQUESTED", "RUNS", "TAKEN_OVER", "Lease", "LeaseKeeper", "works"]

LOG = logging.getLogger("redraft")

LOOK_S = 0.5
"""How often a process looks who wants its runs to stop, and which of them have ended."""
PATIENCE_S = 1.5
"""How long who begins waits for a run of another process that may be ending just now."""
IDLE_S = 2.0

REQUESTED = "stopped on request"
TAKEN_OVER = "another process runs the thread now"

RUNTIME, TASK = "__pregel_runtime", "__pregel_task_id"
"""Where LangGraph's configs have what a run has of its own, and the task that they are of."""
RUNS = ("input", "loop")
"""Sources of the checkpoints that a run makes; others are made by `update_state`."""
AHEAD = ("branch:to:", "join:", "__start__", "__pregel_tasks")
"""Channels that a checkpoint holds while a node is still to run."""


@dataclass(eq=False)
class Lease:
    """A lease that a run of this process holds, or held."""

    thread_id: str
    fence: int
    control: RunControl
    """Of the run; held, so that no other object has its `id`."""
    token: str
    driver: weakref.ref[Any]
    """The asyncio task or thread that began the run."""
    explicit: bool = False
    """Held by a `with` block, which gives it up; else by a run, of which nobody says that it has ended."""
    worker: threading.Thread | None = None
    """One of the run's own threads, where it is a sync one: it dies with the run."""
    over: bool = False
    """Its last write looks like a run's last."""
    paused_at: str | None = None
    """The checkpoint at which an error or a question to a person ended it, as it seems."""
    pausing_at: str | None = None
    """The checkpoint at which a task of it failed or asked a person: when those beside it have ended, so has it."""
    given_up: bool = False
    lost: bool = False
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
        """Return whether the journal can't hold a call: it did not when it was read, and nobody else writes it."""
        absent = self.calls_read and call not in self.calls
        return absent and self.sole and not self.lost and CLOCK() < self.sure_until

    def gone(self) -> bool:
        """Return whether the run can write nothing any more."""
        if self.explicit:
            return self.given_up
        if self.worker is not None:
            return not self.worker.is_alive()
        driver = self.driver()
        if driver is None:
            return True
        return driver.done() if isinstance(driver, asyncio.Task) else not driver.is_alive()

    def ended(self, by: Any = None) -> bool:
        """Return whether the run has ended, as far as that can be seen.

        Args:
            by: The task or thread that wants the thread next; it does one thing at a time.
        """
        if self.explicit:
            return self.given_up
        return self.over or self.gone() or (self.worker is None and self.driver() is by)


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
        self._runs: dict[tuple[int, str], Lease] = {}
        self._latest: dict[str, Lease] = {}
        """By thread, the lease that was taken last."""
        self._ended: dict[str, int] = {}
        """The last tokens of threads that this process ran and runs no more."""
        self._lock = threading.Lock()
        self._queue: SimpleQueue[weakref.ref[Lease] | bool] = SimpleQueue()
        """The leases of runs that are gone; `True` to look at all, `False` to end. Finalisers may put into it."""
        self._keeper: threading.Thread | None = None

    # by name

    def hold(self, thread_id: str, control: RunControl) -> Logic[Lease]:
        """Take a lease for a `with` block.

        Raises:
            BusyThreadError: Somebody runs the thread right now.
        """
        lease = yield from self._take(thread_id, control, explicit=True)
        return lease

    def enter(self, lease: Lease) -> None:
        """Let what is written from here on, in this context, be written under a lease."""
        _WITHIN.set((*_WITHIN.get(), (self, lease)))

    def leave(self, lease: Lease) -> Do:
        """Return the call that gives a lease up; in this process it is given up at once."""
        _WITHIN.set(tuple(one for one in _WITHIN.get() if one[1] is not lease))
        self._forget(lease)
        return do(self.leases, "renew", [lease.fence], 0.0)

    # by the runs themselves

    def begins(self, config: RunnableConfig) -> bool:
        """Return whether a read is that of a run which begins, and which holds no lease yet."""
        place = config.get("configurable") or {}
        if (control := _control(place)) is None or TASK in place or place.get("thread_id") is None:
            return False
        found = self._of(place, control)
        return found is None or (not found.explicit and found.ended())

    def begin(self, config: RunnableConfig) -> Logic[Lease]:
        """Take the lease of the thread for a run.

        Raises:
            BusyThreadError: Somebody runs the thread right now.
        """
        place = config["configurable"]
        lease = yield from self._take(str(place["thread_id"]), place[RUNTIME].control)
        writer = getattr(place[RUNTIME], "stream_writer", None)
        if "<locals>" in getattr(writer, "__qualname__", ""):
            # LangGraph makes it for this run, with whose last frame it goes.
            weakref.finalize(writer, self._queue.put, weakref.ref(lease)).atexit = False
        return lease

    def begins_fresh(self, config: RunnableConfig) -> bool:
        """Return whether a run reads a thread of which nothing is kept: that was seen when its lease was taken."""
        lease = self.lease_of(config)
        return lease is not None and lease.fresh

    def read(self, config: RunnableConfig, checkpoint_id: str) -> None:
        """Note which checkpoint is the newest, where a run begins with it."""
        place = config["configurable"]
        if place.get("checkpoint_id") or (control := _control(place)) is None:
            return
        if lease := self._of(place, control):
            lease.newest.setdefault(str(place.get("checkpoint_ns") or ""), checkpoint_id)

    def lease_of(self, config: RunnableConfig) -> Lease | None:
        """Return the lease under which something is written; `None` where no run writes it."""
        place = config["configurable"]
        return self._of(place, _control(place))

    def of_thread(self, thread_id: str) -> Lease | None:
        """Return the lease that a run of this process has of a thread, or had last."""
        return self._latest.get(thread_id)

    def free(self, thread_id: str) -> Logic[None]:
        """Let `UNHELD` writes, such as those of `update_state`, be taken again after one was refused.

        Raises:
            BusyThreadError: Somebody runs the thread right now.
        """
        yield from self._claim(thread_id, 0.0)

    def goes_on(self, lease: Lease, config: RunnableConfig, *, last: bool) -> bool:
        """Return whether a checkpoint of the run follows what one of its tasks wrote.

        Args:
            lease: The run's.
            config: That of the write.
            last: An error or a question to a person is among what the task wrote.
        """
        place = config["configurable"].get("checkpoint_id")
        if last:
            lease.pausing_at = place
        return not lease.over and lease.pausing_at != place

    def wrote(self, lease: Lease, config: RunnableConfig, checkpoint: Checkpoint | None, *, last: bool = False) -> None:
        """Note what a run wrote, from which its end is seen.

        Args:
            lease: The run's.
            config: That of the write.
            checkpoint: What it wrote; `None` for writes of a task.
            last: An error or a question to a person is among them.
        """
        if lease.explicit or config["configurable"].get("checkpoint_ns"):
            return
        if checkpoint is None:
            lease.over = last and lease.worker is None
            lease.paused_at = config["configurable"].get("checkpoint_id") if lease.over else None
        else:
            # The question may be written before the checkpoint that it is asked at.
            ahead = any(name.startswith(AHEAD) for name in checkpoint["channel_values"])
            lease.over = not ahead or checkpoint["id"] == lease.paused_at
        if lease.over != lease.given_up:
            self._queue.put(True)

    def works(self, config: RunnableConfig) -> None:
        """Note that a sync run writes in this thread, which is one of its own."""
        if not config["configurable"].get("checkpoint_ns") and (lease := self.lease_of(config)):
            # Where an event loop runs, an async run calls what is sync.
            lease.worker = threading.current_thread() if asyncio._get_running_loop() is None else None

    def in_run(self, config: RunnableConfig) -> bool:
        """Return whether a run writes this."""
        return _control(config["configurable"]) is not None

    def close(self) -> None:
        """Give up every lease that is held."""
        with self._lock:
            held = [lease for lease in self._runs.values() if not lease.given_up]
            self._runs.clear()
            self._latest.clear()
            keeper, self._keeper = self._keeper, None
        if keeper is not None and keeper.is_alive():
            self._queue.put(False)
            if keeper is not threading.current_thread():
                keeper.join()
        if held:
            self.leases.renew([lease.fence for lease in held], 0.0)
        for lease in held:
            lease.given_up = True

    # within

    def _of(self, place: Mapping[str, Any], control: RunControl | None) -> Lease | None:
        thread_id = str(place["thread_id"])
        if control is not None and (found := self._runs.get((id(control), thread_id))):
            return found
        for keeper, lease in reversed(_WITHIN.get()):
            if keeper is self and lease.thread_id == thread_id:
                return lease
        return None

    def _take(self, thread_id: str, control: RunControl, *, explicit: bool = False) -> Logic[Lease]:
        driver = _driver()
        sure_until = CLOCK() + LEASE_S
        taken, token = yield from self._claim(thread_id, LEASE_S)
        lease = Lease(thread_id, taken.fence, control, token, weakref.ref(driver), explicit)
        lease.fresh = lease.calls_read = taken.fresh
        lease.sure_until = sure_until
        _LIVE[token] = lease
        with self._lock:
            self._ended.pop(thread_id, None)
            self._runs[id(control), thread_id] = self._latest[thread_id] = lease
            if self._keeper is None or not self._keeper.is_alive():
                self._keeper = threading.Thread(target=self._keep, name="redraft-leases", daemon=True)
                self._keeper.start()
        return lease

    def _claim(self, thread_id: str, seconds: float) -> Logic[tuple[Taken, str]]:
        """Take a lease of a thread, also of one whose run has ended or died. Another process's run may be ending just
        now, and is waited for a moment."""
        until = time.monotonic() + PATIENCE_S
        runner = Runner(secrets.token_hex(8), this_process())
        follows = self._ended.get(thread_id, 0)
        while True:
            taken: Taken | None = yield do(self.leases, "take", thread_id, runner, seconds=seconds, follows=follows)
            if taken is not None:
                return taken, runner.token
            other: Runner | None = yield do(self.leases, "get", thread_id)
            if other is None:  # it was given up between the two statements
                continue
            if works(other) is False:
                follows = other.fence
            elif other.process == runner.process or time.monotonic() > until:
                raise BusyThreadError(f"the thread {thread_id!r} is being run right now, by {other.described}")
            else:
                yield Do(time.sleep, asyncio.sleep, (0.05,))

    def _forget(self, lease: Lease) -> None:
        lease.given_up, lease.sole = True, False
        with self._lock:
            self._runs.pop((id(lease.control), lease.thread_id), None)
            if self._latest.get(lease.thread_id) is lease:
                del self._latest[lease.thread_id]
            if len(self._ended) > REMEMBERED:
                self._ended.clear()
            self._ended[lease.thread_id] = lease.fence

    def _keep(self) -> None:
        """Renew what is held and give up what has ended, until nothing is held."""
        beat = looked = idle = time.monotonic()
        while (gone := self._awaited()) is not None:
            now = time.monotonic()
            try:
                if self._give_up(gone) or now - beat > BEAT_S:
                    self._renew()
                    beat = now
                if now - looked >= LOOK_S:
                    self._look()
                    looked = now
            except Exception:
                # The database may come back; until then a lease holds as long as it was taken for.
                LOG.exception("the leases of threads can't be renewed")
            with self._lock:
                if self._runs:
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
            every = [lease for lease in self._runs.values() if not lease.explicit]
        gone = gone.union(lease for lease in every if lease.gone())
        ended = [lease for lease in every if not lease.given_up and (lease.over or lease in gone)]
        for lease in ended:
            lease.sole = False
        if ended:
            self.leases.renew([lease.fence for lease in ended], 0.0)
        again = False
        for lease in every:
            again = again or (lease.given_up and not lease.over)
            lease.given_up = lease.over or lease in gone
            # Where it only seems to have ended its entry stays: what it still writes is written under its own token.
            if lease in gone:
                self._forget(lease)
        return again

    def _renew(self) -> None:
        if held := self._held():
            sure_until = CLOCK() + LEASE_S
            self.leases.renew([lease.fence for lease in held], LEASE_S)
            for lease in held:
                lease.sure_until = sure_until

    def _look(self) -> None:
        """End the runs, before their next steps, that somebody wants to stop, or that another run has followed."""
        held = self._held()
        standing = self.leases.standing([lease.fence for lease in held]) if held else {}
        for lease in held:
            if lease.fence not in standing:
                lease.lost = True
                lease.control.request_drain(TAKEN_OVER)
            elif standing[lease.fence]:
                lease.control.request_drain(REQUESTED)

    def _held(self) -> list[Lease]:
        with self._lock:
            return [lease for lease in self._runs.values() if not lease.given_up and not lease.lost]


REMEMBERED = 1000


def works(runner: Runner) -> bool | None:
    """Return whether the run of a lease that has not expired is still under way; `None` where that can't be known."""
    if runner.process != this_process():
        return alive(runner.process)
    found = _LIVE.get(runner.token)
    return found is not None and not found.ended(_driver())


def _control(place: Mapping[str, Any]) -> RunControl | None:
    """Return the control of the run that a config is of."""
    runtime = place.get(RUNTIME)
    return runtime.control if isinstance(runtime, Runtime) else None


def _driver() -> Any:
    """Return what does the work here: the asyncio task, or the thread."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    return threading.current_thread() if task is None else task
