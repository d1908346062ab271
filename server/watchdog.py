"""Watchdog: a parent process that kills a server whose event loop is silent, and starts another. Internal.

Code that holds the interpreter's lock stops every thread of its process, so that nothing within can end it: no time
limit, no signal, no health check. The parent is forked before anything large is imported, and imports nothing itself.
"""

from __future__ import annotations

import asyncio
import faulthandler
import mmap
import os
import select
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from typing import Any

__all__ = ["UNDER_WAY", "Pulse", "watched"]

UNDER_WAY: ContextVar[str] = ContextVar("redraft_run", default="")
"""The id of the run whose code this is; empty for any other."""

TICKS = 10
"""Signs of life within the time of silence that is allowed."""
OVER = b"\0"
"""The last sign of a loop that ended by itself."""
SLOT, SLOTS = 64, 256
"""Bytes of a mark, and how many there are: the event loop's, then one of each worker thread."""
NO_RUN = "-"


class Marks:
    """The runs whose code is executed, in memory that the parent reads when nothing can be asked any more."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, SLOT * SLOTS)
        self.numbers = count(1)
        """Slots of worker threads; 0 is the event loop's."""

    def set(self, slot: int, run_id: str = "") -> None:
        if slot < SLOTS:
            self._memory[slot * SLOT : (slot + 1) * SLOT] = run_id.encode()[:SLOT].ljust(SLOT, b"\0")

    def every(self) -> frozenset[str]:
        """Return the runs that are marked; none where that is not known."""
        slots = (self._memory[at : at + SLOT].rstrip(b"\0").decode() for at in range(0, SLOT * SLOTS, SLOT))
        return frozenset(slots) - {""}


class MarkingExecutor(ThreadPoolExecutor):
    """Worker threads that mark the run whose code they execute."""

    def __init__(self, marks: Marks, most: int | None = None) -> None:
        self._own = threading.local()
        super().__init__(most, initializer=lambda: setattr(self._own, "slot", next(marks.numbers)))
        self._marks = marks

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        run_id = UNDER_WAY.get()
        return (
            super().submit(self._marked, run_id, fn, *args, **kwargs) if run_id else super().submit(fn, *args, **kwargs)
        )

    def _marked(self, run_id: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self._marks.set(self._own.slot, run_id)
        try:
            return fn(*args, **kwargs)
        finally:
            self._marks.set(self._own.slot)


@dataclass
class Pulse:
    """Signs of life of a process that is watched, for its parent.

    Args:
        pipe: Where to; `None` where nobody watches.
        silence_s: How long it may be silent.
        hung: By name, the processes before it that were killed for their silence, each with the runs whose code was
            executed then; without any where that is not known.
        marks: Where it says whose code is executed.
    """

    pipe: int | None = None
    silence_s: float = 0.0
    hung: Mapping[str, frozenset[str]] = field(default_factory=dict)
    marks: Marks = field(default_factory=Marks)

    @asynccontextmanager
    async def beating(self, name: str) -> AsyncIterator[None]:
        """Give signs of life from the event loop until the block ends.

        Args:
            name: Of this process, by which the next ones know it.
        """
        if self.pipe is None:
            yield
            return
        from ..nodes.runtime import killable

        os.write(self.pipe, f"{name}\n".encode())
        asyncio.get_running_loop().set_default_executor(MarkingExecutor(self.marks))
        killable.POOL.threads = MarkingExecutor(self.marks, killable.THREADS)
        # Python's code and its `re` are interrupted by it, in whose context it then runs.
        signal.signal(signal.SIGALRM, lambda *_: self.marks.set(0, UNDER_WAY.get() or NO_RUN))
        beat = asyncio.create_task(self._beat(self.pipe))
        try:
            yield
        finally:
            beat.cancel()
            signal.setitimer(signal.ITIMER_REAL, 0)
            faulthandler.cancel_dump_traceback_later()
            with suppress(OSError):
                os.write(self.pipe, OVER)

    async def _beat(self, pipe: int) -> None:
        os.set_blocking(pipe, False)
        while True:
            # A thread of C writes it, which needs no lock of the interpreter: the log says where the loop stands.
            faulthandler.dump_traceback_later(self.silence_s * 0.8, file=2)
            signal.setitimer(signal.ITIMER_REAL, self.silence_s * 0.5)
            self.marks.set(0)
            try:
                with suppress(BlockingIOError):
                    os.write(pipe, b".")
            except BrokenPipeError:  # nobody is left to restart this process, or to pass a signal on
                signal.raise_signal(signal.SIGTERM)
                return
            await asyncio.sleep(self.silence_s / TICKS)


def watched(silence_s: float, say: Callable[[str], None]) -> Pulse:
    """Return in a process of its own, once more for each that was silent; this one ends as the last of them does.

    Args:
        silence_s: How long an event loop may be silent before its process is killed, in seconds; 0 watches nothing.
        say: Told of each that was killed.
    """
    if not silence_s or not hasattr(os, "fork"):
        return Pulse()
    hung: dict[str, frozenset[str]] = {}
    child, is_stopping = 0, False

    def forward(number: int, _: object) -> None:
        nonlocal is_stopping
        is_stopping = True
        with suppress(ProcessLookupError):
            os.kill(child, number)

    parent = os.getpid()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    while True:
        (reading, writing), marks = os.pipe(), Marks()
        # Blocked until the child is known, so that none is lost in between.
        signal.pthread_sigmask(signal.SIG_BLOCK, before)
        child = os.fork()
        for number, handler in before.items():
            signal.signal(number, forward if child else handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, before)
        os.close(writing if child else reading)
        if not child:
            _end_with(parent)
            return Pulse(writing, silence_s, hung, marks)
        name = _silent(reading, silence_s)
        os.close(reading)
        if name is None:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            os._exit(code if code >= 0 else 128 - code)  # all that there was to do the child has done
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        say(f"process {child} gave no sign of life for {silence_s:g} s and was killed; what held it stands above")
        if is_stopping:
            os._exit(128 + signal.SIGKILL)
        hung[name] = marks.every()


def _silent(pipe: int, silence_s: float) -> str | None:
    """Return the name of the process at the other end once it has been silent for so long, or `None` when it is over.

    Time is counted by the looks of this process, which does not get on either where the machine is asleep or stopped.
    """
    heard, quiet = b"", 0
    while quiet < TICKS:
        if select.select([pipe], [], [], silence_s / TICKS)[0]:
            signs = os.read(pipe, 4096)
            if not signs or OVER in signs:
                return None
            heard, quiet = (heard + signs)[:1000], 0
        elif heard:  # what is imported before the first sign takes its time
            quiet += 1
    return heard.partition(b"\n")[0].decode()


def _end_with(parent: int) -> None:
    """Have the system kill this process when its parent is gone, where it can; else the next sign of life ends it."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
