"""Attacks on time, memory and space: each layer alone ends them."""

from __future__ import annotations

from typing import Any

import pytest
from redraft.sandbox import Sandbox, SandboxResult

ENDLESS = {
    "endless printing": ("while True:\n    print('x' * 1000)", {"output", "timeout"}),
    "an endless loop": ("while True:\n    pass", {"timeout"}),
    "an endless sleep": ("import time\ntime.sleep(99)", {"timeout"}),
    "a loop that swallows every exception": (
        "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass",
        {"timeout"},
    ),
    "a loop in C": ("sum(range(10 ** 12))", {"timeout"}),
    "a number that takes forever": ("x = 7 ** 10 ** 9", {"timeout", "memory", "failed"}),
    "a regex that takes forever": ("import re\nre.match(r'(a+)+$', 'a' * 40 + 'b')", {"timeout", "failed"}),
    "ignored signals": (
        "import signal\nfor s in range(1, 65):\n    try:\n        signal.signal(s, signal.SIG_IGN)\n"
        "    except (OSError, ValueError):\n        pass\nwhile True:\n    pass",
        {"timeout"},
    ),
    "a read that never ends": ("import os\nos.read(0, 1)", {"timeout"}),
    "recursion without a limit": (
        "import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(x):\n    return f([x])\nf(0)",
        {"failed", "memory", "timeout"},
    ),
}
BOMBS = {
    "a list of a billion": ("x = [0] * 10 ** 9", {"memory"}),
    "a growing list": ("x = []\nwhile True:\n    x.append('x' * 10 ** 6)", {"memory"}),
    "a long string": ("x = 'x' * 10 ** 10", {"memory"}),
    "a doubling tuple": ("x = (0,)\nwhile True:\n    x += x", {"memory"}),
    "memory mapped by hand": ("import mmap\nm = [mmap.mmap(-1, 1 << 26) for _ in range(99)]", {"memory", "failed"}),
    "one giant print": ("print('x' * 10 ** 7)", {"output"}),
    "printing to the raw descriptor": ("import os\nwhile True:\n    os.write(1, b'x' * 999)", {"output"}),
    "a flood of errors": ("import os\nwhile True:\n    os.write(2, b'x' * 999)", {"output"}),
    "a giant value": ("'x' * 10 ** 7", {"output"}),
    "endless recursion": ("def f():\n    return f()\nf()", {"failed"}),
    "recursion in C": ("x = []\nfor _ in range(10 ** 5):\n    x = [x]\nstr(x)", {"failed"}),
    "a crash": ("import ctypes\nctypes.string_at(0)", {"failed"}),
    "deeply nested source": ("(" * 10_000 + ")" * 10_000, {"failed", "memory"}),
    "a long chain of operators": ("-" * 100_000 + "1", {"failed", "memory"}),
    "a fork bomb": ("import os\nwhile True:\n    os.fork()", {"failed"}),
    "a thread bomb": ("import threading\nwhile True:\n    threading.Thread(target=input).start()", {"failed"}),
    "closed descriptors": ("import os\nos.closerange(0, 65536)", {"failed"}),
    "an early exit": ("import os\nos._exit(0)", {"failed"}),
    "a polite exit": ("import sys\nsys.exit(0)", {"failed"}),
    "a signal to itself": ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", {"failed"}),
}


HARMLESS_IN_MONTY = {"a regex that takes forever", "recursion in C"}
"""Its regular expressions run in linear time, and it writes deep nesting in short."""


@pytest.mark.parametrize("name", ENDLESS)
def test_code_without_end_is_over_at_its_time(name: str, hasty: Sandbox) -> None:
    """Code that never ends is stopped at the limit in seconds and called a timeout, whether it computes or sleeps."""
    _assert_ends(hasty.run(ENDLESS[name][0]), ENDLESS[name][1], name)


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_ends_and_says_how(name: str, sandbox: Sandbox) -> None:
    """Code that would take the machine down is over within its limits, and its status says which one it met."""
    _assert_ends(sandbox.run(BOMBS[name][0]), BOMBS[name][1], name)


def test_colliding_keys_do_not_stall_the_caller(hasty: Sandbox) -> None:
    """A set of numbers made to collide slows its own process down, never the one that asked."""
    result = hasty.run("answer = [i * (2 ** 61 - 1) for i in range(60_000)]\nanswer = {n: 0 for n in answer}")
    assert result.status in {"timeout", "ok"}


@pytest.mark.parametrize(
    "limits", [{"timeout_s": 0}, {"timeout_s": float("nan")}, {"memory_mb": 63}, {"max_output": -1}]
)
def test_a_limit_that_makes_no_sense_is_refused_at_build(limits: dict[str, Any]) -> None:
    """A mistaken limit is named when the sandbox is built, not when code runs."""
    with pytest.raises(ValueError, match=next(iter(limits))):
        Sandbox(**limits)


def _assert_ends(result: SandboxResult, ends: set[str], name: str) -> None:
    if result.layer == "monty":
        ends = ends | {"unsupported", "failed"} | ({"ok"} if name in HARMLESS_IN_MONTY else set())
    assert result.status in ends, result
    assert len(result.stdout) <= 20_000
    assert result.status == "ok" or result.error
