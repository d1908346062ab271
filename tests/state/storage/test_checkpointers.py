"""The savers: one behaviour on memory, SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.state import open_checkpointer
from redraft.state.storage.journal import KeptReply
from redraft.state.storage.leases import Runner, this_process
from redraft.state.storage.sqlite import READERS
from redraft.state.storage.thread_rows import open_index
from redraft.state.threads.lease import leases_of

pytestmark = pytest.mark.every("checkpointer_url")

HOSTILE = (
    "it's",
    'a "b"',
    "100%s %(x)s {x}",
    "../../etc/passwd",
    "drop'; DROP TABLE runs;--",
    "прогон-✍️",
    "a\nb",
    "?1",
)


def _append(state: list[str], writes: list[list[str]]) -> list[str]:
    return [*state, *(word for write in writes for word in write)]


class Words(TypedDict, total=False):
    task: str
    words: Annotated[list[str], DeltaChannel(_append, snapshot_frequency=10**9)]
    rounds: int
    stop_reason: str | None
    score: float | None
    accepted_by: str | None
    usage: dict[str, Any]


def write(state: Words) -> Words:
    rounds = state.get("rounds", 0) + 1
    return {
        "words": [f"word {rounds}"],
        "rounds": rounds,
        "stop_reason": "max_rounds" if rounds == 3 else None,
        "usage": {"total_tokens": rounds * 10, "cost_usd": None},
    }


def build(saver: Any) -> Any:
    builder = StateGraph(Words)
    builder.add_node("write", write)
    builder.add_edge(START, "write")
    builder.add_conditional_edges("write", lambda state: END if state.get("stop_reason") else "write")
    return builder.compile(checkpointer=saver)


def on(thread_id: str, **metadata: Any) -> Any:
    return {"configurable": {"thread_id": thread_id}, "metadata": metadata}


WORDS = ["word 1", "word 2", "word 3"]


def test_invoke_and_ainvoke_work_on_one_saver(saver: Any) -> None:
    """A graph is run with `invoke`, then with `ainvoke`, and read both ways, on the same saver."""
    graph = build(saver)
    assert graph.invoke({"task": "count"}, on("sync"))["words"] == WORDS

    async def afterwards() -> None:
        assert (await graph.ainvoke({"task": "count"}, on("async")))["words"] == WORDS
        assert (await graph.aget_state(on("sync"))).values["words"] == WORDS
        assert len([state async for state in graph.aget_state_history(on("async"))]) == 5

    asyncio.run(afterwards())
    assert graph.get_state(on("async")).values["words"] == WORDS
    assert [row.thread_id for row in saver.runs.list()] == ["async", "sync"]


async def test_async_with_opens_the_same_saver(checkpointer_url: str) -> None:
    """`async with` gives a saver too, and `invoke` inside a running event loop does not deadlock."""
    async with open_checkpointer(checkpointer_url) as saver:
        graph = build(saver)
        assert (await graph.ainvoke({"task": "count"}, on("a")))["words"] == WORDS
        assert graph.invoke({"task": "count"}, on("b"))["words"] == WORDS


def test_a_delta_channel_is_whole_at_every_checkpoint(saver: Any) -> None:
    """Of a channel that stores only what each step added, every point of the history shows the whole."""
    graph = build(saver)
    graph.invoke({"task": "count"}, on("t"))
    history = [state.values.get("words", []) for state in graph.get_state_history(on("t"))]
    assert history == [WORDS, WORDS[:2], WORDS[:1], [], []]


async def test_reading_inside_alist_does_not_deadlock(saver: Any) -> None:
    """While a history is walked, the same saver can be read and written."""
    graph = build(saver)
    await graph.ainvoke({"task": "count"}, on("t"))
    seen = 0
    async for found in saver.alist(on("t")):
        assert (await saver.aget_tuple(found.config)).checkpoint["id"] == found.checkpoint["id"]
        assert saver.get_tuple(found.config) is not None
        await graph.ainvoke({"task": "count"}, on(f"inside {seen}"))
        seen += 1
    assert seen == 5


async def test_a_busy_file_does_not_hold_an_event_loop_up(tmp_path: Path) -> None:
    """While another process writes the file, or all its readers are lent, other tasks of the event loop go on."""
    async with open_checkpointer(tmp_path / "a.sqlite") as saver:
        await build(saver).ainvoke({"task": "count"}, on("t"))
        lease, runner = leases_of(saver), Runner("token", this_process())
        other = sqlite3.connect(tmp_path / "a.sqlite", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        writes = [saver.adelete_thread("none"), lease.atake("u", runner), saver.journal.aforget("none")]
        waiting = [
            asyncio.ensure_future(call) for call in (*writes, saver.journal.aadd("t", "call", KeptReply("[]", 0)))
        ]
        for _ in range(1000):
            await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        other.execute("ROLLBACK")
        other.close()
        await asyncio.gather(*waiting)
        found = await lease.aget("u")
        assert found is not None
        assert found.token == "token"

        lent, free = threading.Barrier(READERS + 1), threading.Event()

        def borrow() -> None:
            with saver.readers.borrowed():
                lent.wait(20)
                assert free.wait(20)

        with ThreadPoolExecutor(READERS) as pool:
            lending = [pool.submit(borrow) for _ in range(READERS)]
            await asyncio.to_thread(lent.wait, 20)
            reads = [saver.aget_tuple(on("t")), saver.runs.aget("t"), lease.aget("u"), saver.journal.aget("t", "call")]
            waiting = [asyncio.ensure_future(read) for read in reads]
            for _ in range(1000):
                await asyncio.sleep(0)
            assert not any(task.done() for task in waiting)
            free.set()
            assert None not in await asyncio.gather(*waiting)
            for each in lending:
                each.result()


def test_reading_inside_list_does_not_deadlock(saver: Any) -> None:
    """The same holds for `list`, also from another thread."""
    graph = build(saver)
    graph.invoke({"task": "count"}, on("t"))
    with ThreadPoolExecutor(1) as other:
        for found in saver.list(on("t")):
            assert other.submit(saver.get_tuple, found.config).result(timeout=30) is not None
            assert saver.runs.get("t") is not None


@pytest.mark.parametrize("thread_id", HOSTILE)
def test_any_thread_id_is_only_a_name(saver: Any, thread_id: str) -> None:
    """Quotes, placeholders, paths and emoji in a thread id name that thread and do nothing else."""
    graph = build(saver)
    graph.invoke({"task": "other"}, on("other"))
    graph.invoke({"task": thread_id}, on(thread_id, redraft_parent_thread=thread_id, redraft_preset=thread_id))
    assert graph.get_state(on(thread_id)).values["words"] == WORDS
    assert saver.runs.get(thread_id).thread_id == thread_id
    assert [row.thread_id for row in saver.runs.children(thread_id)] == [thread_id]
    assert [row.thread_id for row in saver.runs.list(preset=thread_id, parent=thread_id)] == [thread_id]
    saver.delete_thread(thread_id)
    assert saver.runs.get(thread_id) is None
    assert saver.get_tuple(on(thread_id)) is None
    assert graph.get_state(on("other")).values["words"] == WORDS


@pytest.mark.parametrize("task", ["a\0b", "\x1b[31m\u2028 é", "x" * 1_000_000])
def test_any_text_a_model_writes_can_be_saved(saver: Any, task: str) -> None:
    """A NUL, control characters and a megabyte come back as they were, on every backend."""
    graph = build(saver)
    graph.invoke({"task": task, "score": float("inf")}, on("t"))
    graph.invoke({"rounds": 0, "stop_reason": None}, on("t"))
    assert graph.get_state(on("t")).values["task"] == task
    assert graph.get_state(on("t")).values["score"] == float("inf")
    assert saver.runs.get("t").score is None
    assert [state.values.get("task") for state in graph.get_state_history(on("t"))] == [task] * 9 + [None]


def test_half_a_character_does_not_stop_a_run(saver: Any) -> None:
    """A lone surrogate, which no database can hold, is saved as a question mark."""
    graph = build(saver)
    graph.invoke({"task": "half \ud800"}, on("t"))
    assert graph.get_state(on("t")).values["task"] == "half ?"


async def test_a_deleted_thread_is_gone_from_the_list(saver: Any) -> None:
    """`adelete_thread` takes the checkpoints and the row."""
    graph = build(saver)
    await graph.ainvoke({"task": "count"}, on("t"))
    await saver.adelete_thread("t")
    assert saver.runs.list() == []
    assert await saver.aget_tuple(on("t")) is None
    assert (await graph.ainvoke({"task": "count"}, on("t")))["words"] == WORDS


async def test_pruned_postgres_threads_are_gone_from_the_list(postgres_url: str) -> None:
    """`aprune` with "delete" takes the rows of the threads it deletes, and no other's."""
    async with open_checkpointer(postgres_url) as saver:
        for name in ("a", "b", "c"):
            await build(saver).ainvoke({"task": "count"}, on(name))
        await saver.aprune(["a", "b"], strategy="delete")
        assert [row.thread_id for row in saver.runs.list()] == ["c"]


def test_many_threads_write_at_once(saver: Any) -> None:
    """Runs in many threads at once all end as they would alone."""
    graph = build(saver)
    names = [f"t{index}" for index in range(24)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda name: graph.invoke({"task": name}, on(name)), names))
    assert all(result["words"] == WORDS for result in results)
    assert {row.thread_id: row.task for row in saver.runs.list(limit=100)} == {name: name for name in names}


async def test_many_tasks_write_at_once(saver: Any) -> None:
    """Runs in many tasks of one event loop all end as they would alone."""
    graph = build(saver)
    names = [f"t{index}" for index in range(24)]
    results = await asyncio.gather(*(graph.ainvoke({"task": name}, on(name)) for name in names))
    assert all(result["words"] == WORDS for result in results)
    assert len(saver.runs.list(limit=100)) == 24


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_closing_and_opening_again_keeps_everything(backend: str, request: Any, tmp_path: Path) -> None:
    """What a process wrote is there for the next one."""
    url = str(tmp_path / "a.sqlite") if backend == "sqlite" else request.getfixturevalue("postgres_url")
    opener = open_checkpointer(url)
    with opener as saver:
        build(saver).invoke({"task": "count"}, on("t", redraft_preset="writing"))
        before = saver.runs.list()
    with opener as saver:
        graph = build(saver)
        assert graph.get_state(on("t")).values["words"] == WORDS
        assert saver.runs.list() == before


def test_memory_is_empty_each_time() -> None:
    """`memory` keeps nothing when the block ends."""
    with open_checkpointer("memory") as saver:
        build(saver).invoke({"task": "count"}, on("t"))
    with open_checkpointer(":memory:") as saver:
        assert saver.runs.list() == []


def test_the_stock_sqlite_saver_reads_ours_and_ours_reads_it(tmp_path: Path) -> None:
    """A file can be moved between redraft and LangGraph's own saver, both ways."""
    path = tmp_path / "runs.sqlite"
    with open_checkpointer(path) as saver:
        build(saver).invoke({"task": "count"}, on("ours"))
    with SqliteSaver.from_conn_string(str(path)) as stock:
        assert build(stock).get_state(on("ours")).values["words"] == WORDS
        build(stock).invoke({"task": "count"}, on("theirs"))
    with open_checkpointer(path) as saver:
        graph = build(saver)
        assert graph.get_state(on("theirs")).values["words"] == WORDS
        graph.update_state(on("theirs"), {"rounds": 9}, as_node="write")
        assert saver.runs.get("theirs").rounds == 9


def test_the_stock_postgres_saver_reads_ours_and_ours_reads_it(postgres_url: str) -> None:
    """A database can be moved between redraft and LangGraph's own saver, both ways."""
    from langgraph.checkpoint.postgres import PostgresSaver

    with open_checkpointer(postgres_url) as saver:
        build(saver).invoke({"task": "count"}, on("ours"))
    with PostgresSaver.from_conn_string(postgres_url) as stock:
        stock.setup()
        assert build(stock).get_state(on("ours")).values["words"] == WORDS
        build(stock).invoke({"task": "count"}, on("theirs"))
    with open_checkpointer(postgres_url) as saver:
        assert build(saver).get_state(on("theirs")).values["words"] == WORDS


def _count(url: str, statement: str) -> int:
    if url.startswith("postgres"):
        import psycopg

        with psycopg.connect(url) as conn:
            return int(conn.execute(statement).fetchone()[0])  # type: ignore[index,arg-type]
    conn = sqlite3.connect(url)
    try:
        return int(conn.execute(statement).fetchone()[0])
    finally:
        conn.close()


def _execute(url: str, statement: str) -> None:
    if url.startswith("postgres"):
        import psycopg

        with psycopg.connect(url, autocommit=True) as pg:
            pg.execute(statement.encode())
        return
    conn = sqlite3.connect(url, isolation_level=None)
    try:
        conn.execute(statement)
    finally:
        conn.close()


REFUSE_ROWS = {
    "sqlite": "CREATE TRIGGER refuse BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'row refused'); END",
    "postgres": "ALTER TABLE runs ADD CONSTRAINT row_refused CHECK (task <> 'count')",
}
REFUSE_CHECKPOINTS = {
    "sqlite": "CREATE TRIGGER refuse BEFORE INSERT ON checkpoints BEGIN SELECT RAISE(ABORT, 'step refused'); END",
    "postgres": "ALTER TABLE checkpoints ADD CONSTRAINT step_refused CHECK (false)",
}


@pytest.mark.parametrize("refuse", [REFUSE_ROWS, REFUSE_CHECKPOINTS], ids=["row", "checkpoint"])
@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_a_checkpoint_and_its_row_are_saved_together_or_not_at_all(
    backend: str, refuse: dict[str, str], request: Any, tmp_path: Path
) -> None:
    """When the database refuses one of the two, neither is there, and the saver goes on working."""
    url = str(tmp_path / "a.sqlite") if backend == "sqlite" else request.getfixturevalue("postgres_url")
    with open_checkpointer(url) as saver:
        graph = build(saver)
        _execute(url, refuse[backend])
        with pytest.raises(Exception, match="refused"):
            graph.invoke({"task": "count"}, on("t"))
        assert _count(url, "SELECT count(*) FROM checkpoints") == 0
        assert _count(url, "SELECT count(*) FROM runs") == 0
        if backend == "sqlite":
            _execute(url, "DROP TRIGGER refuse")
        else:
            _execute(url, "ALTER TABLE runs DROP CONSTRAINT IF EXISTS row_refused")
            _execute(url, "ALTER TABLE checkpoints DROP CONSTRAINT IF EXISTS step_refused")
        assert graph.invoke({"task": "count"}, on("t"))["words"] == WORDS
        assert saver.runs.get("t").rounds == 3


def test_a_memory_checkpoint_and_its_row_are_saved_together() -> None:
    """What memory can't take leaves no row."""
    with open_checkpointer("memory") as saver:
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        checkpoint: Any = {**empty_checkpoint(), "channel_values": {"task": threading.Lock()}}
        with pytest.raises(TypeError):
            saver.put(config, checkpoint, {}, {"task": "1"})
        assert saver.runs.list() == []
        assert saver.get_tuple(config) is None


WRITER = """
import sys
from langgraph.checkpoint.base import empty_checkpoint
from redraft.state import open_checkpointer
with open_checkpointer(sys.argv[1]) as saver:
    for number in range(20):
        config = {"configurable": {"thread_id": f"{sys.argv[2]}-{number}", "checkpoint_ns": ""}}
        config = saver.put(config, empty_checkpoint(), {"source": "input", "step": -1}, {})
        saver.put_writes(config, [("words", ["a"])], "task")
"""


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_processes_that_open_and_write_at_once_lose_nothing(
    backend: str, request: Any, forking: Any, tmp_path: Path
) -> None:
    """Four processes open a new database in the same moment and write it, and every thread is there."""
    url = str(tmp_path / "a.sqlite") if backend == "sqlite" else request.getfixturevalue("postgres_url")
    writers = [forking.start(["-c", WRITER, url, str(number)], stderr=subprocess.PIPE) for number in range(4)]
    errors = [writer.communicate(timeout=120)[1] for writer in writers]
    assert errors == [""] * 4
    with open_checkpointer(url) as saver:
        assert len(saver.runs.list(limit=100)) == 80


def test_a_postgres_saver_is_as_wide_as_its_pool(postgres_url: str) -> None:
    """A call that waits in the database does not make the others wait."""
    with open_checkpointer(postgres_url) as saver:
        graph = build(saver)
        graph.invoke({"task": "count"}, on("t"))
        meet = threading.Barrier(5, timeout=30)

        def meet_inside() -> bool:
            with saver.pool.connection():
                meet.wait()
                return saver.get_tuple(on("t")) is not None

        with ThreadPoolExecutor(5) as pool:
            assert all(future.result() for future in [pool.submit(meet_inside) for _ in range(5)])


@pytest.mark.one_of_each
@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_plain_data_loads_in_strict_mode_without_a_warning(backend: str, request: Any, tmp_path: Path) -> None:
    """With strict msgpack on and warnings as errors, a graph runs and its thread loads; a dict subclass comes back."""
    url = str(tmp_path / "a.sqlite") if backend == "sqlite" else request.getfixturevalue("postgres_url")
    program = (
        "import sys; sys.path.insert(0, sys.argv[2]); import test_checkpointers as t;"
        "saver = t.open_checkpointer(sys.argv[1]).__enter__();"
        "class_ = type('Limits', (dict,), {});"
        "graph = t.build(saver); graph.invoke({'task': 'count', 'usage': class_(a=1)}, t.on('t'));"
        "state = graph.get_state_history(t.on('t'));"
        "assert {'a': 1} in [found.values.get('usage') for found in state];"
        "assert graph.get_state(t.on('t')).values['words'] == t.WORDS; saver.close()"
    )
    environment = {**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true"}
    langsmiths = "ignore:'asyncio.iscoroutinefunction' is deprecated:DeprecationWarning"  # on Python 3.14
    command = [sys.executable, "-W", "error", "-W", langsmiths, "-c", program, url, str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, cwd="/")
    assert (done.returncode, done.stderr) == (0, "")
    with open_checkpointer(url) as saver:
        assert build(saver).get_state(on("t")).values["words"] == WORDS


SECRET = "hunter2"


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://me:{SECRET}@localhost/db",
        f"mysql://me:x?{SECRET}@localhost/db",
        f"mysql://localhost/db?password=a@{SECRET}",
        f"mysql://localhost:{SECRET}",
        f"postgresql+psycopg://me:{SECRET}@localhost/db",
        "redis://localhost",
        "sqlite://",
        "sqlite:///",
        "sqlite://host/file.sqlite",
        "file:runs.sqlite?mode=ro",
        "",
        "  ",
        "a\0b",
        None,
        7,
        b"runs.sqlite",
    ],
)
def test_what_names_no_checkpointer_is_refused_at_once(url: Any) -> None:
    """The message says what was wrong and what is accepted, and keeps the password to itself."""
    with pytest.raises(
        ValueError, match=r"names no checkpointer: give .*runs\.sqlite.*postgresql://.*memory"
    ) as caught:
        open_checkpointer(url)
    assert SECRET not in str(caught.value)
    if not isinstance(url, str) or "://" not in url:
        assert repr(url).split("?")[0].rstrip("'") in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:p@{SECRET}@localhost/db",
        f"postgresql://me:p/{SECRET}@localhost/db",
        f"postgresql://me:p?{SECRET}@localhost/db",
        f"postgresql://me:p#{SECRET}@localhost/db",
        f"postgresql://me:p:{SECRET}/x@localhost/db",
        f"postgresql://me:{SECRET}",
        f"postgresql://me:{SECRET}%zz@localhost/db",
        f"postgresql://me:{SECRET}@localhost:port/db",
        f"postgresql://localhost/db?nonsense=1&password={SECRET}",
    ],
)
def test_a_malformed_postgres_url_never_shows_its_password(url: str) -> None:
    """A password whose special characters are not encoded stays out of the message and of what is chained to it."""
    pytest.importorskip("psycopg")
    with pytest.raises(ValueError, match="is not a PostgreSQL URL") as caught, open_checkpointer(url):
        pass
    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


@pytest.mark.parametrize("query", ["", f"?password={SECRET}", "?connect_timeout=1"])
def test_an_unreachable_postgres_is_said_in_one_line(query: str) -> None:
    """Where no server listens, the message says where, and why, and no password."""
    pytest.importorskip("psycopg")
    url = f"postgresql://me:{SECRET}@127.0.0.1:1/db{query}"
    with (
        pytest.raises(OSError, match=r"can't open 'postgresql://me@127\.0\.0\.1:1/db': .*refused") as caught,
        open_checkpointer(url),
    ):
        pass
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_database_that_does_not_exist_is_named(postgres_server: str) -> None:
    """A wrong database name is said."""
    url = postgres_server.rpartition("/")[0] + "/nowhere"
    with pytest.raises(OSError, match='database "nowhere" does not exist'), open_checkpointer(url):
        pass


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    """A text file given as the database is refused and not touched."""
    path = tmp_path / "notes.txt"
    path.write_text("notes " * 100)
    with pytest.raises(ValueError, match=r"notes\.txt' is not a SQLite database"), open_checkpointer(path):
        pass
    assert path.read_text() == "notes " * 100


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    """A path into a directory that is not there says so, and makes none."""
    with (
        pytest.raises(FileNotFoundError, match=r"the directory of '.*nowhere.*' does not exist"),
        open_checkpointer(tmp_path / "nowhere" / "runs.sqlite"),
    ):
        pass
    assert not (tmp_path / "nowhere").exists()


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    """A directory given as the file says so."""
    with pytest.raises(IsADirectoryError, match="is a directory"), open_checkpointer(tmp_path):
        pass


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_another_programs_runs_table_is_not_touched(backend: str, request: Any, tmp_path: Path) -> None:
    """A database that has a `runs` table of its own is refused when it is opened, not in the middle of a run."""
    url = str(tmp_path / "a.sqlite") if backend == "sqlite" else request.getfixturevalue("postgres_url")
    _execute(url, "CREATE TABLE runs (distance_km REAL)")
    with pytest.raises(ValueError, match="has a table 'runs' that is not redraft's"), open_checkpointer(url):
        pass


def test_sqlite_urls_name_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`sqlite:///name` is a file here, `sqlite:////name` one from the root; a Path is always a file."""
    monkeypatch.chdir(tmp_path)
    for url in ("sqlite:///a.sqlite", f"sqlite:///{tmp_path}/b.sqlite", Path("memory"), Path(":memory:")):
        with open_checkpointer(url) as saver:
            build(saver).invoke({"task": "count"}, on("t"))
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"a.sqlite", "b.sqlite", "memory", ":memory:"}


def test_without_the_extra_the_message_names_it() -> None:
    """Without psycopg, a PostgreSQL URL says what to install; nothing else needs it."""
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from redraft.state import open_checkpointer\n"
        "with open_checkpointer('memory'): pass\n"
        "try: open_checkpointer('postgresql://me:hunter2@localhost/db').open()\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    assert 'pip install ".[postgres]" in a checkout' in done.stdout
    assert SECRET not in done.stdout


def test_naming_a_checkpointer_imports_no_langgraph() -> None:
    """`open_checkpointer` is there at once: LangGraph is loaded when the database is opened."""
    program = (
        "import sys; from redraft.state.storage.checkpointers import open_checkpointer\n"
        "import redraft.state.storage.index\n"
        "open_checkpointer('runs.sqlite'); print([name for name in sys.modules if name.startswith('langgraph')])"
    )
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "how", ["memory", "a file", "a file to be read", "stock, to be read", "no database", "other leases"]
)
def test_no_connection_is_left_to_the_interpreter(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database is closed by whoever opened it, and of a saver that nobody closes with the saver: Python 3.13 warns of
    each connection that is not."""
    made: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def noted(*given: Any, **options: Any) -> sqlite3.Connection:
        made.append(connect(*given, **options))
        return made[-1]

    path = tmp_path / "a.sqlite"
    with SqliteSaver.from_conn_string(str(path)) if how.startswith("stock") else open_checkpointer(path) as saver:
        build_refine_graph(ScriptedModel(["a", "no issues"]), checkpointer=saver).invoke(
            {"task": "Write."}, {"configurable": {"thread_id": "one"}}
        )
    (tmp_path / "none.sqlite").write_bytes(b"no database" * 1000)
    monkeypatch.setattr(sqlite3, "connect", noted)
    if how == "no database":
        with pytest.raises(ValueError, match="is not a SQLite database"):
            open_checkpointer(tmp_path / "none.sqlite", read_only=True).open()
        assert open_index(tmp_path / "none.sqlite") is None
    elif how.endswith("read"):
        with open_checkpointer(path, read_only=True) as saver:
            assert saver.runs.list()
    elif how == "other leases":
        other = InMemorySaver()
        assert leases_of(other) is leases_of(other)
        del other
    else:
        saver = open_checkpointer(path if how == "a file" else "memory").open()
        saver.runs.list()
        del saver
    gc.collect()
    assert made
    for one in made:
        # A thread closes the writer's, when it has heard that nobody will write.
        until = time.monotonic() + 60
        while not closed(one):
            assert time.monotonic() < until


def closed(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("SELECT 1")
    except sqlite3.ProgrammingError:
        return True
    return False
