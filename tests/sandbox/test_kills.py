"""When time is up: an answer that comes too late counts for nothing, and no process stays behind."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redraft.sandbox import Sandbox
from redraft.sandbox.worker import Worker

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs pidfd_open, of Linux 5.3")
PATIENCE_S = 30
DAEMON = (
    "import os, signal, time\nr, w = os.pipe()\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
    "        for s in range(1, 65):\n            try:\n                signal.signal(s, signal.SIG_IGN)\n"
    "            except (OSError, ValueError):\n                pass\n"
    "        os.write(w, b'x')\n        time.sleep(999)\n    os._exit(0)\nos.wait()\nos.read(r, 1)\n"
)
"""Leaves a process of another session, which ignores every signal that can be ignored and has no parent."""


def _descendants(pid: int) -> list[int]:
    found = [pid]
    for known in found:
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{known}/task"):
                found += map(int, Path(f"/proc/{known}/task/{task}/children").read_text().split())
    return found


class Watched:
    """All processes of the children when these were killed, each held by a descriptor that says when it ends."""

    def __init__(self) -> None:
        """Nobody yet."""
        self.held: dict[int, int] = {}

    def hold(self, pid: int) -> None:
        """Remember `pid` and all that descends from it."""
        for known in _descendants(pid):
            with contextlib.suppress(ProcessLookupError):
                self.held[known] = os.pidfd_open(known)

    def assert_gone(self) -> None:
        """Each of them has ended, or does within the time that even a busy machine needs."""
        for pid, held in self.held.items():
            assert select.select([held], [], [], PATIENCE_S)[0], f"process {pid} is still there"


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    """Everyone in a sandbox at the moment when it is ended."""
    watched, leave = Watched(), Worker.__exit__

    def noted(worker: Worker, *error: Any) -> None:
        watched.hold(worker._process.pid)
        leave(worker, *error)

    monkeypatch.setattr(Worker, "__exit__", noted)
    yield watched
    for held in watched.held.values():
        os.close(held)


@pytest.mark.parametrize("ending", ["1 + 1", "while True:\n    pass"])
def test_a_daemon_ends_with_its_namespace(ending: str, only: Callable[..., Sandbox], watched: Watched) -> None:
    """Even where it could fork, code leaves no process behind: bubblewrap alone ends all that it began."""
    result = only("bubblewrap", timeout_s=20.0 if ending == "1 + 1" else 3.0).run(DAEMON + ending)
    assert result.status == ("ok" if ending == "1 + 1" else "timeout")
    assert len(watched.held) >= 4
    watched.assert_gone()


@pytest.mark.parametrize("layer", ["bubblewrap", "seccomp"], indirect=True)
def test_nothing_stays_behind(sandbox: Sandbox, hasty: Sandbox, watched: Watched) -> None:
    """After a result, a crash and a timeout, every process of the sandbox is gone."""
    statuses = [sandbox.run(code).status for code in ("1 + 1", "import os\nos._exit(3)", DAEMON)]
    assert [*statuses, hasty.run("while True:\n    pass").status] == ["ok", "failed", "failed", "timeout"]
    assert len(watched.held) >= 3
    watched.assert_gone()


LATE = "import time\ntime.sleep(0.6)\nprint('late')\n42"


@pytest.mark.parametrize("layer", ["bubblewrap", "seccomp"], indirect=True)
def test_an_answer_during_a_late_kill_counts_for_nothing(
    hasty: Sandbox, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the kill takes its time, the verdict is a timeout all the same, and what comes later is read by nobody."""
    killed: list[subprocess.Popen[bytes]] = []
    kill = subprocess.Popen.kill

    def _note(process: subprocess.Popen[bytes]) -> None:
        killed.append(process)

    monkeypatch.setattr(subprocess.Popen, "kill", _note)
    monkeypatch.setattr(subprocess.Popen, "wait", _never_yet)
    result = hasty.run(LATE)
    monkeypatch.undo()
    assert (result.status, result.value, result.stdout) == ("timeout", None, "")
    (process,) = killed
    kill(process)
    process.wait(PATIENCE_S)
    watched.assert_gone()


def _never_yet(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
    raise subprocess.TimeoutExpired(process.args, timeout or 0.0)


@pytest.mark.parametrize("layer", ["bubblewrap", "seccomp"], indirect=True)
def test_children_end_with_the_process_that_asked(layer: Any, sandbox: Sandbox) -> None:
    """A run killed with SIGKILL, which can clean nothing up, takes its sandboxes with it."""
    del sandbox
    program = (
        "import sys, time\nfrom redraft.sandbox.launch import start\n"
        "from redraft.sandbox.result import Limits\n"
        "limits = Limits(timeout_s=600, memory_mb=128, max_output=99)\n"
        f"worker = start({layer!r}, limits, code='', main=True)\nworker.wait_locked()\nprint('locked', flush=True)\n"
        "worker.ask({'op': 'run', 'code': 'while True: pass', 'inputs': ['dict', []]}, time.monotonic() + 600)\n"
    )
    asking = [sys.executable, "-c", program]
    watched = Watched()
    with subprocess.Popen(asking, stdout=subprocess.PIPE, env=dict(os.environ), cwd="/") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        watched.hold(process.pid)
        os.kill(process.pid, signal.SIGKILL)
    assert len(watched.held) >= 2
    watched.assert_gone()
    for held in watched.held.values():
        os.close(held)
