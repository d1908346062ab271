"""What each part of the sandbox stops by itself, with the others switched off, and what it leaves to them.

The same table, for readers, is docs/sandbox.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from redraft.sandbox import Sandbox

GOALS = {
    "read": "answer = open(path).read()",
    "write": "open(target, 'w').close()",
    "list processes": "import os\nanswer = [won for name in os.listdir('/proc') if name.isdigit()]",
    "signal": "import os\nos.kill(parent, 0)\nanswer = won",
    "trace": "import ctypes\nanswer = won if ctypes.CDLL(None).ptrace(0x4206, parent, 0, 0) == 0 else 0",
    "connect": "import socket\nsocket.create_connection(('127.0.0.1', port), 1)",
    "connect by name": "import socket\nsocket.socket(socket.AF_UNIX).connect(chr(0) + abstract)\nanswer = won",
    "make a socket": "import socket\nsocket.socket()\nanswer = won",
    "program": "import subprocess\nsubprocess.run(['/bin/cp', path, target])",
    "fork": "import os\npid = os.fork()\nif pid == 0:\n    os._exit(0)\nos.waitpid(pid, 0)\nanswer = won",
    "threads": "import threading\nt = threading.Thread(target=int)\nt.start()\nt.join()\nanswer = won",
    "namespace": "import ctypes\nanswer = won if ctypes.CDLL(None).unshare(0x10000000) == 0 else 0",
    "memory": "x = bytearray(200 << 20)\nanswer = won",
    "file in memory": "import os\nos.write(os.memfd_create('x'), b'x')\nanswer = won",
    "descriptors": "import os\nfor _ in range(100):\n    os.dup(1)\nanswer = won",
    "fill a file": (
        "import os\nfd = os.open(target, os.O_CREAT | os.O_WRONLY)\ntry:\n    os.write(fd, b'x')\n    answer = won\n"
        "finally:\n    os.close(fd)\n    os.remove(target)"
    ),
    "environment": "import os\nanswer = os.environ['CANARY']",
    "descriptor": "import os\nanswer = os.pread(opened, 99, 0).decode()",
    "kernel key": (
        "import ctypes\nlibc = ctypes.CDLL(None)\nn = ctypes.c_long\n"
        "answer = won if libc.syscall(n(248), b'user', b'x', b'y', n(1), n(-2)) >= 0 else 0"
    ),
}
STOPS = {
    "bubblewrap": {
        "read", "write", "list processes", "signal", "trace", "connect", "connect by name", "program", "environment",
        "descriptor", "fill a file",
    },
    "seccomp": set(GOALS) - {"memory"},
    "rlimits": {"memory", "fill a file", "file in memory", "descriptors", "environment", "descriptor"},
    "nothing": {"environment", "descriptor"},
}  # fmt: skip
"""Of GOALS, what each part stops; the rest it does not, which is as certain."""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="one of these names a call by its number on x86_64")
@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("part", STOPS)
def test_a_part_alone_stops_what_it_claims_to(part: str, goal: str, only: Callable[..., Sandbox], machine: Any) -> None:
    """With the other parts switched off, each stops exactly what the table says that it stops."""
    sandbox = only(part)
    if part == "rlimits" and goal in {"fork", "program", "threads"} and os.getuid() != 0:
        pytest.skip("this user may have processes enough: only root is above RLIMIT_NPROC")
    result = sandbox.run(GOALS[goal], machine.inputs)
    assert bool(machine.lost(result)) == (goal not in STOPS[part]), result


@pytest.mark.parametrize("goal", ["fork", "threads", "program"])
def test_limits_stop_processes_of_anyone_but_root(goal: str, only: Callable[..., Sandbox], machine: Any) -> None:
    """As nobody, which root's children become, or as any user, the limits alone stop another process or thread."""
    result = only("rlimits", "user").run(GOALS[goal], machine.inputs)
    assert machine.lost(result) == []
    assert result.status == "failed"


@pytest.mark.skipif(os.getuid() != 0, reason="only root has someone else to become")
@pytest.mark.parametrize("goal", ["read", "write", "signal", "trace"])
def test_nobody_gets_nothing_that_is_roots(goal: str, only: Callable[..., Sandbox], machine: Any) -> None:
    """Started by root, code is nobody, to whom root's private files and processes are closed even without a filter."""
    assert machine.lost(only("user").run(GOALS[goal], machine.inputs)) == []


def test_the_processor_time_limit_needs_no_wall_clock(only: Callable[..., Sandbox], monkeypatch: Any) -> None:
    """A loop ends by the kernel's hand, though nobody watched the clock."""
    from redraft.sandbox import launch

    real = launch.rlimits
    sandbox = only("rlimits", timeout_s=60.0)
    monkeypatch.setattr(launch, "rlimits", lambda limits: real(limits) | {"RLIMIT_CPU": 1})
    result = sandbox.run("while True:\n    try:\n        while True: pass\n    except BaseException: pass")
    assert (result.status, result.error) == ("timeout", "the processor time limit was reached")


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("import time\ntime.sleep(99)", "timeout"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", "timeout"),
        ("import time\ntime.monotonic = time.time = lambda: 0\nwhile True: time.sleep(1)", "timeout"),
        ("import os\nwhile True: os.write(1, b'x' * 999)", "output"),
        ("'x' * 10 ** 7", "output"),
    ],
)
def test_the_watch_alone_ends_what_has_no_end(code: str, status: str, only: Callable[..., Sandbox]) -> None:
    """Without any other guard, sleep, a stopped process and a flood of words end at their limits."""
    assert only("nothing", timeout_s=0.2 if status == "timeout" else 10.0).run(code).status == status


def test_two_processes_alone_keep_the_verdict(only: Callable[..., Sandbox]) -> None:
    """Code without any other guard can still not learn or forge what its tests say."""
    sandbox = only("nothing")
    prying = (
        "import gc, os, sys\ndef f(x):\n    for o in gc.get_objects():\n"
        "        if isinstance(o, dict) and o.get('nonce', 'nonce') != 'nonce':\n            return x * x\n"
        "    sys.stdout.write('passed')\n    return 7"
    )
    assert not sandbox.check(prying, "assert f(2) == 4", "f").ok
    assert sandbox.check("def f(x):\n    return x * x", "assert f(2) == 4", "f").ok


@pytest.mark.parametrize("step", ["bpf", "rlimits"])
def test_a_guard_that_does_not_take_runs_nothing(
    step: str, alone: Callable[..., Sandbox], monkeypatch: Any, machine: Any
) -> None:
    """Where the kernel refuses one guard, the code is not run with the others: it is not run at all."""
    from redraft.sandbox import launch

    sandbox = alone("seccomp")
    if step == "bpf":
        allow_all = (0x7FFF0000).to_bytes(4, "little")
        monkeypatch.setattr(launch, "seccomp_filter", lambda *, files: b"\x06\0\0\0" + allow_all)
    else:
        monkeypatch.setattr(launch, "rlimits", lambda _: {"RLIMIT_NOFILE": 1 << 62})
    with pytest.raises(OSError, match=r"not in force|rlimit|not permitted|not allowed"):
        sandbox.run("open(target, 'w').close()", machine.inputs)
    assert os.listdir(machine.inputs["folder"]) == ["canary.py"]
