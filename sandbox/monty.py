"""Running and checking code in Monty, an interpreter in Rust that has no way to reach the machine. Internal.

Monty knows a part of Python, and a few things differently. Values leave it as JSON text that code inside it made,
never as objects: building a set of colliding integers would stall our process.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import marshal
import math
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .dialect import PROXY, REPLY, TAKE, VALUE, bridge, difference, is_gap, split_last
from .filter import seccomp_filter
from .frames import REPLY_BYTES, TAMPERED, read_value
from .launch import NOBODY, PYTHON
from .result import Limits, SandboxResult, Status
from .worker import sources

__all__ = ["MontyLayer", "monty_missing"]

OUTPUT_SLACK = 16_384
"""Monty counts output in chunks of 8 KiB."""
MAX_CALLS = 100_000
MOST_MB = 64
"""A value or message comes out of Monty whole before it can be measured, so Monty is given no more than this."""
GRACE_S = 0.25
"""Seconds that Monty may take to stop by itself."""

PROGRAM_FD = 500
"""Above the limit of descriptors, so that the worker can never have another of this number."""
OWN_MB = 192
"""Memory of the program itself: its code, and stacks that it reserves."""

LAUNCH = """\
#!{python} -IS
import marshal, os, sys
sources, binary, config = marshal.loads({data!r})
for name, code in sources:
    module = sys.modules[name] = type(sys)(name)
    module.__package__, module.__path__ = "redraft_sandbox", []
    exec(code, module.__dict__)
null = os.open("/dev/null", os.O_WRONLY)
os.dup2(null, 2)
os.dup2(os.open(binary, os.O_RDONLY), {fd}, inheritable=False)
os.closerange(3, {fd})
module.lock(modules=(), user={nobody}, orphaned=True, **config)
os.execve({fd}, [binary, *sys.argv[1:]], {{}})
"""


def monty_missing() -> str:
    """Return the reason why Monty can't run here, in one line that says what to install; empty when it can."""
    try:
        layer = MontyLayer(Limits(timeout_s=5, memory_mb=MOST_MB, max_output=100), parallel=1)
        try:
            with layer._session(5) as session:
                session.feed_run("0")
        except layer._monty.MontyError as error:
            return f"monty is refused by this machine: {error}".splitlines()[0]
    except (ImportError, OSError, RuntimeError) as error:
        return f"monty needs pip install '.[sandbox]' in a checkout: {error}".splitlines()[0]
    return ""


class MontyLayer:
    """A pool of Monty workers, with one set of limits; every execution has sessions of its own."""

    name = "monty"

    def __init__(self, limits: Limits, *, parallel: int) -> None:
        """Let `parallel` executions run at once, others wait."""
        self._monty: Any = importlib.import_module("pydantic_monty")
        self._max_output = limits.max_output
        self._memory_mb = min(limits.memory_mb, MOST_MB)
        self._parallel = parallel
        self._starting = threading.Lock()
        self._pool: Any = None
        self._owner = 0

    def run(self, code: str, inputs: Mapping[str, Any], *, left_s: float) -> SandboxResult:
        """Run `code` once, in a session of its own, for `left_s` seconds."""
        out, late = self._collector(), threading.Event()
        if other := difference(code):
            return self._result("unsupported", out, other)
        if (parts := split_last(code)) is None:
            return self._result("unsupported", out, "Monty can't tell the value of this code")
        head, value = parts
        # One feed, so that one limit of time holds for the code and for what its value does when it is read.
        program = f"{head}\n__sandbox_value = {value}\n{bridge()}{REPLY}{VALUE}"
        try:
            with self._session(left_s) as session, _killing(late, left_s + GRACE_S, session):
                reply = session.feed_run(program, inputs=dict(inputs), print_callback=out)
        except self._monty.MontyError as error:
            return self._failed(error, out, late=late.is_set())
        if not isinstance(reply, str) or len(reply) > REPLY_BYTES:
            return self._result("output", out, "the value is too large to leave the sandbox")
        try:
            plain, why = read_value(reply)
        except (ValueError, RecursionError):
            return self._result("failed", out, TAMPERED)
        return self._result("ok", out, why, value=plain)

    def check(self, code: str, tests: str, *, names: Sequence[str], helpers: str, left_s: float) -> SandboxResult:
        """Run `tests` in one session against `code` in another; only calls and their plain results cross.

        Where the code is what Monty can't run, or runs otherwise than CPython, the result is `by_code`.
        """
        out, calls, gap, late = self._collector(), 0, "", threading.Event()

        def call(name: str, text: str) -> str:
            nonlocal calls, gap
            calls += 1
            if name not in names:
                raise NameError(name)
            try:
                feed = f"f'{{__sandbox_call({name}, __sandbox_text)}}'"
                reply = worker.feed_run(feed, inputs={"__sandbox_text": text}, print_callback=out)
            except self._monty.MontyRuntimeError as error:
                gap = gap or (str(error)[:500] if is_gap(error) else "")
                raise error.exception() from None
            if not isinstance(reply, str) or len(reply) > REPLY_BYTES:
                raise MemoryError("the value is too large to leave the sandbox")
            if reply.startswith('{"value": null, "unplain"'):
                gap = gap or f"only plain data can be checked: {name} returned {reply[:300]}"
            return reply

        driver = f"candidate = {names[0]}\n{tests}\n"
        if "def check(" in tests and "check" not in names:
            driver += "check(candidate)\n"
        for by_code, source in ((True, code), (False, f"{helpers}\n{tests}")):
            if other := difference(source):
                return self._result("unsupported", out, other, by_code=by_code)
        loaded = False
        try:
            with (
                self._session(left_s) as worker,
                self._session(left_s) as tester,
                _killing(late, left_s + GRACE_S, worker, tester),
            ):
                worker.feed_run(f"{code}\n0", print_callback=out)
                defined = "".join(f"{name}\n" for name in names)
                worker.feed_run(f"{bridge()}{REPLY}{defined}0", print_callback=out)
                loaded = True
                tester.feed_run(f"{helpers}\n0", print_callback=self._collector())
                lookup = {"__sandbox_ask": call}
                proxies = "".join(PROXY.format(name=name) for name in names)
                tester.feed_run(bridge() + REPLY + TAKE + proxies, external_lookup=lookup)
                tester.feed_run(f"{driver}0", external_lookup=lookup, print_callback=self._collector())
        except self._monty.MontyError as error:
            failed = self._failed(error, out, late=late.is_set(), by_code=not loaded)
            blamed = gap and failed.status in ("failed", "unsupported")
            return self._result("unsupported", out, gap, by_code=True) if blamed else failed
        # The tests ran to their end; `gap` is what they passed over.
        if len(out.output) > self._max_output:
            return self._result("output", out, f"more than {self._max_output} characters of output")
        if gap:
            return self._result("unsupported", out, gap, by_code=True)
        if not calls:
            return self._result("failed", out, "the tests ran to the end without calling the code")
        return self._result("ok", out, None)

    def _session(self, left_s: float) -> Any:
        with self._starting:
            if self._pool is None or self._owner != os.getpid():
                binary = locked_monty(self._memory_mb, os.getpid())
                self._pool = self._monty.Monty(binary_path=binary, max_processes=2 * self._parallel).__enter__()
                self._owner = os.getpid()
        limits = {
            "max_feed_duration_secs": left_s,
            "max_total_sleep_secs": left_s,
            "max_memory": self._memory_mb << 20,
            "max_suspensions": MAX_CALLS,
        }
        return self._pool.checkout(limits=limits, os_policy={"sleep_system_max": math.inf})

    def _collector(self) -> Any:
        return self._monty.CollectString(max_bytes=4 * self._max_output + OUTPUT_SLACK)

    def _result(
        self, status: Status, out: Any, error: str | None, *, value: Any = None, by_code: bool = False
    ) -> SandboxResult:
        printed = out.output
        if status == "ok" and len(printed) > self._max_output:
            status, error, value = "output", f"more than {self._max_output} characters of output", None
        text = printed[: self._max_output]
        return SandboxResult(status=status, stdout=text, value=value, error=error, layer=self.name, by_code=by_code)

    def _failed(self, error: Any, out: Any, *, late: bool, by_code: bool = False) -> SandboxResult:
        words = str(error)[:500]
        status: Status = "failed"
        if late:
            status, words = "timeout", "the time limit was reached"
        elif getattr(error, "timed_out", False) or (words.startswith("TimeoutError") and "limit" in words):
            status = "timeout"
        elif words.startswith("MemoryError"):
            status = "output" if f"> {4 * self._max_output + OUTPUT_SLACK} bytes" in words else "memory"
        elif is_gap(error):
            status = "unsupported"
        return self._result(status, out, words, by_code=by_code and status == "unsupported")


@contextlib.contextmanager
def _killing(late: threading.Event, after_s: float, *sessions: Any) -> Iterator[None]:
    """Kill the workers of `sessions` when their time is up, whatever they are doing, and set `late`."""
    lock, pids = threading.Lock(), [session.worker_pid for session in sessions]

    def kill() -> None:
        with lock:
            for pid in pids:
                late.set()
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    timer = threading.Timer(after_s, kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            pids.clear()
        timer.cancel()


@functools.cache
def locked_monty(memory_mb: int, _pid: int) -> str | None:
    """Return the path of a program that locks itself and becomes Monty, or None where there is no way to.

    It is a file in memory, which no user of this machine can change and which is gone when this process is.
    """
    from pydantic_monty._binary import find_monty_binary

    if sys.platform != "linux":
        return None
    try:
        bpf = seccomp_filter(files=True, program=PROGRAM_FD)
    except Exception:  # without libseccomp, of which the binding raises several kinds: the rest of the lock remains
        bpf = b""
    rlimits = {
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": 0,
        "RLIMIT_NOFILE": 64,
        "RLIMIT_AS": (OWN_MB + memory_mb) << 20,
    }
    data = marshal.dumps((sources("", "lockdown"), find_monty_binary(), {"bpf": bpf, "rlimits": rlimits}))
    held = os.memfd_create("redraft-monty")
    text = LAUNCH.format(python=PYTHON, data=data, fd=PROGRAM_FD, nobody=NOBODY).encode()
    if os.write(held, text) < len(text):
        raise OSError("the launcher of Monty could not be written")
    return f"/proc/{os.getpid()}/fd/{held}"
