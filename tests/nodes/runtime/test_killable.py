"""What others supply runs in processes that can be killed, with limits for each job and a share for each caller."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from redraft.nodes.runtime import killable
from redraft.nodes.runtime.killable import as_caller, end_helpers, off_loop, run_job
from redraft.sandbox.launch import missing

if TYPE_CHECKING:
    from collections.abc import Iterator


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only wall time is limited")


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A pool of four helpers, of which none has begun."""
    monkeypatch.setattr(killable, "MOST", 4)
    monkeypatch.setattr(killable, "SHARE", 2)
    monkeypatch.setattr(killable, "POOL", killable._Pool())
    yield killable.POOL
    killable.POOL.close()


def test_a_helper_is_kept_for_the_next_job_and_sees_no_environment(pool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second job pays for no start, and a provider's key is not there to be read."""
    monkeypatch.setenv("SOME_API_KEY", "secret")
    assert run_job("os:getpid") == run_job("os:getpid") != os.getpid()
    assert run_job("os:getenv", "SOME_API_KEY") is None
    assert run_job("os:getenv", "HOME") is None


@pytest.mark.parametrize(
    ("job", "limits", "error", "told"),
    [
        pytest.param(("re:search", "^(a+)+$", "a" * 60 + "!"), {"cpu_s": 1}, TimeoutError, "1 s of CPU", marks=LINUX),
        (("time:sleep", 60), {"wall_s": 0.1}, TimeoutError, "more than 0.1 s"),
        pytest.param(("builtins:bytearray", 2 << 30), {}, MemoryError, "more than 1024 MB", marks=LINUX),
        (("operator:mul", "a", 2 << 20), {}, ValueError, "longer than"),
        (("os:_exit", 3), {}, ChildProcessError, "ended with 3"),
        (("builtins:int", "x"), {}, ValueError, "invalid literal"),
        (("json:loads", "x"), {}, RuntimeError, "JSONDecodeError: Expecting value"),
    ],
)
def test_a_job_beyond_its_limits_costs_its_caller_one_clear_error(
    pool: Any, job: tuple[Any, ...], limits: dict[str, Any], error: type[Exception], told: str
) -> None:
    """Time, memory, size, a crash, and what the job itself raises; the next job finds a helper that works."""
    with pytest.raises(error, match=told):
        run_job(*job, **limits)
    assert run_job("builtins:len", "abc") == 3


def test_a_helper_that_ended_between_jobs_costs_nobody_anything(pool: Any) -> None:
    """The system's out-of-memory killer took it, say, or it was idle for long."""
    first = run_job("os:getpid")
    os.kill(first, signal.SIGKILL)
    pool.idle[0].process.wait()
    assert run_job("os:getpid") != first


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_has_helpers_of_its_own(pool: Any) -> None:
    """Two processes never read each other's answers."""
    first = run_job("os:getpid")
    child = os.fork()
    if not child:
        try:
            os._exit(run_job("os:getpid") == first)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert run_job("os:getpid") == first


def test_nobody_takes_every_helper(pool: Any) -> None:
    """While one caller's jobs hold their share and more wait, another's begin and end."""
    taken, gate = threading.Semaphore(0), threading.Event()

    def hold() -> None:
        with as_caller("one"), pool.helper() as helper:
            taken.release()
            gate.wait(60)
            helper.last = False

    with ThreadPoolExecutor(6) as threads:
        holding = [threads.submit(hold) for _ in range(6)]
        assert all(taken.acquire(timeout=60) for _ in range(2))
        assert not taken.acquire(blocking=False)
        with as_caller("another"):
            assert run_job("builtins:len", "abc") == 3
        gate.set()
        assert all(held.result(60) is None for held in holding)


def test_a_job_does_not_keep_its_process_from_ending(pool: Any) -> None:
    """A server that is stopped ends what its callers' jobs still do, and those that wait."""
    with ThreadPoolExecutor(6) as threads:
        jobs = [threads.submit(run_job, "time:sleep", 600, wall_s=600) for _ in range(6)]
        while len(pool._at_work) < killable.MOST:
            assert not any(job.done() for job in jobs)
        end_helpers()
        assert {type(job.exception(60)) for job in jobs} == {ChildProcessError, TimeoutError}


async def test_nobody_takes_every_thread() -> None:
    """While one caller's calls hold their share of threads and more wait, another's are made."""
    gate = threading.Event()

    async def one(name: str, function: Any, *args: Any) -> Any:
        with as_caller(name):
            return await off_loop(function, *args)

    waiting = [asyncio.create_task(one("one", gate.wait, 60)) for _ in range(killable.THREADS)]
    assert await one("another", len, "abc") == 3
    gate.set()
    assert await asyncio.gather(*waiting) == [True] * killable.THREADS


@pytest.mark.parametrize("job", [("builtins:open", "opened", "w"), ("socket:socket",), ("os:fork",)])
def test_a_helper_only_reads(pool: Any, job: tuple[Any, ...]) -> None:
    """Where seccomp is there it writes no file, and opens no socket and no process."""
    if why := missing("seccomp"):
        pytest.skip(why)
    with pytest.raises(PermissionError):
        run_job(*job)
