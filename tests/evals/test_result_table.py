"""Results of workers in PostgreSQL: each problem has one, and one worker at a time runs a thread."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
import time
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("psycopg")

from redraft.evals.run.result_table import ResultTable

USAGE: Any = {
    "input_tokens": 1,
    "output_tokens": 1,
    "total_tokens": 2,
    "calls": 1,
    "cost_usd": None,
    "seconds": 0.1,
}


def outcome(answer: str) -> Any:
    return {"output": {"answer": answer}, "error": None, "usage": USAGE, "seconds": 0.1}


async def test_a_problem_has_one_result_however_often_it_is_stored(postgres_url: str) -> None:
    """Workers that finish the same problem at once, or in turn, leave one result; another run has its own."""
    async with ResultTable(postgres_url) as one, ResultTable(postgres_url) as other:
        answers = await asyncio.gather(
            *(table.store("run", "p-1", outcome(str(n))) for n in range(10) for table in (one, other))
        )
        assert answers.count(True) == 1
        assert not await one.store("run", "p-1", outcome("late"))
        assert await other.store("run 2", "p-1", outcome("its own"))
        assert await one.stored("run", "p-1")
        assert not await one.stored("run", "p-2")
        assert await one.finished("run") == {"p-1"}
        found = await one.read("run", ["p-1", "p-2"])
        assert found.keys() == {"p-1"}
        assert found["p-1"]["output"] != {"answer": "late"}
        await one.forget("run", ["p-1"])
        assert await one.finished("run") == set()
        assert await one.finished("run 2") == {"p-1"}


async def test_any_record_can_be_stored(postgres_url: str) -> None:
    """What a JSON column refuses comes back as it went in."""
    async with ResultTable(postgres_url) as table:
        strange = {**outcome("a\x00b\ud800 é"), "seconds": math.inf}
        await table.store("run", "p-1", strange)
        assert (await table.read("run", ["p-1"]))["p-1"] == strange


async def test_tables_are_made_by_many_at_once(postgres_url: str) -> None:
    """Workers that start together on an empty database don't trip over each other."""

    async def start() -> None:
        async with ResultTable(postgres_url) as table:
            assert await table.finished("run") == set()

    await asyncio.gather(*(start() for _ in range(8)))


async def test_a_thread_is_one_workers_at_a_time(postgres_url: str) -> None:
    """Who comes second gets the thread when it is given back, or when the first one's connection ends."""
    async with ResultTable(postgres_url) as second:
        async with ResultTable(postgres_url) as first:
            assert await first.take("run/p-1")
            assert not await second.take("run/p-1")
            assert await second.take("run/p-2")
            await first.give_back("run/p-1")
            assert await second.take("run/p-1")
            await second.give_back("run/p-1")
            assert await first.take("run/p-1")
        assert await second.take("run/p-1")


def test_a_killed_worker_gives_up_its_threads(postgres_url: str) -> None:
    """A worker that dies by SIGKILL leaves no thread locked."""
    code = f"""if True:
        import asyncio
        from redraft.evals.run.result_table import ResultTable
        async def hold():
            async with ResultTable({postgres_url!r}) as table:
                print(await table.take("run/p-1"), flush=True)
                await asyncio.Event().wait()
        asyncio.run(hold())
    """

    async def free() -> bool:
        async with ResultTable(postgres_url) as table:
            return await table.take("run/p-1")

    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert not asyncio.run(free())
        holder.kill()
        holder.wait()
    deadline = time.monotonic() + 10  # the server notices when it next reads the connection
    while not asyncio.run(free()):
        assert time.monotonic() < deadline


async def test_who_lost_the_locks_can_store_nothing(postgres_url: str) -> None:
    """A worker that was cut off, and whose thread another has taken, can't put its result in the other's place."""
    import psycopg

    async with ResultTable(postgres_url) as table:
        assert await table.take("run/p-1")
        with psycopg.connect(postgres_url, autocommit=True) as admin:
            ours = "FROM pg_stat_activity WHERE application_name LIKE 'redraft eval %'"
            assert admin.execute(f"SELECT pg_terminate_backend(pid, 5000) {ours}").fetchall() == [(True,)]
        for call in (table.check(), table.store("run", "p-1", outcome("5")), table.take("run/p-2")):
            with pytest.raises(ConnectionError):
                await call
    async with ResultTable(postgres_url) as table:
        assert await table.finished("run") == set()
        assert await table.take("run/p-1")


@pytest.mark.parametrize("url", ["runs.sqlite", "memory", "mysql://ann:secret-word@host/db"])
def test_only_postgresql_is_shared_by_workers(url: str) -> None:
    """Any other database is refused at once, and the message holds no password."""
    with pytest.raises(ValueError, match="postgresql://") as refused:
        ResultTable(url)
    assert "secret-word" not in str(refused.value)


@pytest.mark.parametrize(
    "change",
    [{"path": "/not_there"}, {"netloc": "redraft:secret-word@127.0.0.1:1"}, {"query": "sslmode=bogus"}],
    ids=["no database", "no server", "bad option"],
)
async def test_a_database_out_of_reach_is_said_without_the_password(postgres_url: str, change: dict[str, str]) -> None:
    """A user reads what can't be reached, and no log holds the password."""
    parts = urlsplit(postgres_url)
    place = parts.netloc.rpartition("@")[2]
    url = parts._replace(netloc=f"redraft:secret-word@{place}")._replace(**change).geturl()
    with pytest.raises((ConnectionError, ValueError)) as refused:
        await ResultTable(url).__aenter__()
    assert "secret-word" not in str(refused.value)
    assert refused.value.__suppress_context__
