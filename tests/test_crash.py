"""The crash test in small: processes killed at chosen calls, a database that goes away, a disk that is full."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import os
import signal
import sqlite3
import sys
from collections import Counter, deque
from contextlib import ExitStack, aclosing
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from redraft import run_many, uses_words
from redraft.evals.datasets.dataset import Dataset, Problem
from redraft.evals.run.methods import build_method
from redraft.evals.run.result_record import failed_record
from redraft.evals.run.run_folder import ResultFile, read_results
from redraft.evals.run.runner import run_method
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.nodes.runtime.pace import Pace, at_pace
from redraft.state import Critique, Thread, open_checkpointer
from redraft.state.storage.group_writer import Statement
from redraft.state.storage.journal import KeptReply, UnreadJournalError
from redraft.state.storage.leases import Runner

from tests.full_disk import room_for

if TYPE_CHECKING:
    from collections.abc import Iterator

CRASH = Path(__file__).parents[1] / "benchmarks" / "crash"
LAMP: Any = {"configurable": {"thread_id": "lamp"}}


def loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"tests_{path.stem}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Killer:
    """A model whose reply depends on the request alone; it kills the group of who asks, in place of some answers."""

    def __init__(self, forking: Any, *deadly: int) -> None:
        self.forking, self.deadly = forking, set(deadly)
        self.worker: Any = None
        self.asked: Counter[str] = Counter()
        self.reply = loaded(CRASH / "model_server.py").completion

    def __call__(self, request: dict[str, Any]) -> Any:
        key = json.dumps([request["messages"], request.get("response_format")], sort_keys=True)
        self.asked[key] += 1
        if self.asked.total() in self.deadly:
            while self.worker is None:
                pass
            os.killpg(self.worker.pid, signal.SIGKILL)
            return {"drop": True}
        answer = self.reply(request, hashlib.sha256(key.encode()).hexdigest())
        return {"text": answer["choices"][0]["message"]["content"]}

    def run(self, spec: str, database: str, results: Path) -> int:
        self.worker = None
        options = ("--problems", "3", "--concurrency", "2", "--method", "self-refine-2")
        words = [CRASH / "worker.py", spec, database, results, *options]
        with self.forking.start(words, start_new_session=True) as self.worker:
            return int(self.worker.wait(300))


@pytest.mark.one_of_each
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_bulk_run_killed_twice_ends_as_if_never_killed(
    database: str, serve: Any, forking: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Every problem has one result, the one of a run that was left alone; only calls in flight were made again."""
    url = str(request.getfixturevalue("postgres_url")) if database == "postgres" else str(tmp_path / "runs.sqlite")
    whole, killed = Killer(forking), Killer(forking, 2, 7)
    assert whole.run(serve(whole).spec, str(tmp_path / "whole.sqlite"), tmp_path / "whole.jsonl") == 0
    spec = serve(killed).spec
    assert killed.run(spec, url, tmp_path / "killed.jsonl") == -signal.SIGKILL
    assert killed.run(spec, url, tmp_path / "killed.jsonl") == -signal.SIGKILL
    assert killed.run(spec, url, tmp_path / "killed.jsonl") == 0
    once, again = (read_results(tmp_path / f"{name}.jsonl") for name in ("whole", "killed"))
    assert [
        (one.question_id, one.final_solution, one.stop_reason, one.total_tokens) for _, one in sorted(once.items())
    ] == [(one.question_id, one.final_solution, one.stop_reason, one.total_tokens) for _, one in sorted(again.items())]
    assert len((tmp_path / "killed.jsonl").read_text().splitlines()) == 3
    assert killed.asked.keys() == whole.asked.keys()
    assert 2 <= killed.asked.total() - whole.asked.total() <= 4  # two at once, two kills


@pytest.mark.slow
def test_workers_that_are_killed_lose_and_double_no_run(forking: Any, tmp_path: Path, postgres_url: str) -> None:
    """Two servers hand runs to three workers, two of which are killed: each run ends once, is streamed and cancelled on
    the server that was not asked for it, and pays for nothing again that was kept."""
    sys.path.insert(0, str(CRASH))
    try:
        workers, databases = loaded(CRASH / "workers.py"), loaded(CRASH / "databases.py")
    finally:
        sys.path.remove(str(CRASH))
    database = databases.Postgres(postgres_url, SimpleNamespace(restart=None))
    with loaded(CRASH / "model_server.py").ModelServer(delay_s=0.05) as model:
        found = workers.work_apart(model, database, tmp_path, runs=12, start=forking.start, seed=1, max_runs=2)
    assert set(found.ends.values()) == {1}
    assert sum(found.statuses.values()) == found.runs == 12
    assert (found.streams_off, found.found.events_off, found.found.interleaved) == ([], [], [])
    assert found.kept_and_paid_again == 0


@pytest.fixture
def histories() -> Iterator[Any]:
    """The modules of `benchmarks/crash` that random histories are made with."""
    sys.path.insert(0, str(CRASH))
    try:
        yield loaded(CRASH / "histories.py"), loaded(CRASH / "databases.py"), loaded(CRASH / "model_server.py")
    finally:
        sys.path.remove(str(CRASH))


@pytest.mark.one_of_each
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_random_history_is_one_history(
    database: str, histories: Any, forking: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Shells and an agent that are killed and stopped, on machines with clocks of their own, leave each thread as one
    history that its replay agrees with; nothing that was kept is paid again, and nothing is held by nobody."""
    of, databases, server = histories
    if database == "sqlite":
        place = databases.Sqlite(tmp_path / "runs.sqlite")
    else:
        place = databases.Postgres(str(request.getfixturevalue("postgres_url")), SimpleNamespace(restart=None))
    (tmp_path / "logs").mkdir()
    plan = of.Plan(loops=2, agents=1, threads=2, faults=6, lease_s=2.0)
    with server.ModelServer(delay_s=0.2) as model:
        told = of.history(model, place, tmp_path / "logs", seed=7, plan=plan, start=forking.start)
    assert (told.wrong, told.threads, len(told.faults)) == ([], 4, 6)
    assert told.calls >= 8


@pytest.mark.slow
@pytest.mark.parametrize("known", json.loads((CRASH / "seeds.json").read_text()), ids=lambda known: known["found"])
def test_a_seed_that_found_something_finds_it_no_more(known: Any, histories: Any) -> None:
    """What went wrong under a plan once does so no more, with servers, shells and agents as `make crash` has them."""
    told = histories[0].one_more(known["database"], known["seed"])
    assert told.wrong == []


def test_a_history_says_what_is_wrong_with_it(histories: Any, tmp_path: Path) -> None:
    """A thread that is lost, one that has not ended, a reply that is nobody's, a lease that nobody has and a call whose
    reply was kept: each is named. A lease whose process was killed is not, since it expires."""
    of, databases, _ = histories
    path, told = tmp_path / "runs.sqlite", of.History(1)
    with open_checkpointer(path) as saver:
        graph = build_refine_graph(ScriptedModel(["a lamp"] * 3), critics=[reject], checkpointer=saver)
        graph.invoke({"task": "Write."}, LAMP, interrupt_before=["feedback"])
        saver.journal.add("nobody", "call", KeptReply("[]", 0.1))
        saver.leases.leases.take("held", Runner("token", "elsewhere:1:2"))
    wrong = [*of.found_wrong(databases.Sqlite(path), {"loop": ["lamp", "gone"]})]
    of.count_calls(told, SimpleNamespace(asked=[("a" * 40, 1.0), ("a" * 40, 9.0)]), [(5.0, {"a" * 16})], [])
    expected = ("lamp is not at its end", "gone is lost", "redraft_journal holds", "leases are held", "the call aaaa")
    assert all(any(one.startswith(what) for one in [*wrong, *told.wrong]) for what in expected), wrong
    assert len(wrong) == 4
    known = [*of.found_wrong(databases.Sqlite(path), {"loop": ["lamp", "gone"]}, {"1"})]
    assert known == [one for one in wrong if not one.startswith("leases are held")]


@pytest.mark.one_of_each
@pytest.mark.parametrize(
    ("answered", "kept", "expected"),
    [
        ([[("a", 1.0)], [("b", 9.0)]], set(), (0, 0, 0)),
        ([[("a", 6.0)], [("a", 9.0)]], set(), (1, 0, 0)),
        ([[("a", 4.75)], [("a", 9.0)]], set(), (0, 1, 0)),
        ([[("a", 4.75)], [("a", 9.0)]], {"a"}, (0, 0, 1)),
        ([[("a", 4.0), ("a", 4.75)], []], set(), (0, 0, 1)),
        ([[("a", 6.0)], [("a", 9.0)], [("a", 9.5)]], set(), (1, 0, 1)),
    ],
    ids=["once", "not answered", "not committed", "committed", "twice in one process", "committed after the second"],
)
def test_the_crash_test_tells_what_was_paid_again_without_need(
    answered: list[list[tuple[str, float]]], kept: set[str], expected: tuple[int, int, int]
) -> None:
    """A call that is made again is excused only where its first reply was not committed when the process ended."""
    lives = loaded(CRASH / "lives.py")
    then = [kept, *({"a", "b"} for _ in answered[1:])]
    outcome = lives.Outcome(
        [lives.Life(*life, 5.0 * n, -9, "") for n, life in enumerate(zip(answered, then, strict=True), start=1)]
    )
    paid = lives.paid_again(outcome)
    assert (paid.waiting, paid.uncommitted, paid.unexplained) == expected
    assert paid.oldest_ms == (250.0 if paid.uncommitted else 0.0)


def reject(task: str, draft: str, history: Any, /) -> Critique:
    return Critique("Write it anew.", accepted=False)


def test_a_full_disk_is_told_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """When SQLite has no room the run raises and says so; with room it goes on, and pays one call again at most.

    A saver that finds no room when it is closed gives back its file and threads all the same.
    """
    model = ScriptedModel([f"{number} {'word ' * 9000}" for number in range(8)])
    with open_checkpointer(str(tmp_path / "runs.sqlite")) as saver:
        graph = build_refine_graph(model, critics=[reject], checkpointer=saver, limits={"max_rounds": 3})
        ((pages,),) = saver.writer.write(Statement("PRAGMA page_count"))
        saver.writer.write(Statement(f"PRAGMA max_page_count = {pages + 40}"))
        with pytest.raises(Exception, match="disk is full"):
            graph.invoke({"task": "Write."}, LAMP, durability="sync")
        before = len(model.calls)
        saver.writer.write(Statement("PRAGMA max_page_count = 1000000"))
        out = Thread(graph, "lamp").resume()
        assert (out["stop_reason"], out["rounds"]) == ("max_rounds", 3)
        assert Thread(graph, "lamp").replay().matches
    assert 1 <= before < 4
    assert len(model.calls) in (4, 5)

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    saver = open_checkpointer(str(tmp_path / "runs.sqlite")).open()
    stream = graph.copy({"checkpointer": saver}).stream({"task": "Write."}, {"configurable": {"thread_id": "half"}})
    next(stream)
    with monkeypatch.context() as patched:
        patched.setattr(saver.leases.leases, "renew", full)
        saver.close()
    assert "can't be given up: database or disk is full" in caplog.text
    with pytest.raises(Exception, match="closed"):
        saver.writer.write(Statement("SELECT 1"))


def test_a_full_disk_makes_no_result_of_a_bulk_run(tmp_path: Path) -> None:
    """An evaluation whose checkpoints find no room stops and says so; resumed with room, every problem has a result."""
    data = Dataset(
        "full", "exact", "0" * 64, tuple(Problem(f"p{number}", f"Task {number}.", "") for number in range(4))
    )

    async def run(pages: int) -> None:
        async with open_checkpointer(str(tmp_path / "runs.sqlite")) as saver:
            ((now,),) = saver.writer.write(Statement("PRAGMA page_count"))
            saver.writer.write(Statement(f"PRAGMA max_page_count = {now + pages}"))
            model = ScriptedModel(["word " * 20_000] * 4)
            method = build_method("zero-shot", "exact", model, checkpointer=saver)
            with ResultFile(tmp_path / "results.jsonl") as results:
                await run_method(method, data, results, concurrency=1, run_id="full")

    with pytest.raises(ConnectionError, match="disk is full"):
        asyncio.run(run(220))
    assert 0 < len(read_results(tmp_path / "results.jsonl")) < 4
    asyncio.run(run(10_000))
    records = read_results(tmp_path / "results.jsonl")
    assert [record.error for record in records.values()] == [None] * 4

    # Of runs that end at once, the results come before the error.
    kept: list[int] = []

    async def work(number: int) -> int:
        if number % 2:
            raise ConnectionError(f"run {number}")
        return number

    async def gather() -> None:
        async with aclosing(at_pace(Pace(20), deque(range(20)), work)) as results:
            async for one in results:
                kept.append(one)  # noqa: PERF401  (an error leaves what came before it)

    with pytest.raises(ConnectionError):
        asyncio.run(gather())
    assert sorted(kept) == [*range(0, 20, 2)]


def test_a_result_that_finds_no_room_leaves_no_torn_line(tmp_path: Path) -> None:
    """Where a part of a line fits, the evaluation stops, the file holds whole lines, and the record goes in later."""
    used: Any = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, "calls": 1, "cost_usd": None, "seconds": 0.1}
    one, other = (
        failed_record("no answer", question_id=name, question="Q", ground_truth=None, usage=used, seconds=0.1)
        for name in ("p1", "p2")
    )
    path = tmp_path / "results.jsonl"
    with ResultFile(path) as results:
        assert results.add(one)
        with room_for(path.stat().st_size + 10), pytest.raises(OSError, match=f"No space left on device: '{path}'"):
            results.add(other)
        assert list(read_results(path)) == ["p1"]
        assert results.add(other)
    assert list(read_results(path)) == ["p1", "p2"]

    out, model = tmp_path / "many.jsonl", ScriptedModel(["rain"] * 3)
    full = ExitStack()
    given: Any = {
        "graph": build_refine_graph(model, verifiers=[uses_words("rain")]),
        "tasks": ["One.", "Two."],
        "out": out,
        "concurrency": 1,
    }
    with full, pytest.raises(OSError, match=f"No space left on device: '{out}'"):
        run_many(**given, on_progress=lambda _, done: done and full.enter_context(room_for(out.stat().st_size + 10)))
    assert len(run_many(**given)) == len(out.read_text().splitlines()) == 2
    assert len(model.calls) == 3  # what was written is not asked for again


def test_a_database_that_is_restarted_ends_no_run_for_good(postgres_url: str) -> None:
    """PostgreSQL drops every connection in mid-run: what was running raises or goes on, and is resumed to its end."""
    import psycopg

    def drop_connections(messages: Any) -> str:
        with psycopg.connect(postgres_url, autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        return "after the restart"

    model = ScriptedModel(["one", drop_connections, "three", "four", "five", "six"])
    with open_checkpointer(postgres_url) as saver:
        graph = build_refine_graph(model, critics=[reject], checkpointer=saver, limits={"max_rounds": 2})
        given: Any = {"task": "Write."}
        for _ in range(12):  # the pool may hand out some more connections that are dead
            try:
                graph.invoke(given, LAMP, durability="sync")
                break
            except (psycopg.Error, OSError):
                given = None
        out = Thread(graph, "lamp").resume()
    assert (out["stop_reason"], out["rounds"]) == ("max_rounds", 2)
    assert len(model.calls) <= 4  # the one whose reply could not be kept


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_database_that_is_gone_when_a_call_is_looked_up_ends_no_run(tmp_path: Path, asynchronous: bool) -> None:
    """The call is not made, the run raises and has not failed; once the database is back, it goes on to its end. That
    what the run has done is not taken is enough to know it."""
    database, gone = str(tmp_path / "runs.sqlite"), []
    model = ScriptedModel(["a lamp", "a bright lamp"])

    def lose(task: str, draft: str, history: Any, /) -> Critique:
        if not gone:
            gone.append(saver.writer.write(Statement("ALTER TABLE writes RENAME TO away")))
        return reject(task, draft, history)

    with open_checkpointer(database) as saver:
        graph = build_refine_graph(model, critics=[lose], keep="last", checkpointer=saver, limits={"max_rounds": 1})
        # Each step waits for its checkpoint; else the next call may begin before it is known that none was taken.
        given: Any = {"input": {"task": "Write."}, "config": LAMP, "durability": "sync"}
        run = (lambda: asyncio.run(graph.ainvoke(**given))) if asynchronous else (lambda: graph.invoke(**given))
        with pytest.raises((UnreadJournalError, sqlite3.OperationalError), match="no such table: writes"):
            run()
        assert len(model.calls) == 1
        saver.writer.write(Statement("ALTER TABLE away RENAME TO writes"))
        assert graph.get_state(LAMP).values.get("stop_reason") is None
        out = Thread(graph, "lamp").resume()
    assert (out["answer"], out["stop_reason"]) == ("a bright lamp", "max_rounds")
    assert len(model.calls) == 2


RESUME = """
import sys
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.state import Thread, open_checkpointer
from redraft.state.storage import lease_keeper

lease_keeper.PATIENCE_S = 0.1
with open_checkpointer(sys.argv[1]) as saver:
    Thread(build_refine_graph(ScriptedModel([]), checkpointer=saver), "lamp").resume()
"""


def test_of_two_processes_that_resume_a_thread_one_wins(tmp_path: Path, forking: Any) -> None:
    """While one process runs a thread on, another that wants to is told who does, and calls no model."""
    database, told = str(tmp_path / "runs.sqlite"), []

    def meanwhile(messages: Any) -> str:
        told.append(forking.run(["-c", RESUME, database]))
        return "a bright lamp"

    model = ScriptedModel(["a lamp", TimeoutError("slow"), meanwhile])
    with open_checkpointer(database) as saver:
        graph = build_refine_graph(model, critics=[reject], keep="last", checkpointer=saver, limits={"max_rounds": 1})
        assert graph.invoke({"task": "Write."}, LAMP, durability="sync")["stop_reason"] == "failed"
        assert Thread(graph, "lamp").resume()["answer"] == "a bright lamp"
    assert told[0].returncode == 1
    assert f"BusyThreadError: the thread 'lamp' is being run right now, by process {os.getpid()}" in told[0].stderr
