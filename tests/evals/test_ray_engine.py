"""The same evaluation on Ray: a worker or the command may be killed, and every problem has exactly one result."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("ray")
pytest.importorskip("psycopg")

from redraft.evals.commands.ray_cluster import ray_cluster
from redraft.evals.datasets.dataset import Dataset, Problem
from redraft.evals.run.ray_engine import RayJob, run_on_ray
from redraft.evals.run.run_folder import ResultFile, read_results
from redraft.evals.run.runner import GivenUpError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ANSWER = "#### 4"
"""What the model says; it is right for every other problem."""
GOLD = "987654321012345678"  # too long to turn up in an id by chance
"""Right for the rest: no prompt and no database may hold it."""

WORKERS = """SELECT application_name FROM pg_stat_activity
    WHERE datname = current_database() AND application_name LIKE 'redraft eval %'"""


def sums(count: int) -> Dataset:
    problems = tuple(Problem(f"p-{n}", f"What is sum {n}?", GOLD if n % 2 else "4") for n in range(count))
    return Dataset("sums", "exact", "0" * 64, problems)


def job(url: str, model: str, **options: Any) -> RayJob:
    return RayJob(**{"run_id": "run", "method": "zero-shot", "kind": "exact", "model": model, "db": url, **options})


def asked(server: Any, data: Dataset) -> Counter[str]:
    """How often each problem was asked."""
    texts = " ".join(request["messages"][-1]["content"] for request in server.requests)
    return Counter({problem.id: texts.count(problem.task) for problem in data.problems})


def pids(url: str) -> set[int]:
    """The workers' processes."""
    import psycopg

    with psycopg.connect(url) as admin:
        return {int(name.split()[2]) for (name,) in admin.execute(WORKERS)}


def finished(url: str) -> set[str]:
    """The problems whose thread is finished in the database."""
    from redraft.state import open_checkpointer

    with open_checkpointer(url) as saver:
        return {row.thread_id.partition("/")[2] for row in saver.runs.list(limit=100) if row.stop_reason}


def everything(url: str) -> list[bytes]:
    """Every row of every table."""
    import psycopg

    with psycopg.connect(url) as admin:
        tables = admin.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        found = [str(row).encode() for (name,) in tables for row in admin.execute(f'SELECT * FROM "{name}"')]
    assert len(found) > 400
    return found


def holding(secret: bytes, *also: Path) -> list[Path]:
    """The files of Ray's session, and others, that hold a text."""
    import ray

    session = Path(ray._private.worker._global_node.get_session_dir_path())
    written = [path for path in [*session.rglob("*"), *also] if path.is_file()]
    assert len(written) > 3
    return [path for path in written if secret in path.read_bytes()]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Ray on this machine."""
    with ray_cluster(None, workers=2):
        yield


@pytest.fixture
def file(tmp_path: Path) -> Iterator[ResultFile]:
    with ResultFile(tmp_path / "results.jsonl") as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
async def test_a_killed_workers_problems_are_finished_once(
    postgres_url: str, serve: Callable[..., Any], file: ResultFile, capfd: pytest.CaptureFixture[str]
) -> None:
    """A worker is killed half-way through 200 problems: each has one result, and no finished one is paid again.

    Nothing is printed over the results, and no log holds the password.
    """
    postgres_url = postgres_url.replace("redraft@", "redraft:secret-word@", 1)
    data = sums(200)
    server = serve(lambda request: ANSWER, delay_s=0.05)
    killed: list[int] = []
    before: list[Counter[str]] = []
    finished: list[set[str]] = []

    def on_progress(progress: Any, record: Any) -> None:
        if progress.done >= 100 and not killed:
            finished.append(set(file.records))
            killed.append(min(pids(postgres_url)))
            os.kill(killed[0], signal.SIGKILL)
            before.append(asked(server, data))

    progress = await run_on_ray(
        job(postgres_url, server.spec), data, file, workers=2, concurrency=4, on_progress=on_progress
    )
    assert (progress.done, progress.good, progress.failed) == (200, 100, 0)
    records = read_results(file.path)
    assert records.keys() == {problem.id for problem in data.problems}
    assert len(file.path.read_text().splitlines()) == 200
    counts = asked(server, data)
    assert len(killed) == 1
    assert len(finished[0]) >= 100
    assert all(counts[name] == 1 for name in finished[0])
    assert 200 <= counts.total() <= 200 + 4  # what the dead worker had under way
    assert {record.ground_truth for record in records.values()} == {"4", GOLD}
    assert capfd.readouterr().out == ""
    assert holding(b"secret-word", file.path) == []
    assert not [request for request in server.requests if GOLD in str(request)]
    assert not [row for row in everything(postgres_url) if GOLD.encode() in row]


DRIVER = """
    import asyncio, sys
    sys.path.insert(0, {folder!r})
    from pathlib import Path
    from importlib.util import spec_from_file_location, module_from_spec
    from redraft.evals.run.ray_engine import RayJob, run_on_ray
    from redraft.evals.datasets.dataset import Dataset, Problem
    from redraft.evals.run.run_folder import ResultFile
    from redraft.evals.commands.ray_cluster import ray_cluster

    problems = tuple(Problem(f"p-{{n}}", f"What is sum {{n}}?", {gold!r} if n % 2 else "4") for n in range({count}))
    data = Dataset("sums", "exact", "0" * 64, problems)
    job = RayJob("run", {method!r}, "exact", {model!r}, {url!r})
    with ray_cluster(None, workers=1), ResultFile(Path({path!r})) as file:
        show = lambda progress, record: print(progress.done, flush=True)
        asyncio.run(run_on_ray(job, data, file, workers=1, concurrency=8, on_progress=show))
"""


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
async def test_a_killed_commands_problems_are_finished_by_running_it_again(
    postgres_url: str, serve: Callable[..., Any], tmp_path: Path
) -> None:
    """The command is killed in the middle: run again it writes what its workers had finished, and runs the rest."""
    data = sums(60)
    server = serve(lambda request: ANSWER, delay_s=0.05)
    path = tmp_path / "results.jsonl"
    given = {"gold": GOLD, "count": 60, "method": "blind-2", "model": server.spec, "url": postgres_url}
    code = textwrap.dedent(DRIVER.format(folder=str(tmp_path), path=str(path), **given))
    command = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=subprocess.PIPE, cwd=tmp_path)
    assert command.stdout is not None
    async for line in command.stdout:
        if int(line) >= 20:
            break
    command.kill()
    await command.wait()
    stored = finished(postgres_url)
    with ResultFile(path) as file:
        assert 20 <= len(file.records) <= len(stored) < 60
        given_job = job(postgres_url, server.spec, method="blind-2")
        progress = await run_on_ray(given_job, data, file, workers=1, concurrency=8)
    assert (progress.done, progress.good) == (60, 30)
    assert progress.known >= 20
    assert len(path.read_text().splitlines()) == len(read_results(path)) == 60
    counts = asked(server, data)
    assert all(counts[name] == 3 for name in stored)
    assert 180 <= counts.total() <= 180 + 8  # at most one call again for each problem that was under way
    records = read_results(path).values()
    assert {(record.num_iterations, record.total_tokens > 0, record.error) for record in records} == {(2, True, None)}


@pytest.mark.usefixtures("cluster")
async def test_what_failed_is_run_again_when_that_is_asked_for(
    postgres_url: str, serve: Callable[..., Any], file: ResultFile
) -> None:
    """A failed problem stays failed on resuming, and is run again with `retry_failed`; the others are not."""
    data = sums(8)
    broken = [True]

    def reply(request: dict[str, Any]) -> Any:
        return {"status": 400} if broken and "sum 3?" in request["messages"][-1]["content"] else ANSWER

    server = serve(reply)
    given = job(postgres_url, server.spec)
    progress = await run_on_ray(given, data, file, workers=1)
    assert (progress.done, progress.failed) == (8, 1)
    assert file.records["p-3"].error
    broken.clear()
    for failed in (1, 0):
        progress = await run_on_ray(given, data, file, workers=1)
        assert (progress.done, progress.failed) == (8, failed)
        file.drop(lambda record: record.error is not None)
    assert asked(server, data) == {problem.id: 2 if problem.id == "p-3" else 1 for problem in data.problems}


@pytest.mark.usefixtures("cluster")
async def test_a_model_that_is_not_there_ends_the_run_soon(
    postgres_url: str, serve: Callable[..., Any], file: ResultFile
) -> None:
    """When the first five problems all fail the rest is not tried, and a result says of each why."""
    data = sums(100)
    server = serve(lambda request: {"status": 400}, delay_s=0.1)
    with pytest.raises(GivenUpError, match=r"the first 5 problems all failed; .*scripted error 400"):
        await run_on_ray(job(postgres_url, server.spec), data, file, workers=1, concurrency=2)
    assert 5 <= len(file.records) < 50
    assert len(server.requests) < 50


@pytest.mark.one_of_each
@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        (
            {"model": "openai:gpt-5-mini"},
            ValueError,
            "^model 'openai:gpt-5-mini' needs a key in the environment variable",
        ),
        ({"model": "no such model"}, ValueError, "^model 'no such model' is not known"),
    ],
    ids=["key", "model"],
)
async def test_what_a_worker_can_not_build_is_said_as_here(
    postgres_url: str, file: ResultFile, change: dict[str, Any], kind: type[Exception], said: str
) -> None:
    """A user reads the same message as from the asyncio engine, without a traceback of Ray's in it."""
    data = sums(3)
    given = job(postgres_url, **{"model": "http://127.0.0.1:1/v1#none", **change})
    with pytest.raises(kind, match=said) as raised:
        await run_on_ray(given, data, file, workers=1)
    assert "\n" not in str(raised.value)
    assert not file.records


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
async def test_a_problem_that_kills_its_workers_ends_the_run(
    postgres_url: str, serve: Callable[..., Any], file: ResultFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are finished, and a user reads why it ended; it does not go on to start workers and pay for ever."""
    monkeypatch.setattr("redraft.evals.run.ray_engine.MOST_DEATHS", 2)
    data = sums(6)

    def deadly(request: dict[str, Any]) -> str:
        if "sum 5?" in request["messages"][-1]["content"]:
            for pid in pids(postgres_url):
                os.kill(pid, signal.SIGKILL)
        return ANSWER

    server = serve(deadly)
    with pytest.raises(RuntimeError, match=r"^2 workers died and no problem was finished between") as raised:
        await run_on_ray(job(postgres_url, server.spec), data, file, workers=1, concurrency=1)
    assert "\n" not in str(raised.value)
    assert read_results(file.path).keys() == {f"p-{n}" for n in range(5)}
    assert asked(server, data) == {**dict.fromkeys(file.records, 1), "p-5": 2}


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
async def test_an_interrupted_run_stops_its_workers(
    postgres_url: str, serve: Callable[..., Any], file: ResultFile
) -> None:
    """After Ctrl-C no worker goes on to spend, and what is done is kept."""
    data = sums(100)
    server = serve(lambda request: ANSWER, delay_s=0.1)
    given = job(postgres_url, server.spec)
    running = asyncio.create_task(run_on_ray(given, data, file, workers=1, concurrency=4))
    async with asyncio.timeout(120):
        while len(file.records) < 5:  # noqa: ASYNC110  # it is the file that is watched
            await asyncio.sleep(0.02)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    async with asyncio.timeout(60):
        while pids(postgres_url):  # noqa: ASYNC110  # another process is watched
            await asyncio.sleep(0.02)
    spent = len(server.requests)
    assert spent < 100
    assert len(read_results(file.path)) == len(file.records) >= 5


@pytest.mark.parametrize("name", ["workers", "concurrency"])
async def test_a_count_below_one_is_refused(file: ResultFile, name: str) -> None:
    """A user reads what would be right before anything is started."""
    data = sums(1)
    given = job("postgresql://host/db", "local")
    with pytest.raises(ValueError, match=f"{name} must be 1 or more, not 0"):
        await run_on_ray(given, data, file, **{name: 0})


async def test_a_missing_extra_is_named(file: ResultFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Ray a user reads what to install."""
    monkeypatch.setitem(sys.modules, "ray", None)
    given = job("postgresql://host/db", "local")
    with pytest.raises(ImportError, match=r'pip install "\.\[ray\]"'):
        await run_on_ray(given, sums(1), file)
    with pytest.raises(ImportError, match=r'pip install "\.\[ray\]"'), ray_cluster(None, workers=1):
        pass
