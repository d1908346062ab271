"""The suite itself: whatever ends a test run, nothing that it started goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

TESTS = Path(__file__).parent
RUN = """
import contextlib, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import postgres_server
with contextlib.ExitStack() as stack:
    print(stack.enter_context(postgres_server.joined(Path(sys.argv[2]))).url, flush=True)
    if sys.argv[3:]:
        print(stack.enter_context(postgres_server.started()).url, flush=True)
    sys.stdin.read()
"""


def run(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", RUN, str(TESTS), *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)


def postmaster(url: str) -> tuple[psutil.Process, Path]:
    """Return a server's first process, and the folder that its keeper removes."""
    import psycopg

    with psycopg.connect(url) as connection:
        ((data,),) = connection.execute("SHOW data_directory").fetchall()
    return psutil.Process(int((Path(data) / "postmaster.pid").read_text().split()[0])), Path(data).parent


@pytest.mark.usefixtures("postgres_server")
def test_a_run_that_is_killed_leaves_no_server_behind(tmp_path: Path) -> None:
    """PostgreSQL ends with the last process that uses it, killed or interrupted, and its folder is gone."""
    with run(str(tmp_path), "and one of its own") as first, run(str(tmp_path)) as second:
        assert first.stdout
        assert second.stdout
        shared, own = (postmaster(first.stdout.readline().strip()) for _ in range(2))
        assert postmaster(second.stdout.readline().strip()) == shared
        first.send_signal(signal.SIGKILL)
        assert not psutil.wait_procs([own[0]], timeout=60)[1]
        assert shared[0].is_running()
        second.send_signal(signal.SIGINT)
    assert not psutil.wait_procs([shared[0]], timeout=60)[1]


FORKING = """
import sys
sys.path.insert(0, sys.argv[1])
import forked_python
with forked_python.started(bare=True) as forking:
    print(forking.start(["-c", "import time; time.sleep(600)"]).pid, flush=True)
    sys.stdin.read()
"""


def test_a_run_that_is_killed_leaves_no_forked_process_behind() -> None:
    """What the tests started as `redraft`, and what forks for them, ends with them."""
    command = [sys.executable, "-c", FORKING, str(TESTS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tests:
        assert tests.stdout
        forked = psutil.Process(int(tests.stdout.readline()))
        parent = forked.parent()
        assert parent
        tests.kill()
    assert not psutil.wait_procs([forked, parent], timeout=60)[1]


@pytest.mark.parametrize(
    ("program", "code", "expected"),
    [
        ("import sys; print(sys.argv[1:], __name__, input()); sys.exit(3)", 3, "['a', 'b'] __main__ typed\n"),
        ("import atexit; atexit.register(print, 'last'); 1 / 0", 1, "last\nZeroDivisionError: division by zero\n"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, ""),
        ("import os; print(os.getcwd() == os.environ['HERE'], os.getpid() == os.getsid(0))", 0, "True True\n"),
    ],
    ids=["arguments and input", "an error", "a signal", "its place"],
)
def test_a_forked_process_is_as_any_other(program: str, code: int, expected: str, forking: Any, tmp_path: Path) -> None:
    """The tests see what a shell would: arguments, pipes, folder, environment, session, exit handlers, exit code."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    place = {"cwd": tmp_path, "env": {**os.environ, "HERE": str(tmp_path)}, "start_new_session": True}
    with forking.start(["-c", program, "a", "b"], **pipes, **place) as process:
        process.stdin.write("typed\n")
        process.stdin.flush()
        out, err = process.communicate(60)
        assert process.wait(60) == code
    assert out + "".join(err.splitlines(keepends=True)[-1:]) == expected
