"""Threads are copied, pruned, and taken from one database to another in a file."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.state import Critique, Thread, open_checkpointer
from redraft.state.storage import housekeeping, lease_keeper
from redraft.state.storage.group_writer import SqliteCommitter
from redraft.state.storage.leases import BusyThreadError, Runner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LAMP: Any = {"configurable": {"thread_id": "lamp"}}
KEY = "ab" * 32


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    """Opens an empty database of a kind."""

    def opened(kind: str, allow: Any = ()) -> Any:
        if kind == "postgres":
            return open_checkpointer(str(request.getfixturevalue("postgres_url")), allow=allow)
        if kind == "encrypted":
            return open_checkpointer(str(tmp_path / "encrypted.sqlite"), key=KEY, allow=allow)
        return open_checkpointer("memory" if kind == "memory" else str(tmp_path / f"{kind}.sqlite"), allow=allow)

    return opened


@pytest.fixture(params=["memory", "sqlite", "encrypted", "postgres"])
def saver(request: pytest.FixtureRequest, database: Callable[[str], Any]) -> Iterator[Any]:
    with database(request.param) as saver:
        yield saver


def reject(task: str, draft: str, history: Any, /) -> Critique:
    return Critique("Write it anew.", accepted=draft == "a bright lamp", score=len(draft) / 20)


def loop(saver: Any, *replies: str) -> Any:
    return build_refine_graph(ScriptedModel(list(replies)), critics=[reject], checkpointer=saver)


def ran(saver: Any) -> Any:
    """A thread that was revised twice."""
    graph = loop(saver, "a lamp", "the lamp", "a bright lamp")
    graph.invoke({"task": "Write about a lamp."}, LAMP, durability="sync")
    return graph


def facts(saver: Any, name: str) -> Any:
    """What a reader sees of a thread."""
    thread = Thread(loop(saver), name)
    steps = [(one.checkpoint_id, one.node) for one in thread.history()]
    row = saver.runs.get(name)
    return steps, thread.replay().output["events"], thread.replay().matches, (row.task, row.created_at, row.score)


@pytest.mark.parametrize("target", ["memory", "sqlite", "encrypted", "postgres"])
@pytest.mark.parametrize("source", ["memory", "file", "postgres"])
def test_a_thread_goes_to_another_database_in_a_file(source: str, target: str, database: Callable[[str], Any]) -> None:
    """There it has every step and its journal, replays, goes on and is forked as where it came from."""
    if source == target:
        pytest.skip("one database of a kind")
    with database(source) as first:
        ran(first)
        lines = first.export_thread("lamp")
        before = facts(first, "lamp")
        calls = first.journal.calls("lamp")
    with database(target) as other:
        assert other.import_thread(lines) == "lamp"
        assert facts(other, "lamp") == before
        assert other.journal.calls("lamp") == calls
        forked = Thread(loop(other, "a bright lamp"), "lamp").fork(at=0, thread_id="other")
        assert forked.resume()["answer"] == "a bright lamp"
        with pytest.raises(ValueError, match="there is a thread 'lamp' already; give another id"):
            other.import_thread(lines)
        assert other.import_thread(lines, "again") == "again"
        assert facts(other, "again") == before


def test_an_unfinished_thread_goes_on_elsewhere_without_paying_twice(database: Callable[[str], Any]) -> None:
    """Its journal goes with it: the node that was broken off finds its reply there."""

    with database("file") as first:
        loop(first, "a bright lamp").invoke({"task": "Write."}, LAMP, interrupt_before=["feedback"])
        lines = first.export_thread("lamp")
    with database("postgres") as other:
        other.import_thread(lines)
        output = Thread(loop(other), "lamp").resume()
    assert (output["answer"], output["stop_reason"], output["usage"]["calls"]) == ("a bright lamp", "accepted", 1)


def spoiled(lines: list[str], how: str) -> list[str]:
    if how == "cut off":
        return lines[:2]
    if how == "no thread":
        return ['{"task": "x"}']
    if how == "later":
        return [lines[0].replace('"redraft_thread":1', '"redraft_thread":2'), *lines[1:]]
    if how == "no JSON":
        return [lines[0], "{"]
    changed = []
    for line in map(json.loads, lines):
        for write in line.get("writes", ()):
            text = base64.b64decode(write[5])
            if write[3] == "events":
                write[5] = base64.b64encode(text.replace(b"the lamp", b"the LAMP")).decode()
            if how == "pickle":
                write[4:] = ["pickle", base64.b64encode(b"cos\nsystem\n.").decode()]
        changed.append(json.dumps(line))
    return changed


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("cut off", r"it should hold \d+ checkpoints, and holds 1: was it cut off\?"),
        ("no thread", "line 1 can't be read: it is no thread's file, as `redraft export` writes it"),
        ("later", "it has format 2, and this version reads 1; update redraft"),
        ("no JSON", "line 2 can't be read"),
        ("changed", r"its record was changed since it was made: event \d of 10"),
        ("pickle", "it is tagged 'pickle', which is never read"),
    ],
)
def test_a_file_that_is_not_as_it_was_written_is_refused(how: str, says: str, database: Callable[[str], Any]) -> None:
    """It says which line and why, runs nothing that it holds, and leaves no thread behind."""
    with database("file") as saver:
        ran(saver)
        lines = spoiled(saver.export_thread("lamp"), how)
        with pytest.raises(ValueError, match=says):
            saver.import_thread(lines, "other")
        assert [row.thread_id for row in saver.runs.list()] == ["lamp"]


REPLY = {"call": "0" * 40 + ".1", "reply": "[]", "seconds": 0.1}


def hostile(lines: list[str], change: Any) -> list[str]:
    """Return the lines with one that is wrong: the last a reply, or the second, a checkpoint, changed."""
    if "call" in change:
        return [*lines, json.dumps(change)]
    at, value = change
    line = json.loads(lines[1])
    if at == "again":
        return [lines[0].replace('"checkpoints":', '"checkpoints":1'), *lines[1:2], *lines[1:]]
    line["writes"][0][at] = value
    return [lines[0], json.dumps(line), *lines[2:]]


@pytest.mark.parametrize(
    "change",
    [
        {**REPLY, "seconds": float("nan")},
        {**REPLY, "seconds": -1},
        {**REPLY, "seconds": 10**400},
        {**REPLY, "seconds": "long"},
        {**REPLY, "reply": "\ud800"},
        {**REPLY, "reply": ["a"]},
        {**REPLY, "call": "\0"},
        (2, 10**30),
        (2, 2**31),
        (2, True),
        (3, "\ud800"),
        (1, "\0"),
        ("again", None),
    ],
    ids=repr,
)
@pytest.mark.one_of_each("kind")
@pytest.mark.parametrize("kind", ["file", "postgres"])
def test_a_line_that_no_database_could_hold_is_named_and_nothing_is_imported(
    kind: str, change: Any, database: Callable[..., Any]
) -> None:
    """One clear refusal, and no checkpoint, no row of the list and no reply of the file is there afterwards."""
    with database("memory") as first:
        ran(first)
        lines = first.export_thread("lamp")
    with database(kind) as saver:
        with pytest.raises(ValueError, match=r"line \d+ can't be read: "):
            saver.import_thread(hostile(lines, change))
        assert (saver.runs.list(), saver.journal.calls("lamp"), [*saver.list(LAMP)]) == ([], [], [])


def test_replies_without_a_checkpoint_are_no_thread(saver: Any) -> None:
    """A file of replies alone, or with a checkpoint of a subgraph only, is refused: nobody could list, show or delete
    it, and it would answer the next run of that id."""
    ran(saver)
    lines = saver.export_thread("lamp")
    saver.delete_thread("lamp")
    head, *checkpoints = (json.loads(line) for line in lines)
    replies = [line for line in checkpoints if "call" in line]
    assert replies
    within = {**checkpoints[0], "checkpoint_ns": "sub:1", "parent_id": None}
    for kept in ([], [within]):
        forged = [{**line, "reply": line["reply"].replace("a lamp", "POISONED")} for line in replies]
        with pytest.raises(ValueError, match="it holds no checkpoint of the thread itself"):
            saver.import_thread(map(json.dumps, [{**head, "checkpoints": len(kept)}, *kept, *forged]))
    graph = loop(saver, "the lamp", "a bright lamp")
    assert graph.invoke({"task": "Write about a lamp."}, LAMP)["answer"] == "a bright lamp"


def test_a_line_without_end_is_refused_before_it_is_read(
    database: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a file no more is read than the longest line may have; the refusal names the line."""
    monkeypatch.setattr(housekeeping, "LONGEST_LINE", 100_000)
    with database("file") as saver:
        ran(saver)
        path = tmp_path / "long.jsonl"
        path.write_text("\n".join([*saver.export_thread("lamp"), "x" * 500_000, ""]))
        with path.open() as file:
            with pytest.raises(ValueError, match=r"line \d+ can't be read: it has more than"):
                saver.import_thread(file, "other")
            assert file.tell() < 300_000
        assert saver.journal.calls("other") == []


def test_many_replies_are_one_transaction(database: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread with thousands of replies is imported, copied and exported with as few transactions and statements as
    one with two."""
    with database("file") as saver:
        ran(saver)
        lines = saver.export_thread("lamp")
        lines += [json.dumps({**REPLY, "call": f"{number:040}.1"}) for number in range(3000)]
        commits: list[int] = []
        commit = SqliteCommitter.commit
        monkeypatch.setattr(SqliteCommitter, "commit", lambda self, puts: commits.append(1) or commit(self, puts))
        saver.import_thread(lines, "many")
        asked: list[str] = []
        query = saver._query
        monkeypatch.setattr(saver, "_query", lambda *of: asked.append(of[0]) or query(*of))
        assert len(saver.export_thread("many")) == len(lines)
        assert len([statement for statement in asked if "redraft_journal" in statement]) == 1
        assert len(commits) < 5


def test_a_thread_that_is_run_is_not_imported_over(
    database: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever imports under the id of a run that has kept nothing yet is told that it is being run."""
    monkeypatch.setattr(lease_keeper, "PATIENCE_S", 0.0)
    with database("file") as saver:
        ran(saver)
        lines = saver.export_thread("lamp")
        saver.leases.leases.take("other", Runner("token", "elsewhere:1:2"))
        with pytest.raises(BusyThreadError, match="'other' is being run right now, by process 1 on elsewhere"):
            saver.import_thread(lines, "other")
        assert saver.journal.calls("other") == []


def test_a_copy_is_the_thread_under_another_name(saver: Any) -> None:
    """It has every step and its record; the other stays as it is when it goes on, and when it is deleted."""
    graph = ran(saver)
    before = facts(saver, "lamp")
    saver.copy_thread("lamp", "copy")
    assert facts(saver, "copy") == before == facts(saver, "lamp")
    graph.update_state({"configurable": {"thread_id": "copy"}}, {"answer": "mine"})
    saver.prune(["copy"], strategy="delete")
    assert facts(saver, "lamp") == before
    assert saver.runs.get("copy") is None
    with pytest.raises(NotImplementedError, match=r"differences|DeltaChannel"):
        saver.prune(["lamp"], strategy="keep_latest")
    with pytest.raises(LookupError, match="there is no thread 'copy' here"):
        saver.export_thread("copy")


def test_a_threads_size_is_what_is_kept_of_it(saver: Any) -> None:
    """A thread with more in it is larger, a copy as large, and one that is not there has none."""
    ran(saver)
    saver.copy_thread("lamp", "copy")
    loop(saver, "a bright lamp").invoke({"task": "t"}, {"configurable": {"thread_id": "small"}})
    sizes = saver.sizes(["lamp", "copy", "small", "none"])
    assert sizes["lamp"] == pytest.approx(sizes["copy"], rel=0.05)
    assert sizes["lamp"] > sizes["small"] > 500
    assert (sizes["none"], saver.sizes([])) == (0, {})


def test_what_a_run_made_is_deleted_by_its_id(saver: Any) -> None:
    """A thread of one run goes as a whole; of one that others build on nothing is deleted, and that is said."""
    plain = StateGraph(MessagesState)
    plain.add_node("say", lambda state: {"messages": [("ai", "yes")]})
    plain.add_edge(START, "say")
    plain.add_edge("say", END)
    said = plain.compile(checkpointer=saver)
    for run in ("one", "two"):
        said.invoke({"messages": []}, {"configurable": {"thread_id": "plain"}, "metadata": {"run_id": run}})
        loop(saver, "a bright lamp").invoke({"task": "t"}, {**LAMP, "metadata": {"run_id": run}})
    loop(saver, "a bright lamp").invoke(
        {"task": "t"}, {"configurable": {"thread_id": "alone"}, "metadata": {"run_id": "three"}}
    )
    saver.delete_for_runs(["three"])
    assert {row.thread_id for row in saver.runs.list()} == {"lamp", "plain"}
    with pytest.raises(NotImplementedError, match="other runs of thread 'lamp' build on what these made"):
        saver.delete_for_runs(["one"])
    saver.delete_thread("lamp")
    saver.delete_for_runs(["two"])
    left = saver.get_tuple({"configurable": {"thread_id": "plain"}})
    assert left.metadata["run_id"] == "one"


@dataclass
class Plan:
    """A type of a user's own."""

    steps: int


class Planned(TypedDict, total=False):
    plan: Any
    step: int


@pytest.mark.parametrize("given", [{"step": 1}, {"plan": [Plan(2)]}], ids=["by a node", "as input"])
@pytest.mark.parametrize("kind", ["memory", "file", "postgres"])
def test_what_could_not_be_read_back_is_not_written(kind: str, given: Any, database: Callable[..., Any]) -> None:
    """Every saver names the key and the type at once, and takes the type where it is allowed."""
    graph = StateGraph(Planned)
    graph.add_node("plan", lambda state: {"step": 2} if state.get("plan") else {"plan": Plan(1)})
    graph.add_edge(START, "plan")
    graph.add_edge("plan", END)
    with database(kind) as saver, pytest.raises(ValueError, match=r"the state's 'plan' can't be kept: .*\.Plan'"):
        graph.compile(checkpointer=saver).invoke(given, LAMP)
    with database(kind, allow=[Plan]) as saver:
        compiled = graph.compile(checkpointer=saver)
        other: Any = {"configurable": {"thread_id": "other"}}
        assert compiled.invoke(given, other) == compiled.get_state(other).values


def test_memory_is_not_encrypted() -> None:
    """A key for what is kept in memory is refused, since nothing would come of it."""
    with pytest.raises(ValueError, match="what is kept in memory is not encrypted: leave out key="):
        open_checkpointer("memory", key=KEY)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_database_of_langgraphs_own_saver_is_read_and_stays_as_it_is(kind: str, request: Any, tmp_path: Path) -> None:
    """Opened to be read it lists, replays and exports what is there; no table is made, and nothing can be written."""
    if kind == "postgres":
        from langgraph.checkpoint.postgres import PostgresSaver

        url = str(request.getfixturevalue("postgres_url"))
        stock: Any = PostgresSaver.from_conn_string(url)
    else:
        url = str(tmp_path / "stock.sqlite")
        stock = SqliteSaver.from_conn_string(url)
    with stock as saver:
        saver.setup()
        loop(saver, "a lamp", "a bright lamp").invoke({"task": "Write."}, LAMP)
    before = kind == "postgres" or Path(url).read_bytes()
    with open_checkpointer(url, read_only=True) as saver:
        assert [(row.thread_id, row.stop_reason, row.task) for row in saver.runs.list()] == [
            ("lamp", "accepted", "Write.")
        ]
        thread = Thread(loop(saver), "lamp")
        assert thread.replay().matches
        assert len(saver.export_thread("lamp")) == 1 + len(thread.history())
        assert saver.sizes(["lamp"])["lamp"] > 500
        with pytest.raises(PermissionError, match="the database is open for reading only"):
            thread.fork(at=0, thread_id="other")
    assert before == (kind == "postgres" or Path(url).read_bytes())
    with (
        open_checkpointer(url, read_only=True) as saver,
        pytest.raises(Exception, match=r"no such table|does not exist"),
    ):
        saver._query("SELECT 1 FROM redraft_journal", {})


def test_a_file_that_was_cut_off_is_called_that(tmp_path: Path) -> None:
    """Half a database is neither another program's file nor an empty one."""
    with open_checkpointer(tmp_path / "runs.sqlite") as saver:
        ran(saver)
    (tmp_path / "half.sqlite").write_bytes((tmp_path / "runs.sqlite").read_bytes()[:30_000])
    for read_only in (True, False):
        with (
            pytest.raises(ValueError, match=r"half\.sqlite' is damaged, or was cut off"),
            open_checkpointer(tmp_path / "half.sqlite", read_only=read_only),
        ):
            pass
