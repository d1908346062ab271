"""A run of a graph of ours has its thread from its beginning to its end, however it ends; reading takes none."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.graph import START, StateGraph
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.nodes.critics.critics import human_critic
from redraft.state import BusyThreadError, Thread, open_checkpointer
from redraft.state.critique import Critique
from redraft.state.schema import RefineState
from redraft.state.storage.foreign_runs import ForeignRuns
from redraft.state.threads.lease import leases_of

if TYPE_CHECKING:
    from collections.abc import Iterator

LAMP: Any = {"configurable": {"thread_id": "lamp"}}
TASK: Any = {"task": "Write."}


@pytest.fixture
def saver(checkpointer_url: str) -> Iterator[Any]:
    with open_checkpointer(checkpointer_url) as opened:
        yield opened


@pytest.fixture
def no_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where a run's beginning is guessed."""
    monkeypatch.setattr(ForeignRuns, "begin", lambda *_: pytest.fail("the beginning of a run was guessed"))


def graph_of(saver: Any, *replies: Any, **options: Any) -> Any:
    return build_refine_graph(ScriptedModel([*replies]), checkpointer=saver, **options)


def assert_free(saver: Any) -> None:
    """Another run has the thread at once, and the database hears of its end."""
    assert graph_of(saver, "again", "no issues").invoke(TASK, LAMP)["answer"] == "again"
    while leases_of(saver).get("lamp") is not None:
        pass


@pytest.mark.usefixtures("no_guess")
def test_a_stream_that_is_left_gives_its_thread_back(saver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a stream is open, nobody else runs its thread; when it is closed, or nobody holds it any more, it ended.

    Two runs that begin at the same moment are no exception: the second does not take the first for one that has died.
    """
    both: Any = {"configurable": {"thread_id": "both"}}
    take = saver.leases.leases.take

    def taken(*given: Any, **how: Any) -> Any:
        patched.undo()  # the other one takes it as usual
        runner = take(*given, **how)
        with pytest.raises(BusyThreadError):
            graph_of(saver, "other").invoke(TASK, both)
        return runner

    with monkeypatch.context() as patched:
        patched.setattr(saver.leases.leases, "take", taken)
        assert graph_of(saver, "a lamp", "no issues").invoke(TASK, both)["answer"] == "a lamp"
    for leave in ("close", "forget"):
        parts = graph_of(saver, "a lamp", "no issues").stream(TASK, LAMP)
        assert leases_of(saver).get("lamp") is None  # nobody has asked for a part
        next(parts)
        with pytest.raises(BusyThreadError):
            graph_of(saver, "other").invoke(TASK, LAMP)
        if leave == "close":
            parts.close()
        del parts
        gc.collect()
        assert_free(saver)


@pytest.mark.usefixtures("no_guess")
async def test_an_awaited_stream_that_is_left_gives_its_thread_back(saver: Any) -> None:
    """The same of `astream`, closed by its reader; and of a run that is cancelled."""
    parts = graph_of(saver, "a lamp", "no issues").astream(TASK, LAMP)
    await anext(parts)
    with pytest.raises(BusyThreadError):
        await graph_of(saver, "other").ainvoke(TASK, LAMP)
    await parts.aclose()
    await asyncio.to_thread(assert_free, saver)

    began = asyncio.Event()

    async def critic(task: str, draft: str, history: Any, /) -> Critique:
        began.set()
        await asyncio.Event().wait()
        raise AssertionError

    running = asyncio.create_task(graph_of(saver, "a lamp", critics=[critic]).ainvoke(TASK, LAMP))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.to_thread(assert_free, saver)


@pytest.mark.usefixtures("no_guess")
def test_an_error_and_a_question_give_the_thread_back(saver: Any) -> None:
    """A run that raises has ended, and so has one that waits for a person."""

    def fail(messages: Any) -> str:
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        graph_of(saver, fail).invoke(TASK, LAMP)
    assert_free(saver)
    assert "__interrupt__" in graph_of(saver, "a lamp", critics=[human_critic()]).invoke(TASK, LAMP)
    assert_free(saver)


@pytest.mark.usefixtures("no_guess")
def test_a_read_takes_nothing(saver: Any) -> None:
    """A thread that somebody runs is read by everybody, and reading it keeps nobody off."""
    at_work, may_go_on = threading.Event(), threading.Event()

    def reply(messages: Any) -> str:
        at_work.set()
        assert may_go_on.wait(30)
        return "a lamp"

    graph = graph_of(saver, reply, "no issues")
    running = threading.Thread(target=graph.invoke, args=(TASK, LAMP))
    running.start()
    assert at_work.wait(30)
    held = leases_of(saver).get("lamp")
    assert held is not None
    assert graph.get_state(LAMP).values["task"] == "Write."
    assert saver.get_tuple(LAMP) is not None
    assert Thread(graph, "lamp").history()
    assert leases_of(saver).get("lamp") == held
    may_go_on.set()
    running.join()
    assert_free(saver)


def test_a_graph_of_ours_inside_another_runs_under_its_lease(saver: Any) -> None:
    """Of a user's graph with one of ours inside, on our saver, there is one lease, and it is not given back between."""
    fences = []

    def look(state: RefineState) -> dict[str, Any]:
        held = leases_of(saver).get("lamp")
        fences.append(held.fence if held else None)
        return {}

    outer = StateGraph(RefineState)
    outer.add_node("before", look)
    outer.add_node("inside", build_refine_graph(ScriptedModel(["a lamp", "no issues"])))
    outer.add_node("after", look)
    outer.add_edge(START, "before")
    outer.add_edge("before", "inside")
    outer.add_edge("inside", "after")
    graph = outer.compile(checkpointer=saver)
    assert graph.invoke(TASK, LAMP)["answer"] == "a lamp"
    assert fences[0]
    assert fences == [fences[0]] * 2


@pytest.mark.usefixtures("no_guess")
def test_one_line_says_where_a_run_of_another_graph_begins_and_ends(saver: Any) -> None:
    """Within `stoppable` nothing is guessed of a user's own graph: the block has the thread, and gives it back."""
    builder = StateGraph(RefineState)
    builder.add_node("one", lambda _: {"answer": "mine"})
    builder.add_edge(START, "one")
    graph = builder.compile(checkpointer=saver)
    with Thread(graph, "lamp").stoppable() as control:
        assert graph.invoke(TASK, LAMP, control=control)["answer"] == "mine"
        with pytest.raises(BusyThreadError), Thread(graph, "lamp").stoppable():
            pass
    assert leases_of(saver).get("lamp") is None
