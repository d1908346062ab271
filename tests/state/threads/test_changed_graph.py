"""A thread goes on with the graph that began it, or says what changed; a fork says whose it is and launders nothing."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import ormsgpack
import pytest
from langgraph.graph import END, START, StateGraph
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel, chat_model
from redraft.nodes import human_critic, model_critic, uses_words, verifier_critic
from redraft.state import ChangedGraphError, Limits, Thread, open_checkpointer
from redraft.state.threads.kind import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIG: Any = {"configurable": {"thread_id": "one"}}
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


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": "other"}, "model of refine was 'scripted', is 'other'"),
        ({"critics": [verifier_critic(uses_words("river"))]}, "another critic uses_words"),
        ({"critics": [verifier_critic(lambda task, draft: None, name="mine")]}, "critic uses_words is gone"),
        ({"critics": [WORDS, human_critic()]}, "critic human is new"),
        ({"refine_prompt": "Again: {draft}"}, "another prompt of refine"),
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
    with sqlite3.connect(tmp_path / "a.sqlite") as connection:
        for rowid, value in connection.execute("SELECT rowid, value FROM writes WHERE channel = 'events'").fetchall():
            events = ormsgpack.unpackb(value)
            if events[0]["kind"] == "draft":
                events[0]["text"] = "a river, a lamp"
                connection.execute("UPDATE writes SET value = ? WHERE rowid = ?", (ormsgpack.packb(events), rowid))
    thread = Thread(built(saver), "one")
    assert not thread.replay().matches
    with pytest.raises(ValueError, match=r"'one' is not forked: .* event 1 \(draft\)"):
        thread.fork(at=0)
