"""A database that is begun with a key: nobody who only has its files or its tables reads what a run is about."""

from __future__ import annotations

import sqlite3
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.types import Command
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.nodes.critics.critics import human_critic
from redraft.server.engine.records import open_records
from redraft.server.engine.runs import Caller, Run
from redraft.server.engine.thread_records import ThreadRecord
from redraft.state import BadCheckpointError, EncryptionKeyError, Thread, open_checkpointer
from redraft.state.storage.index import BadRunError
from redraft.state.storage.journal import BadJournalError
from redraft.state.storage.rekey import rekey

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("Crypto", reason="pycryptodome is not installed")
checkpointing = pytest.importorskip("langgraph.checkpoint.conformance", reason="the conformance suite is missing")

KEY = "5a" * 32
OTHER = "5b" * 32
TASK, DRAFT, CRITIQUE, REVISION, PROMPT, OPINION = (
    f"mqrkzvbn{word}q9w8 é" for word in ("task", "draft", "critique", "revision", "prompt", "opinion")
)
MARK = b"mqrkzvbn"


def config(thread_id: str, **metadata: Any) -> Any:
    return {"configurable": {"thread_id": thread_id}, "metadata": metadata}


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return str(tmp_path / "a.sqlite")


def graph_on(saver: Any, replies: list[Any], **options: Any) -> Any:
    return build_refine_graph(ScriptedModel(replies), checkpointer=saver, **options)


def stored(url: str, tmp_path: Path) -> bytes:
    """All that the database holds: the bytes of its files, or the text and the bytes of all its rows."""
    if not url.startswith("postgres"):
        files = [file for file in tmp_path.iterdir() if file.name.startswith("a.sqlite")]
        assert files
        return b"".join(file.read_bytes() for file in files)
    import psycopg

    found = []
    with psycopg.connect(url) as conn:
        tables = conn.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        assert {"checkpoints", "checkpoint_blobs", "checkpoint_writes", "runs", "redraft_journal"} <= {
            t for (t,) in tables
        }
        for (table,) in tables:
            for row in conn.execute(f'SELECT * FROM "{table}"').fetchall():
                found += [
                    bytes(value) if isinstance(value, bytes | memoryview) else repr(value).encode() for value in row
                ]
            found += [str(row).encode() for row in conn.execute(f'SELECT t::text FROM "{table}" t').fetchall()]
    return b"\n".join(found)


def whole_run(saver: Any) -> dict[str, Any]:
    """A run with every kind of row: a revision, a fork, a pause for a person, the journal, the server's own tables."""
    graph = graph_on(saver, [DRAFT, CRITIQUE, REVISION, "no issues"])
    answer: dict[str, Any] = graph.invoke(
        {"task": TASK}, config("t", redraft_recipe=f'{{"generate_prompt": "{PROMPT}"}}', project=PROMPT)
    )
    Thread(graph, "t").fork(at=0, feedback=CRITIQUE, thread_id="fork")
    asked = graph_on(saver, [DRAFT, REVISION], critics=[human_critic()])
    asked.invoke({"task": TASK}, config("asked"))
    asked.invoke(Command(resume={"feedback": OPINION, "accepted": True}), config("asked"))
    records = open_records(saver)
    now = "2026-01-01"
    records.add_thread(ThreadRecord("t", "me", "refine", {"about": TASK}, "idle", now, now))
    run: dict[str, Any] = {"id": "1", "thread_id": "t", "caller": Caller("me"), "assistant": "refine", "model": None}
    run |= {"request": {"input": {"task": TASK}}, "metadata": {"about": TASK}, "stateless": False, "status": "error"}
    run |= {"error": {"message": DRAFT}, "created_at": now, "updated_at": now, "begun": True, "attempts": 1}
    records.add_run(Run(**run))
    records.change_run("1", now=now, error={"message": CRITIQUE})
    return answer


def test_nothing_that_was_written_is_readable_without_the_key(url: str, tmp_path: Path) -> None:
    """No task, draft, critique or prompt is in any file or table, while it is open and after; with the key all is."""
    with open_checkpointer(url, key=KEY) as saver:
        answer = whole_run(saver)
        assert MARK not in stored(url, tmp_path)
    assert MARK not in stored(url, tmp_path)
    with open_checkpointer(url, key=bytes.fromhex(KEY)) as saver:
        graph = graph_on(saver, [])
        assert graph.get_state(config("t")).values["answer"] == answer["answer"] == REVISION
        assert {event["text"] for event in Thread(graph, "t").replay().output["events"]} >= {DRAFT, CRITIQUE, REVISION}
        row = saver.runs.get("t")
        assert row is not None
        assert (row.task, PROMPT in (row.recipe or "")) == (TASK, True)
        assert saver.journal.calls("t")
        assert open_records(saver).runs("t")[0].request == {"input": {"task": TASK}}
        assert open_records(saver).threads("me")[0].metadata == {"about": TASK}
        found = list(saver.list(config("t"), filter={"project": PROMPT, "source": "loop"}, limit=2))
        assert len(found) == 2
        assert list(saver.list(config("t"), filter={"project": "another"})) == []


def test_without_a_key_the_same_run_is_readable(url: str, tmp_path: Path) -> None:
    """What the test above looks for is found where nothing is encrypted."""
    with open_checkpointer(url) as saver:
        whole_run(saver)
    found = stored(url, tmp_path)
    assert all(f"mqrkzvbn{word}".encode() in found for word in ("task", "draft", "critique", "revision", "prompt"))


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        (KEY, None, r"is encrypted: .*REDRAFT_ENCRYPTION_KEY"),
        (KEY, OTHER, "was encrypted with another key than the one given"),
        (None, KEY, "was begun without a key and is not encrypted"),
    ],
    ids=["no key", "another key", "begun in clear"],
)
async def test_another_key_than_the_first_is_told(url: str, first: Any, then: Any, said: str) -> None:
    """The first who opens a database decides, also before anything is in it; the message shows no key."""
    for filled in (False, True):
        with open_checkpointer(url, key=first) as saver:
            if filled:
                graph_on(saver, ["a", "no issues"]).invoke({"task": "t"}, config("t"))
        for _ in range(2):
            with pytest.raises(EncryptionKeyError, match=said) as caught:
                open_checkpointer(url, key=then).open()
            with pytest.raises(EncryptionKeyError, match=said):
                async with open_checkpointer(url, key=then):
                    pass
            assert KEY not in str(caught.value)
            assert OTHER not in str(caught.value)


def test_a_database_of_an_earlier_version_is_not_mixed(tmp_path: Path) -> None:
    """One that was filled before there were keys is opened without one, and not with one."""
    url = str(tmp_path / "a.sqlite")
    with open_checkpointer(url) as saver:
        graph_on(saver, ["a", "no issues"]).invoke({"task": "t"}, config("t"))
    execute(url, "DROP TABLE redraft_encryption")
    with pytest.raises(EncryptionKeyError, match="was begun without a key"):
        open_checkpointer(url, key=KEY).open()
    with open_checkpointer(url) as saver:
        assert saver.runs.get("t") is not None


def execute(url: str, statement: str, *values: Any) -> None:
    conn = sqlite3.connect(url)
    with conn:
        conn.execute(statement, values)
    conn.close()


@pytest.mark.parametrize(
    ("statement", "error", "said"),
    [
        ("UPDATE checkpoints SET type = 'msgpack', checkpoint = x'80'", BadCheckpointError, "is not encrypted"),
        ("UPDATE checkpoints SET checkpoint = zeroblob(100)", BadCheckpointError, "or was changed since"),
        ("UPDATE checkpoints SET checkpoint = x'00'", BadCheckpointError, "too short"),
        ("UPDATE checkpoints SET type = 'msgpack+rot13'", BadCheckpointError, "is not encrypted"),
        ('UPDATE checkpoints SET metadata = \'{"source": "loop"}\'', BadCheckpointError, "is not encrypted"),
        ("UPDATE writes SET type = 'msgpack', value = x'80'", BadCheckpointError, "is not encrypted"),
        ('UPDATE runs SET recipe = \'{"model": "http://evil"}\'', BadRunError, "is not encrypted"),
        ("UPDATE redraft_journal SET reply = '[]'", BadJournalError, "is not encrypted"),
        ("UPDATE redraft_journal SET reply = 'redraft+aes:%'", BadJournalError, "base64"),
    ],
)
def test_what_was_written_without_the_key_is_refused(
    tmp_path: Path, statement: str, error: type[Exception], said: str
) -> None:
    """A row that somebody without the key changed or put there is not used."""
    url = str(tmp_path / "a.sqlite")
    with open_checkpointer(url, key=KEY) as saver:
        graph_on(saver, ["a", "no issues"]).invoke({"task": "t"}, config("t"))
        call = saver.journal.calls("t")[0]
    execute(url, statement)
    with open_checkpointer(url, key=KEY) as saver, pytest.raises(error, match=f"thread 't'.*{said}"):
        read(saver, call)


def read(saver: Any, call: str) -> None:
    """Read all that is stored of the thread."""
    list(saver.list(config("t")))
    saver.runs.get("t")
    saver.journal.get("t", call)


def test_text_beside_the_encrypted_values_is_refused(postgres_url: str) -> None:
    """A draft put into PostgreSQL's own JSON, where there is text only without a key, is not used."""
    import psycopg

    with open_checkpointer(postgres_url, key=KEY) as saver:
        graph_on(saver, ["a", "no issues"]).invoke({"task": "t"}, config("t"))
    with psycopg.connect(postgres_url) as conn:
        conn.execute("UPDATE checkpoints SET checkpoint = jsonb_set(checkpoint, '{channel_values,answer}', '\"b\"')")
    with open_checkpointer(postgres_url, key=KEY) as saver, pytest.raises(BadCheckpointError, match="is not encrypted"):
        saver.get_tuple(config("t"))


@pytest.mark.parametrize("key", ["", "short", "zz" * 32, "5a" * 31, b"short", b"5" * 64, 7, "5a" * 16])
def test_what_is_no_key_is_told_at_once(key: Any) -> None:
    """The message says how a key looks, and not how this one does."""
    with pytest.raises(EncryptionKeyError, match="64 hexadecimal digits, as `openssl rand -hex 32`") as caught:
        open_checkpointer("memory", key=key)
    assert "5a5a" not in str(caught.value)
    assert "zz" not in str(caught.value)


@pytest.mark.parametrize("backend", ["sqlite"])
async def test_an_encrypted_saver_passes_langgraphs_conformance_suite(backend: str, tmp_path: Path) -> None:
    """With a key a saver does what it does without: also what is filtered by encrypted metadata is found."""
    from langgraph.checkpoint.conformance import checkpointer_test, validate

    @checkpointer_test(name=backend)
    async def opened() -> Any:
        async with open_checkpointer(tmp_path / "a.sqlite", key=KEY) as saver:
            yield saver

    report = await validate(opened)
    assert {name: result.failures for name, result in report.results.items() if result.failures} == {}
    assert sum(result.tests_passed for result in report.results.values()) > 50


def test_a_key_can_be_changed(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old key opens nothing any more, and what was encrypted with it goes on with the new one: threads that wait,
    replies in the journal and the server's requests. While somebody has the database open it is refused."""
    with open_checkpointer(url, key=KEY) as saver:
        graph = graph_on(saver, [DRAFT, CRITIQUE, REVISION], critics=[human_critic()])
        graph.invoke({"task": TASK}, config("one", redraft_recipe="{}"))
        records = open_records(saver)
        records.add_thread(ThreadRecord("one", "me", "refine", {"said": OPINION}, "idle", "2026", "2026"))
        replies = saver.journal.calls("one")
        with monkeypatch.context() as impatient:
            impatient.setattr("redraft.state.storage.rekey.PATIENCE", 2)
            impatient.setattr(sqlite3, "connect", partial(sqlite3.connect, timeout=0.1))
            with pytest.raises(ValueError, match="is open elsewhere"):
                rekey(url, KEY, OTHER)
    for wrong, keys in ((EncryptionKeyError, (OTHER, KEY)), (EncryptionKeyError, (KEY, "short"))):
        with pytest.raises(wrong):
            rekey(url, *keys)
    before = stored(url, tmp_path)
    assert rekey(url, KEY, OTHER) > len(replies) + 5
    after = stored(url, tmp_path)
    assert MARK not in before + after
    with pytest.raises(EncryptionKeyError, match="another key"), open_checkpointer(url, key=KEY):
        pass
    with open_checkpointer(url, key=OTHER) as saver:
        thread = Thread(graph_on(saver, [REVISION], critics=[human_critic()]), "one")
        assert thread.replay().matches
        assert [saver.journal.get("one", call) is not None for call in replies] == [True] * len(replies)
        assert saver.runs.get("one").task == TASK
        assert open_records(saver).threads("me")[0].metadata == {"said": OPINION}
        assert thread.answer(accept=True)["accepted_by"] == "human"
        assert len(thread.history()) > 3


def test_a_row_that_can_not_be_read_leaves_the_key_as_it_was(url: str, tmp_path: Path) -> None:
    """It is named, and nothing was changed: the database opens with the key that it had."""
    with open_checkpointer(url, key=KEY) as saver:
        graph_on(saver, [DRAFT, "no issues"]).invoke({"task": TASK}, config("one"))
        graph_on(saver, [DRAFT, "no issues"]).invoke({"task": TASK}, config("two"))
        saver.runs.query("UPDATE runs SET task = 'redraft+aes:AAAA' WHERE thread_id = 'two' RETURNING thread_id", {})
    before = stored(url, tmp_path)
    with pytest.raises(EncryptionKeyError, match=r"thread 'two' in 'runs' is refused, so the key stays"):
        rekey(url, KEY, OTHER)
    with open_checkpointer(url, key=KEY) as saver:
        assert Thread(graph_on(saver, []), "one").replay().matches
    assert len(before) > 1000
