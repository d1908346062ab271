"""Running and checking code in CPython, in child processes that locked themselves. Internal."""

from __future__ import annotations

import functools
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .frames import TAMPERED, read_value, read_words, writable
from .launch import Native, names_module, start
from .plain import pack
from .result import Limits, SandboxResult, Status
from .worker import StoppedError, Worker

__all__ = ["NativeLayer"]

MAX_CALLS = 100_000
"""Calls that one set of tests may make."""


class NativeLayer:
    """CPython behind `layer`, with one set of limits."""

    def __init__(self, layer: Native, limits: Limits) -> None:
        """Start every child in `layer`, under `limits`."""
        self.name: Native = layer
        self._limits = limits

    def run(self, code: str, inputs: Mapping[str, Any], *, left_s: float) -> SandboxResult:
        """Run `code` once, in a process of its own, for `left_s` seconds."""
        request = {"code": code, "inputs": pack(dict(inputs))}
        with start(self.name, self._limits, code=code, main=True) as worker:
            worker.wait_locked()
            try:
                reply = worker.ask("r", request, time.monotonic() + left_s)
                if reply[:1] == b"x":
                    return self._raised(worker, read_words(reply[1:]))
                value, why = read_value(_body(reply, b"v").decode())
            except StoppedError as stopped:
                return self._result(worker, stopped.status, str(stopped))
            except FORGED:
                return self._result(worker, "failed", TAMPERED)
            return SandboxResult(status="ok", stdout=worker.stdout, value=value, error=why, layer=self.name)

    def check(self, code: str, tests: str, *, names: Sequence[str], helpers: str, left_s: float) -> SandboxResult:
        """Run `tests` in one process against `code` in another; only calls and their results cross, read by neither us.

        What the two say to each other passes through here as bytes: each reads it under its own limits.
        """
        nonce = secrets.token_hex(16)
        setup = {"tests": tests, "helpers": helpers, "names": list(names), "nonce": nonce}
        with (
            start(self.name, self._limits, code=code, main=False) as worker,
            start(self.name, self._limits, code=f"{helpers}\n{tests}", main=False) as tester,
        ):
            worker.wait_locked()
            tester.wait_locked()
            deadline = time.monotonic() + left_s
            try:
                reply = worker.ask("d", {"code": code, "names": list(names)}, deadline)
                if reply[:1] == b"x":
                    return self._raised(worker, read_words(reply[1:]), source=f"{helpers}\n{tests}")
                if _body(reply, b"d") != b"true":
                    return self._result(worker, "failed", f"NameError: the code does not define {' and '.join(names)}")
                frame, calls = self._of_tester(lambda: tester.ask("t", setup, deadline)), 0
                while frame[:1] == b"c" and calls < MAX_CALLS:
                    calls += 1
                    answer = worker.pass_on(frame, deadline)
                    _body(answer, b"vxu")
                    frame = self._of_tester(functools.partial(tester.pass_on, answer, deadline))
                kind, words = frame[:1], {} if frame[:1] in (b"p", b"c", b"f") else read_words(frame[1:])
            except StoppedError as stopped:
                return self._result(worker, stopped.status, str(stopped))
            except FORGED:
                return self._result(worker, "failed", TAMPERED)
            if frame == b"p" + json.dumps(nonce).encode():
                why = None if calls else "the tests ran to the end without calling the code"
                return self._result(worker, "ok" if calls else "failed", why)
            if kind == b"c":
                return self._result(worker, "failed", f"the tests made more than {MAX_CALLS} calls")
            if kind == b"u":
                error = f"only plain data can be checked: {words.get('message', '')[:300]}"
                return self._result(worker, "unsupported", error, by_code=words.get("by") == "code")
            if kind == b"x":
                return self._raised(worker, words, source=f"{helpers}\n{tests}")
            return self._result(worker, "failed", TAMPERED)

    def _result(self, worker: Worker, status: Status, error: str | None, *, by_code: bool = False) -> SandboxResult:
        words = None if error is None else writable(error)
        return SandboxResult(status=status, stdout=worker.stdout, error=words, layer=self.name, by_code=by_code)

    def _of_tester(self, ask: Callable[[], bytes]) -> bytes:
        try:
            return ask()
        except StoppedError as stopped:
            raise StoppedError(stopped.status, f"in the tests: {stopped}") from None

    def _raised(self, worker: Worker, raised: dict[str, str], *, source: str = "") -> SandboxResult:
        """Return the result of an exception of the code, or of its tests; a package that `source` names is no fault."""
        kind, message, in_tests = raised["type"], raised["message"], "by" in raised
        if in_tests and kind == "NameError" and raised["where"]:
            error = f"the tests need a name that neither they nor helpers define: {message}"
            return self._result(worker, "unsupported", error)
        status: Status = "memory" if kind == "MemoryError" and not in_tests else "failed"
        by_code = False
        if kind == "ModuleNotFoundError":  # it may well exist: no package is in here, under seccomp no file at all
            status, by_code = "unsupported", raised.get("by", "code") == "code" and not names_module(source, message)
        error = f"{kind}: {message}\n{raised['trace']}".rstrip()
        if raised.get("last"):
            error += f"\nlast call: {raised['last']}"
        return self._result(worker, status, error[:4000], by_code=by_code)


FORGED = (ValueError, KeyError, TypeError, RecursionError)


def _body(frame: bytes, kinds: bytes) -> bytes:
    """Return the content of a frame of one of `kinds`.

    Raises:
        ValueError: it is of another, so that the code can't send the tests a request.
    """
    if not frame or frame[0] not in kinds:
        raise ValueError(TAMPERED)
    return frame[1:]
