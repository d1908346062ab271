"""A thread that somebody without the key wrote to is refused, also where all of its hashes were made anew."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from redraft.graphs.loop import build_refine_graph
from redraft.graphs.middleware import RefineMiddleware
from redraft.models import ScriptedModel
from redraft.nodes import uses_words, verifier_critic
from redraft.state import BadCheckpointError, Thread, open_checkpointer
from redraft.state.events import digest, record
from redraft.state.storage.rekey import rekey
from redraft.state.storage.seal import SEAL
from redraft.state.storage.trust import PlainSerializer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEY, OTHER = "5a" * 32, "5b" * 32
ONE: Any = {"configurable": {"thread_id": "one"}}
TWO: Any = {"configurable": {"thread_id": "two"}}
WRITES = "UPDATE writes SET value = ? WHERE rowid = ?"
CHECKPOINTS = "UPDATE checkpoints SET checkpoint = ? WHERE rowid = ?"


def built(saver: Any) -> Any:
    model = ScriptedModel(["a lamp", "a river", "a river, a lamp"])
    return build_refine_graph(model, critics=[verifier_critic(uses_words("river", "lamp"))], checkpointer=saver)


def forge(path: Path, *, hashes: bool = True) -> None:
    """Put another first draft into the thread `one`, in every place, and make the hashes of its record anew."""
    serde, anew = PlainSerializer(), {}

    def links(event: Any) -> Any:
        before = digest(event)
        if event["kind"] == "draft":
            event = {**event, "text": "a forged lamp"}
        if hashes:
            event = {**event, "prev": anew.get(event["prev"], event["prev"])}
            anew[before] = digest(event)
        return event

    with closing(sqlite3.connect(path)) as connection, connection:
        rows = connection.execute(
            "SELECT rowid, channel, type, value FROM writes WHERE thread_id = 'one' ORDER BY checkpoint_id, idx"
        ).fetchall()
        for wanted in ("events", "head"):
            for rowid, channel, kind, value in rows:
                if channel == wanted:
                    held = serde.loads_typed((kind, value))
                    new = [links(event) for event in held] if channel == "events" else anew.get(held, held)
                    connection.execute(
                        "UPDATE writes SET value = ? WHERE rowid = ?", (serde.dumps_typed(new)[1], rowid)
                    )
        for rowid, kind, value in connection.execute(
            "SELECT rowid, type, checkpoint FROM checkpoints WHERE thread_id = 'one'"
        ).fetchall():
            held = serde.loads_typed((kind, value))
            head = held["channel_values"].get("head")
            if head in anew:
                held["channel_values"]["head"] = anew[head]
            connection.execute(
                "UPDATE checkpoints SET checkpoint = ? WHERE rowid = ?", (serde.dumps_typed(held)[1], rowid)
            )


def swap(path: Path) -> None:
    """Let the rows of the thread `two` pass for those of `one`."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in ("checkpoints", "writes"):
            connection.execute(f"DELETE FROM {table} WHERE thread_id = 'one'")
            connection.execute(f"UPDATE {table} SET thread_id = 'one' WHERE thread_id = 'two'")
            # So that `two` stays usable.
            connection.execute(f"CREATE TEMP TABLE again AS SELECT * FROM {table}")
            connection.execute("UPDATE again SET thread_id = 'two'")
            connection.execute(f"INSERT INTO {table} SELECT * FROM again")
            connection.execute("DROP TABLE again")


def answer(path: Path) -> None:
    """Change what the newest checkpoint says is the answer, and leave the record as it is."""
    serde = PlainSerializer()
    with closing(sqlite3.connect(path)) as connection, connection:
        rowid, kind, value = connection.execute(
            "SELECT rowid, type, checkpoint FROM checkpoints WHERE thread_id = 'one' ORDER BY checkpoint_id DESC"
        ).fetchone()
        held = serde.loads_typed((kind, value))
        held["channel_values"]["limits"] = {**held["channel_values"]["limits"], "max_rounds": 9}
        connection.execute(CHECKPOINTS, (serde.dumps_typed(held)[1], rowid))


def ask(path: Path) -> None:
    """Change the task, wherever it stands beside the record."""
    serde = PlainSerializer()
    with closing(sqlite3.connect(path)) as connection, connection:
        forged = serde.dumps_typed("Write an advertisement.")[1]
        connection.execute("UPDATE writes SET value = ? WHERE thread_id = 'one' AND channel = 'task'", (forged,))
        for rowid, kind, value in connection.execute(
            "SELECT rowid, type, checkpoint FROM checkpoints WHERE thread_id = 'one'"
        ).fetchall():
            held = serde.loads_typed((kind, value))
            if "task" in held["channel_values"]:
                held["channel_values"]["task"] = _DeltaSnapshot("Write an advertisement.")
                connection.execute(CHECKPOINTS, (serde.dumps_typed(held)[1], rowid))


def empty(path: Path) -> None:
    """Delete what the steps wrote."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM writes WHERE thread_id = 'one' AND channel = 'events'")


@pytest.mark.parametrize(
    ("attack", "said"),
    [
        (forge, "its seal does not fit"),
        (lambda path: forge(path, hashes=False), "its record is not the one that was sealed"),
        (swap, "its seal does not fit"),
        (answer, "its seal does not fit"),
        (ask, "(its seal does not fit|its task is not that of the record)"),
        (empty, "its record is not the one that was sealed"),
    ],
    ids=["all hashes anew", "events only", "another thread's rows", "the state only", "the task only", "no events"],
)
async def test_a_forged_thread_is_refused_on_every_way_in(
    tmp_path: Path, attack: Callable[[Path], None], said: str
) -> None:
    """By its name, and before anything runs; other threads go on, and without the key the forgery passes."""
    path = tmp_path / "a.sqlite"
    with open_checkpointer(path, seal_key=KEY) as saver:
        graph = built(saver)
        for config in (ONE, TWO):
            graph.invoke({"task": "Write."}, config, interrupt_before=["refine"])
        before = Thread(graph, "one").history()[3].checkpoint_id
        untouched = [step.checkpoint_id for step in Thread(graph, "two").history()]
    attack(path)
    with open_checkpointer(path, seal_key=KEY) as saver:
        graph = built(saver)
        thread = Thread(graph, "one")
        ways: list[Callable[[], Any]] = [
            *(thread.resume, thread.replay, thread.history, lambda: thread.fork(at=0), lambda: thread.fork(at=before)),
            *(lambda: graph.invoke(None, ONE), lambda: graph.get_state(ONE), lambda: [*graph.get_state_history(ONE)]),
            *(lambda: graph.update_state(ONE, {"limits": {}}), lambda: saver.copy_thread("one", "copy")),
            *(lambda: saver.seal_thread("one"), lambda: saver.export_thread("one")),
        ]
        for way in ways:
            with pytest.raises(ValueError, match="record" if said.startswith("its record") else said):
                way()
        with pytest.raises(BadCheckpointError, match=f"of thread 'one', .*{said}"):
            await thread.aresume()
        with pytest.raises(BadCheckpointError, match=f"of thread 'one', .*{said}"):
            await thread.ahistory()
        assert [step.checkpoint_id for step in Thread(graph, "two").history()] == untouched
        assert Thread(built(saver), "two").resume()["stop_reason"]
    if attack is forge:
        with open_checkpointer(path) as saver:
            assert Thread(built(saver), "one").replay().matches


def test_the_record_of_an_agent_is_sealed_too(tmp_path: Path) -> None:
    """It is copied and taken to a file as it is; with its events gone it is not read, copied, exported or sealed."""
    path = tmp_path / "a.sqlite"
    with open_checkpointer(path, seal_key=KEY) as saver:
        middleware = [RefineMiddleware([verifier_critic(uses_words("lamp"))])]
        agent = create_agent(ScriptedModel(["a river", "a lamp"]), middleware=middleware, checkpointer=saver)
        agent.invoke({"messages": [("user", "Write.")]}, ONE)
        saver.copy_thread("one", "copy")
        saver.import_thread(saver.export_thread("one"), "file")
        saver.seal_thread("one")
        for name in ("one", "copy", "file"):
            assert Thread(agent, name).replay().output["answer"] == "a lamp"
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("DELETE FROM writes WHERE thread_id = 'one' AND channel = '_refine_events'")
        thread = Thread(agent, "one")
        ways: list[Callable[[], Any]] = [
            *(thread.replay, thread.history, lambda: agent.get_state(ONE), lambda: saver.copy_thread("one", "other")),
            *(lambda: saver.export_thread("one"), lambda: saver.seal_thread("one")),
        ]
        for way in ways:
            with pytest.raises(ValueError, match=r"its record (was changed|is not the one that was sealed)"):
                way()


@pytest.fixture(params=["sqlite", "postgres", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return "memory" if request.param == "memory" else str(tmp_path / "a.sqlite")


def test_what_is_sealed_is_used_as_before(url: str) -> None:
    """A run, a fork, a copy and a file: all go on, are replayed, and show no seal in their metadata."""
    with open_checkpointer(url, seal_key=KEY) as saver:
        graph = built(saver)
        graph.invoke({"task": "Write."}, ONE, interrupt_before=["refine"])
        thread = Thread(graph, "one")
        saver.copy_thread("one", "copy")
        saver.import_thread(saver.export_thread("one"), "file")
        fork = thread.fork(at=0, thread_id="fork")
        for each in (thread, Thread(graph, "copy"), Thread(graph, "file"), fork):
            each.graph = built(saver)
            assert each.resume()["answer"]
            assert each.replay().matches
            assert len(each.history()) >= 5
        found = [*saver.list(ONE)]
        assert all(SEAL not in one.metadata for one in found)


def test_what_somebody_wrote_without_the_key_has_no_seal(url: str) -> None:
    """A record that was gone on with, its hashes and all, is refused; sealed by who knows it, it is used again."""
    if url == "memory":
        pytest.skip("nobody else writes to the memory of this process")
    with open_checkpointer(url) as saver:  # of before there was a key
        graph = built(saver)
        graph.invoke({"task": "Write."}, ONE, interrupt_before=["refine"])
        values = graph.get_state(ONE).values
        verdict = {"kind": "human", "round": 0, "by": "human", "text": "Right.", "accepted": True, "score": None}
        graph.update_state(ONE, record(values, verdict), as_node="feedback")
        with pytest.raises(ValueError, match="there is no key to seal with"):
            saver.seal_thread("one")
    with open_checkpointer(url, seal_key=KEY) as saver:
        thread = Thread(built(saver), "one")
        with pytest.raises(BadCheckpointError, match=r"thread 'one', .* it has no seal"):
            thread.resume()
        with pytest.raises(LookupError, match="'nobody'"):
            saver.seal_thread("nobody")
        saver.seal_thread("one")
        assert thread.replay().matches
        assert thread.resume()["accepted_by"]
    with open_checkpointer(url, seal_key=OTHER) as saver, pytest.raises(BadCheckpointError, match="does not fit"):
        Thread(built(saver), "one").replay()
    with pytest.raises(ValueError, match="a seal key is 64 hexadecimal digits"):
        open_checkpointer(url, seal_key="short")


def test_another_encryption_key_leaves_the_seals(tmp_path: Path) -> None:
    """A seal is of what is kept and not of how it is encrypted, so that `rekey` needs no other key."""
    pytest.importorskip("Crypto", reason="pycryptodome is not installed")
    path = tmp_path / "a.sqlite"
    with open_checkpointer(path, key=KEY, seal_key=KEY) as saver:
        built(saver).invoke({"task": "Write."}, ONE)
    rekey(path, KEY, OTHER)
    with open_checkpointer(path, key=OTHER, seal_key=KEY) as saver:
        assert Thread(built(saver), "one").replay().matches
