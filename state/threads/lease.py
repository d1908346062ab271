"""The lease of a thread: one runner at a time, who can be asked to stop. Internal."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import threading
from abc import ABC, abstractmethod
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from langgraph.runtime import RunControl

from ..dual import Do, adrive, do, drive
from ..storage.db_executor import in_db_executor
from ..storage.index import RunsTable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping, Sequence
    from concurrent.futures import Executor

__all__ = [
    "BusyThreadError",
    "LeaseHolder",
    "LeaseTable",
    "Leases",
    "LeasesInMemory",
    "Runner",
    "StopControl",
    "alive",
    "leased",
    "leases_of",
    "request_stop",
    "this_process",
]

LOG = logging.getLogger("redraft")
LOOK_S = 0.5
"""How often a holder looks whether a thread is free, and whether somebody wants one of its runs to stop."""


class BusyThreadError(RuntimeError):
    """The thread is being run by another process, or elsewhere in this one."""


@dataclass(frozen=True)
class Runner:
    """One run of a thread, and the process that it runs in."""

    token: str
    """Of this one run; a later run of the thread has another, so a request never outlives the run it was meant for."""
    process: str
    """Host, process id and start of the process."""
    stop_requested: bool = False

    @property
    def described(self) -> str:
        """Return the process as a message names it."""
        host, pid, _ = self.process.rsplit(":", 2)
        return f"process {pid}" if host == socket.gethostname() else f"process {pid} on {host}"


class Leases(ABC):
    """The leases of a saver's threads: one runner a thread, at most."""

    db_executor: Executor | None = None
    """Where the async twins run; `None` where nothing can make them wait."""

    @abstractmethod
    def add(self, thread_id: str, runner: Runner) -> bool:
        """Note who runs the thread; `False` where somebody is noted already."""

    @abstractmethod
    def get(self, thread_id: str) -> Runner | None:
        """Return who runs the thread."""

    @abstractmethod
    def request_stop(self, thread_id: str, token: str) -> bool:
        """Ask this run to stop after the step it is in; `False` where it has ended."""

    @abstractmethod
    def remove(self, thread_id: str, token: str) -> None:
        """Forget this run."""

    aadd = in_db_executor(add)
    aget = in_db_executor(get)
    arequest_stop = in_db_executor(request_stop)
    aremove = in_db_executor(remove)


class LeaseTable(Leases):
    """The leases of a database: a table beside `runs`. Each method is one statement, so each is atomic."""

    def __init__(
        self,
        query: Callable[[str, Mapping[str, Any]], Sequence[Sequence[Any]]],
        db_executor: Executor | None = None,
    ) -> None:
        self._query = query
        self.db_executor = db_executor

    def add(self, thread_id: str, runner: Runner) -> bool:
        values = {"thread_id": thread_id, "token": runner.token, "process": runner.process}
        return bool(
            self._query(
                "INSERT INTO runs_under_way (thread_id, token, process, asked) "
                "VALUES (%(thread_id)s, %(token)s, %(process)s, 0) ON CONFLICT (thread_id) DO NOTHING RETURNING token",
                values,
            )
        )

    def get(self, thread_id: str) -> Runner | None:
        statement = "SELECT token, process, asked FROM runs_under_way WHERE thread_id = %(thread_id)s"
        rows = self._query(statement, {"thread_id": thread_id})
        return Runner(rows[0][0], rows[0][1], bool(rows[0][2])) if rows else None

    def request_stop(self, thread_id: str, token: str) -> bool:
        statement = (
            "UPDATE runs_under_way SET asked = 1 WHERE thread_id = %(thread_id)s AND token = %(token)s RETURNING token"
        )
        return bool(self._query(statement, {"thread_id": thread_id, "token": token}))

    def remove(self, thread_id: str, token: str) -> None:
        statement = "DELETE FROM runs_under_way WHERE thread_id = %(thread_id)s AND token = %(token)s RETURNING token"
        self._query(statement, {"thread_id": thread_id, "token": token})


class LeasesInMemory(Leases):
    """The leases of a saver that no other process can reach."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runners: dict[str, Runner] = {}

    def add(self, thread_id: str, runner: Runner) -> bool:
        with self._lock:
            return self._runners.setdefault(thread_id, runner) is runner

    def get(self, thread_id: str) -> Runner | None:
        return self._runners.get(thread_id)

    def request_stop(self, thread_id: str, token: str) -> bool:
        with self._lock:
            found = self._runners.get(thread_id)
            if found is None or found.token != token:
                return False
            self._runners[thread_id] = replace(found, stop_requested=True)
            return True

    def remove(self, thread_id: str, token: str) -> None:
        with self._lock:
            if (found := self._runners.get(thread_id)) and found.token == token:
                del self._runners[thread_id]


# Weak: a saver that nobody uses any more goes, and its leases with it.
_OF_OTHER_SAVERS: WeakKeyDictionary[Any, LeasesInMemory] = WeakKeyDictionary()


def leases_of(saver: Any) -> Leases:
    """Return the leases of a saver's threads: for all processes where the saver is a database of ours."""
    runs = getattr(saver, "runs", None)
    if isinstance(runs, RunsTable):
        return LeaseTable(runs.query, runs.db_executor)
    # By its runs where it has such: each graph is compiled with a copy of the saver, and they share these.
    return _OF_OTHER_SAVERS.setdefault(saver if runs is None else runs, LeasesInMemory())


class StopControl(RunControl):
    """LangGraph's control of one run, which is read between two steps: whether someone wants the run to stop.

    Args:
        look: Returns why the run is to stop, or `None`. Without it, that is said by `request_drain`.
        alook: The same, awaited: LangGraph reads a control in the event loop, where nothing may block.
        outer: Of the run that this one is a part of: the two stop together.
    """

    def __init__(
        self,
        look: Callable[[], str | None] | None = None,
        *,
        alook: Callable[[], Awaitable[str | None]] | None = None,
        outer: RunControl | None = None,
    ) -> None:
        super().__init__()
        self._look = look
        self._alook = alook
        self._outer = outer

    def request_drain(self, reason: str = "shutdown") -> None:
        """Have this run, and the one that it is a part of, end before the next step."""
        super().request_drain(reason)
        if self._outer is not None:
            self._outer.request_drain(reason)

    @property
    def drain_requested(self) -> bool:
        """True if the run ends before the next step: on request, or since another process took the thread over."""
        if self.drain_reason is None:
            if self._outer is not None and self._outer.drain_requested:
                # By `super`: the outer run knows already.
                super().request_drain(self._outer.drain_reason or "shutdown")
            elif self._look is not None and (reason := self._look()):
                self.request_drain(reason)
        return self.drain_reason is not None

    async def refresh(self) -> None:
        """Read who wants the run to stop, off the event loop, so that what LangGraph reads next is true."""
        if isinstance(self._outer, StopControl):
            await self._outer.refresh()
        if self.drain_reason is not None or self._alook is None:
            return
        try:
            reason = await self._alook()
        except Exception:
            # A run that works does not end because nobody could look.
            LOG.exception("who is asked to stop can't be read")
        else:
            if reason is not None:
                self.request_drain(reason)


# Weak: a control lives as long as its run.
_CONTROLS: WeakValueDictionary[str, StopControl] = WeakValueDictionary()
"""Those of this process by the tokens of their runs: a request from within the process is seen at once."""


@contextmanager
def leased(saver: Any, thread_id: str, *, outer: RunControl | None = None) -> Iterator[StopControl]:
    """Hold a thread's lease, and give what its run is controlled by: the lease is read before each step.

    Args:
        saver: Where the thread is kept.
        thread_id: The thread.
        outer: Of the run that this one is a part of.

    Raises:
        BusyThreadError: Somebody on this machine runs the thread right now.
    """
    leases, token = leases_of(saver), secrets.token_hex(8)
    drive(_acquire(leases, thread_id, token))
    try:
        yield StopControl(lambda: _stop_reason(leases.get(thread_id), token), outer=outer)
    finally:
        leases.remove(thread_id, token)


class LeaseHolder:
    """The leases that are held within an event loop: taken, watched and released without ever blocking it.

    A step of ours that called a model or a function looks at its own lease when it ends, see `StopControl.refresh`. For
    nodes of a user's one task looks at all leases every half second.

    Args:
        saver: Where the threads are kept.
    """

    def __init__(self, saver: Any) -> None:
        self._leases = leases_of(saver)
        self._held: dict[str, StopControl] = {}
        self._looking: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def leased(
        self, thread_id: str, *, outer: RunControl | None = None, wait: bool = False
    ) -> AsyncIterator[StopControl]:
        """Hold a thread's lease, and give what its run is controlled by.

        Args:
            thread_id: The thread.
            outer: Of the run that this one is a part of.
            wait: Whether to wait until the thread is free.

        Raises:
            BusyThreadError: Somebody on this machine runs the thread right now, and `wait` is not set.
        """
        token = secrets.token_hex(8)

        async def look() -> str | None:
            return _stop_reason(await self._leases.aget(thread_id), token)

        control = StopControl(alook=look, outer=outer)
        while True:
            acquiring = asyncio.ensure_future(adrive(_acquire(self._leases, thread_id, token)))
            try:
                # Shielded: a write that is under way can't be called back, so that its lease is given back instead.
                await asyncio.shield(acquiring)
            except BusyThreadError:
                if not wait:
                    raise
            except asyncio.CancelledError:  # while it is being written that the run begins
                await self._release(thread_id, token, after=acquiring)
                raise
            else:
                break
            await asyncio.sleep(LOOK_S)
        _CONTROLS[token] = control
        self._held[thread_id] = control
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        try:
            yield control
        finally:
            del self._held[thread_id]
            if not self._held:
                self._looking.cancel()
                self._looking = None
            await self._release(thread_id, token)

    async def _release(self, thread_id: str, token: str, *, after: asyncio.Future[None] | None = None) -> None:
        """Give a lease back, also where the run is cancelled meanwhile: one that stays would keep the thread busy for
        as long as this process lives."""

        async def released() -> None:
            if after is not None:
                await asyncio.wait([after])
                after.exception()  # which nobody else asks for
            await self._leases.aremove(thread_id, token)

        await asyncio.shield(asyncio.ensure_future(released()))

    async def _look(self) -> None:
        """Look again and again, until it is cancelled, and tell those runs to stop that are wanted to."""
        while True:
            await asyncio.sleep(LOOK_S)
            # A copy: runs begin and end while one of them is awaited.
            for control in list(self._held.values()):
                await control.refresh()


def request_stop(leases: Leases, thread_id: str) -> Generator[Do, Any, Runner | None]:
    """Ask whoever runs a thread to stop after the step it is in; return who that is, or `None` where nobody does."""
    runner: Runner | None = yield do(leases, "get", thread_id)
    # `None` is not `False`: on another machine the runner may well be at work.
    if runner is None or alive(runner.process) is False:
        return None
    if not (yield do(leases, "request_stop", thread_id, runner.token)):
        return None
    if control := _CONTROLS.get(runner.token):
        control.request_drain(REQUESTED)
    return runner


def _acquire(leases: Leases, thread_id: str, token: str) -> Generator[Do, Any, None]:
    """Make this process the runner of a thread. One that died, or of whom that can't be known, is followed.

    Raises:
        BusyThreadError: Somebody on this machine runs the thread right now.
    """
    runner = Runner(token, this_process())
    while not (yield do(leases, "add", thread_id, runner)):
        other: Runner | None = yield do(leases, "get", thread_id)
        # It was released between the two statements.
        if other is None:
            continue
        # Where that can't be known the lease is taken: a lost machine would else keep the thread busy for ever.
        if alive(other.process):
            raise BusyThreadError(f"the thread {thread_id!r} is being run right now, by {other.described}")
        # By its token, so that a third process which took the thread meanwhile keeps its lease.
        yield do(leases, "remove", thread_id, other.token)


def _stop_reason(found: Runner | None, token: str) -> str | None:
    if found is None or found.token != token:
        return "another process runs the thread now"
    return REQUESTED if found.stop_requested else None


REQUESTED = "stopped on request"


def alive(process: str) -> bool | None:
    """Return whether a process still runs; `None` where that can't be known: on another machine, or on Windows."""
    host, number, start = process.rsplit(":", 2)
    if host != socket.gethostname():
        return None
    if Path("/proc/self/stat").exists():
        return _started(int(number)) == start
    if os.name == "nt":  # where signal 0 is Ctrl-C
        return None
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    # It runs, as another user.
    except PermissionError:
        return True
    return True


def this_process() -> str:
    """Return how this process is named in the table: by its host, its number and when it started."""
    return f"{socket.gethostname()}:{os.getpid()}:{_started(os.getpid()) or ''}"


def _started(pid: int) -> str | None:
    """Return when a process started, by which it is told from a later one of the same number; `None` where it died."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name before it may hold anything
    # A zombie runs nothing any more. The fields after the name begin with the third; the start is the 22nd.
    return None if fields[0] in "ZX" else fields[19]
