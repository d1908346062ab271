"""Running and checking code in CPython, in child processes that locked themselves. Internal."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any

from .launch import Native, start
from .plain import jsonable, pack, writable
from .result import SandboxResult, Status
from .worker import StoppedError, Worker

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .limits import Limits

__all__ = ["NativeLayer"]

MAX_CALLS = 100_000
"""Calls that one set of tests may make."""


class NativeLayer:
    """CPython behind `layer`, with one set of limits."""

    def __init__(self, layer: Native, limits: Limits) -> None:
        """Start every child in `layer`, under `limits`."""
        self.name: Native = layer
        self._limits = limits

    def run(self, code: str, inputs: Mapping[str, Any]) -> SandboxResult:
        """Run `code` once, in a process of its own."""
        request = {"op": "run", "code": code, "inputs": pack(dict(inputs))}
        with start(self.name, self._limits, code=code, main=True) as worker:
            worker.wait_locked()
            try:
                reply = worker.ask(request, time.monotonic() + self._limits.timeout_s)
                if "raised" in reply:
                    return self._failure(worker, reply["raised"])
                value, note = jsonable(reply["value"]), reply.get("unplain")
            except StoppedError as stopped:
                return self._result(worker, stopped.status, str(stopped))
            except (ValueError, KeyError, RecursionError):
                return self._result(worker, "failed", TAMPERED)
            why = None if note is None else f"the value is not plain data: {writable(str(note)[:200])}"
            return SandboxResult(status="ok", stdout=worker.stdout, value=value, error=why, layer=self.name)

    def check(self, code: str, tests: str, *, names: Sequence[str], helpers: str) -> SandboxResult:
        """Run `tests` in one process against `code` in another; only calls and their plain results cross."""
        nonce = secrets.token_hex(16)
        setup = {"op": "tests", "tests": tests, "helpers": helpers, "names": list(names), "nonce": nonce}
        with (
            start(self.name, self._limits, code=code, main=False) as worker,
            start(self.name, self._limits, code=f"{helpers}\n{tests}", main=False) as tester,
        ):
            worker.wait_locked()
            tester.wait_locked()
            deadline = time.monotonic() + self._limits.timeout_s
            try:
                reply = worker.ask({"op": "define", "code": code, "names": list(names)}, deadline)
                if "raised" in reply:
                    return self._failure(worker, reply["raised"])
                if reply.get("defined") is not True:
                    return self._result(worker, "failed", f"NameError: the code does not define {' and '.join(names)}")
                calls, said = 0, self._ask_tester(tester, setup, deadline)
                while "call" in said and calls < MAX_CALLS:
                    calls += 1
                    request = {"op": "call", "name": said["call"], "args": said["args"], "kwargs": said["kwargs"]}
                    reply = worker.ask({**request, "code": code}, deadline)
                    said = self._ask_tester(tester, _answer(reply), deadline)
            except StoppedError as stopped:
                return self._result(worker, stopped.status, str(stopped))
            except (ValueError, KeyError, TypeError, RecursionError):
                return self._result(worker, "failed", TAMPERED)
            if said.get("passed") == nonce and calls:
                return self._result(worker, "ok", None)
            if said.get("passed") == nonce:
                return self._result(worker, "failed", "the tests ran to the end without calling the code")
            return self._verdict(worker, said)

    def _result(self, worker: Worker, status: Status, error: str | None) -> SandboxResult:
        words = None if error is None else writable(error)
        return SandboxResult(status=status, stdout=worker.stdout, error=words, layer=self.name)

    def _ask_tester(self, tester: Worker, request: dict[str, Any], deadline: float) -> dict[str, Any]:
        try:
            return tester.ask(request, deadline)
        except StoppedError as stopped:
            raise StoppedError(stopped.status, f"in the tests: {stopped}") from None

    def _failure(self, worker: Worker, raised: Any) -> SandboxResult:
        status: Status = "failed"
        kind, message = str(raised["type"]), str(raised["message"])
        if kind == "MemoryError":
            status = "memory"
        elif kind == "ModuleNotFoundError":
            status = "unsupported"  # it may well exist: no package is in here, under seccomp no file at all
        return self._result(worker, status, f"{kind}: {message}\n{raised['trace']}".rstrip()[:4000])

    def _verdict(self, worker: Worker, said: dict[str, Any]) -> SandboxResult:
        if said.get("unplain"):
            return self._result(worker, "unsupported", f"only plain data can be checked: {said['unplain']}")
        if "raised" not in said:
            return self._result(worker, "failed", f"the tests made more than {MAX_CALLS} calls")
        raised = said["raised"]
        if raised["type"] == "ModuleNotFoundError":
            return self._result(worker, "unsupported", f"ModuleNotFoundError: {raised['message']}")
        if raised["type"] == "NameError" and raised["where"]:
            error = f"the tests need a name that neither they nor helpers define: {raised['message']}"
            return self._result(worker, "unsupported", error)
        last = f"\nlast call: {said['last']}" if said.get("last") else ""
        error = f"{raised['type']}: {raised['message']}\n{raised['trace']}".rstrip() + last
        return self._result(worker, "failed", error[:4000])


TAMPERED = "the process was tampered with: its reply is not plain data"


def _answer(reply: dict[str, Any]) -> dict[str, Any]:
    """Only what the tests may learn from the process of the code, so that it can't send them another request."""
    if "raised" in reply:
        raised = reply["raised"]
        return {"raised": {key: str(raised[key])[:500] for key in ("type", "builtin", "message")}}
    if "unplain" in reply:
        return {"unplain": str(reply["unplain"])[:200]}
    return {"value": reply["value"], "after": reply["after"]}
