"""A thread goes on with the graph that began it, or says what changed; a fork says whose it is and launders nothing."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import ormsgpack
import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command
from redraft.graphs.branching import build_branching_graph
from redraft.graphs.loop import build_refine_graph
from redraft.graphs.pipeline import build_pipeline_graph
from redraft.graphs.reasoning import build_reasoning_graph
from redraft.models import ScriptedModel, chat_model
from redraft.nodes import human_critic, model_critic, uses_words, verifier_critic
from redraft.state import ChangedGraphError, Limits, Thread, open_checkpointer
from redraft.state.threads.kind import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONFIG: Any = {"configurable": {"thread_id": "one"}}
AGREED: Any = {"configurable": {"thread_id": "one", "redraft_allow_changes": True}}
WORDS = verifier_critic(uses_words("river", "lamp"))


def built(saver: Any = None, *replies: str, name: str = "scripted", **options: Any) -> Any:
    model = ScriptedModel(list(replies or ["a lamp", "a river, a lamp"]), model_name=name)
    return build_refine_graph(model, **{"critics": [WORDS], "checkpointer": saver, **options})


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[Any]:
    """A database in which the thread `one` has a draft, and failed before its revision."""
    with open_checkpointer(tmp_path / "a.sqlite") as opened:
        assert built(opened, "a river").invoke({"task": "Write."}, CONFIG)["stop_reason"] == "failed"
        yield opened


def edit(path: Path) -> None:
    """Put another draft into the record of a run."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for rowid, value in connection.execute("SELECT rowid, value FROM writes WHERE channel = 'events'").fetchall():
            events = ormsgpack.unpackb(value)
            if events[0]["kind"] == "draft":
                events[0]["text"] = "a river, a lamp"
                connection.execute("UPDATE writes SET value = ? WHERE rowid = ?", (ormsgpack.packb(events), rowid))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": "other"}, "model of refine was 'scripted', is 'other'"),
        ({"critics": [verifier_critic(uses_words("river"))]}, "another critic uses_words"),
        ({"critics": [verifier_critic(lambda task, draft: None, name="mine")]}, "critic uses_words is gone"),
        ({"critics": [WORDS, human_critic()]}, "critic human is new"),
        ({"refine_prompt": "Again: {draft} {feedback}"}, "another prompt of refine"),
        ({"keep": "last"}, "keep was 'best', is 'last'"),
        ({"check": lambda state: None}, "check is new"),
        ({"critics_after": "always"}, "critics_after was 'undecided', is 'always'"),
    ],
    ids=lambda one: ", ".join(one) if isinstance(one, dict) else "",
)
async def test_going_on_with_another_graph_is_refused_by_what_differs(saver: Any, changed: Any, said: str) -> None:
    """Nothing is written; agreed to, the change is an event, the thread goes on, and replay agrees with its end."""
    thread = Thread(built(saver, **changed), "one")
    before = [step.checkpoint_id for step in thread.history()]
    for again in (thread.resume, thread.ready, lambda: thread.resume({"max_rounds": 5})):
        with pytest.raises(
            ChangedGraphError, match=f"thread 'one' was begun with another graph: .*{said}.*allow_changes"
        ):
            again()
    with pytest.raises(ChangedGraphError):
        await thread.aresume()
    assert [step.checkpoint_id for step in thread.history()] == before
    output: Any = thread.resume({"max_rounds": 1}, allow_changes=True)
    (change,) = [event for event in output["events"] if event["kind"] == "change"]
    assert said in change["text"]
    if thread.question():
        output = thread.answer(accept=True)
    replay = thread.replay()
    assert replay.matches, replay.differences
    assert replay.output["events"] == output["events"]
    # It is the graph that runs the thread from now on.
    assert thread.resume({"max_rounds": 2})["events"][: len(output["events"])] == output["events"]
    with pytest.raises(ChangedGraphError):
        Thread(built(saver), "one").resume({"max_rounds": 3})


def test_what_differs_from_process_to_process_is_no_change(saver: Any) -> None:
    """Another key or address of one model, sampling settings, prices, limits and the saver make no other graph."""
    specs: list[Any] = [
        chat_model("http://127.0.0.1:1/v1#small", temperature=0.1),
        chat_model("http://localhost:2/v1#small", seed=4, max_output_tokens=9),
    ]
    one, other = (
        kind_of(build_refine_graph(spec, critics=[model_critic(spec, structured=False)], **options)).fingerprint
        for spec, options in zip(specs, [{}, {"checkpointer": saver, "limits": Limits(max_rounds=9)}], strict=True)
    )
    assert one == other
    assert "small" in one.values()
    output = Thread(built(saver), "one").resume({"max_rounds": 7})
    assert output["stop_reason"] == "accepted"
    assert all(event["kind"] != "change" for event in output["events"])


def test_an_answer_reaches_the_graph_that_asked(tmp_path: Path) -> None:
    """A question does not vanish where a graph without that person, or none of redraft's, takes the thread."""

    class Other(TypedDict):
        value: int

    with open_checkpointer(tmp_path / "b.sqlite") as saver:
        asking = built(saver, "a river", critics=[human_critic()])
        asking.invoke({"task": "Write."}, CONFIG)
        foreign: Any = StateGraph(Other)
        foreign.add_node("step", lambda state: {"value": 1})
        foreign.add_edge(START, "step")
        foreign.add_edge("step", END)
        with pytest.raises(ChangedGraphError, match="critic human is gone"):
            Thread(built(saver), "one").answer(accept=True)
        with pytest.raises(ChangedGraphError, match="is no graph of redraft"):
            Thread(foreign.compile(checkpointer=saver), "one").resume()
        thread = Thread(asking, "one")
        assert thread.question()
        assert thread.answer(accept=True)["accepted_by"] == "human"


@pytest.mark.parametrize("at", [0, "checkpoint"])
async def test_a_fork_begins_with_the_hash_of_its_parent(saver: Any, at: Any) -> None:
    """Its record says whose it is, and at which hash; forked with another graph, it says in what that differs."""
    thread = Thread(built(saver), "one")
    newest = thread.history()[-1]
    where = newest.checkpoint_id if at == "checkpoint" else at
    other = Thread(built(saver, "a river lamp", name="other"), "one").fork(at=where, thread_id="two")
    events = other.replay().output["events"]
    (fork,) = [event for event in events if event["kind"] == "fork"]
    assert (fork["parent"], fork["fork_at"]) == ("one", where)
    assert fork["parent_head"] == built(saver).get_state(CONFIG).values["head"]
    assert "model of refine was 'scripted', is 'other'" in fork["text"]
    assert events[: events.index(fork)] == thread.replay().output["events"][: events.index(fork)]
    assert (await other.aresume())["stop_reason"] == "accepted"
    assert other.replay().matches
    same = await thread.afork(at=where)
    assert same.replay().output["events"][-1]["text"] == "", "with the graph of its parent nothing differs"


def test_a_thread_whose_record_was_edited_is_not_forked(saver: Any, tmp_path: Path) -> None:
    """A fork of it would pass for the untouched work of the run: it is refused, by the event that was edited."""
    edit(tmp_path / "a.sqlite")
    thread = Thread(built(saver), "one")
    assert not thread.replay().matches
    with pytest.raises(ValueError, match=r"'one' is not forked: .* event 1 \(draft\)"):
        thread.fork(at=0)


async def run_on(graph: Any, config: Any, *, how: str, given: Any = None) -> Any:
    """Go on in one of LangGraph's own ways, and return the last values."""
    if how == "invoke":
        return graph.invoke(given, config)
    if how == "stream":
        return [*graph.stream(given, config, stream_mode="values")][-1]
    if how == "ainvoke":
        return await graph.ainvoke(given, config)
    return [part async for part in graph.astream(given, config, stream_mode="values")][-1]


@pytest.mark.parametrize("how", ["invoke", "stream", "ainvoke", "astream"])
@pytest.mark.parametrize("forked", [False, True], ids=["as it stands", "forked"])
async def test_plain_langgraph_refuses_another_graph_too(tmp_path: Path, how: str, forked: bool) -> None:
    """Without `Thread` it is the same: nothing runs until the config agrees, and the change is an event then."""
    with open_checkpointer(tmp_path / "c.sqlite") as saver:
        built(saver, "a river").invoke({"task": "Write."}, CONFIG, interrupt_before=["refine"])
        other = built(saver, "a river, a lamp", name="other")
        config, agreed = CONFIG, AGREED
        if forked:  # LangGraph's own fork, at an earlier checkpoint of the thread
            [before] = [one for one in other.get_state_history(CONFIG) if one.next == ("check",)]
            config = built(saver).update_state(before.config, {"limits": {"max_rounds": 2}}, as_node="feedback")
            agreed = {"configurable": {**config["configurable"], **AGREED["configurable"]}}
        with pytest.raises(ChangedGraphError, match=r"'scripted', is 'other'.*redraft_allow_changes"):
            await run_on(other, config, how=how)
        output = await run_on(other, agreed, how=how)
        assert output["stop_reason"] == "accepted"
        assert [event["text"] for event in output["events"] if event["kind"] == "change"]
        assert Thread(other, "one").replay().matches
        # A new task, and a thread that is at its end, ask for nothing.
        assert (await run_on(built(saver), CONFIG, how=how))["stop_reason"] == "accepted"
        assert (await run_on(built(saver), CONFIG, how=how, given={"task": "Again."}))["stop_reason"] == "accepted"


@pytest.mark.parametrize("how", ["invoke", "ainvoke"])
async def test_an_answer_by_command_reaches_no_other_graph(tmp_path: Path, how: str) -> None:
    """A person's answer is kept for the graph that asked; another asks once more where that was agreed to."""
    with open_checkpointer(tmp_path / "d.sqlite") as saver:
        asking = built(saver, "a river", critics=[human_critic()])
        asking.invoke({"task": "Write."}, CONFIG)
        reply = Command(resume={"action": "accept"})
        for other, config in [(built(saver), CONFIG), (built(saver, critics=[human_critic()], keep="best"), AGREED)]:
            with pytest.raises(ChangedGraphError, match="and answer then"):
                await run_on(other, config, how=how, given=reply)
        output = await run_on(asking, CONFIG, how=how, given=reply)
        assert output["accepted_by"] == "human"


class Outer(TypedDict, total=False):
    task: str
    answer: str
    events: list[Any]


@pytest.mark.parametrize("how", ["invoke", "ainvoke"])
async def test_inside_a_parent_graph_another_graph_is_refused_too(tmp_path: Path, how: str) -> None:
    """A graph of yours around the loop goes on with the loop that began, or says what differs."""

    def around(inner: Any, saver: Any) -> Any:
        graph: Any = StateGraph(Outer)
        graph.add_node("inner", inner)
        graph.add_edge(START, "inner")
        graph.add_edge("inner", END)
        return graph.compile(checkpointer=saver)

    with open_checkpointer(tmp_path / "e.sqlite") as saver:
        asking = around(built(None, "a river", critics=[human_critic()]), saver)
        asking.invoke({"task": "Write."}, CONFIG)
        other = around(built(None, critics=[human_critic()], name="other"), saver)
        reply = Command(resume={"action": "accept"})
        with pytest.raises(ChangedGraphError, match="'scripted', is 'other'"):
            await run_on(other, CONFIG, how=how, given=reply)
        output = await run_on(other, AGREED, how=how, given=reply)
        assert output["answer"] == "a river"
        assert [event["text"] for event in output["events"] if event["kind"] == "change"]


def pipeline(saver: Any, text: str = "SetTopic('Rivers') | UseDraft | UseImprove", **options: Any) -> Any:
    return build_pipeline_graph(text, ScriptedModel(["one", "two", "three"]), checkpointer=saver, **options)


def search(saver: Any, words: str = "river", **options: Any) -> Any:
    critics = [verifier_critic(uses_words(words))]
    model = ScriptedModel(["one", "two", "three", "four"])
    return build_branching_graph(
        model, **{"critics": critics, "branching_factor": 2, "depth": 1, "checkpointer": saver, **options}
    )


def reasoning(saver: Any, **options: Any) -> Any:
    return build_reasoning_graph(ScriptedModel(["one", "bad", "two"]), iterations=1, checkpointer=saver, **options)


@pytest.mark.parametrize(
    ("begun", "changed", "said"),
    [
        (pipeline, {"text": "SetTopic('Rivers') | UseDraft"}, "pipeline was .*, is "),
        (pipeline, {"improve_prompt": "Again: {draft} {feedback}"}, "another prompt of improve"),
        (search, {"words": "lamp"}, "another critic uses_words"),
        (search, {"depth": 2}, "depth was 1, is 2"),
        (reasoning, {"critique_prompt": "Judge: {draft}"}, "another prompt of critic critique"),
        (reasoning, {"critic": ScriptedModel(["x"], model_name="other")}, "model of critic critique was"),
    ],
    ids=lambda one: ", ".join(one) if isinstance(one, dict) else getattr(one, "__name__", ""),
)
def test_searches_and_pipelines_are_told_apart_as_well(
    tmp_path: Path, begun: Callable[..., Any], changed: Any, said: str
) -> None:
    """Resumed with another search, pipeline or chain of thoughts, a thread says in what it differs."""
    with open_checkpointer(tmp_path / "f.sqlite") as saver:
        graph = begun(saver)
        given = {} if begun is pipeline else {"task": "Write."}
        graph.invoke(given, CONFIG, interrupt_before=["UseImprove", "select", "refine"])
        other = begun(saver, **changed)
        for go_on in (Thread(other, "one").resume, lambda: other.invoke(None, CONFIG)):
            with pytest.raises(ChangedGraphError, match=said):
                go_on()
        thread = Thread(other, "one")
        output: Any = thread.resume(allow_changes=True)
        assert [event["text"] for event in output["events"] if event["kind"] == "change"]
        assert output["stop_reason"] is not None
        assert thread.replay().matches, thread.replay().differences


def test_a_pipeline_that_goes_on_with_a_topic_is_the_one_that_is_resumed(tmp_path: Path) -> None:
    """Another pipeline on a thread's topic is a change of its own accord; killed, it goes on without being asked."""
    with open_checkpointer(tmp_path / "g.sqlite") as saver:
        pipeline(saver).invoke({}, CONFIG)
        second = pipeline(saver, "UseCritique | UseImprove")
        second.invoke({}, CONFIG, interrupt_before=["UseImprove"])
        assert Thread(second, "one").resume()["stop_reason"] == "max_rounds"
        second.invoke({}, CONFIG, interrupt_before=["UseImprove"])
        with pytest.raises(ChangedGraphError, match="pipeline was 'UseCritique"):
            Thread(pipeline(saver), "one").resume()


@pytest.mark.parametrize("how", ["invoke", "ainvoke"])
async def test_a_fork_by_langgraph_of_an_edited_record_is_refused(saver: Any, tmp_path: Path, how: str) -> None:
    """`update_state` and a run from an earlier checkpoint are forks too, and so is a copy of the values."""
    graph = built(saver)
    [*_, earlier] = [one for one in graph.get_state_history(CONFIG) if one.next == ("check",)]
    edit(tmp_path / "a.sqlite")
    copied: Any = {"configurable": {"thread_id": "two"}}
    values = graph.get_state(CONFIG).values
    with pytest.raises(ValueError, match=r"'one' is not forked: .* event 1 \(draft\)"):
        await run_on(graph, earlier.config, how=how)
    for config, update in ((earlier.config, {"limits": {"max_rounds": 9}}), (copied, values)):
        with pytest.raises(ValueError, match=r"is not forked: .* event 1 \(draft\)"):
            graph.update_state(config, update, as_node="feedback")
        with pytest.raises(ValueError, match=r"is not forked: .* event 1 \(draft\)"):
            await graph.aupdate_state(config, update, as_node="feedback")
    assert saver.get_tuple(copied) is None
