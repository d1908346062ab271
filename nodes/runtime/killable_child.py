"""The program of a helper process: it runs one job after another until nobody has any. Internal.

`python -m redraft.nodes.runtime.killable_child`, by `redraft.nodes.runtime.killable` alone. It imports next to nothing,
so that it starts soon; each job imports what it needs.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from contextlib import suppress
from importlib import import_module
from types import FunctionType
from typing import Any

from ..._plugins import load_plugin, plugins

__all__ = ["IDLE_S", "main"]

IDLE_S = 60.0
"""After so long without a job a helper ends."""
LARGEST = 200 << 20
"""Bytes: a helper that has grown so large ends after its job."""
MESSAGE = 2000
"""Characters of an error's."""


def main() -> None:
    """Lock this process where the sandbox can, and answer requests until there is none for a minute."""
    answers, sys.stdout = sys.stdout.buffer, sys.stderr  # what a job prints is no answer
    with suppress(KeyError, ValueError):  # else the sandbox, or its extra, is not installed: limits hold all the same
        load_plugin(plugins("redraft.sandbox")["lock"], FunctionType)()
    while _waited() and (line := sys.stdin.buffer.readline()):
        answers.write(_answer(*json.loads(line)) + b"\n")
        answers.flush()


def _waited() -> bool:
    """Return True if there is something to read, which the end of the process that asks is, too."""
    try:
        return bool(select.select([0], [], [], IDLE_S)[0])
    except OSError:  # on Windows pipes can't be waited for
        return True


def _answer(job: str, args: list[Any]) -> bytes:
    module, _, name = job.partition(":")
    try:
        answer = json.dumps({"value": getattr(import_module(module), name)(*args), **_state()})
    except Exception as error:
        fault = {"error": type(error).__name__, "message": str(error)[:MESSAGE]}
        answer = json.dumps({**fault, **_state(last=isinstance(error, MemoryError))})
    return answer.encode()


def _state(*, last: bool = False) -> dict[str, Any]:
    """Return the seconds of CPU that this process has taken, and whether it should be used no more."""
    return {"cpu": time.process_time(), "last": last or _size() > LARGEST}


def _size() -> int:
    """Return the bytes of memory of this process; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # not on Linux
        return 0


if __name__ == "__main__":
    main()
