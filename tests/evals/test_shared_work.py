"""Workers that share a run through PostgreSQL: each problem is run once, whatever becomes of a worker."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("psycopg")

from redraft.evals.datasets.problems import Dataset, Problem
from redraft.evals.run.shared_work import SharedJob, Worker

if TYPE_CHECKING:
    from collections.abc import Callable

END_ALL = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()"""

SUMS = tuple(Problem(f"p-{n}", f"What is {n} + {n}?", str(2 * n)) for n in range(20))
PROBLEMS = Dataset("sums", "exact", "0" * 64, SUMS)


def job(url: str, model: str, **options: Any) -> SharedJob:
    named = tuple((problem.id, problem.task) for problem in PROBLEMS.problems)
    given = {"run_id": "run", "method": "blind-2", "kind": "exact", "problems": named, "model": model, "db": url}
    return SharedJob(**{**given, **options})


def asked(server: Any) -> Counter[str]:
    """How often each problem was asked."""
    texts = [request["messages"][-1]["content"] for request in server.requests]
    return Counter(problem.task for problem in PROBLEMS.problems for text in texts if problem.task in text)


async def shared(given: SharedJob, *, workers: int = 2, slots: int = 3) -> list[Worker]:
    made = [Worker(given, number, workers) for number in range(workers)]
    async with asyncio.TaskGroup() as group:
        for worker in made:
            for _ in range(slots):
                group.create_task(worker.work())
    return made


async def close(workers: list[Worker]) -> None:
    for worker in workers:
        await worker.close()


async def results_of(url: str) -> dict[str, Any]:
    from redraft.evals.run.result_table import ResultTable

    async with ResultTable(url) as table:
        return dict(await table.read("run", await table.finished("run")))


async def test_workers_run_each_problem_once(postgres_url: str, serve: Callable[..., Any]) -> None:
    """Two workers, three problems at once each: every problem has its result, and was paid for once."""
    server = serve(lambda request: "#### 4", delay_s=0.01)
    await close(await shared(job(postgres_url, server.spec)))
    assert asked(server) == {problem.task: 3 for problem in PROBLEMS.problems}
    found = await results_of(postgres_url)
    assert found.keys() == {problem.id for problem in PROBLEMS.problems}
    assert {outcome["output"]["rounds"] for outcome in found.values()} == {2}


async def test_a_cut_off_worker_goes_on_from_the_checkpoints(postgres_url: str, serve: Callable[..., Any]) -> None:
    """When the database drops every connection in the middle, the run ends all the same, and repeats few calls."""
    import psycopg

    def cut(request: dict[str, Any]) -> str:
        if len(server.requests) == 25:
            with psycopg.connect(postgres_url, autocommit=True) as admin:
                admin.execute(END_ALL)
        return "#### 4"

    server = serve(cut, delay_s=0.01)
    await close(await shared(job(postgres_url, server.spec)))
    assert 60 <= len(server.requests) <= 60 + 6
    found = await results_of(postgres_url)
    assert found.keys() == {problem.id for problem in PROBLEMS.problems}
    assert {outcome["error"] for outcome in found.values()} == {None}
    assert {outcome["output"]["usage"]["calls"] for outcome in found.values()} == {3}


async def test_a_problem_that_fails_has_a_result_that_says_so(postgres_url: str, serve: Callable[..., Any]) -> None:
    """A refused request ends one problem, not the run, and its result names the error."""

    def refuse(request: dict[str, Any]) -> Any:
        return {"status": 400} if "What is 7 " in request["messages"][-1]["content"] else "#### 4"

    server = serve(refuse)
    await close(await shared(job(postgres_url, server.spec, method="zero-shot"), workers=1))
    found = await results_of(postgres_url)
    assert [name for name, outcome in found.items() if outcome["error"]] == ["p-7"]
    assert found["p-7"]["output"] is None
    assert found["p-7"]["error"].endswith("scripted error 400")


def test_what_travels_holds_no_secret_and_no_gold_answer() -> None:
    """A job can be shown, and sent anywhere: it knows ids and tasks only, and hides the database's password."""
    given = job("postgresql://ann:secret-word@host/db", "openai:gpt-5-mini")
    assert "secret-word" not in repr(given)
    assert dataclasses.asdict(given)["problems"] == tuple((one.id, one.task) for one in PROBLEMS.problems)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"method": "oracle-refine-3"}, "oracle-refine-3 needs the gold answers .* without --engine ray"),
        ({"method": "guess-3"}, "there is no method 'guess-3'"),
        ({"db": "runs.sqlite"}, "'runs.sqlite' is not a PostgreSQL URL"),
    ],
)
def test_what_workers_can_not_do_is_refused_when_it_is_planned(change: dict[str, str], said: str) -> None:
    """Before anything is started or paid, a user reads why, and what would do."""
    with pytest.raises(ValueError, match=said):
        job("postgresql://host/db", "local", **change)
