"""Workers that run the problems they are handed: from the checkpoint, through a lost database, once."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("psycopg")

from redraft.evals.datasets.dataset import Dataset, Problem
from redraft.evals.run.ray_engine import RayJob, Worker

if TYPE_CHECKING:
    from collections.abc import Callable

END_ALL = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()"""

SUMS = tuple(Problem(f"p-{n}", f"What is {n} + {n}?", str(2 * n)) for n in range(20))
PROBLEMS = Dataset("sums", "exact", "0" * 64, SUMS)


def job(url: str, model: str, **options: Any) -> RayJob:
    return RayJob(**{"run_id": "run", "method": "blind-2", "kind": "exact", "model": model, "db": url, **options})


def asked(server: Any) -> Counter[str]:
    """How often each problem was asked."""
    texts = [request["messages"][-1]["content"] for request in server.requests]
    return Counter(problem.task for problem in PROBLEMS.problems for text in texts if problem.task in text)


async def solved(given: RayJob, *, workers: int = 2) -> dict[str, Any]:
    """What became of each problem, handed to the workers in turn."""
    made = [Worker(workers) for _ in range(workers)]
    calls = [
        made[number % workers].solve(given, f"run/{problem.id}", problem.task)
        for number, problem in enumerate(PROBLEMS.problems)
    ]
    outcomes = await asyncio.gather(*calls)
    for worker in made:
        await worker.close()
    return dict(zip((problem.id for problem in PROBLEMS.problems), outcomes, strict=True))


async def test_workers_run_each_problem_once(postgres_url: str, serve: Callable[..., Any]) -> None:
    """Two workers at ten problems each: every problem has its result, and was paid for once."""
    server = serve(lambda request: "#### 4", delay_s=0.01)
    found = await solved(job(postgres_url, server.spec))
    assert asked(server) == {problem.task: 3 for problem in PROBLEMS.problems}
    assert {outcome["output"]["rounds"] for outcome in found.values()} == {2}


async def test_a_problem_that_another_worker_finished_costs_nothing(
    postgres_url: str, serve: Callable[..., Any]
) -> None:
    """A result that was lost on its way is had again from the checkpoint, without a call."""
    server = serve(lambda request: "#### 4")
    first, again = [await solved(job(postgres_url, server.spec)) for _ in range(2)]
    assert asked(server) == {problem.task: 3 for problem in PROBLEMS.problems}
    assert {name: one["output"] for name, one in first.items()} == {name: one["output"] for name, one in again.items()}


async def test_a_worker_asks_the_critic_that_is_named(postgres_url: str, serve: Callable[..., Any]) -> None:
    """`--critic checklist:self` on Ray: the model that writes is asked the checklist's questions about its draft."""
    server = serve(lambda request: "yes" if "yes or no" in request["messages"][-1]["content"] else "#### 2")
    worker = Worker(1)
    named = job(postgres_url, server.spec, method="self-refine-2", critic="checklist:self")
    outcome = await worker.solve(named, "run/p-1", SUMS[1].task)
    await worker.close()
    assert (outcome["error"], outcome["output"]["stop_reason"]) == (None, "accepted")
    assert outcome["output"]["accepted_by"].startswith("checklist:self")
    assert len(server.requests) == 1 + 4


async def test_a_call_that_comes_twice_is_one_run(postgres_url: str, serve: Callable[..., Any]) -> None:
    """When Ray's connection hiccups and the driver asks again, the problem is not run beside itself."""
    server = serve(lambda request: "#### 4", delay_s=0.05)
    worker, given = Worker(1), job(postgres_url, server.spec)
    one, other = await asyncio.gather(*(worker.solve(given, "run/p-1", SUMS[1].task) for _ in range(2)))
    await worker.close()
    assert one == other
    assert len(server.requests) == 3


async def test_a_cut_off_worker_goes_on_from_the_checkpoints(postgres_url: str, serve: Callable[..., Any]) -> None:
    """When the database drops every connection in the middle, the run ends all the same, and repeats few calls."""
    import psycopg

    def cut(request: dict[str, Any]) -> str:
        if len(server.requests) == 25:
            with psycopg.connect(postgres_url, autocommit=True) as admin:
                admin.execute(END_ALL)
        return "#### 4"

    server = serve(cut, delay_s=0.01)
    found = await solved(job(postgres_url, server.spec))
    assert 60 <= len(server.requests) <= 60 + 20  # what was under way
    assert {outcome["error"] for outcome in found.values()} == {None}
    assert {outcome["output"]["usage"]["calls"] for outcome in found.values()} == {3}


async def test_a_problem_that_fails_has_a_result_that_says_so(postgres_url: str, serve: Callable[..., Any]) -> None:
    """A refused request ends one problem, not the run, and its result names the error."""

    def refuse(request: dict[str, Any]) -> Any:
        return {"status": 400} if "What is 7 " in request["messages"][-1]["content"] else "#### 4"

    found = await solved(job(postgres_url, serve(refuse).spec, method="zero-shot"), workers=1)
    assert [name for name, outcome in found.items() if outcome["error"]] == ["p-7"]
    assert found["p-7"]["output"] is None
    assert found["p-7"]["error"].endswith("scripted error 400")


async def test_a_worker_is_seen_in_the_database_and_notices_when_it_is_gone(
    postgres_url: str, serve: Callable[..., Any]
) -> None:
    """`pg_stat_activity` names the worker's process; a setting of the user's URL stays as it is."""
    import psycopg

    worker = Worker(1)
    await worker.ready(job(f"{postgres_url}?keepalives_idle=7", serve([]).spec))
    (saver,) = [worker._method.graph.checkpointer] if worker._method else []
    with saver.pool.connection() as connection, psycopg.connect(postgres_url) as admin:
        used = connection.info.get_parameters()
        names = {name for (name,) in admin.execute("SELECT application_name FROM pg_stat_activity")}
    assert any(name.startswith(f"redraft eval {os.getpid()} ") for name in names)
    assert (used["keepalives_idle"], used["tcp_user_timeout"]) == ("7", "40000")
    await worker.close()


@pytest.mark.parametrize(
    "change",
    [{"path": "/not_there"}, {"netloc": "redraft:secret-word@127.0.0.1:1"}, {"query": "sslmode=bogus"}],
    ids=["no database", "no server", "bad option"],
)
async def test_a_database_out_of_reach_is_said_without_the_password(
    postgres_url: str, serve: Callable[..., Any], change: dict[str, str]
) -> None:
    """A user reads what can't be reached, and no log holds the password."""
    parts = urlsplit(postgres_url)
    place = parts.netloc.rpartition("@")[2]
    url = parts._replace(netloc=f"redraft:secret-word@{place}")._replace(**change).geturl()
    with pytest.raises((ConnectionError, ValueError)) as refused:
        await Worker(1).ready(job(url, serve([]).spec))
    assert "secret-word" not in str(refused.value)
    assert refused.value.__suppress_context__


def test_what_travels_holds_no_secret_and_no_gold_answer() -> None:
    """A job can be shown, and sent anywhere: it holds no problem, and hides the database's password and the key."""
    given = job("postgresql://ann:secret-word@host/db", "openai:gpt-5-mini", encryption_key="secret-key")
    assert "secret" not in repr(given)
    assert not {"problems", "gold"} & dataclasses.asdict(given).keys()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"method": "oracle-refine-3"}, "oracle-refine-3 needs the gold answers .* without --engine ray"),
        ({"method": "guess-3"}, "there is no method 'guess-3'"),
        ({"db": "runs.sqlite"}, "'runs.sqlite' is not a PostgreSQL URL"),
        ({"db": "memory"}, "postgresql://"),
        ({"db": "mysql://ann:secret-word@host/db"}, "^(?!.*secret-word).*postgresql://"),
    ],
)
def test_what_workers_can_not_do_is_refused_when_it_is_planned(change: dict[str, str], said: str) -> None:
    """Before anything is started or paid, a user reads why, and what would do."""
    with pytest.raises(ValueError, match=said):
        job("postgresql://host/db", "local", **change)
