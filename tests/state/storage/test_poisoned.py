"""A database that somebody else wrote to: what is no plain data is refused by name, and nothing of it is run."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import ormsgpack
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Interrupt, Send
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.state import BadCheckpointError, Thread, open_checkpointer
from redraft.state.storage.index import BadRunError
from redraft.state.storage.journal import BadJournalError, KeptReply
from redraft.state.storage.trust import DEEPEST, LARGEST_VALUE, PlainSerializer

if TYPE_CHECKING:
    from pathlib import Path

TOUCHED = "touched-by-a-checkpoint"


def call(code: int, *fields: Any) -> bytes:
    """Msgpack of an object as LangGraph writes them."""
    return ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(fields)))


def nested(levels: int, innermost: bytes) -> bytes:
    data = innermost
    for _ in range(levels):
        data = ormsgpack.packb([ormsgpack.Ext(7, data)])
    return data


PICKLE = b"cos\nsystem\n(S'touch " + TOUCHED.encode() + b"'\ntR."
SYSTEM = f"touch {TOUCHED}"
ARGUMENTS = {"args": ["touch", TOUCHED]}
INNER = ormsgpack.Ext(0, ormsgpack.packb(("os", "system", SYSTEM)))
POISON: dict[str, tuple[Any, Any, str]] = {
    "a pickle": ("pickle", PICKLE, "tagged 'pickle'"),
    "a tag that is none": ("yaml", b"a: 1", "tagged 'yaml'"),
    "no tag": ("", b"\x80", "tagged ''"),
    "a call of os.system": ("msgpack", call(0, "os", "system", SYSTEM), r"'os\.system'"),
    "a call with arguments": ("msgpack", call(1, "os", "system", [SYSTEM]), r"'os\.system'"),
    "a call with names": ("msgpack", call(2, "subprocess", "Popen", ARGUMENTS), r"'subprocess\.Popen'"),
    "a method": ("msgpack", call(3, "pathlib", "Path", TOUCHED, "touch"), r"'pathlib\.Path\.touch'"),
    "an old model": ("msgpack", call(4, "subprocess", "Popen", ARGUMENTS), r"'subprocess\.Popen'"),
    "a model": ("msgpack", call(5, "subprocess", "Popen", ARGUMENTS), r"'subprocess\.Popen'"),
    "inside a message": (
        "msgpack",
        call(5, "langchain_core.messages.human", "HumanMessage", {"content": INNER}),
        r"'os\.system'",
    ),
    "inside a snapshot": ("msgpack", nested(3, call(0, "os", "system", SYSTEM)), r"'os\.system'"),
    "a kind that is unknown": ("msgpack", call(99, "os", "system", SYSTEM), "unknown kind 99"),
    "an object without a type": ("msgpack", ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb(7))), "without a type"),
    "cut off": ("msgpack", ormsgpack.packb({"v": 4, "id": "x" * 50})[:-9], "no msgpack"),
    "empty": ("msgpack", b"", "no msgpack"),
    "a list that claims four billion": ("msgpack", b"\xdd\xff\xff\xff\xff", "no msgpack"),
    "lists in lists": ("msgpack", b"\x91" * 200_000, "no msgpack"),
    "objects in objects": ("msgpack", nested(DEEPEST + 1, b"\x80"), "stand inside each other"),
    "too large": ("msgpack", b"\xdd" + (LARGEST_VALUE).to_bytes(4) + b"\xc0" * LARGEST_VALUE, "MiB is too large"),
    "a secret of the environment": ("json", b'{"lc": 1, "type": "secret", "id": ["HOME"]}', "names an object"),
    "a constructor in JSON": ("json", b'{"lc": 2, "type": "constructor", "id": ["os", "system"]}', "names an object"),
    "no JSON": ("json", b"{", "Expecting"),
}  # fmt: skip
NO_BYTES: dict[str, tuple[Any, Any, str]] = {
    "text": ("msgpack", "os.system", "str tagged 'msgpack'"),
    "a number": ("msgpack", 7, "int tagged 'msgpack'"),
    "nothing": (None, None, "NoneType tagged None"),
}


def config(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id}}


def run(saver: Any, *threads: str) -> Any:
    graph = build_refine_graph(ScriptedModel(["a poem", "no issues"] * len(threads)), checkpointer=saver)
    for thread_id in threads:
        graph.invoke({"task": "write"}, config(thread_id))
    return graph


def write(url: str, statement: str, *values: Any) -> None:
    """Write with nothing of ours in between; `?` stands for a value."""
    if not url.startswith("postgres"):
        with closing(sqlite3.connect(url)) as conn, conn:
            assert conn.execute(statement, values).rowcount > 0
        conn.close()
        return
    import psycopg

    with psycopg.connect(url) as pg:
        assert pg.execute(statement.replace("?", "%s").encode(), values).rowcount > 0


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with the threads `good` and `bad`."""
    monkeypatch.chdir(tmp_path)
    made = str(tmp_path / "a.sqlite") if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))
    with open_checkpointer(made) as saver:
        run(saver, "good", "bad")
    return made


@pytest.mark.parametrize(("kind", "data", "said"), [*POISON.values(), *NO_BYTES.values()], ids=[*POISON, *NO_BYTES])
def test_nothing_but_plain_data_is_read(
    kind: Any, data: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each poison is refused with what is wrong, and ran nothing."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=said):
        PlainSerializer().loads_typed((kind, data))
    assert list(tmp_path.iterdir()) == []


def test_what_graphs_hold_is_read_as_it_was() -> None:
    """Messages, interrupts, sends, snapshots and the types that LangGraph holds for safe come back."""
    values = [
        {"messages": [HumanMessage("hi"), AIMessage("", tool_calls=[{"name": "f", "args": {"a": 1}, "id": "1"}])]},
        ToolMessage("42", tool_call_id="1"),
        [Send("node", {"messages": [HumanMessage("hi")]}), Interrupt("why?", id="1")],
        {1, 2},
        _DeltaSnapshot([{"kind": "draft"}]),
        {"a": [1, 2.5, None, True, b"bytes", "é"], 7: "seven"},
        b"raw",
        None,
    ]
    serializer = PlainSerializer()
    for value in values:
        assert serializer.loads_typed(serializer.dumps_typed(value)) == value


def test_a_type_of_ones_own_is_built_when_it_is_named() -> None:
    """A class of the user's is refused by its name, written or read, and built where `allow` has it."""
    stored = PlainSerializer(allow=[KeptReply]).dumps_typed(KeptReply("a", 1.0))
    refusal = r"'redraft\.state\.storage\.journal\.KeptReply', .*open_checkpointer\(…, allow="
    with pytest.raises(ValueError, match=refusal):
        PlainSerializer().dumps_typed(KeptReply("a", 1.0))
    with pytest.raises(ValueError, match=refusal):
        PlainSerializer().loads_typed(stored)
    assert PlainSerializer(allow=[KeptReply]).loads_typed(stored) == KeptReply("a", 1.0)
    known = PlainSerializer().with_msgpack_allowlist([KeptReply])  # as a graph does that is compiled in strict mode
    assert known.loads_typed(stored) == KeptReply("a", 1.0)


def test_a_value_too_large_to_be_read_is_not_written() -> None:
    """What would be refused when it is read is refused when it is saved."""
    with pytest.raises(ValueError, match="65 MiB is too large: 64 MiB"):
        PlainSerializer().dumps_typed(bytes(65 * 2**20))


def test_a_program_that_sets_no_variable_is_safe_too(tmp_path: Path) -> None:
    """`open_checkpointer` is strict whatever LANGGRAPH_STRICT_MSGPACK says and whenever langgraph was imported."""
    url = str(tmp_path / "a.sqlite")
    with open_checkpointer(url) as saver:
        run(saver, "bad")
    write(url, "UPDATE checkpoints SET type = 'msgpack', checkpoint = ?", POISON["a call of os.system"][1])
    program = (
        "import sys, langgraph.graph\nfrom redraft.state import BadCheckpointError, open_checkpointer\n"
        "with open_checkpointer(sys.argv[1]) as saver:\n"
        "    try: saver.get_tuple({'configurable': {'thread_id': 'bad'}})\n"
        "    except BadCheckpointError as error: print(error)\n"
    )
    environment = {name: value for name, value in __import__("os").environ.items() if "MSGPACK" not in name}
    done = subprocess.run(
        [sys.executable, "-c", program, url], capture_output=True, text=True, env=environment, cwd=tmp_path, check=True
    )
    assert "thread 'bad'" in done.stdout
    assert not (tmp_path / TOUCHED).exists()


def rows_of_checkpoints(url: str) -> tuple[str, ...]:
    """Where a serialised value stands: statements that take its tag and its bytes."""
    if url.startswith("postgres"):
        return (
            "UPDATE checkpoint_blobs SET type = ?, blob = ? WHERE thread_id = 'bad' AND type <> 'empty'",
            "UPDATE checkpoint_writes SET type = ?, blob = ? WHERE thread_id = 'bad'",
        )
    return (
        "UPDATE checkpoints SET type = ?, checkpoint = ? WHERE thread_id = 'bad'",
        "UPDATE writes SET type = ?, value = ? WHERE thread_id = 'bad'",
    )


@pytest.mark.parametrize("place", [0, 1], ids=["checkpoints", "writes"])
@pytest.mark.parametrize("poison", ["a pickle", "a call of os.system", "cut off"])
async def test_a_poisoned_value_is_refused_by_the_name_of_its_thread(
    url: str, poison: str, place: int, tmp_path: Path
) -> None:
    """Reading, listing, resuming and the history of a channel name the thread and run nothing; others work."""
    kind, data, said = POISON[poison]
    write(url, rows_of_checkpoints(url)[place], kind, data)
    with open_checkpointer(url) as saver:
        graph = run(saver, "another")
        by_name = f"(?s)thread 'bad', checkpoint '1.*{said}"
        with pytest.raises(BadCheckpointError, match=by_name):
            list(saver.list(config("bad")))
        with pytest.raises(BadCheckpointError, match=by_name):
            [found async for found in saver.alist(None)]
        with pytest.raises(BadCheckpointError, match="thread 'bad'"):
            list(Thread(graph, "bad").history())
        if place == 0:
            with pytest.raises(BadCheckpointError, match=by_name):
                await saver.aget_tuple(config("bad"))
            with pytest.raises(BadCheckpointError, match="thread 'bad'"):
                graph.invoke(None, config("bad"))
        assert graph.get_state(config("good")).values["answer"] == "a poem"
        assert graph.get_state(config("another")).values["answer"] == "a poem"
        assert {row.thread_id for row in saver.runs.list()} == {"good", "bad", "another"}
        saver.delete_thread("bad")
        assert len(list(saver.list(None))) > 0
    assert not (tmp_path / TOUCHED).exists()


CHECKPOINT: dict[str, Any] = {
    "v": 4,
    "id": "1",
    "ts": "2026-01-01T00:00:00+00:00",
    "channel_values": {},
    "channel_versions": {},
    "versions_seen": {},
}
WRONG: dict[str, tuple[Any, str]] = {
    "a list": ([1], "form of a checkpoint"),
    "a version that is text": (CHECKPOINT | {"v": "4"}, "form of a checkpoint"),
    "no versions": (
        {name: value for name, value in CHECKPOINT.items() if name != "channel_versions"},
        "'channel_versions'",
    ),
    "values that are a list": (CHECKPOINT | {"channel_values": [1]}, "form of a checkpoint|refused"),
    "another checkpoint": (CHECKPOINT | {"id": "2"}, "holds the checkpoint '2'"),
    "a version that is a list": (CHECKPOINT | {"channel_versions": {"a": []}}, "channel 'a'"),
    "a version that is no number": (CHECKPOINT | {"channel_versions": {"a": "<b>1"}}, "channel 'a' is '<b>1'"),
    "a node that has seen a number": (CHECKPOINT | {"versions_seen": {"a": 1}}, "node 'a'"),
}


@pytest.mark.parametrize(("checkpoint", "said"), WRONG.values(), ids=WRONG)
def test_what_is_no_checkpoint_is_refused(url: str, checkpoint: Any, said: str) -> None:
    """Data of the wrong form never reaches LangGraph's own code as a checkpoint."""
    write(url, "DELETE FROM checkpoints WHERE thread_id = 'bad'")
    insert = "INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, checkpoint, metadata"
    if url.startswith("postgres"):
        write(url, f"{insert}) VALUES ('bad', '', '1', ?::jsonb, '{{}}')", json.dumps(checkpoint))
    else:
        write(url, f"{insert}, type) VALUES ('bad', '', '1', ?, '{{}}', 'msgpack')", ormsgpack.packb(checkpoint))
    with (
        open_checkpointer(url) as saver,
        pytest.raises(BadCheckpointError, match=f"thread 'bad', checkpoint '1'.*({said})"),
    ):
        saver.get_tuple(config("bad"))


CIRCLES = {
    "of one": "UPDATE checkpoints SET parent_checkpoint_id = checkpoint_id WHERE thread_id = 'bad'",
    "of all": "UPDATE checkpoints SET parent_checkpoint_id = (SELECT max(checkpoint_id) FROM checkpoints "
    "WHERE thread_id = 'bad') WHERE thread_id = 'bad' AND parent_checkpoint_id IS NULL",
}


@pytest.mark.parametrize("circle", CIRCLES.values(), ids=CIRCLES)
def test_a_checkpoint_that_is_its_own_ancestor_is_refused(url: str, circle: str) -> None:
    """Who asks for its history, or exports it, is told at once in place of going round for ever; others are read."""
    write(url, circle)
    with open_checkpointer(url) as saver:
        graph = build_refine_graph(ScriptedModel([]), checkpointer=saver)
        thread = Thread(graph, "bad")
        for read in (thread.history, lambda: list(saver.export_thread("bad"))):
            with pytest.raises(BadCheckpointError, match=r"thread 'bad'.* is its own ancestor"):
                read()
        with suppress(ValueError):
            thread.replay()
        assert graph.get_state(config("good")).values["answer"] == "a poem"


@pytest.mark.parametrize("own", [1, -1], ids=["of one", "of all"])
def test_a_file_in_which_a_checkpoint_is_its_own_ancestor_is_not_imported(tmp_path: Path, own: int) -> None:
    """The import ends at once, and keeps nothing of it."""
    with open_checkpointer("memory") as saver:
        run(saver, "good")
        head, *lines = [json.loads(line) for line in saver.export_thread("good")]
        kept = [line for line in lines if "checkpoint_id" in line]
        kept[0]["parent_id"] = kept[0 if own == 1 else -1]["checkpoint_id"]
        with pytest.raises(ValueError, match="is its own ancestor"):
            saver.import_thread([json.dumps(line) for line in (head, *lines)], thread_id="bad")
        assert saver.runs.get("bad") is None


@pytest.mark.parametrize("metadata", ["[1]", '"text"', "7"])
def test_metadata_that_are_no_object_are_refused(url: str, metadata: str) -> None:
    """Metadata are an object of JSON, and nothing else."""
    cast = "?::jsonb" if url.startswith("postgres") else "?"
    write(url, f"UPDATE checkpoints SET metadata = {cast} WHERE thread_id = 'bad'", metadata)
    with (
        open_checkpointer(url) as saver,
        pytest.raises(BadCheckpointError, match=r"thread 'bad', checkpoint .*metadata"),
    ):
        saver.get_tuple(config("bad"))


@pytest.mark.parametrize("metadata", [b"{", b"\xff\xfe", b"[" * 100_000, "no json"])
def test_metadata_that_are_no_json_are_refused(tmp_path: Path, metadata: Any) -> None:
    """SQLite keeps any bytes there."""
    url = str(tmp_path / "a.sqlite")
    with open_checkpointer(url) as saver:
        run(saver, "bad")
    write(url, "UPDATE checkpoints SET metadata = ? WHERE thread_id = 'bad'", metadata)
    with open_checkpointer(url) as saver, pytest.raises(BadCheckpointError, match="thread 'bad', checkpoint '1"):
        saver.get_tuple(config("bad"))


@pytest.mark.parametrize(("reply", "seconds"), [(b"\x80\x04", 1.0), ("[]", "soon"), ("[]", -1.0), ("[]", 9e999)])
def test_a_poisoned_journal_is_refused(tmp_path: Path, reply: Any, seconds: Any) -> None:
    """A row of the journal that is no reply is named with its thread, and what to do; other rows are read."""
    url = str(tmp_path / "a.sqlite")
    with open_checkpointer(url) as saver:
        saver.journal.add("bad", "call", KeptReply("[]", 1.0))
        saver.journal.add("good", "call", KeptReply("[]", 1.0))
    write(url, "UPDATE redraft_journal SET reply = ?, seconds = ? WHERE thread_id = 'bad'", reply, seconds)
    with open_checkpointer(url) as saver:
        with pytest.raises(BadJournalError, match=r"thread 'bad' .*saver\.journal\.forget\('bad'\)"):
            saver.journal.get("bad", "call")
        assert saver.journal.get("good", "call") == KeptReply("[]", 1.0)
        saver.journal.forget("bad")
        assert saver.journal.get("bad", "call") is None


@pytest.mark.parametrize(
    ("column", "value"), [("rounds", "many"), ("task", b"\xff"), ("recipe", b"\x80"), ("score", "x")]
)
def test_a_poisoned_row_of_the_index_hides_no_other(tmp_path: Path, column: str, value: Any) -> None:
    """The list shows that the row is unreadable and why; asked for by itself it is refused."""
    url = str(tmp_path / "a.sqlite")
    with open_checkpointer(url) as saver:
        run(saver, "good", "bad")
    write(url, f"UPDATE runs SET {column} = ? WHERE thread_id = 'bad'", value)
    with open_checkpointer(url) as saver:
        with pytest.raises(BadRunError, match=f"thread 'bad' is refused: its {column} is"):
            saver.runs.get("bad")
        shown = {row.thread_id: row.task for row in saver.runs.list()}
        assert shown["good"] == "write"
        assert shown["bad"].startswith("(unreadable: what the runs index holds of thread 'bad'")


@pytest.mark.parametrize("place", ["runs.task", "runs.thread_id", "checkpoints.checkpoint", "checkpoints.metadata"])
def test_text_that_is_no_utf8_hides_no_other_thread(tmp_path: Path, place: str) -> None:
    """SQLite keeps any bytes as text: they are shown with a mark, or refused by the name of their thread."""
    url, (table, column) = str(tmp_path / "a.sqlite"), place.split(".")
    with open_checkpointer(url) as saver:
        run(saver, "good", "bad")
    write(url, f"UPDATE {table} SET {column} = CAST(? AS TEXT) WHERE thread_id = 'bad'", b"\xff\xfe\x80")
    with open_checkpointer(url) as saver:
        assert {row.thread_id for row in saver.runs.list()} >= {"good"}
        assert len(saver.runs.list()) == 2
        assert saver.get_tuple(config("good")) is not None
        if table == "checkpoints":
            with pytest.raises(BadCheckpointError, match="thread 'bad', checkpoint '1"):
                saver.get_tuple(config("bad"))


def test_a_hostile_fork_point_is_only_text(tmp_path: Path) -> None:
    """Digits of another script, or thousands of them, make no number."""
    url = str(tmp_path / "a.sqlite")
    with open_checkpointer(url) as saver:
        run(saver, "bad")
    for value in ("٣", "9" * 5000):
        write(url, "UPDATE runs SET fork_at = ?", value)
        with open_checkpointer(url) as saver:
            row = saver.runs.get("bad")
            assert row is not None
            assert row.fork_at == value


@pytest.mark.parametrize("key", ["a') OR 1=1 --", "a' IN (SELECT 1)", 'a"b', "", "a b", "x'; DROP TABLE runs; --"])
def test_a_filter_is_data(url: str, key: str) -> None:
    """A name or a value in a filter finds what has it, or is refused; it is never read as SQL."""
    with open_checkpointer(url) as saver:
        if url.startswith("postgres"):
            assert list(saver.list(None, filter={key: "x"})) == []
        else:
            with pytest.raises(ValueError, match="Invalid filter key"):
                list(saver.list(None, filter={key: "x"}))
        assert list(saver.list(None, filter={"source": "loop' OR '1'='1"})) == []
        assert list(saver.list(config("bad' OR '1'='1"))) == []
        assert saver.runs.list(preset="x' OR '1'='1", parent="x' OR '1'='1") == []
        assert saver.runs.list(stop_reason="accepted' OR '1'='1") == []
        assert len(saver.runs.list(before=("9999' --", "z"))) == 2
