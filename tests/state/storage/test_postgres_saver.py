"""PostgreSQL under load and after a restart: many puts in one transaction, each with its own answer."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.state import Critique, Thread, open_checkpointer
from redraft.state.open_state import ConversationState
from redraft.state.storage.journal import KeptReply

psycopg = pytest.importorskip("psycopg")
committer = pytest.importorskip("redraft.state.storage.postgres_committer")
Committer, Column = committer.PostgresCommitter, committer.Column


def on(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}


def checkpoint(**values: Any) -> Any:
    versions = dict.fromkeys(values, "1")
    return {**empty_checkpoint(), "channel_values": values, "channel_versions": versions}


async def put(saver: Any, thread_id: str, **values: Any) -> Any:
    made = checkpoint(**values)
    return await saver.aput(on(thread_id), made, {"source": "loop", "step": 1}, made["channel_versions"])


def hold_writers(patch: pytest.MonkeyPatch, hold: threading.Event) -> threading.Barrier:
    """Make each writer wait at its first transaction; the barrier says that both do."""
    commit, both = Committer.commit, threading.Barrier(3)
    waited = threading.local()

    def later(self: Any, group: Any) -> Any:
        if not hasattr(waited, "once"):
            waited.once = True
            both.wait(60)
            assert hold.wait(60)
        return commit(self, group)

    patch.setattr(Committer, "commit", later)
    return both


def count_commits(patch: pytest.MonkeyPatch) -> list[int]:
    """How many puts each transaction takes, from now on."""
    commit, counts = Committer.commit, []

    def counted(self: Any, group: Any) -> Any:
        counts.append(len(group))
        return commit(self, group)

    patch.setattr(Committer, "commit", counted)
    return counts


async def one_for_each_writer(saver: Any) -> list[asyncio.Task[Any]]:
    """Puts that occupy both writers, so that those after them wait together."""
    names: dict[int, str] = {}
    for number in range(100):
        names.setdefault(hash(f"first {number}") % 2, f"first {number}")
    return [asyncio.create_task(put(saver, name, task="held")) for name in names.values()]


async def test_what_waits_is_committed_together_and_a_refused_put_alone_is_told(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 60 puts at one moment, the database refuses one: that caller gets its error, the other 59 are saved."""
    async with open_checkpointer(postgres_url) as saver:
        with psycopg.connect(postgres_url, autocommit=True) as admin:
            admin.execute("ALTER TABLE runs ADD CONSTRAINT refused CHECK (task <> 'bad')")
        hold, commits = threading.Event(), count_commits(monkeypatch)
        both = hold_writers(monkeypatch, hold)
        held = await one_for_each_writer(saver)
        await asyncio.to_thread(both.wait, 60)
        puts = [asyncio.create_task(put(saver, f"t{n}", task="bad" if n == 30 else "good")) for n in range(60)]
        await asyncio.sleep(0)  # each has now queued what it puts
        hold.set()
        results = await asyncio.gather(*puts, return_exceptions=True)
        await asyncio.gather(*held)
        assert [n for n, result in enumerate(results) if isinstance(result, Exception)] == [30]
        assert isinstance(results[30], psycopg.errors.CheckViolation)
        assert len(saver.runs.list(limit=100)) == 61
        assert saver.runs.get("t30") is None
        assert await saver.aget_tuple(on("t30")) is None
        # the two held, a group that is committed at once, one that is refused, and that one's puts each alone
        assert sorted(commits, reverse=True)[0] > 10
        assert len(commits) < 2 + 2 + 60


async def test_a_cancelled_put_is_written_all_the_same(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelling who waits neither loses the step nor hurts the puts beside it."""
    async with open_checkpointer(postgres_url) as saver:
        hold = threading.Event()
        both = hold_writers(monkeypatch, hold)
        held = await one_for_each_writer(saver)
        await asyncio.to_thread(both.wait, 60)
        waiting = [asyncio.create_task(put(saver, name, task="count")) for name in ("a", "b")]
        await asyncio.sleep(0)
        waiting[0].cancel()
        hold.set()
        await asyncio.gather(*held, waiting[1])
        with pytest.raises(asyncio.CancelledError):
            await waiting[0]
    async with open_checkpointer(postgres_url) as saver:  # closing waited for it
        assert saver.runs.get("a").task == "count"
        assert saver.runs.get("b").task == "count"


async def test_one_thread_put_twice_at_once_keeps_the_order(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two puts of one thread never share a transaction; the row says what the later one said."""
    async with open_checkpointer(postgres_url) as saver:
        hold = threading.Event()
        both = hold_writers(monkeypatch, hold)
        held = await one_for_each_writer(saver)
        await asyncio.to_thread(both.wait, 60)
        puts = [asyncio.create_task(put(saver, "t", task=f"task {number}")) for number in range(5)]
        await asyncio.sleep(0)
        hold.set()
        await asyncio.gather(*held, *puts)
        assert saver.runs.get("t").task == "task 4"
        assert len([found async for found in saver.alist(on("t"))]) == 5


def test_two_event_loops_and_threads_use_one_saver(postgres_url: str) -> None:
    """Puts from two event loops and from plain threads at once are all there, each answered where it was made."""
    with open_checkpointer(postgres_url) as saver:
        start = threading.Barrier(3, timeout=60)

        def in_a_loop(name: str) -> None:
            async def many() -> None:
                await asyncio.gather(*(put(saver, f"{name} {number}", task=name) for number in range(20)))

            start.wait()
            asyncio.run(many())

        def plainly() -> None:
            start.wait()
            for number in range(20):
                made = checkpoint(task="plain")
                saver.put(on(f"plain {number}"), made, {"source": "loop", "step": 1}, made["channel_versions"])

        with ThreadPoolExecutor(3) as pool:
            for done in [pool.submit(in_a_loop, "a"), pool.submit(in_a_loop, "b"), pool.submit(plainly)]:
                done.result()
        assert len(saver.runs.list(limit=100)) == 60


async def test_replies_that_come_together_are_kept_together(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 60 runs whose models answer at one moment, the replies take a few transactions, and each is there at once."""
    hold, commits = threading.Event(), count_commits(monkeypatch)
    async with open_checkpointer(postgres_url) as saver:
        both = hold_writers(monkeypatch, hold)
        held = await one_for_each_writer(saver)
        await asyncio.to_thread(both.wait, 60)
        kept = [KeptReply(f"[{number}]", 0.5) for number in range(60)]
        added = [asyncio.create_task(saver.journal.aadd(f"t{n}", "call.1", one)) for n, one in enumerate(kept)]
        await asyncio.sleep(0)  # so that all of them wait
        hold.set()
        await asyncio.gather(*held, *added)
        assert [await saver.journal.aget(f"t{n}", "call.1") for n in range(60)] == kept
        saver.journal.add("t0", "call.1", KeptReply("[]", 9.0))
        assert saver.journal.get("t0", "call.1") == kept[0]  # what is kept stays
    assert sum(commits) == 63
    assert len(commits) <= 5


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("text", ["", None, 'it\'s "{,}" \\ NULL', "é 漢 \U0001f600", "\n"]),
        ("bytea", [b"", None, bytes(range(256))]),
        ("int4", [0, None, -(2**31), 2**31 - 1]),
        ("int8", [-(2**63), 2**63 - 1]),
        ("float8", [0, 0.1, None, -1e300]),
        ("text", []),
    ],
)
def test_a_column_comes_as_it_was_sent(kind: str, values: list[Any], postgres_url: str) -> None:
    """Each value of a group is in the database what it was here, whatever stands in a text."""
    with psycopg.connect(postgres_url) as conn:
        (found,) = conn.execute(f"SELECT %b::{kind}[]", [Column(kind, values)]).fetchone()
    assert found == values


def test_a_closed_saver_says_so(postgres_url: str) -> None:
    """A put after the end is refused in words, and does not wait for ever."""
    with open_checkpointer(postgres_url) as saver:
        pass
    with pytest.raises(RuntimeError, match="the database was closed"):
        saver.put(on("t"), checkpoint(), {}, {})


@pytest.mark.parametrize("when", ["idle", "in a transaction"])
async def test_a_server_restarted_in_mid_run_loses_no_step(own_postgres: Any, when: str) -> None:
    """A put that meets a server that went away is made again on a new connection; reads go on too."""
    url, restart = own_postgres
    async with open_checkpointer(url) as saver:

        async def put_ten(name: str) -> None:
            await asyncio.gather(*(put(saver, f"{name} {number}", task="count") for number in range(10)))

        await put_ten("before")
        if when == "idle":
            await asyncio.to_thread(restart)
            await put(saver, "alone", task="count")  # not with others, after which each would be tried again
        else:
            other = psycopg.connect(url)
            other.execute("LOCK TABLE runs IN ACCESS EXCLUSIVE MODE")
            alone = asyncio.create_task(put(saver, "alone", task="count"))
            waiting = "SELECT 1 FROM pg_locks WHERE NOT granted"
            while not other.execute(waiting).fetchone():  # noqa: ASYNC110  (until it is in its transaction)
                await asyncio.sleep(0)
            await asyncio.to_thread(restart)
            other.close()
            await alone
        await put_ten("after")
        assert len(saver.runs.list(limit=100)) == 21
        assert await saver.aget_tuple(on("before 3")) is not None


class EarlierState(ConversationState, total=False):
    """The state as it was when each checkpoint held the task."""

    task: str


def test_a_long_task_is_kept_once(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many steps a thread has its task is stored once, also from where an earlier release kept it in each
    checkpoint; such a thread goes on, replays, forks and is read by LangGraph's own saver with its texts whole."""
    from langgraph.checkpoint.postgres import PostgresSaver
    from redraft.state.storage import postgres

    def reject(task: str, draft: str, history: Any, /) -> Critique:
        return Critique("Once more.", accepted=False)

    task, texts = "Write about a lamp. " * 50, [f"lamp {number} " * 50 for number in range(9)]
    with open_checkpointer(postgres_url) as saver, psycopg.connect(postgres_url, autocommit=True) as conn:
        model = ScriptedModel(texts)
        earlier, graph = (
            build_refine_graph(model, critics=[reject], checkpointer=saver, state_schema=schema)
            for schema in (EarlierState, ConversationState)
        )
        monkeypatch.setattr(postgres, "INLINE_CHARACTERS", 10**9)
        earlier.invoke({"task": task, "limits": {"max_rounds": 1}}, on("t"))
        count = "SELECT count(*) FROM checkpoints WHERE checkpoint->'channel_values' ? 'task'"
        ((before,),) = conn.execute(count)
        monkeypatch.undo()
        thread = Thread(graph, "t")
        out = thread.resume(limits={"max_rounds": 2})
        assert (out["rounds"], out["answer"]) == (2, texts[0])
        assert thread.replay().matches
        assert graph.get_state(on("t")).values["task"] == task
        assert [one.values.get("task", task) for one in graph.get_state_history(on("t"))].count(task) > before
        assert conn.execute(count).fetchone() == (before,)
        fork = thread.fork(at=1)
        assert graph.get_state(fork.config).values["task"] == task
        assert fork.resume()["rounds"] == 2
        kept = conn.execute("SELECT count(*) FROM checkpoint_blobs WHERE channel = 'task'")
        assert kept.fetchone() == (1,)
    with PostgresSaver.from_conn_string(postgres_url) as stock:
        values = stock.get_tuple(on("t")).checkpoint["channel_values"]
        assert build_refine_graph(model, checkpointer=stock).get_state(on("t")).values["task"] == task
    assert values["answer"] == out["answer"]
