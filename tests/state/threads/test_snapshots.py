"""A thread's history is read once, and says what LangGraph's own history says."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.types import Overwrite, interrupt
from redraft.graphs.branching import build_branching_graph
from redraft.graphs.loop import build_refine_graph
from redraft.graphs.pipeline import build_pipeline_graph
from redraft.models import ScriptedModel
from redraft.nodes import human_critic, uses_words, verifier_critic
from redraft.state import Critique, Thread
from redraft.state.dual import adrive, drive
from redraft.state.threads.history import read_history
from redraft.state.threads.plain_threads import plain_history, plain_replay, plain_state
from redraft.state.threads.snapshots import snapshots


def append_in_place(state: list[str], writes: list[list[str]]) -> list[str]:
    for write in writes:
        state.extend(write)
    return state


def append(state: list[str], writes: list[list[str]]) -> list[str]:
    return [*state, *(word for write in writes for word in write)]


class Words(TypedDict, total=False):
    rare: Annotated[list[str], DeltaChannel(append, snapshot_frequency=10**9)]
    often: Annotated[list[str], DeltaChannel(append_in_place, snapshot_frequency=3)]
    plain: Annotated[list[str], operator.add]
    number: int


def left(state: Words) -> Words:
    number = state.get("number", 0) + 1
    rare: Any = Overwrite([f"anew {number}"]) if number == 3 else [f"left {number}"]
    return {"rare": rare, "often": [f"left {number}"], "plain": [f"left {number}"], "number": number}


def right(state: Words) -> Words:
    return {"often": ["right"]}


def ask(state: Words) -> Words:
    return {"rare": [interrupt("go on?")]} if state["number"] == 2 else {}


def build(saver: Any) -> Any:
    builder = StateGraph(Words)
    for node in (left, right, ask):
        builder.add_node(node.__name__, node)
    builder.add_edge(START, "left")
    builder.add_edge(START, "right")
    builder.add_edge("left", "ask")
    builder.add_conditional_edges("ask", lambda state: END if state["number"] >= 5 else "left")
    return builder.compile(checkpointer=saver)


def on(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id}}


async def test_every_snapshot_is_langgraphs_own(saver: Any) -> None:
    """Parallel nodes, a pause, an overwrite, an edit, a fork and stored snapshots of a channel: all values agree."""
    from langgraph.types import Command

    graph = build(saver)
    graph.invoke({"rare": ["given"]}, on("t"))
    graph.invoke(Command(resume="yes"), on("t"))
    graph.update_state(on("t"), {"rare": ["edited"]}, as_node="left")
    middle = list(graph.get_state_history(on("t")))[4]
    graph.update_state(middle.config, {"rare": ["forked"]}, as_node="left")
    graph.invoke(None, on("t"))
    graph.invoke({"number": 4}, on("t"))
    expected = list(graph.get_state_history(on("t")))
    assert len(expected) > 12
    # What is listed alone is read from the database alone.
    before = [None, *(one.config for one in expected[:-1])]
    assert [one for later in before for one in graph.get_state_history(on("t"), before=later, limit=1)] == expected
    assert [one async for one in graph.aget_state_history(on("t"))] == expected
    assert drive(snapshots(graph, on("t"))) == expected
    assert await adrive(snapshots(graph, on("t"))) == expected


def refining(saver: Any, rounds: int) -> Any:
    def critic(task: str, draft: str, history: Any, /) -> Critique:
        return Critique("no", accepted=False)

    model = ScriptedModel([f"draft {number}" for number in range(rounds + 1)])
    return build_refine_graph(model, critics=[critic], checkpointer=saver, limits={"max_rounds": rounds})


@pytest.mark.parametrize("rounds", [2, 9])
async def test_a_history_is_read_with_few_statements(rounds: int, saver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the thread, its history asks the database for it once, and no snapshot for all that came before."""
    graph = refining(saver, rounds)
    graph.invoke({"task": "Write."}, {**on("t"), "recursion_limit": 100})
    asked: list[str] = []

    def watch(name: str) -> None:
        call = getattr(graph.checkpointer, name)
        monkeypatch.setattr(
            graph.checkpointer, name, lambda *given, **named: (asked.append(name), call(*given, **named))[1]
        )

    off_rows = hasattr(saver, "read_rows")
    for name in ("get_tuple", "list", "get_delta_channel_history", *(["_query"] if off_rows else [])):
        watch(name)
    steps = Thread(graph, "t").history()
    assert asked[0] == "get_tuple"
    assert asked[1:] in ([["_query"] * 2, ["_query"] * 3] if off_rows else [["list"]])
    assert [event["kind"] for step in steps for event in step.events] == [
        "task", "draft", *["critique", "verdict", "revision"] * rounds, "critique", "verdict",
    ]  # fmt: skip
    assert [step.node for step in steps[:4]] == ["input", "start", "prepare", "generate"]
    assert await Thread(graph, "t").ahistory() == steps
    # LangGraph's own history asks for each checkpoint; what came before them all is read once.
    watch("_read_history")
    last = list(graph.get_state_history(on("t"), limit=4))
    told = [event for step in steps for event in step.events]
    assert [one.values["events"] for one in last] == [told[: len(told) - late] for late in (0, 1, 2, 3)]
    assert asked.count("_read_history") == 1


async def test_a_history_and_a_fork_off_the_rows_are_langgraphs(saver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finished, waiting, answered, failed, forked, edited, on a new task: the steps are those of LangGraph."""

    def fail(task: str, draft: str, history: Any, /) -> Critique:
        raise ValueError("no judge")

    def graph_of(*drafts: str, **options: Any) -> Any:
        return build_refine_graph(ScriptedModel([*drafts]), checkpointer=saver, **options)

    plain = refining(saver, 3)
    plain.invoke({"task": "Write."}, on("done"))
    asking = graph_of("one", "two", "three", critics=[human_critic()])
    for name in ("waiting", "answered"):
        asking.invoke({"task": "Write."}, on(name))
    Thread(asking, "answered").answer(feedback="More.")
    failing = graph_of("one", critics=[fail])
    failing.invoke({"task": "Write."}, on("failed"))
    Thread(plain, "done").fork(at=1, feedback="Shorter.", thread_id="forked")
    refining(saver, 3).invoke({"task": "Another."}, on("done"))
    plain.update_state(list(plain.get_state_history(on("done")))[3].config, {"feedback": "Longer."})
    quick = [Thread(plain, name) for name in ("done", "forked")] + [
        Thread(asking, "waiting"),
        Thread(failing, "failed"),
    ]
    quick.append(Thread(asking, "answered"))
    told = [(thread.history(), await thread.ahistory()) for thread in quick]
    forks = [quick[at].fork(at=number) for at, number in ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0))]
    for thread, (steps, same) in zip(quick, told, strict=True):
        assert steps == same == read_history(drive(snapshots(thread.graph, thread.config)), thread.kind), (
            thread.thread_id
        )
        assert steps
    if hasattr(saver, "read_rows"):
        assert all(saver.read_rows(plain_history, one.thread_id) for one in quick[1:])
        monkeypatch.setattr(saver, "read_rows", lambda *_: None)
    for at, one in enumerate(forks):
        row = saver.runs.get(one.thread_id)
        again = Thread(one.graph, row.parent_thread_id).fork(at=row.fork_at, thread_id=f"again {at}")
        assert saver.runs.get(again.thread_id).parent_checkpoint_id == row.parent_checkpoint_id


def test_a_search_and_a_pipeline_off_the_rows_are_langgraphs(saver: Any) -> None:
    """Also a thread of several paths or steps is shown off its rows as LangGraph reads it, or left to LangGraph."""
    if not hasattr(saver, "read_rows"):
        return
    model = ScriptedModel([f"text {number}" for number in range(30)])
    lamp = verifier_critic(uses_words("lamp"))
    search = build_branching_graph(model, critics=[lamp], branching_factor=2, depth=1, checkpointer=saver)
    steps = build_pipeline_graph("SetTopic('M') | UseDraft | UseCritique | UseImprove", model, checkpointer=saver)
    search.invoke({"task": "Write."}, on("search"))
    steps.invoke({}, on("steps"))
    cut_off = steps.copy({"checkpointer": saver, "interrupt_before_nodes": ["UseCritique"]})
    cut_off.invoke({}, on("cut off"))
    for graph, name in ((search, "search"), (steps, "steps"), (steps, "cut off")):
        values = graph.get_state(on(name)).values
        read = saver.read_rows(plain_state, name)
        assert read is None or read == {key: value for key, value in values.items() if key in read}
        seen = saver.read_rows(plain_history, name)
        assert seen in (None, read_history(drive(snapshots(graph, on(name))), Thread(graph, name).kind))
        replayed = saver.read_rows(plain_replay, name)
        assert replayed in (None, Thread(graph, name).replay())
    assert saver.read_rows(plain_replay, "steps")


def test_a_saver_whose_list_leaves_out_writes_is_asked_as_langgraph_does(saver: Any) -> None:
    """Nothing is guessed where a saver's `list` does not tell what was written."""

    class Terse(type(saver)):  # type: ignore[misc]
        def list(self, *given: Any, **which: Any) -> Any:
            return (found._replace(pending_writes=None) for found in super().list(*given, **which))

    graph = build(saver)
    graph.invoke({"rare": ["given"]}, on("t"))
    expected = [one.values for one in graph.get_state_history(on("t"))]
    graph.checkpointer.__class__ = Terse
    assert [one.values for one in drive(snapshots(graph, on("t")))] == expected
