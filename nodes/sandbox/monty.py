"""Running and checking code in Monty, an interpreter in Rust that has no way to reach the machine. Internal.

Monty knows a part of Python. What passes in it has passed; all else is for the next layer to say. Values leave it as
JSON text that code inside it made, never as objects: building a set of colliding integers would stall our process.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from .dialect import ANSWER, PROXY, REPLY, bridge, is_gap, split_last
from .plain import jsonable
from .result import SandboxResult, Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .limits import Limits

__all__ = ["MontyLayer", "monty_missing"]

REPLY_BYTES = 4 << 20
OUTPUT_SLACK = 16_384
"""Monty counts output in chunks of 8 KiB."""
MAX_CALLS = 100_000


def monty_missing() -> str:
    """Why Monty can't run here, in one line that says what to install; empty when it can."""
    try:
        from pydantic_monty import Monty

        with Monty():
            return ""
    except (ImportError, OSError, RuntimeError) as error:
        return f"monty needs pip install 'redraft[sandbox]': {error}".splitlines()[0]


class MontyLayer:
    """A pool of Monty workers, with one set of limits; every execution has sessions of its own."""

    name = "monty"

    def __init__(self, limits: Limits, *, parallel: int) -> None:
        """Let `parallel` executions run at once, others wait."""
        self._timeout_s, self._max_output = limits.timeout_s, limits.max_output
        self._limits = {
            "max_feed_duration_secs": limits.timeout_s,
            "max_total_sleep_secs": limits.timeout_s,
            "max_memory": limits.memory_mb << 20,
            "max_suspensions": MAX_CALLS,
        }
        self._parallel = parallel
        self._turns = threading.BoundedSemaphore(parallel)
        self._starting = threading.Lock()
        self._pool: Any = None
        self._owner = 0

    def run(self, code: str, inputs: Mapping[str, Any]) -> SandboxResult:
        """Run `code` once, in a session of its own."""
        from pydantic_monty import MontyError

        out = self._collector()
        parts = split_last(code)
        if parts is None:
            return self._result("unsupported", out, "Monty can't tell the value of this code")
        head, value = parts
        with self._turns, self._session() as session:
            try:
                session.feed_run(f"{head}\n__sandbox_value = {value}\n0", inputs=dict(inputs), print_callback=out)
                session.feed_run(bridge() + REPLY, print_callback=out)
                reply = session.feed_run("f'{__sandbox_reply(__sandbox_value)}'", print_callback=out)
                if reply.startswith('{"value": null'):
                    reply = session.feed_run(ANSWER, print_callback=out)
            except MontyError as error:
                return self._failed(error, out)
        if not isinstance(reply, str) or len(reply) > REPLY_BYTES:
            return self._result("output", out, "the value is too large to leave the sandbox")
        try:
            frame = json.loads(reply)
            plain, note = jsonable(frame["value"]), frame.get("unplain")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return self._result("failed", out, "the value was tampered with")
        why = None if note is None else f"the value is not plain data: {str(note)[:200]}"
        return self._result("ok", out, why, value=plain)

    def check(self, code: str, tests: str, *, names: Sequence[str], helpers: str) -> SandboxResult:
        """Run `tests` in one session against `code` in another; only calls and their plain results cross."""
        from pydantic_monty import MontyError, MontyRuntimeError

        out, deadline, calls = self._collector(), time.monotonic() + self._timeout_s, 0

        def call(name: str, text: str) -> str:
            nonlocal calls
            calls += 1
            if time.monotonic() > deadline:
                raise TimeoutError("the time limit was reached")
            if name not in names:
                raise NameError(name)
            try:
                feed = f"f'{{__sandbox_call({name}, __sandbox_text)}}'"
                reply = worker.feed_run(feed, inputs={"__sandbox_text": text}, print_callback=out)
            except MontyRuntimeError as error:
                raise error.exception() from None
            if not isinstance(reply, str) or len(reply) > REPLY_BYTES:
                raise MemoryError("the value is too large to leave the sandbox")
            return reply

        proxies = "".join(PROXY.format(name=name) for name in names)
        driver = f"candidate = {names[0]}\n{tests}\n"
        if "def check(" in tests and "check" not in names:
            driver += "check(candidate)\n"
        with self._turns, self._session() as worker, self._session() as tester:
            try:
                worker.feed_run(f"{code}\n0", print_callback=out)
                worker.feed_run(bridge() + REPLY, print_callback=out)
                worker.feed_run("".join(f"{name}\n" for name in names) + "0", print_callback=out)
                tester.feed_run(f"{helpers}\n0", print_callback=self._collector())
                tester.feed_run(bridge() + REPLY + proxies, external_lookup={"__sandbox_ask": call})
                lookup = {"__sandbox_ask": call}
                tester.feed_run(f"{driver}0", external_lookup=lookup, print_callback=self._collector())
            except MontyError as error:
                return self._failed(error, out)
        if len(out.output) > self._max_output:
            return self._result("output", out, f"more than {self._max_output} characters of output")
        if not calls:
            return self._result("failed", out, "the tests ran to the end without calling the code")
        return self._result("ok", out, None)

    def _session(self) -> Any:
        with self._starting:
            if self._pool is None or self._owner != os.getpid():
                from pydantic_monty import Monty

                self._pool = Monty(max_processes=2 * self._parallel).__enter__()
                self._owner = os.getpid()
        return self._pool.checkout(limits=self._limits, os_policy={"sleep_system_max": math.inf})

    def _collector(self) -> Any:
        from pydantic_monty import CollectString

        return CollectString(max_bytes=4 * self._max_output + OUTPUT_SLACK)

    def _result(self, status: Status, out: Any, error: str | None, value: Any = None) -> SandboxResult:
        printed = out.output
        if status == "ok" and len(printed) > self._max_output:
            status, error, value = "output", f"more than {self._max_output} characters of output", None
        text = printed[: self._max_output]
        return SandboxResult(status=status, stdout=text, value=value, error=error, layer=self.name)

    def _failed(self, error: Any, out: Any) -> SandboxResult:
        words = str(error)[:500]
        status: Status = "failed"
        if getattr(error, "timed_out", False) or (words.startswith("TimeoutError") and "limit" in words):
            status = "timeout"
        elif words.startswith("MemoryError"):
            cap = f"> {4 * self._max_output + OUTPUT_SLACK} bytes"
            status = "output" if cap in words else "memory"
        elif is_gap(error):
            status = "unsupported"
        return self._result(status, out, words)
