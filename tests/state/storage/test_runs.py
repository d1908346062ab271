"""The runs index: the same answers on memory, SQLite and PostgreSQL."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, TypedDict

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import END, START, StateGraph
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.state.storage.index import RunRow, row_from_checkpoint
from redraft.state.storage.leases import Runner, this_process
from redraft.state.threads.lease import leases_of

pytestmark = pytest.mark.every("checkpointer_url")

USAGE = {"total_tokens": 120, "cost_usd": 0.25}
DONE = {
    "task": "Write one line.",
    "stop_reason": "accepted",
    "rounds": 2,
    "score": 0.5,
    "accepted_by": "uses_words",
    "usage": USAGE,
}
FORKED = {
    "redraft_preset": "writing",
    "redraft_recipe": json.dumps({"model": "local"}),
    "redraft_parent_thread": "first",
    "redraft_parent_checkpoint": "1f0-abc",
    "redraft_fork_at": 0,
}


def config(thread_id: str, **metadata: Any) -> Any:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}, "metadata": metadata}


def checkpoint(values: dict[str, Any], *, at: int = 0) -> Any:
    moment = f"2026-01-01T{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}+00:00"
    return {**empty_checkpoint(), "ts": moment, "channel_values": values}


def put(saver: Any, thread_id: str, values: dict[str, Any], *, at: int = 0, **metadata: Any) -> None:
    saver.put(config(thread_id, **metadata), checkpoint(values, at=at), {"source": "loop", "step": 1}, {})


def test_a_row_tells_what_a_run_came_to(saver: Any) -> None:
    """Task, stop reason, rounds, score, who accepted it, tokens, cost, times, parent and recipe are in the row."""
    put(saver, "t", DONE, at=1, **FORKED)
    assert saver.runs.get("t") == RunRow(
        thread_id="t",
        preset="writing",
        task="Write one line.",
        stop_reason="accepted",
        rounds=2,
        score=0.5,
        accepted_by="uses_words",
        total_tokens=120,
        cost_usd=0.25,
        created_at="2026-01-01T00:00:01.000000+00:00",
        updated_at="2026-01-01T00:00:01.000000+00:00",
        parent_thread_id="first",
        parent_checkpoint_id="1f0-abc",
        fork_at=0,
        recipe='{"model": "local"}',
    )
    assert saver.runs.get("nobody") is None


def test_later_checkpoints_move_the_row_and_forget_nothing(saver: Any) -> None:
    """What only the first call told stays, `created_at` stays, and everything else follows the newest checkpoint."""
    put(saver, "t", DONE, at=1, **FORKED)
    put(saver, "t", {"task": "Another."}, at=5)
    row = saver.runs.get("t")
    assert (row.preset, row.parent_thread_id, row.parent_checkpoint_id, row.fork_at) == (
        "writing",
        "first",
        "1f0-abc",
        0,
    )
    assert row.recipe == '{"model": "local"}'
    assert (row.task, row.stop_reason, row.rounds, row.score, row.cost_usd) == ("Another.", None, 0, None, None)
    assert row.created_at < row.updated_at == "2026-01-01T00:00:05.000000+00:00"


def test_a_fork_at_a_checkpoint_keeps_its_id(saver: Any) -> None:
    """`fork_at` comes back as it was given: a round as a number, a checkpoint as its id."""
    put(saver, "by id", DONE, redraft_fork_at="1f0-abc")
    put(saver, "by round", DONE, redraft_fork_at=3)
    put(saver, "no fork", DONE)
    assert [saver.runs.get(name).fork_at for name in ("by id", "by round", "no fork")] == ["1f0-abc", 3, None]


def test_a_run_that_begins_shows_its_new_task(saver: Any) -> None:
    """A thread given a second task is listed with it, running, before the first step is done."""
    put(saver, "t", DONE)
    put(saver, "t", {**DONE, "__start__": {"task": "Second"}}, at=1)
    row = saver.runs.get("t")
    assert (row.task, row.stop_reason, row.rounds, row.total_tokens) == ("Second", None, 0, 0)


def test_a_new_task_that_was_refused_is_not_shown_with_the_last_ones_result(saver: Any) -> None:
    """A thread whose second task waits is listed with that task, as running, with no score, rounds or cost."""
    model = ScriptedModel([{"text": "a draft", "input_tokens": 9, "output_tokens": 9}])
    graph = build_refine_graph(model, critics=[], limits={"max_rounds": 0}, checkpointer=saver)
    graph.invoke({"task": "First"}, config("t"))
    row = saver.runs.get("t")
    assert (row.task, row.stop_reason, row.total_tokens) == ("First", "max_rounds", 18)
    with pytest.raises(ValueError, match="'max_round' is not a limit"):
        graph.invoke({"task": "Second", "limits": {"max_round": 5}}, config("t"))
    row = saver.runs.get("t")
    assert (row.task, row.stop_reason, row.rounds, row.total_tokens) == ("Second", None, 0, 0)
    assert [row.thread_id for row in saver.runs.list(stop_reason="running")] == ["t"]


def test_a_graph_of_somebody_else_is_listed_too(saver: Any) -> None:
    """Any graph's thread has a row, whatever its channels of the same names hold."""

    class Odd(TypedDict, total=False):
        task: Any
        rounds: Any
        score: Any
        usage: Any
        stop_reason: Any
        accepted_by: Any

    odd: Odd = {
        "task": ["not", "text"],
        "rounds": 2**64 - 1,
        "score": float("nan"),
        "usage": "none",
        "stop_reason": {"a": 1},
        "accepted_by": True,
    }
    builder = StateGraph(Odd)
    builder.add_node("work", lambda _: odd)
    builder.add_edge(START, "work")
    builder.add_edge("work", END)
    builder.compile(checkpointer=saver).invoke(odd, {"configurable": {"thread_id": "odd"}})
    row = saver.runs.get("odd")
    assert (row.task, row.rounds, row.score, row.total_tokens, row.stop_reason) == ("", 0, None, 0, None)


def test_a_subgraph_has_no_row_of_its_own(saver: Any) -> None:
    """A graph inside another writes into the outer thread, which alone is listed."""

    class Outer(TypedDict, total=False):
        task: str

    inner = StateGraph(Outer)
    inner.add_node("inside", lambda _: {"task": "inner"})
    inner.add_edge(START, "inside")
    outer = StateGraph(Outer)
    outer.add_node("inner", inner.compile())
    outer.add_node("last", lambda _: {"task": "outer"})
    outer.add_edge(START, "inner")
    outer.add_edge("inner", "last")
    graph = outer.compile(checkpointer=saver, interrupt_before=["last"])
    graph.invoke({"task": "given"}, {"configurable": {"thread_id": "t"}})
    assert [(row.thread_id, row.task) for row in saver.runs.list()] == [("t", "inner")]
    graph.invoke(None, {"configurable": {"thread_id": "t"}})
    assert saver.runs.get("t").task == "outer"


def test_children_are_the_forks_in_the_order_they_were_made(saver: Any) -> None:
    """A tree is drawn from `children`, and `list(parent=…)` pages through the same."""
    put(saver, "first", DONE, at=0)
    for number in range(3):
        put(saver, f"fork {number}", DONE, at=number + 1, redraft_parent_thread="first")
    put(saver, "grandchild", DONE, at=9, redraft_parent_thread="fork 0")
    assert [row.thread_id for row in saver.runs.children("first")] == ["fork 0", "fork 1", "fork 2"]
    assert [row.thread_id for row in saver.runs.list(parent="first", limit=2)] == ["fork 2", "fork 1"]
    assert saver.runs.children("grandchild") == []


def test_filters_hold_together(saver: Any) -> None:
    """Threads are found by preset and by stop reason; `running` finds those that have none."""
    put(saver, "a", DONE, at=0, redraft_preset="writing")
    put(saver, "b", {**DONE, "stop_reason": None}, at=1, redraft_preset="writing")
    put(saver, "c", {**DONE, "stop_reason": "failed"}, at=2, redraft_preset="maths")

    def names(**filters: Any) -> list[str]:
        return [row.thread_id for row in saver.runs.list(**filters)]

    assert names() == ["c", "b", "a"]
    assert names(preset="writing") == ["b", "a"]
    assert names(stop_reason="failed") == ["c"]
    assert names(stop_reason="running") == ["b"]
    assert names(preset="writing", stop_reason="accepted") == ["a"]
    assert names(preset="nobody's") == []


def test_a_thousand_threads_page_without_gap_or_repeat(saver: Any) -> None:
    """Pages go through all threads, newest first, also where many began at one moment and others come meanwhile."""
    for number in range(1000):
        put(saver, f"Thread-{number:03}é" if number % 2 else f"thread {number:03}", DONE, at=number // 7)
    pages, before = [], None
    while page := saver.runs.list(limit=70, before=before):
        pages.append(page)
        before = page[-1].position
        put(saver, f"late {len(pages)}", DONE, at=5000 + len(pages))
        put(saver, pages[0][0].thread_id, DONE, at=6000)
    rows = [row for page in pages for row in page]
    assert [len(page) for page in pages] == [70] * 14 + [20]
    assert len({row.thread_id for row in rows}) == 1000
    assert [row.position for row in rows] == sorted((row.position for row in rows), reverse=True)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_page_has_at_least_one_row(saver: Any, limit: int) -> None:
    """A limit that makes no sense is refused by name."""
    with pytest.raises(ValueError, match=f"limit must be at least 1, not {limit}"):
        saver.runs.list(limit=limit)


def test_a_page_is_read_through_an_index(tmp_path: Any) -> None:
    """The database walks an index to a page, and to a thread's forks; it never sorts or scans all threads."""
    from redraft.state import open_checkpointer

    with open_checkpointer(tmp_path / "runs.sqlite") as saver:
        statements: list[str] = []
        with saver.readers.borrowed() as conn:
            conn.set_trace_callback(statements.append)
        saver.runs.list(before=("2026", "t"), preset="writing")
        saver.runs.children("t")
        with saver.readers.borrowed() as conn:
            conn.set_trace_callback(None)
            asked = [text for text in statements if text.startswith("SELECT")]
            plans = [" ".join(row[3] for row in conn.execute(f"EXPLAIN QUERY PLAN {text}")) for text in asked]
    assert len(plans) == 2
    assert all("USING INDEX" in plan and "SCAN" not in plan and "TEMP B-TREE" not in plan for plan in plans), plans


@pytest.mark.parametrize(
    ("task", "shown"),
    [
        ("one\n two\t three ", "one two three"),
        ("x" * 300, "x" * 200),
        ("w " * 300, ("w " * 100)),
        ("a\0b", "ab"),
        ("lone \ud800 half", "lone ? half"),
        ("✍️ писать", "✍️ писать"),
        (None, ""),
    ],
)
def test_a_task_is_shown_on_one_short_line(task: Any, shown: str) -> None:
    """However long and whatever its characters, a task is 200 characters on one line in the list."""
    row = row_from_checkpoint(config("t"), checkpoint({"task": task}), {})
    assert row is not None
    assert row.task == shown


def test_times_are_utc_in_one_form() -> None:
    """Times written in another zone, or without a fraction, sort among the others."""
    made = {**checkpoint({}), "ts": "2026-01-01T02:00:00.5+02:00"}
    row = row_from_checkpoint(config("t"), made, {})
    assert row is not None
    assert row.created_at == "2026-01-01T00:00:00.500000+00:00"


async def test_the_index_and_the_lease_are_awaited_as_they_are_called(saver: Any) -> None:
    """In async code the list of runs and who runs what are read and written without holding the event loop up."""
    for name in ("a", "b"):
        made: Any = {"configurable": {"thread_id": name, "checkpoint_ns": ""}, "metadata": {}}
        await saver.aput(made, empty_checkpoint(), {"source": "loop", "step": 1}, {})
    assert await saver.runs.aget("a") == saver.runs.get("a") is not None
    assert [row.thread_id for row in await saver.runs.alist(limit=1)] == ["b"]
    assert await saver.runs.achildren("a") == []
    lease, runner = leases_of(saver), Runner("token", this_process())
    taken = await lease.atake("a", runner)
    fence = taken.fence
    assert not taken.fresh  # it has a checkpoint
    assert await lease.atake("a", Runner("other", this_process())) is None
    assert await lease.aget("a") == lease.get("a") == replace(runner, fence=fence)
    assert lease.standing([fence]) == {fence: False}
    assert await lease.arequest_stop("a", "token")
    assert lease.standing([fence, 0]) == {fence: True}
    assert (await lease.aget("a")).stop_requested
    await lease.arenew([fence], 0.0)
    assert await lease.aget("a") is None
    after = (await lease.atake("a", Runner("other", this_process()))).fence
    assert after > fence
    assert lease.standing([fence, after]) == {after: False}
    saver.delete_thread("a")
    assert lease.take("a", runner).fence > after


@pytest.mark.parametrize("checkpointer_url", ["sqlite", "postgres"], indirect=True)
def test_a_lease_from_before_the_clock_was_set_back_keeps_nobody_off(saver: Any) -> None:
    """One that would last longer than any that is taken counts as expired, so that its thread can be run."""
    lease = leases_of(saver)
    taken = lease.take("a", Runner("token", this_process()), seconds=10**6)
    assert lease.get("a") is None
    assert lease.take("a", Runner("other", this_process())).fence > taken.fence
