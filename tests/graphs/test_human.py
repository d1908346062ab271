"""A person in the loop: the run pauses for them, shows what was judged, and does what they say."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained
from langgraph.graph import START, StateGraph
from langgraph.types import Command
from redraft.graphs.loop import build_refine_graph
from redraft.graphs.middleware import RefineMiddleware
from redraft.models import ScriptedModel
from redraft.nodes import uses_words
from redraft.nodes.critics.critics import human_critic, model_critic, verifier_critic
from redraft.state import Critique, Thread, open_checkpointer
from redraft.state.storage.leases import LostLeaseError, Runner
from redraft.state.threads.answers import read_answer
from redraft.state.threads.lease import leases_of
from redraft.state.threads.thread import BusyThreadError, UnknownThreadError
from typing_extensions import TypedDict

if TYPE_CHECKING:
    from pathlib import Path

TASK = "Write one sentence."
CONFIG: Any = {"configurable": {"thread_id": "t"}}
WORDS = verifier_critic(uses_words("river", "lamp"))


def graph_of(*replies: Any, saver: Any = None, critics: Any = (WORDS,), people: Any = ("human",), **more: Any) -> Any:
    """A graph with a person in it, and the model that writes."""
    model = ScriptedModel(list(replies))
    asked = [*(human_critic(name=name) for name in people), *critics]  # in any order
    return build_refine_graph(model, critics=asked, checkpointer=saver or InMemorySaver(), **more), model


def waiting(output: Any) -> dict[str, Any]:
    value: dict[str, Any] = output["__interrupt__"][-1].value
    return value


@pytest.fixture(params=["sync", "async", "round"])
def call(request: pytest.FixtureRequest) -> Any:
    """Calls a method of a Thread, or its async twin; `round`: awaited, with a checkpoint a round."""
    if request.param == "round":
        request.getfixturevalue("a_checkpoint_a_round")

    async def awaited(method: Any, given: Any) -> Any:
        return await method(**given)

    def do(thread: Thread, method: str, **given: Any) -> Any:
        if request.param == "sync":
            return getattr(thread, method)(**given)
        twin = getattr(thread, f"a{method}")
        assert inspect.iscoroutinefunction(twin)
        return asyncio.run(awaited(twin, given))

    return do


def test_the_pause_shows_all_that_was_judged_and_what_can_be_replied(run: Any) -> None:
    """Whoever is asked sees task, draft, round, score and what the others said, and which replies there are."""
    judge = ScriptedModel(["Too dry."])
    graph, model = graph_of(
        "A lamp.", critics=[model_critic(judge, name="judge", structured=False), WORDS], critics_after="always"
    )
    question = waiting(run(graph, {"task": TASK}, CONFIG))
    assert (question["ask"], question["by"], question["task"], question["draft"]) == (
        "review", "human", TASK, "A lamp.",
    )  # fmt: skip
    assert (question["round"], question["score"]) == (0, 0.5)
    assert [(one["by"], one["text"]) for one in question["critiques"]] == [
        ("uses_words", "These words are missing: river."),
        ("judge", "Too dry."),
    ]
    assert list(question["replies"]) == ["accept", "edit", "feedback", "stop"]
    assert '{"action": "edit", "draft": ' in question["replies"]["edit"]
    output = run(graph, Command(resume="accept"), CONFIG)
    assert (output["stop_reason"], output["accepted_by"], output["answer"]) == ("accepted", "human", "A lamp.")
    assert (len(model.calls), len(judge.calls)) == (1, 1)
    # Who writes LangChain's word wants no revision.
    assert [read_answer(one, draft="").action for one in ("Approve ", {"action": "approve"})] == ["accept"] * 2


def test_an_edited_draft_is_the_next_revision_and_no_model_is_asked(run: Any, saver: Any) -> None:
    """What a person writes is accepted as theirs; the verifiers' finding about it is in the record, and replays."""
    graph, model = graph_of("A lamp.", saver=saver, people=("ann",))
    run(graph, {"task": TASK, "limits": {"max_rounds": 0}}, CONFIG)
    output = run(graph, Command(resume={"action": "edit", "draft": "A river.", "text": "no lamps"}), CONFIG)
    assert (output["answer"], output["stop_reason"], output["accepted_by"]) == ("A river.", "accepted", "ann")
    assert (output["rounds"], output["score"], len(model.calls)) == (1, 0.5, 1)
    told = [(one["kind"], one["round"], one["by"], one["text"], one.get("accepted")) for one in output["events"]]
    assert told[3:-1] == [
        ("human", 0, "ann", "no lamps", False),
        ("revision", 1, "ann", "A river.", None),
        ("critique", 1, "uses_words", "These words are missing: lamp.", False),
        ("human", 1, "ann", "", True),
    ]
    assert output["usage"]["calls"] == 1
    thread = Thread(graph, "t")
    assert thread.replay().matches
    assert str(thread.diff())


def test_a_fork_revises_what_a_person_wrote(run: Any, saver: Any) -> None:
    """An edit is a draft like any other: with other feedback a branch goes on from it, and asks the person again."""
    graph, model = graph_of("A lamp.", "A winter river.", saver=saver)
    run(graph, {"task": TASK}, CONFIG)
    run(graph, Command(resume={"action": "edit", "draft": "A river."}), CONFIG)
    branch = Thread(graph, "t").fork(at=1, feedback="Make it about winter.", thread_id="winter")
    question = waiting(run(graph, branch.ready(), branch.config))
    assert (question["round"], question["draft"]) == (2, "A winter river.")
    assert "A river." in model.calls[1][0].text
    assert "Make it about winter." in model.calls[1][0].text
    assert Thread(graph, "t").replay().output["answer"] == "A river."


def test_a_check_that_breaks_does_not_undo_what_a_person_wrote(run: Any) -> None:
    """A verifier that raises on an edited draft is in the record as an opinion that can't be read."""

    def fussy(task: str, draft: str, /) -> Critique:
        if "!" in draft:
            raise ZeroDivisionError("no exclamation marks")
        return Critique("", accepted=False)

    graph, _ = graph_of("A lamp.", critics=[verifier_critic(fussy)])
    run(graph, {"task": TASK}, CONFIG)
    output = run(graph, Command(resume={"action": "edit", "draft": "A lamp!"}), CONFIG)
    assert (output["stop_reason"], output["answer"]) == ("accepted", "A lamp!")
    checked = next(one for one in output["events"] if one["kind"] == "critique" and one["round"] == 1)
    assert (checked["accepted"], checked["text"]) == (None, "ZeroDivisionError: no exclamation marks")


def test_the_last_of_several_people_judges_what_the_first_wrote(run: Any) -> None:
    """When Ann edits a draft, Bob is asked about hers; what he objects to is revised."""
    graph, model = graph_of("A lamp.", "A lamp, a river.", people=("ann", "bob"))
    assert waiting(run(graph, {"task": TASK}, CONFIG))["by"] == "ann"
    question = waiting(run(graph, Command(resume={"action": "edit", "draft": "A river."}), CONFIG))
    assert (question["by"], question["draft"], question["round"]) == ("bob", "A river.", 1)
    assert [one["by"] for one in question["critiques"]] == ["uses_words", "ann"]
    again = waiting(run(graph, Command(resume="Bring the lamp back."), CONFIG))
    assert (again["by"], again["draft"], again["round"]) == ("ann", "A lamp, a river.", 2)
    assert "Bring the lamp back." in model.calls[1][0].text


BAD_REPLIES: list[tuple[Any, str]] = [
    ({"action": "agree"}, "is no reply. accept: "),
    ("  ", "is no reply. accept: "),
    (7, "is no reply. accept: "),
    (["accept"], "is no reply. accept: "),
    ({"action": "feedback"}, "feedback needs a text"),
    ("edit", "an edit needs the whole new text"),
    ("Feedback", "feedback needs a text"),
    ({"action": "edit", "draft": " "}, "an edit needs the whole new text"),
    ({"action": "edit", "draft": "\nA lamp.\r\n \n"}, "the same as the one asked about"),
    ({"action": ["accept"]}, "is no reply. accept: "),
    ({"action": "accept", "draft": "mine"}, "a draft comes with the action 'edit'"),
    ({"action": "accept", "score": 7}, "score must be a number between 0 and 1, not 7"),
    ({"action": "accept", "comment": "x"}, "not 'comment'"),
]


def test_a_reply_that_is_none_is_refused_and_the_pause_stays() -> None:
    """A wrong reply accepts nothing and costs nothing: the run waits on, and says which replies there are."""
    for reply, says in BAD_REPLIES:
        graph, model = graph_of("A lamp.")
        first = waiting(graph.invoke({"task": TASK}, CONFIG))
        again = waiting(graph.invoke(Command(resume=reply), CONFIG))
        assert says in again.pop("error"), reply
        assert again == first
        thread = Thread(graph, "t")
        assert says in (thread.question() or {})["error"]
        with pytest.raises(ValueError, match=r".") as refused:
            thread.ready_answer(reply)
        assert says in str(refused.value)
        assert thread.answer(accept=True)["accepted_by"] == "human"
        assert len(model.calls) == 1


def test_an_edit_may_change_nothing_but_white_space(call: Any, saver: Any) -> None:
    """Indenting code, or breaking a line, is an edit as any other."""
    graph, _ = graph_of("def one():\nreturn 1", saver=saver, critics=[])
    graph.invoke({"task": TASK}, CONFIG)
    output = call(Thread(graph, "t"), "answer", draft="def one():\n    return 1")
    assert (output["answer"], output["accepted_by"]) == ("def one():\n    return 1", "human")


@pytest.mark.parametrize("people", [("ann", "bob"), ("human", "human")], ids=["named", "unnamed"])
def test_an_answer_is_for_the_person_it_names(people: Any, call: Any, saver: Any) -> None:
    """Of several people each answers for themselves: an answer sent twice does not land on who is asked next."""
    graph, model = graph_of("one", saver=saver, critics=[], people=people)
    graph.invoke({"task": TASK}, CONFIG)
    thread = Thread(graph, "t")
    first = call(thread, "question")["by"]
    second = waiting(call(thread, "answer", accept=True, at=0, by=first))["by"]
    assert first != second
    with pytest.raises(ValueError, match=f"question to '{first}' about round 0 .* round 0 for '{second}'"):
        call(thread, "answer", accept=True, at=0, by=first)
    assert call(thread, "answer", accept=True, at=0, by=second)["stop_reason"] == "accepted"
    assert len(model.calls) == 1


class SideBySide(TypedDict, total=False):
    """What two graphs wrote about one task."""

    task: str
    left: str
    right: str


@pytest.mark.parametrize("by", [None, "ann", "bob"])
def test_two_questions_at_once_are_answered_one_by_one(by: str | None, call: Any, saver: Any) -> None:
    """Where graphs run side by side, an answer is for the question shown, or for the one to the person it names."""
    ann, model = graph_of("A lamp.", people=("ann",))
    bob, _ = graph_of("A river.", people=("bob",))
    builder = StateGraph(SideBySide)
    for name, graph in (("left", ann), ("right", bob)):
        alone = graph.copy({"checkpointer": None})
        builder.add_node(name, lambda state, alone=alone, name=name: {name: alone.invoke(state)["answer"]})
        builder.add_edge(START, name)
    both = builder.compile(checkpointer=saver)
    thread = Thread(both, "t")
    assert len(both.invoke({"task": TASK}, CONFIG)["__interrupt__"]) == 2
    shown = call(thread, "question")["by"]
    left = waiting(call(thread, "answer", accept=True, by=by))
    assert call(thread, "question") == left
    assert left["by"] == ({"ann", "bob"} - {by or shown}).pop()
    output = call(thread, "answer", accept=True)
    assert (output["left"], output["right"], call(thread, "question")) == ("A lamp.", "A river.", None)
    assert len(model.calls) == 1


def test_who_is_asked_and_when_is_checked_at_build() -> None:
    """Without a name nobody could tell who is asked; and at the end only a graph can ask that knows when that is."""
    unsuited: Any
    for unsuited in ("", "  ", 3, None):
        with pytest.raises(ValueError, match=f"name must be a person's name, not {unsuited!r}"):
            human_critic(name=unsuited)
    for unsuited in ("", "always", None):
        with pytest.raises(ValueError, match=f"ask must be 'each' or 'unaccepted', not {unsuited!r}"):
            human_critic(ask=unsuited)
    model = ScriptedModel([])
    with pytest.raises(ValueError, match="all are asked about each draft, or all at the end"):
        build_refine_graph(model, critics=[AT_THE_END, human_critic(name="ann")])
    unknowing: tuple[Any, ...] = (
        lambda: build_refine_graph(model, critics=[AT_THE_END], check=lambda _: None),
        lambda: RefineMiddleware([AT_THE_END]),
    )
    for build in unknowing:
        with pytest.raises(ValueError, match="needs a graph that knows when its run is about to end"):
            build()


AT_THE_END = human_critic(ask="unaccepted")
POOR, POORER, GOOD = "A river.", "Nothing of the kind.", "A river and a lamp."


def test_a_person_is_asked_only_where_the_run_would_end_unaccepted(call: Any, saver: Any) -> None:
    """What programs accept is nobody's business; else a person is asked once, about the best draft, and decides."""
    graph, _ = graph_of(POOR, GOOD, saver=saver, people=(), critics=[WORDS, AT_THE_END], rungs=("rewrite",))
    done = graph.invoke({"task": TASK}, CONFIG)
    assert (done["answer"], done["accepted_by"]) == (GOOD, "uses_words")
    endings: dict[str, tuple[Any, ...]] = {
        "accept": ({"accept": True}, POOR, "accepted", "human"),
        "edit": ({"draft": "Mine."}, "Mine.", "accepted", "human"),
        "stop": ({"stop": True}, POOR, "human", None),
    }
    for name, (said, *expected) in endings.items():
        critics, limits = [WORDS, AT_THE_END], {"max_rounds": 2}
        drafts = (POOR, POORER, "Or this.")
        graph, model = graph_of(*drafts, saver=saver, people=(), critics=critics, limits=limits, rungs=("rewrite:9",))
        thread = Thread(graph, name)
        question = waiting(graph.invoke({"task": TASK}, thread.config))
        assert (question["round"], question["draft"], question["score"]) == (0, POOR, 0.5)
        output = call(thread, "answer", **said)
        assert [output[key] for key in ("answer", "stop_reason", "accepted_by")] == expected
        assert len(model.calls) == 3


def test_feedback_at_the_end_is_worth_a_round_more(call: Any, saver: Any) -> None:
    """No round is left, and what the person asks for is made all the same; about that they are asked, once."""
    critics, limits = [WORDS, AT_THE_END], {"max_rounds": 1, "patience": 1}
    drafts = (POOR, POORER, "Still poor.", "Poor to the last.")
    graph, model = graph_of(*drafts, saver=saver, people=(), critics=critics, limits=limits, rungs=("rewrite:1",))
    thread = Thread(graph, "t")
    assert waiting(graph.invoke({"task": TASK}, thread.config))["round"] == 0
    again = waiting(call(thread, "answer", feedback="Name the lamp."))
    assert (again["round"], again["draft"]) == (2, "Still poor.")
    assert "Name the lamp." in model.calls[-1][-1].text
    assert waiting(call(thread, "answer", feedback="Once more."))["draft"] == "Poor to the last."
    done = call(thread, "answer", accept=True)
    assert (done["answer"], done["accepted_by"], done["rounds"]) == ("Poor to the last.", "human", 3)
    assert (call(thread, "replay").matches, len(model.calls)) == (True, 4)


def test_a_thread_is_answered_by_name(call: Any, saver: Any) -> None:
    """`Thread.answer` gives feedback, edits, accepts and stops; `question` says what it waits with."""
    graph, model = graph_of("one", "two", saver=saver)
    thread = Thread(graph, "t")
    graph.invoke({"task": TASK}, CONFIG)
    assert call(thread, "question")["draft"] == "one"
    paused = call(thread, "answer", feedback="warmer, please", at=0)
    assert waiting(paused)["draft"] == "two"
    assert "warmer, please" in model.calls[1][0].text
    assert call(thread, "question")["round"] == 1
    output = call(thread, "answer", draft="three", score=0.9, at=1)
    assert (output["answer"], output["stop_reason"], output["rounds"]) == ("three", "accepted", 2)
    assert call(thread, "question") is None


def test_a_person_stops_a_run_by_name(call: Any, saver: Any) -> None:
    """`answer(stop=True)` ends the run as `human`, with the best draft."""
    graph, model = graph_of("one", saver=saver)
    graph.invoke({"task": TASK}, CONFIG)
    output = call(Thread(graph, "t"), "answer", stop=True)
    assert (output["stop_reason"], output["answer"], len(model.calls)) == ("human", "one", 1)


def test_nobody_is_answered_who_does_not_ask(call: Any, saver: Any) -> None:
    """A thread that never began, is finished, stands in mid-run or was answered already refuses an answer, by name."""
    graph, model = graph_of("one", "two", "three", saver=saver)
    thread = Thread(graph, "t")
    with pytest.raises(UnknownThreadError, match="there is no thread 't'"):
        call(thread, "answer", accept=True)
    graph.invoke({"task": TASK}, CONFIG, interrupt_before=["feedback"])
    with pytest.raises(ValueError, match="stands in the middle of a run and waits for nobody"):
        call(thread, "answer", accept=True)
    graph.invoke(None, CONFIG)
    call(thread, "answer", feedback="longer", at=0)
    with pytest.raises(ValueError, match="round 0 of thread 't' is answered or never was asked"):
        call(thread, "answer", feedback="longer", at=0)
    for given in ({}, {"accept": True, "stop": True}):
        with pytest.raises(ValueError, match="exactly one of accept=True, feedback=, draft= and stop=True"):
            call(thread, "answer", **given)
    call(thread, "answer", accept=True)
    with pytest.raises(ValueError, match=r"is finished \(accepted\): there is no question to answer"):
        call(thread, "answer", accept=True)
    assert len(model.calls) == 2


def test_an_interrupt_of_another_node_is_not_mistaken_for_ours() -> None:
    """Where a node of the user's own asks something, `answer` says so instead of answering it."""
    from langgraph.types import interrupt

    def own(state: Any) -> Any:
        return interrupt("Which language?")

    graph = build_refine_graph(ScriptedModel([]), generate=own, critics=[WORDS], checkpointer=InMemorySaver())
    graph.invoke({"task": TASK}, CONFIG)
    assert Thread(graph, "t").question() is None
    with pytest.raises(ValueError, match="waits at an interrupt of another node"):
        Thread(graph, "t").answer(accept=True)
    assert graph.invoke(Command(resume="river lamp"), CONFIG)["answer"] == "river lamp"


PROGRAM = """
import os, signal, sys
from redraft.graphs.loop import build_refine_graph
from redraft.models import chat_model
from redraft.nodes.critics.critics import human_critic
from redraft.state import open_checkpointer
with open_checkpointer("runs.sqlite") as saver:
    graph = build_refine_graph(chat_model(sys.argv[1]), critics=[human_critic()], checkpointer=saver)
    out = graph.invoke({"task": "Write."}, {"configurable": {"thread_id": "t"}}, durability="sync")
    assert out["__interrupt__"]
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_pause_outlives_the_process(tmp_path: Path, call: Any, forking: Any) -> None:
    """A process that is killed while it waits loses nothing: another one answers, and pays for no draft again."""
    script = tmp_path / "replies.jsonl"
    script.write_text('"a draft"\n')
    done = forking.run(["-c", PROGRAM, f"scripted:{script}"], cwd=tmp_path)
    assert done.returncode == -9
    with open_checkpointer(tmp_path / "runs.sqlite") as saver:
        graph, model = graph_of(saver=saver, critics=[])
        thread = Thread(graph, "t")
        assert call(thread, "question")["draft"] == "a draft"
        assert call(thread, "answer", accept=True)["answer"] == "a draft"
        assert not model.calls


# stopping from outside


def stopping(thread_id: str, saver: Any, *, when: str = "A lamp.") -> Any:
    """A critic that asks the thread that it judges in to stop, and the list of those who were asked."""
    told: list[str] = []

    def critic(task: str, draft: str, history: Any, /) -> Critique:
        if draft == when and not told:
            graph = build_refine_graph(ScriptedModel([]), critics=[], checkpointer=saver)
            told.append(Thread(graph, thread_id).stop())
        return Critique("", accepted=False)

    return critic, told


def test_a_run_is_stopped_between_steps_and_goes_on(call: Any, saver: Any, request: pytest.FixtureRequest) -> None:
    """`Thread.stop` lets the step end, saves it, and a resumed run pays nothing twice and is not stopped again."""
    critic, told = stopping("t", saver)
    model = ScriptedModel(["A lamp.", "A river lamp."])
    graph = build_refine_graph(model, critics=[critic], checkpointer=saver, limits={"max_rounds": 1})
    thread = Thread(graph, "t")
    with pytest.raises(GraphDrained, match="stopped on request"), thread.stoppable() as control:
        graph.invoke({"task": TASK}, CONFIG, control=control)
    assert told == [f"process {os.getpid()}"]
    by_round = request.node.callspec.params["call"] == "round"
    assert graph.get_state(CONFIG).next == (("refine",) if by_round else ("check",))
    output = call(thread, "resume")
    assert (output["stop_reason"], output["rounds"], output["answer"]) == ("max_rounds", 1, "A lamp.")
    assert len(model.calls) == 2


def test_resume_is_stopped_too(call: Any, saver: Any) -> None:
    """What `resume` and `answer` run can be stopped without further ado."""
    critic, _ = stopping("t", saver, when="two")
    graph, model = graph_of("one", "two", "three", saver=saver, critics=[critic])
    graph.invoke({"task": TASK}, CONFIG)
    thread = Thread(graph, "t")
    with pytest.raises(GraphDrained):
        call(thread, "answer", feedback="again")
    assert graph.get_state(CONFIG).next == ("human",)
    assert waiting(call(thread, "resume"))["draft"] == "two"
    assert len(model.calls) == 2


def test_only_a_running_thread_is_stopped(call: Any, saver: Any) -> None:
    """A thread that is unknown, waits, lies interrupted or is finished has nothing to stop, and says what it is."""
    graph, _ = graph_of("one", saver=saver)
    thread = Thread(graph, "t")
    with pytest.raises(UnknownThreadError):
        call(thread, "stop")
    graph.invoke({"task": TASK}, CONFIG, interrupt_before=["feedback"])
    with pytest.raises(ValueError, match="stands in the middle of a run and waits for nobody"):
        call(thread, "stop")
    graph.invoke(None, CONFIG)
    with pytest.raises(ValueError, match="waits for a person"):
        call(thread, "stop")
    call(thread, "answer", accept=True)
    with pytest.raises(ValueError, match=r"is finished \(accepted\), so there is nothing to stop"):
        call(thread, "stop")


def test_a_thread_is_run_by_one_process_at_a_time(call: Any, saver: Any) -> None:
    """Two who answer or resume at once do not both run the thread: the second is told who does."""
    graph, model = graph_of("one", saver=saver)
    graph.invoke({"task": TASK}, CONFIG)
    thread = Thread(graph, "t")
    with thread.stoppable(), pytest.raises(BusyThreadError, match=f"is being run right now, by process {os.getpid()}"):
        call(thread, "answer", accept=True)
    assert call(thread, "answer", accept=True)["stop_reason"] == "accepted"
    assert len(model.calls) == 1


def test_a_request_to_a_process_that_died_stops_nobody(call: Any, saver: Any) -> None:
    """After a kill the thread is not taken for running, and an old request does not stop the run that follows."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    graph, _ = graph_of("one", saver=saver)
    graph.invoke({"task": TASK}, CONFIG)
    thread = Thread(graph, "t")
    with thread.stoppable():
        mine = leases_of(saver).get("t")
        assert mine
    host, _, start = mine.process.rsplit(":", 2)
    runs = leases_of(saver)
    runs.take("t", Runner("killed", f"{host}:{process.pid}:0{start}"))
    runs.request_stop("t", "killed")
    with pytest.raises(ValueError, match="nothing to stop"):
        call(thread, "stop")
    assert call(thread, "answer", accept=True)["stop_reason"] == "accepted"
    assert runs.get("t") is None


def test_a_run_that_another_process_took_over_stops(saver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose thread was given to another process, on another machine say, ends before its next step."""
    monkeypatch.setattr("redraft.state.storage.lease_keeper.PATIENCE_S", 0.1)
    graph, model = graph_of("one", saver=saver)
    thread, runs = Thread(graph, "t"), leases_of(saver)
    with thread.stoppable() as control:
        mine = runs.get("t")
        assert mine
        theirs = runs.take("t", Runner("theirs", "elsewhere:7:1"), follows=mine.fence)
        with pytest.raises(LostLeaseError, match="was taken over by another run"):
            graph.invoke({"task": TASK}, CONFIG, control=control)
    assert not model.calls
    assert thread.stop() == "process 7 on elsewhere"
    with pytest.raises(BusyThreadError, match="right now, by process 7 on elsewhere"):
        thread.resume()
    runs.renew([theirs.fence], 0.0)
    graph.invoke({"task": TASK}, CONFIG)
    assert thread.question()["draft"] == "one"
