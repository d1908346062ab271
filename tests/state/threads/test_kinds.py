"""A graph says which kind it is, and nothing is guessed from names that a user's own graph may have too."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from redraft.graphs.branching import build_branching_graph
from redraft.graphs.loop import build_refine_graph, loop_reader
from redraft.graphs.pipeline import build_pipeline_graph
from redraft.models import ScriptedModel
from redraft.nodes import uses_words
from redraft.nodes.critics.critics import human_critic, verifier_critic
from redraft.nodes.reasoning.pipeline_steps import PipelineKind
from redraft.nodes.search.paths import SearchKind
from redraft.state import Thread
from redraft.state.first_nodes import UNREAD
from redraft.state.schema import RefineState
from redraft.state.threads.kind import OTHER, OWN_STATE, kind_of
from redraft.state.threads.loop_kind import LoopKind
from typing_extensions import TypedDict

WORDS = verifier_critic(uses_words("river", "lamp"))


class Named(TypedDict, total=False):
    """The state of a user's own graph, under names that redraft uses for something else."""

    task: str
    events: list[str]
    head: int
    at: float
    stop_reason: int
    limits: str


def named_graph(saver: Any, *nodes: str) -> Any:
    """Return a user's graph whose nodes and channels have the names of ours."""
    graph = StateGraph(Named)
    for before, node in zip((START, *nodes), nodes, strict=False):
        graph.add_node(node, lambda state: {"head": state.get("head", 0) + 1, "events": ["seen"], "at": 0.5})
        graph.add_edge(before, node)
    return graph.compile(checkpointer=saver, name="mine")


@pytest.mark.parametrize("critics", [[WORDS], [WORDS, human_critic()]])
def test_the_graph_that_only_reads_is_wired_as_the_loop(critics: list[Any]) -> None:
    """A fork that it writes stands where one by the thread's own graph stands."""
    loop = build_refine_graph(ScriptedModel(["a"]), critics=critics)
    reader = loop_reader(InMemorySaver(), human=len(critics) > 1)
    assert reader.nodes.keys() == loop.nodes.keys()
    assert reader.get_graph().edges == loop.get_graph().edges
    assert reader.channels.keys() == loop.channels.keys()


@pytest.mark.parametrize(
    "nodes",
    [
        ("prepare", "generate", "feedback", "check", "refine"),
        ("begin", "check"),
        ("prepare", "branch", "select"),
    ],
)
def test_a_users_graph_with_our_names_is_not_misread(nodes: tuple[str, ...]) -> None:
    """Its history and its resume work, and what needs our state says that the graph is none of redraft."""
    graph = named_graph(InMemorySaver(), *nodes)
    thread = Thread(graph, "t")
    assert kind_of(graph) is OTHER
    graph.invoke({"task": "x"}, thread.config, interrupt_before=nodes[-1:])
    assert thread.resume()["head"] == len(nodes)  # type: ignore[typeddict-item]
    steps = thread.history()
    assert [step.node for step in steps][2:] == list(nodes)
    assert {(step.events, step.stop_reason) for step in steps} == {((), None)}
    for act in (lambda: thread.fork(at=0), thread.rerun, lambda: thread.resume(limits={"max_rounds": 1})):
        with pytest.raises(ValueError, match="needs a graph of redraft, and 'mine' is none"):
            act()
    with pytest.raises(ValueError, match="no record of a refinement run"):
        thread.replay()
    with pytest.raises(ValueError, match="waits for nobody, so there is nothing to stop"):
        thread.stop()


def test_every_copy_of_a_graph_has_its_kind() -> None:
    """A config of one's own, another saver or another name leaves a graph what it is."""
    model = ScriptedModel([])
    saver = InMemorySaver()
    loop = build_refine_graph(model, checkpointer=saver)
    assert type(kind_of(loop)) is LoopKind
    for copy in (loop.with_config(tags=["a"]), loop.copy({"checkpointer": InMemorySaver()}), loop.copy({"name": "b"})):
        assert kind_of(copy) is kind_of(loop)
    assert isinstance(kind_of(build_pipeline_graph("SetTopic('a') | UseDraft", model)), PipelineKind)
    assert isinstance(kind_of(build_branching_graph(model)), SearchKind)
    asked: Any = kind_of(build_refine_graph(model, critics=[human_critic()]))
    assert asked.before_check == "human"


def test_a_loop_inside_a_users_graph_keeps_working() -> None:
    """The graph around it is the user's: it is resumed, and not mistaken for the loop."""
    saver = InMemorySaver()
    loop = build_refine_graph(ScriptedModel([RuntimeError("down"), "a lamp, a river"]), critics=[WORDS])
    outer = StateGraph(RefineState)
    outer.add_node("loop", loop)
    outer.add_edge(START, "loop")
    graph = outer.compile(checkpointer=saver, name="outer")
    thread = Thread(graph, "t")
    assert kind_of(graph) is OWN_STATE
    with pytest.raises(RuntimeError, match="down"):
        graph.invoke({"task": "river, lamp"}, thread.config)
    assert thread.resume()["stop_reason"] == "accepted"
    assert [event["kind"] for event in thread.history()[-1].events] == ["task", "draft", "critique", "verdict"]
    with pytest.raises(ValueError, match="needs a graph of redraft, and 'outer' is none"):
        thread.fork(at=0)


def test_every_kind_names_a_first_node_that_stored_checkpoints_are_known_by() -> None:
    """Whether a task waits at a checkpoint is seen without its graph, by the nodes that the kinds of graphs name."""
    for kind in (LoopKind, SearchKind, PipelineKind):
        assert f"branch:to:{kind.first_node}" in UNREAD
