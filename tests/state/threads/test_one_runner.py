"""A thread has one runner, whatever machine it is on and however it was started, and its order is no clock's."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING, Any, TypedDict

import pytest
from langgraph.errors import GraphDrained
from langgraph.graph import START, StateGraph
from langgraph.runtime import get_runtime
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.nodes.critics.critics import human_critic
from redraft.state import BusyThreadError, Thread, open_checkpointer
from redraft.state.storage import lease_keeper

if TYPE_CHECKING:
    from collections.abc import Iterator

LAMP: Any = {"configurable": {"thread_id": "lamp"}}

RUNNER = """
import asyncio, socket, sys, time
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.nodes.critics.critics import human_critic
from redraft.state import Thread, open_checkpointer
from redraft.state.storage import lease_keeper

url, how, host, seconds, behind = sys.argv[1:]
if host:
    socket.gethostname = lambda: host
if seconds:
    lease_keeper.LEASE_S = float(seconds)
now = time.time_ns
time.time_ns = lambda: now() - int(behind) * 10**9

def reply(messages):
    print("at work", flush=True)
    sys.stdin.readline()
    return "theirs"

config = {"configurable": {"thread_id": "lamp"}}
with open_checkpointer(url) as saver:
    critics = {"critics": [human_critic()]} if how == "answer" else {}
    graph = build_refine_graph(ScriptedModel([reply, "no issues"]), checkpointer=saver, **critics)
    if how == "invoke":
        # All that is written before the model is asked is written by then.
        out = graph.invoke({"task": "Write."}, config, durability="sync")
    elif how == "ainvoke":
        out = asyncio.run(graph.ainvoke({"task": "Write."}, config))
    elif how == "answer":
        out = Thread(graph, "lamp").answer(accept=True)
    else:
        out = Thread(graph, "lamp").resume()
print(out["answer"], out["stop_reason"], flush=True)
"""


@contextmanager
def runner(forking: Any, url: str, how: str, *, host: str = "", seconds: str = "", behind: int = 0) -> Iterator[Any]:
    """Run the thread in a process, and wait until its model is asked; a line makes the model answer."""
    words = ["-c", RUNNER, url, how, host, seconds, str(behind)]
    with forking.start(words, stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def ended(process: Any) -> tuple[str, str]:
    """Let its model answer, and return what it printed."""
    process.stdin.write("\n")
    process.stdin.flush()
    told: tuple[str, str] = process.communicate(timeout=60)
    return told


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database that several processes can open."""
    return str(tmp_path / "runs.sqlite") if request.param == "sqlite" else request.getfixturevalue("postgres_url")


def graph_of(saver: Any, *replies: Any, **options: Any) -> Any:
    return build_refine_graph(ScriptedModel([*replies]), checkpointer=saver, **options)


@pytest.mark.one_of_each("how")
@pytest.mark.parametrize(("how", "host"), [("invoke", ""), ("ainvoke", "elsewhere"), ("resume", "elsewhere")])
def test_of_two_processes_one_runs_a_thread(
    forking: Any, url: str, how: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who wants a thread that another process runs is told which one, calls no model and writes nothing."""
    monkeypatch.setattr("redraft.state.storage.lease_keeper.PATIENCE_S", 0.1)
    with open_checkpointer(url) as saver:
        graph = graph_of(saver, "ours", "no issues")
        if how == "resume":
            graph.invoke({"task": "Write."}, LAMP, interrupt_before=["generate"])
        with runner(forking, url, how, host=host) as theirs:
            assert theirs.stdout.readline() == "at work\n"
            named = f"right now, by process {theirs.pid}" + (f" on {host}" if host else "")
            for act in (
                lambda: graph.invoke({"task": "Write."}, LAMP),
                lambda: Thread(graph, "lamp").resume(),
                lambda: graph.update_state(LAMP, {"task": "Another."}),
            ):
                with pytest.raises(BusyThreadError, match=named):
                    act()
            assert Thread(graph, "lamp").history()  # to read is nobody's business
            out, err = ended(theirs)
            assert (theirs.returncode, out) == (0, "theirs accepted\n"), err
        assert graph.get_state(LAMP).values["answer"] == "theirs"
        assert Thread(graph, "lamp").replay().matches
        assert graph.invoke({"task": "Write."}, LAMP)["answer"] == "ours"


def test_a_runner_that_stood_still_writes_nothing_over_who_followed(forking: Any, url: str) -> None:
    """A process that is stopped longer than its lease holds is followed; when it wakes, the database refuses it."""
    with open_checkpointer(url) as saver, runner(forking, url, "invoke", seconds="1") as theirs:
        assert theirs.stdout.readline() == "at work\n"
        theirs.send_signal(signal.SIGSTOP)
        thread = Thread(graph_of(saver, "ours", "no issues"), "lamp")
        out: Any = None
        while out is None:
            try:
                out = thread.resume()
            except BusyThreadError:
                continue
        before = thread.history()
        theirs.send_signal(signal.SIGCONT)
        _, err = ended(theirs)
        assert theirs.returncode == 1
        assert "LostLeaseError: the thread 'lamp' was taken over by another run" in err
        assert out["answer"] == "ours"
        assert thread.history() == before
        assert thread.replay().matches


def test_a_runner_that_died_is_followed_at_once(forking: Any, url: str) -> None:
    """On one machine nobody waits for the lease of a process that was killed, whatever name its host has."""
    with open_checkpointer(url) as saver, runner(forking, url, "invoke", host="a-container") as theirs:
        assert theirs.stdout.readline() == "at work\n"
        theirs.kill()
        theirs.wait()
        graph = graph_of(saver, "ours", "no issues")
        graph.update_state(LAMP, {"limits": {"max_rounds": 1}}, as_node="prepare")
        assert Thread(graph, "lamp").resume()["answer"] == "ours"


def test_an_answer_given_by_a_clock_that_is_behind_is_found(forking: Any, url: str) -> None:
    """On a machine whose clock is an hour behind the thread's last checkpoint, what is written is the newest."""
    with open_checkpointer(url) as saver:
        graph = graph_of(saver, "ours", critics=[human_critic()])
        assert "__interrupt__" in graph.invoke({"task": "Write."}, LAMP)
        with runner(forking, url, "answer", behind=3600) as theirs:
            out, err = theirs.communicate(timeout=60)
        assert out == "ours accepted\n", err
        assert graph.get_state(LAMP).values["stop_reason"] == "accepted"
        assert Thread(graph, "lamp").history()[-1].next == ()


class Number(TypedDict, total=False):
    number: int


def test_a_graph_of_ones_own_is_stopped_like_any_other(checkpointer_url: str) -> None:
    """`stop` reaches a plain `invoke` of a graph that redraft did not build; the next run begins when it has ended."""

    def count(state: Number) -> Number:
        begun.set()
        until = time.monotonic() + 60
        while not get_runtime().control.drain_requested and time.monotonic() < until:  # type: ignore[union-attr]
            threading.Event().wait(0.01)
        return {"number": state["number"] + 1}

    builder = StateGraph(Number)
    builder.add_node("one", count)
    builder.add_node("two", count)
    builder.add_edge(START, "one")
    builder.add_edge("one", "two")
    begun, told = threading.Event(), list[BaseException]()
    with open_checkpointer(checkpointer_url) as saver:
        graph = builder.compile(checkpointer=saver)

        def run() -> None:
            try:
                graph.invoke({"number": 1}, LAMP)
            except GraphDrained as drained:
                told.append(drained)

        running = threading.Thread(target=run)
        running.start()
        assert begun.wait(60)
        with pytest.raises(BusyThreadError):
            graph.invoke({"number": 1}, LAMP)
        Thread(graph, "lamp").stop()
        running.join()
        assert "stopped on request" in str(told[0])
        assert graph.get_state(LAMP).next == ("two",)
        graph.update_state(LAMP, {"number": 7}, as_node="two")
        assert graph.invoke(None, LAMP)["number"] == 7


def test_a_failed_run_keeps_nobody_off(checkpointer_url: str) -> None:
    """A run that raised, and whose error is still held, has ended for the next one in this process."""

    def fail(state: Number) -> Number:
        raise ValueError("no")

    builder = StateGraph(Number)
    builder.add_node("fail", fail)
    builder.add_edge(START, "fail")
    with open_checkpointer(checkpointer_url) as saver:
        graph = builder.compile(checkpointer=saver)
        held = []
        for _ in range(3):
            with pytest.raises(ValueError, match="no") as error:
                graph.invoke({"number": 1}, LAMP)
            held.append(error)
        graph.update_state(LAMP, {"number": 7}, as_node="fail")
        assert graph.get_state(LAMP).values["number"] == 7


def test_reading_an_older_database_does_not_change_it(tmp_path: Path) -> None:
    """A database that was made before there were leases gets their table when something is first written."""
    path = tmp_path / "runs.sqlite"

    def tables() -> set[str]:
        with closing(sqlite3.connect(path)) as conn, conn:
            found = {name for (name,) in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        conn.close()
        return found

    with open_checkpointer(path) as saver:
        graph_of(saver, "ours", "no issues").invoke({"task": "Write."}, LAMP)
    with closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("DROP TABLE redraft_leases")
    conn.close()
    with open_checkpointer(path) as saver:
        thread = Thread(graph_of(saver, "again", "no issues"), "lamp")
        assert thread.history()
        with pytest.raises(ValueError, match="nothing to stop"):
            thread.stop()
        assert "redraft_leases" not in tables()
        assert thread.graph.invoke({"task": "Write."}, LAMP)["answer"] == "again"
    assert "redraft_leases" in tables()


def can_unshare() -> bool:
    if not (found := shutil.which("unshare")):
        return False
    return (
        subprocess.run([found, "-r", "--uts", "hostname", "another"], capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(not can_unshare(), reason="no namespaces here")
def test_a_container_with_a_name_of_its_own_is_kept_off(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two containers on one database, which name their hosts differently, one runs a thread."""
    monkeypatch.setattr("redraft.state.storage.lease_keeper.PATIENCE_S", 0.1)
    inside = 'hostname another && exec "$@"'
    words = [sys.executable, "-c", RUNNER, postgres_url, "invoke", "", "", "0"]
    command = ["unshare", "-r", "--uts", "sh", "-c", inside, "sh", *words]
    with (
        open_checkpointer(postgres_url) as saver,
        subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True) as theirs,
    ):
        assert theirs.stdout is not None
        assert theirs.stdout.readline() == "at work\n"
        with pytest.raises(BusyThreadError, match=r"by process \d+ on another"):
            graph_of(saver, "ours").invoke({"task": "Write."}, LAMP)
        out, _ = theirs.communicate("\n", timeout=60)
        assert out == "theirs accepted\n"


def test_a_lease_that_nobody_can_have_taken_stops_its_own_thread_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row with the largest token there is ends no other thread's runs, and one whose process is no process is named
    as that, until it has expired; then the thread is run like any other."""
    monkeypatch.setattr(lease_keeper, "PATIENCE_S", 0.0)
    path = tmp_path / "a.sqlite"
    with open_checkpointer(path) as saver:

        def run(name: str) -> Any:
            graph = build_refine_graph(ScriptedModel(["a lamp", "no issues"]), checkpointer=saver)
            return graph.invoke({"task": "Write."}, {"configurable": {"thread_id": name}})["answer"]

        assert run("first") == "a lamp"
        with closing(sqlite3.connect(path)) as connection, connection:
            row = "INSERT INTO redraft_leases VALUES (?, ?, 't', ?, (julianday('now') - 2440587.5) * 86400.0 + ?, 0)"
            connection.execute(row, (2**63 - 1, "largest", "elsewhere:1:2", -1))
            connection.execute(row, (77, "malformed", "garbage", 30))
        assert [run("second"), run("largest"), run("third")] == ["a lamp"] * 3
        with pytest.raises(BusyThreadError, match=r"'malformed' .* calls 'garbage', which is no process"):
            run("malformed")
        with closing(sqlite3.connect(path)) as connection, connection:
            tokens = [fence for (fence,) in connection.execute("SELECT fence FROM redraft_leases")]
            connection.execute("UPDATE redraft_leases SET expires_at = 0 WHERE thread_id = 'malformed'")
        assert len(set(tokens)) == 5
        assert run("malformed") == "a lamp"
