"""Hundreds of executions at once: each comes to its own end, few run together, and nothing is left open."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from redraft.sandbox import Layer, Sandbox
from redraft.sandbox import native as native_module
from redraft.sandbox.launch import missing
from redraft.sandbox.worker import Worker

MANY = 200
KINDS = [
    ("print(n)\nn * n", "ok"),
    ("raise ValueError(n)", "failed"),
    ("'x' * 10 ** 7", "output"),
    ("import os\nos._exit(n)", "failed"),
]


def _children() -> set[int]:
    if not Path("/proc/self/task").is_dir():
        return set()
    tasks = os.listdir("/proc/self/task")
    found: set[int] = set()
    for task in filter(str.isdigit, tasks):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended since
            found |= {int(pid) for pid in Path(f"/proc/self/task/{task}/children").read_text().split()}
    return found


class Crowd:
    """How many children there are at the same time."""

    def __init__(self) -> None:
        """None so far."""
        self.most = self.now = self.started = 0
        self._lock = threading.Lock()

    def add(self, by: int) -> None:
        """Count one in or out."""
        with self._lock:
            self.now += by
            self.started += max(by, 0)
            self.most = max(self.most, self.now)


@pytest.fixture
def crowd(monkeypatch: pytest.MonkeyPatch) -> Crowd:
    """Counts the children that are started and ended."""
    for layer in ("bubblewrap", "seccomp"):
        missing(layer)  # which starts a child to see, once a process
    crowd, start, leave = Crowd(), native_module.start, Worker.__exit__

    def started(*args: Any, **kwargs: Any) -> Worker:
        crowd.add(1)
        return start(*args, **kwargs)

    def left(worker: Worker, *error: Any) -> None:
        leave(worker, *error)
        crowd.add(-1)

    monkeypatch.setattr(native_module, "start", started)
    monkeypatch.setattr(Worker, "__exit__", left)
    return crowd


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts children in /proc")
@pytest.mark.parametrize(("layer", "many"), [("bubblewrap", 40), ("seccomp", 100)])
async def test_a_hundred_children_leave_nothing(
    layer: Layer, many: int, alone: Callable[..., Sandbox], crowd: Crowd
) -> None:
    """Good, bad and hostile code by the hundred: each gets its own result, two run at once, all is closed after."""
    alone(layer)
    sandbox = Sandbox(layers=(layer,), parallel=2, timeout_s=60, memory_mb=128)
    await sandbox.arun("1")
    children, descriptors = _children(), len(os.listdir("/proc/self/fd"))
    asked = [(n, *KINDS[n % len(KINDS)]) for n in range(many)]
    results = await asyncio.gather(*(sandbox.arun(code, {"n": n}) for n, code, _ in asked))
    assert [result.status for result in results] == [status for _, _, status in asked]
    assert [(r.value, r.stdout) for r in results[:: len(KINDS)]] == [
        (n * n, f"{n}\n") for n in range(0, many, len(KINDS))
    ]
    assert (crowd.most, crowd.now, crowd.started) == (2, 0, 1 + many)
    assert _children() <= children
    assert len(os.listdir("/proc/self/fd")) <= descriptors


async def test_hundreds_of_checks_and_few_workers(alone: Callable[..., Sandbox]) -> None:
    """Two hundred checks in Monty are each judged by their own tests, in no more workers than were asked for."""
    alone("monty")
    before = _children()
    sandbox = Sandbox(layers=("monty",), parallel=2, timeout_s=60)
    codes = [f"def f(x):\n    return x + {n % 2}" for n in range(MANY)]
    verdicts = await asyncio.gather(*(sandbox.acheck(code, "assert f(1) == 1", "f") for code in codes))
    assert Counter(verdict.ok for verdict in verdicts) == {True: MANY // 2, False: MANY // 2}
    assert [verdict.ok for verdict in verdicts] == [True, False] * (MANY // 2)
    assert len(_children() - before) <= 4


async def test_who_waits_for_code_keeps_no_thread_of_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    """While as many checks run as may and hundreds wait, a call in asyncio's own threads is made at once."""
    sandbox = Sandbox(parallel=2)
    all_there, go_on, crowd = threading.Barrier(5), threading.Event(), Crowd()

    def check(*args: Any, **kwargs: Any) -> int:
        crowd.add(1)
        if crowd.started <= 4:
            all_there.wait(60)
        assert go_on.wait(60)
        crowd.add(-1)
        return 7

    monkeypatch.setattr(sandbox, "check", check)
    monkeypatch.setattr(sandbox, "run", check)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    waiting = [asyncio.ensure_future(sandbox.acheck("", "", "f")) for _ in range(MANY)]
    waiting += [asyncio.ensure_future(sandbox.arun("")) for _ in range(MANY)]
    await asyncio.to_thread(all_there.wait, 60)
    assert await asyncio.to_thread(lambda: "free") == "free"
    assert crowd.most == 4
    for one in waiting[MANY:]:
        one.cancel()
    await asyncio.wait(waiting[MANY:])
    go_on.set()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert results[:MANY] == [7] * MANY
    assert all(isinstance(one, asyncio.CancelledError) for one in results[MANY:])
    assert (crowd.most, crowd.started) == (4, MANY)
