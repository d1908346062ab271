"""Killable helper processes: one bounded pool for what a caller, a document or a model supplies. Internal.

A pattern, a schema or a file that others wrote may be made to take hours or gigabytes, and Python's `re` holds the GIL
meanwhile. Such work runs here, where it can be ended:

    run_job("redraft.nodes.verify.patterns:found", pattern, text, cpu_s=2)

**A job** is a module-level function, named `module:function`, of arguments that JSON holds, and so is what it returns
(tuples come back as lists). A helper is `python -m redraft.nodes.runtime.killable_child`: it does not import the user's
`__main__`, sees no environment but the paths that Python imports from, and where the sandbox's extra is installed it is
locked (seccomp): it reads files, and can open none to write, no socket, no process and no thread. It is kept for the
next job, ends after a minute without one, and with this process. A function may thus cache what it makes of its first
arguments, a compiled schema say.

**Limits** hold for each job: seconds of CPU and bytes of address space (Linux), seconds of wall time, and characters of
the answer. A helper that reaches one is killed, which costs this job one error, and the next job starts another.

**Shares.** There are `MOST` helpers; others wait. A free one goes to the caller who has the fewest, and of these to who
has waited longest since their last turn; where a server names its caller (`as_caller`), none has more than half of
them, nor more than a quarter of the threads of `off_loop`, in which an event loop waits.
"""

from __future__ import annotations

import asyncio
import atexit
import builtins
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from ...state.dual import Do, in_thread

try:
    import resource
except ImportError:  # not on Windows, where wall time is all that is limited
    resource = None  # type: ignore[assignment]


__all__ = ["CALLER", "MOST", "as_caller", "beside", "end_helpers", "off_loop", "run_job"]

T = TypeVar("T")

MOST = max(2, os.cpu_count() or 1)
"""Helper processes at once."""
SHARE = MOST // 2
"""Of them, for a caller whom a server names."""
THREADS = 32
IDLE_S = 60.0
"""After so long without a job a helper ends by itself; after half of it, it is given none any more."""
WAIT_S = 60.0
"""For a helper to be free."""
MEMORY = 1 << 30

CALLER: ContextVar[str] = ContextVar("redraft_caller", default="")
"""Whose jobs and threads these are; nobody's in particular, where no server is."""


@contextmanager
def as_caller(name: str) -> Iterator[None]:
    """Count jobs and threads within the block as this caller's."""
    before = CALLER.set(name)
    try:
        yield
    finally:
        CALLER.reset(before)


def run_job(
    job: str,
    *args: Any,
    cpu_s: float = 5.0,
    wall_s: float | None = None,
    memory: int = MEMORY,
    most_output: int = 1 << 20,
) -> Any:
    """Run a function in a helper process and return its result. It blocks: below an event loop call it by `off_loop`.

    Args:
        job: `module:function`.
        args: What it is called with, as JSON holds it.
        cpu_s: Seconds of CPU, rounded up to whole ones.
        wall_s: Seconds of wall time, once it has a process; default: ten times the CPU's and ten more, as the
            machine may be busy.
        memory: Bytes of address space of the process, of which Python itself takes about 100 MB.
        most_output: Bytes of the result as JSON.

    Raises:
        TimeoutError: It took more time, or no process was free for a minute.
        MemoryError: It needed more memory.
        ChildProcessError: The process ended, as a crash in a library's C code ends it.
        ValueError: The result is too long. Or the function itself raised it; so it is for every other exception of
            Python's own, and RuntimeError stands for any other, with its name.
    """
    wall_s = 10 + 10 * cpu_s if wall_s is None else wall_s
    request = json.dumps([job, args]).encode() + b"\n"
    with POOL.helper() as helper:
        answer = helper.answer(request, cpu_s=cpu_s, wall_s=wall_s, memory=memory, most_output=most_output)
    if "error" not in answer:
        return answer["value"]
    kind = getattr(builtins, answer["error"], None)
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, UnicodeError):
        raise kind(answer["message"] or f"it needed more than {memory >> 20} MB of memory")
    raise RuntimeError(f"{answer['error']}: {answer['message']}")


async def off_loop(function: Callable[..., T], *args: Any, **named: Any) -> T:
    """Call a function in a thread, of which nobody whom a server names takes more than their share."""
    call = partial(in_thread, POOL.threads, copy_context(), partial(function, *args, **named))
    if not (caller := CALLER.get()):
        return await call()
    of_loop = POOL.turns.setdefault(asyncio.get_running_loop(), defaultdict(partial(asyncio.Semaphore, THREADS // 4)))
    async with of_loop[caller]:
        return await call()


def beside(function: Callable[..., Any], *args: Any) -> Do:
    """Return the call of a plain function that what others supply may make slow.

    In an async run it is made in a thread, of which nobody whom a server names takes more than their share.
    """
    return Do(function, partial(off_loop, function), args)


class _Helper:
    """A helper process; for one thread at a time."""

    def __init__(self) -> None:
        # The paths stand for whatever made them: a virtual environment, PYTHONPATH, a notebook's `sys.path`.
        keeps = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"}
        self.process = subprocess.Popen(  # this Python, and this module
            [sys.executable, "-B", "-P", "-X", "utf8", "-m", "redraft.nodes.runtime.killable_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=keeps if sys.platform != "win32" else None,  # there Python needs more than that
        )
        self.idle_since = time.monotonic()
        self.last = False
        """No further job is for it."""
        self._cpu = 0.0

    def answer(self, request: bytes, *, cpu_s: float, wall_s: float, memory: int, most_output: int) -> dict[str, Any]:
        process, until = self.process, time.monotonic() + wall_s
        assert process.stdin is not None  # noqa: S101  # it was given a pipe
        assert process.stdout is not None  # noqa: S101  # as above
        self.last = True  # until it has answered
        self._limit("RLIMIT_CPU", math.ceil(self._cpu + cpu_s))
        self._limit("RLIMIT_AS", memory)
        timer = threading.Timer(wall_s, process.kill)
        timer.start()
        try:
            with suppress(BrokenPipeError):  # the empty answer tells
                process.stdin.write(request)
                process.stdin.flush()
            line = process.stdout.readline(most_output + 1000)
        finally:
            timer.cancel()
        if not line.endswith(b"\n"):
            if len(line) > most_output:
                raise ValueError(f"the result is longer than {most_output} bytes")
            process.wait()
            if time.monotonic() >= until:
                raise TimeoutError(f"it took more than {wall_s:g} s")
            if -process.returncode == getattr(signal, "SIGXCPU", 0):
                raise TimeoutError(f"it took more than {cpu_s:g} s of CPU")
            raise ChildProcessError(f"the helper process ended with {process.returncode}")
        answer: dict[str, Any] = json.loads(line)
        self._cpu, self.last = answer["cpu"], answer["last"]
        self.idle_since = time.monotonic()
        return answer

    def is_old(self) -> bool:
        """Return True if it has ended, or may do so soon."""
        return self.process.poll() is not None or time.monotonic() - self.idle_since > IDLE_S / 2

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()

    def _limit(self, name: str, value: int) -> None:
        # From outside: the lock lets a helper change none of its own.
        if hasattr(resource, "prlimit"):
            which = getattr(resource, name)
            with suppress(ProcessLookupError):  # the empty answer tells
                _, hard = resource.prlimit(self.process.pid, which)
                least = value if hard == resource.RLIM_INFINITY else min(value, hard)
                resource.prlimit(self.process.pid, which, (least, hard))


class _Pool:
    """The helpers of this process."""

    def __init__(self) -> None:
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix="redraft-caller")
        self.turns: WeakKeyDictionary[Any, dict[str, asyncio.Semaphore]] = WeakKeyDictionary()
        self.idle: list[_Helper] = []
        self._at_work: list[_Helper] = []
        self._ends = False
        self._changed = threading.Condition()
        self._busy, self._waiting = Counter[str](), Counter[str]()
        self._served: dict[str, float] = {}

    @contextmanager
    def helper(self) -> Iterator[_Helper]:
        caller = CALLER.get()
        with self._changed:
            self._waiting[caller] += 1
            try:
                free = self._changed.wait_for(lambda: self._ends or self._is_turn(caller), WAIT_S)
            finally:
                self._waiting -= Counter([caller])
                self._changed.notify_all()  # another may be the first now
            if self._ends or not free:
                raise TimeoutError(f"no helper process was free for {WAIT_S:g} s")
            self._busy[caller] += 1
            self._served[caller] = time.monotonic()
            helper = self.idle.pop() if self.idle else None
        try:
            if helper is not None and helper.is_old():
                helper.end()
                helper = None
            helper = helper or _Helper()
            self._at_work.append(helper)
            try:
                yield helper
            finally:
                self._at_work.remove(helper)
                if helper.last:
                    helper.end()
                else:
                    self.idle.append(helper)
        finally:
            with self._changed:
                self._busy -= Counter([caller])
                self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._ends = True
            self._changed.notify_all()
        for helper in [*self._at_work]:
            helper.process.kill()  # its job's thread sees to the rest
        while self.idle:
            self.idle.pop().end()

    def _is_turn(self, caller: str) -> bool:
        if self._busy.total() >= MOST:
            return False
        may = [one for one in self._waiting if not one or self._busy[one] < SHARE]
        return bool(may) and caller == min(may, key=lambda one: (self._busy[one], self._served.get(one, 0.0)))


POOL = _Pool()


def _renew() -> None:
    """Leave the helpers to the process that forked this one: two could not tell whose answer it is."""
    global POOL  # noqa: PLW0603  # as the module itself is, it is one for a process
    for helper in POOL.idle:
        helper.process.returncode = 0  # nobody's to wait for
    ABANDONED.append(POOL)
    POOL = _Pool()


ABANDONED: list[_Pool] = []
"""Pools of the processes that forked this one."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


@atexit.register
def end_helpers() -> None:
    """End every helper, also in the midst of a job, whose thread would else keep this process from ending."""
    POOL.close()
