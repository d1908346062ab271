"""One execution sees nothing of another, whether before it or beside it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from redraft.sandbox import Layer, Sandbox
from redraft.sandbox import native as native_module
from redraft.sandbox.monty import MontyLayer

LEAKS = {
    "a variable": ("left = 'left behind'", "left"),
    "an answer": ("answer = 'left behind'", "pass"),
    "an input": ("pass", "given"),
    "an attribute of a module": ("import math\nmath.pi = 'left behind'", "import math\nstr(math.pi)"),
    "a patched builtin": ("import builtins\nbuiltins.len = lambda x: 'left behind'", "str(len([]))"),
    "a module of its own": ("import sys\nsys.modules['left'] = 'left behind'", "import left\nleft"),
    "an environment variable": ("import os\nos.environ['LEFT'] = 'left behind'", "import os\nos.environ.get('LEFT')"),
    "a file": ("open('/tmp/left', 'w').write('left behind')", "open('/tmp/left').read()"),
    "a seed": (
        "import random\nrandom.seed(1)\nrandom.choice = lambda x: 'left behind'",
        "import random\nrandom.choice([1])",
    ),
}


@pytest.mark.parametrize(("first", "then"), LEAKS.values(), ids=LEAKS)
def test_nothing_is_left_for_the_next_execution(first: str, then: str, sandbox: Sandbox) -> None:
    """The second execution finds the sandbox as the first one did, whatever that one left about."""
    sandbox.run(first, {"given": "left behind"})
    assert "left behind" not in f"{(result := sandbox.run(then)).value} {result.stdout}"


def test_a_check_starts_from_nothing(sandbox: Sandbox) -> None:
    """The same code checked twice counts from the start again, though within one check it keeps its state."""
    counter = "seen = []\ndef f(x):\n    seen.append(x)\n    return len(seen)"
    assert [sandbox.check(counter, "assert f(7) == 1\nassert f(7) == 2", "f").status for _ in range(2)] == ["ok", "ok"]


@pytest.mark.one_of_each
def test_threads_get_their_own_answers(sandbox: Sandbox) -> None:
    """Many executions at once from many threads each come to their own result."""
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda n: sandbox.run("print(n)\nn * n", {"n": n}), range(24)))
    assert [(result.value, result.stdout) for result in results] == [(n * n, f"{n}\n") for n in range(24)]


async def test_tasks_get_their_own_verdicts(sandbox: Sandbox) -> None:
    """Checks awaited together are each judged by their own tests."""
    codes = [f"def f(x):\n    return x + {n % 2}" for n in range(8)]
    verdicts = await asyncio.gather(*(sandbox.acheck(code, "assert f(1) == 1", "f") for code in codes))
    assert [verdict.ok for verdict in verdicts] == [True, False] * 4


def test_executions_run_at_once(layer: Layer, monkeypatch: pytest.MonkeyPatch, alone: Callable[..., Sandbox]) -> None:
    """With `parallel=2`, the second execution is under way before the first one ended."""
    alone(layer)
    both = threading.Barrier(2)
    sandbox = Sandbox(layers=(layer,), parallel=2)

    def after_meeting(function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            both.wait(timeout=30)
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(native_module, "start", after_meeting(native_module.start))
    monkeypatch.setattr(MontyLayer, "_session", after_meeting(MontyLayer._session))
    with ThreadPoolExecutor(2) as threads:
        assert [result.value for result in threads.map(sandbox.run, ["1 + 1", "2 + 2"])] == [2, 4]
