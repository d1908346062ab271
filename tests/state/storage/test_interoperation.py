"""A database that redraft and LangGraph's own savers write in turn."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import asynccontextmanager, closing
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.state import Critique, open_checkpointer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

THREAD: Any = {"configurable": {"thread_id": "t"}}
WORDS = [f"word {number}" for number in range(1, 7)]


def _append(state: list[str], writes: list[list[str]]) -> list[str]:
    return [*state, *(word for write in writes for word in write)]


class State(TypedDict, total=False):
    words: Annotated[list[str], DeltaChannel(_append, snapshot_frequency=10**9)]
    plain: list[str]
    rounds: int


def build(saver: Any) -> Any:
    """A loop that stops after each round, and whose state has a value of each kind."""

    def write(state: State) -> State:
        rounds = state.get("rounds", 0) + 1
        word = f"word {rounds}"
        return {"words": [word], "plain": [*state.get("plain", []), word], "rounds": rounds}

    graph = StateGraph(State)
    graph.add_node("write", write)
    graph.add_edge(START, "write")
    graph.add_conditional_edges(
        "write", lambda state: END if state["rounds"] == len(WORDS) else "write", ["write", END]
    )
    return graph.compile(checkpointer=saver, interrupt_after=["write"])


@asynccontextmanager
async def opened(kind: str, path: Path | str) -> AsyncIterator[Any]:
    """A saver of this kind over the file, or the database."""
    if kind == "redraft":
        async with open_checkpointer(path) as saver:
            yield saver
    elif kind == "PostgresSaver":
        from langgraph.checkpoint.postgres import PostgresSaver

        with PostgresSaver.from_conn_string(str(path)) as saver:
            saver.setup()
            yield saver
    elif kind == "AsyncSqliteSaver":
        async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
            yield saver
    else:
        with SqliteSaver.from_conn_string(str(path)) as saver:
            yield saver


async def one_round(kind: str, path: Path | str, given: Any) -> Any:
    """The values after one more round, which this saver loads and saves."""
    async with opened(kind, path) as saver:
        graph = build(saver)
        if kind in ("SqliteSaver", "PostgresSaver"):  # they have no async methods
            graph.invoke(given, THREAD)
            return graph.get_state(THREAD).values
        await graph.ainvoke(given, THREAD)
        return (await graph.aget_state(THREAD)).values


@pytest.mark.parametrize("stock", ["SqliteSaver", "AsyncSqliteSaver", "PostgresSaver"])
@pytest.mark.parametrize("first", ["redraft", "stock"])
async def test_a_run_goes_on_whoever_saved_it_last(
    first: str, stock: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A run whose rounds are saved by redraft and by LangGraph's saver in turn ends as if one had saved it."""
    path = request.getfixturevalue("postgres_url") if stock == "PostgresSaver" else tmp_path / "runs.sqlite"
    turns = ["redraft", stock] * 3 if first == "redraft" else [stock, "redraft"] * 3
    for number, kind in enumerate(turns, start=1):
        values = await one_round(kind, path, {"rounds": 0} if number == 1 else None)
        assert values == {"words": WORDS[:number], "plain": WORDS[:number], "rounds": number}
    histories = []
    for kind in ("redraft", stock):
        async with opened(kind, path) as saver:
            history = build(saver).get_state_history(THREAD) if kind != "AsyncSqliteSaver" else None
            if history is None:
                histories.append([state async for state in build(saver).aget_state_history(THREAD)])
            else:
                histories.append(list(history))
    assert [(state.values, state.next, state.metadata) for state in histories[0]] == [
        (state.values, state.next, state.metadata) for state in histories[1]
    ]
    assert len(histories[0]) == len(WORDS) + 2


@pytest.mark.parametrize("writer", ["redraft", "SqliteSaver", "AsyncSqliteSaver"])
async def test_an_old_step_is_forked_by_the_other_saver(writer: str, tmp_path: Path) -> None:
    """A branch that the other saver begins at an old checkpoint runs on from there, and both read it."""
    path = tmp_path / "runs.sqlite"
    for number in range(4):
        await one_round(writer, path, {"rounds": 0} if number == 0 else None)
    other = "redraft" if writer != "redraft" else "AsyncSqliteSaver"
    async with opened(other, path) as saver:
        graph = build(saver)
        states = [state async for state in graph.aget_state_history(THREAD)]
        old = next(state for state in states if state.values.get("rounds") == 2)
        await graph.aupdate_state(old.config, {"plain": ["changed"]}, as_node="write")
        await graph.ainvoke(None, THREAD)
    expected = {"words": WORDS[:3], "plain": ["changed", WORDS[2]], "rounds": 3}
    async with opened("AsyncSqliteSaver", path) as saver:
        assert (await build(saver).aget_state(THREAD)).values == expected
    async with opened("redraft", path) as saver:
        assert build(saver).get_state(THREAD).values == expected


@pytest.mark.parametrize("begun", [None, 7, f"{7:032}", f"{7:032}.0123456789"])
@pytest.mark.parametrize("turns", ["o" * 12, "oosso", "so" * 9])
def test_versions_of_both_are_in_order(begun: Any, turns: str, tmp_path: Path) -> None:
    """Whoever counts when, also from what an earlier release counted, a later version is greater than all before it."""
    with open_checkpointer(tmp_path / "runs.sqlite") as ours, SqliteSaver.from_conn_string(":memory:") as stock:
        versions = [] if not isinstance(begun, str) else [begun]
        for turn in turns:
            last = versions[-1] if versions else begun
            versions.append((stock if turn == "s" else ours).get_next_version(last, None))  # type: ignore[arg-type]
    assert all(earlier < later for earlier, later in pairwise(versions))
    numbers = [int(version.partition(".")[0]) for version in versions]
    assert [later - earlier for earlier, later in pairwise(numbers)] == [1] * (len(versions) - 1)


def test_a_long_task_stands_where_it_was_given_and_in_no_later_checkpoint(tmp_path: Path) -> None:
    """However many rounds a run has its task is stored equally often; LangGraph's own saver shows it and goes on, and
    the list of threads has the newest one also where a later call gives none."""
    path, long = tmp_path / "a.sqlite", "a lamp" * 400
    texts = [f"text {number}" for number in range(20)]

    def reject(task: str, draft: str, history: Any, /) -> Critique:
        return Critique("Once more.", accepted=False)

    def loop(saver: Any) -> Any:
        return build_refine_graph(ScriptedModel(texts), critics=[reject], checkpointer=saver)

    short, other = ({"configurable": {"thread_id": name}} for name in ("short", "other"))
    with open_checkpointer(path) as saver, closing(sqlite3.connect(path)) as connection:
        for on, rounds in ((short, 1), (other, 4)):
            loop(saver).invoke({"task": long, "limits": {"max_rounds": rounds}}, on)
            first, *later = reversed(list(loop(saver).get_state_history(on)))
            assert (first.values["task"], {state.values["task"] for state in later}) == (None, {long})
        rows = connection.execute("SELECT thread_id, checkpoint FROM checkpoints")
        assert Counter(name for name, data in rows if long.encode() in data) == {"short": 2, "other": 2}
        loop(saver).invoke({"task": "a river", "limits": {"max_rounds": 0}}, other)
        loop(saver).update_state(other, {"limits": {"max_rounds": 1}})
        assert [row.task for row in saver.runs.list()] == ["a river", long[:200]]
    with SqliteSaver.from_conn_string(str(path)) as stock:
        assert loop(stock).get_state(short).values["task"] == long
        assert loop(stock).invoke({"task": "a river", "limits": {"max_rounds": 2}}, short)["rounds"] == 2
        assert loop(stock).get_state(short).values["task"] == "a river"
