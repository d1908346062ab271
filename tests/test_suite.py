"""The suite itself: whatever ends a test run, nothing that it started goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

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
