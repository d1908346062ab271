"""A kept run behaves the same on memory, SQLite and PostgreSQL, synchronously and asynchronously."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.nodes import uses_words
from redraft.nodes.critics.critics import verifier_critic
from redraft.state import Limits, Thread
from redraft.state.threads.thread import UnknownThreadError

if TYPE_CHECKING:
    from collections.abc import Callable

TASK = "Write one short sentence that uses river and lamp."
WORDS = verifier_critic(uses_words("river", "lamp"))


@pytest.fixture(params=["sync", "async", "round"])
def do(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Calls a method of a Thread or graph, or its async twin; `round`: awaited, with a checkpoint a round."""
    if request.param == "round":
        request.getfixturevalue("a_checkpoint_a_round")

    def call(target: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        if request.param == "sync":
            return getattr(target, method)(*args, **kwargs)
        found = getattr(target, "a" + method)(*args, **kwargs)
        return asyncio.run(_finish(found)) if inspect.isawaitable(found) else found

    return call


async def _finish(awaitable: Any) -> Any:
    return await awaitable


def graph_of(replies: list[Any], saver: Any, **options: Any) -> tuple[Any, ScriptedModel]:
    model = ScriptedModel(replies)
    return build_refine_graph(model, critics=[WORDS], checkpointer=saver, **options), model


def finished(saver: Any, do: Any, *replies: str, **limits: Any) -> tuple[Thread, ScriptedModel]:
    graph, model = graph_of(list(replies), saver)
    thread = Thread(graph, "demo-1")
    do(graph, "invoke", {"task": TASK, "limits": Limits(**limits)}, thread.config)
    return thread, model


def test_a_fork_with_feedback_goes_its_own_way_and_leaves_its_parent(saver: Any, do: Any) -> None:
    """New feedback on the first draft makes another revision; its parent stays what it was; both are in the tree."""
    thread, model = finished(saver, do, "a river", "a lamp", "a river, a lamp", "winter: river, lamp")
    before = do(thread, "history")

    branch = do(thread, "fork", at=0, feedback="Make it about winter.", verifiers=["uses_words:winter"])
    assert len(model.calls) == 3
    output = do(branch, "resume")

    assert (output["answer"], output["rounds"], output["stop_reason"]) == ("winter: river, lamp", 1, "accepted")
    assert "Make it about winter." in model.calls[3][0].text
    assert [event["kind"] for event in output["events"]] == [
        "task", "draft", "critique", "fork", "requirement", "human", "critique", "verdict", "revision", "critique",
        "critique", "verdict",
    ]  # fmt: skip
    assert do(thread, "history") == before
    tree = do(branch, "tree")
    assert (tree.thread_id, [child.thread_id for child in tree.children]) == ("demo-1", [branch.thread_id])
    assert (tree.children[0].row.fork_at, tree.children[0].row.stop_reason) == (0, "accepted")


def test_forking_an_accepted_draft_clears_its_acceptance(saver: Any, do: Any) -> None:
    """Feedback on the accepted draft is followed, though a verifier had passed it."""
    thread, _ = finished(saver, do, "a river, a lamp", "lamp and river in winter")
    branch = do(thread, "fork", at=0, feedback="Make it about winter.")
    assert do(branch, "resume")["answer"] == "lamp and river in winter"


def test_a_fork_with_a_draft_judges_that_draft(saver: Any, do: Any) -> None:
    """An edited draft takes the place of the model's, and is judged at no cost."""
    thread, model = finished(saver, do, "a river", "a lamp", "a river, a lamp")
    output = do(do(thread, "fork", at=1, draft="My lamp by the river."), "resume")
    assert (output["answer"], output["rounds"], output["stop_reason"]) == ("My lamp by the river.", 1, "accepted")
    assert next(event for event in output["events"] if event["kind"] == "revision")["by"] == "human"
    assert len(model.calls) == 3


def test_a_fork_with_limits_runs_further(saver: Any, do: Any) -> None:
    """A branch with more rounds goes on where its parent ran out of them."""
    thread, _ = finished(saver, do, "a river", "a lamp", "a river, a lamp", max_rounds=1)
    branch = do(thread, "fork", at="last", limits={"max_rounds": 2})
    assert branch.graph.get_state(branch.config).values["events"][-1]["round"] == 1
    output = do(branch, "resume")
    assert (output["answer"], output["stop_reason"]) == ("a river, a lamp", "accepted")


def test_a_fork_on_another_model_is_a_thread_on_its_graph(saver: Any, do: Any) -> None:
    """A stronger model takes over from a draft of the weaker one."""
    thread, weak = finished(saver, do, "a river", "a lamp", max_rounds=1)
    graph, strong = graph_of(["river and lamp"], saver)
    branch = do(Thread(graph, thread.thread_id), "fork", at=0)
    assert do(branch, "resume")["answer"] == "river and lamp"
    assert (len(weak.calls), len(strong.calls)) == (2, 1)


def test_every_checkpoint_can_be_forked(saver: Any, do: Any) -> None:
    """From whichever step a branch starts, it ends as the run does from there."""
    thread, _ = finished(saver, do, "a river", "a river, a lamp")
    with pytest.raises(UnknownThreadError, match=r"no checkpoint 'first'; at is a round .* 'best', 'last' or"):
        do(thread, "fork", at="first")
    for step in do(thread, "history"):
        graph, _ = graph_of(["a river", "a river, a lamp"], saver)
        forked = Thread(graph, thread.thread_id)
        if step.next in {("__start__",), ("prepare",)}:
            with pytest.raises(ValueError, match="has not begun at this checkpoint"):
                do(forked, "fork", at=step.checkpoint_id)
            continue
        branch = do(forked, "fork", at=step.checkpoint_id)
        assert graph.get_state(branch.config).next == (step.next or ("check",))
        calls = 1 if "refine" in step.next else 0
        assert do(branch, "resume")["answer"] in ("a river", "a river, a lamp")
        assert do(branch, "replay").matches
        if calls:
            assert do(branch, "history")[-1].stop_reason == "accepted"


def test_a_fork_of_a_fork_is_in_the_same_tree(saver: Any, do: Any) -> None:
    """The tree shows branches of branches, from whichever of them it is asked for."""
    thread, _ = finished(saver, do, "a river, a lamp", "lamp river 2", "lamp river 3")
    first = do(thread, "fork", at=0, feedback="again", thread_id="first")
    do(first, "resume")
    second = do(first, "fork", at=1, feedback="and again", thread_id="second")
    do(second, "resume")
    for asked in (thread, first, second):
        tree = do(asked, "tree")
        assert (tree.thread_id, tree.children[0].thread_id, tree.children[0].children[0].thread_id) == (
            "demo-1", "first", "second",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"at": ""}, "at must be a round .* not ''"),
        ({"at": None}, "at must be a round .* not None"),
        ({"at": True}, "at must be a round .* not True"),
        ({"at": 7}, r"no draft of round 7; this run has drafts of rounds \[0, 1\]"),
        ({"at": 0, "feedback": "  "}, "feedback is blank"),
        ({"at": 0, "draft": ""}, "draft is blank"),
        ({"at": 0, "limits": {"max_rounds": -1}}, "max_rounds=-1"),
        ({"at": 0, "thread_id": "demo-1"}, "'demo-1' exists already"),
    ],
)
def test_a_fork_that_makes_no_sense_is_refused_and_writes_nothing(
    saver: Any, do: Any, changes: dict[str, Any], message: str
) -> None:
    """The message says what is there; no thread is left behind."""
    thread, _ = finished(saver, do, "a river", "a river, a lamp")
    with pytest.raises(ValueError, match=message):
        do(thread, "fork", **changes)
    assert [row.thread_id for row in saver.runs.list()] == ["demo-1"]


def test_unknown_threads_and_checkpoints_are_named(saver: Any, do: Any) -> None:
    """Asking for what is not there says so."""
    thread, _ = finished(saver, do, "a river, a lamp")
    for method in ("resume", "history", "replay", "tree", "rerun"):
        with pytest.raises(UnknownThreadError, match="no thread 'nobody'"):
            do(Thread(thread.graph, "nobody"), method)
    with pytest.raises(UnknownThreadError, match="no checkpoint 'nothing'"):
        do(thread, "fork", at="nothing")
    with pytest.raises(TypeError, match="a thread is one of a compiled graph, not of 'runs'"):
        Thread("runs", "1")  # type: ignore[arg-type]
    for nameless in ("", None):
        with pytest.raises(ValueError, match="a thread has an id"):
            Thread(graph_of([], InMemorySaver())[0], nameless)  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match=r"no checkpointer.* `with open_checkpointer\(…\) as saver:` with checkpointer=saver"
    ):
        Thread(build_refine_graph(ScriptedModel([])), "1")


def test_resume_of_a_finished_run_gives_its_output_and_pays_nothing(saver: Any, do: Any) -> None:
    """Resuming what is done changes nothing."""
    thread, model = finished(saver, do, "a river", "a river, a lamp")
    output = do(thread, "resume")
    assert (output["answer"], output["stop_reason"], len(model.calls)) == ("a river, a lamp", "accepted", 2)
    assert len(output["events"]) == 7


def test_resume_with_new_limits_gives_a_stopped_run_room(saver: Any, do: Any) -> None:
    """More rounds let a run go on; an accepted run stays accepted whatever the limits."""
    thread, model = finished(saver, do, "a river", "a lamp", "a river, a lamp", max_rounds=1)
    output = do(thread, "resume", {"max_rounds": 5})
    assert (output["answer"], output["rounds"], output["stop_reason"]) == ("a river, a lamp", 2, "accepted")
    output = do(thread, "resume", {"max_rounds": 9})
    assert (output["stop_reason"], len(model.calls)) == ("accepted", 3)
    with pytest.raises(ValueError, match="patience=0"):
        do(thread, "resume", {"patience": 0})


def test_replay_recomputes_the_output_without_a_call(saver: Any, do: Any) -> None:
    """The record alone gives answer, stop reason, rounds and usage, and they agree with the run."""
    thread, model = finished(saver, do, "a river", "a lamp", "a river, a lamp")
    replay = do(thread, "replay")
    assert (replay.matches, replay.differences) == (True, ())
    assert (replay.output["answer"], replay.output["stop_reason"]) == ("a river, a lamp", "accepted")
    assert (replay.output["rounds"], replay.output["usage"]["calls"], len(model.calls)) == (2, 3, 3)


@pytest.mark.parametrize("limits", [None, {"max_rounds": 5}])
def test_a_run_that_was_reopened_and_killed_still_matches_its_record(saver: Any, do: Any, limits: Any) -> None:
    """Between the reopening of a stopped run and its next step there is no result that could disagree."""
    graph, _ = graph_of(["a river", ConnectionError("away")], saver)
    thread = Thread(graph, "demo-1")
    assert do(graph, "invoke", {"task": TASK, "limits": Limits(max_rounds=2)}, thread.config)["stop_reason"] == "failed"
    do(thread, "ready", limits)  # and here the process is killed
    replay = do(thread, "replay")
    assert replay.matches, replay.differences


def test_rerun_runs_the_task_again_in_a_thread_of_its_own(saver: Any, do: Any) -> None:
    """The same task and limits once more, at the cost of tokens, and both results are kept."""
    thread, model = finished(saver, do, "a river, a lamp", "a lamp on a river")
    again = do(thread, "rerun", thread_id="again")
    assert do(again, "resume")["answer"] == "a lamp on a river"
    assert do(thread, "resume")["answer"] == "a river, a lamp"
    assert len(model.calls) == 2


def test_history_shows_who_ran_and_what_it_added(saver: Any, do: Any, request: pytest.FixtureRequest) -> None:
    """Each step names its node and the events it wrote."""
    thread, _ = finished(saver, do, "a river", "a river, a lamp")
    steps = [(step.node, [event["kind"] for event in step.events]) for step in do(thread, "history")]
    if request.node.callspec.params["do"] == "round":
        assert steps[2:] == [
            ("prepare", ["task"]), ("generate", ["draft", "critique", "verdict"]),
            ("refine", ["revision", "critique", "verdict"]),
        ]  # fmt: skip
        return
    assert steps == [
        ("input", []), ("start", []), ("prepare", ["task"]), ("generate", ["draft"]), ("feedback", ["critique"]),
        ("check", ["verdict"]), ("refine", ["revision"]), ("feedback", ["critique"]), ("check", ["verdict"]),
    ]  # fmt: skip


def test_diff_shows_words_that_changed(saver: Any, do: Any) -> None:
    """Two drafts of a run, or the answers of two runs, word by word."""
    thread, _ = finished(saver, do, "a river", "a river, a lamp", "the lamp, the river")
    assert str(do(thread, "diff")) == "a river{+, a lamp+}"
    branch = do(thread, "fork", at=0, feedback="definite articles")
    do(branch, "resume")
    assert [change.kind for change in do(thread, "diff", branch).changes].count("added") >= 1
    with pytest.raises(ValueError, match="no draft of round 5"):
        do(thread, "diff", before=5)


def test_history_works_on_any_graph(do: Any) -> None:
    """A graph that keeps no record still shows its steps; what needs a record says that it does."""
    other = StateGraph(MessagesState)
    other.add_node("talk", lambda state: {"messages": []})
    other.add_edge(START, "talk")
    graph = other.compile(checkpointer=InMemorySaver(), name="chat")
    thread = Thread(graph, "1")
    graph.invoke({"messages": []}, thread.config)
    assert [step.node for step in do(thread, "history")] == ["input", "start", "talk"]
    assert do(thread, "tree").thread_id == "1"
    assert do(thread, "resume") == {"messages": []}
    with pytest.raises(ValueError, match="no record of a refinement run"):
        do(thread, "replay")
    for method, given in (("rerun", {}), ("fork", {"at": 0}), ("resume", {"limits": {"max_rounds": 1}})):
        with pytest.raises(ValueError, match="needs a graph of redraft, and 'chat' is none"):
            do(thread, method, **given)


def test_trees_work_without_an_index() -> None:
    """A stock saver keeps no index of runs; the tree is read from its checkpoints."""
    graph, _ = graph_of(["a river, a lamp"], InMemorySaver())
    thread = Thread(graph, "1")
    graph.invoke({"task": TASK}, thread.config)
    branch = thread.fork(at=0, feedback="again")
    assert [child.thread_id for child in branch.tree().children] == [branch.thread_id]
    assert [child.thread_id for child in asyncio.run(branch.atree()).children] == [branch.thread_id]


def test_feedback_in_a_fork_stands_in_for_the_critics(saver: Any, do: Any) -> None:
    """What programs found stays; where the revision after it is no draft, nobody is asked about the draft again."""
    thread, _ = finished(saver, do, "a river, a lamp", "No changes needed.", "lamp and river in winter")
    output = do(do(thread, "fork", at=0, feedback="Make it about winter."), "resume")
    assert [
        event["by"] for event in output["events"] if event["round"] == 0 and event["kind"] in ("critique", "human")
    ] == ["uses_words", "human"]
    assert output["answer"] == "lamp and river in winter"


def test_the_draft_that_a_person_spoke_about_is_revised(saver: Any, do: Any) -> None:
    """Feedback on a draft is about that draft, also where an earlier one scored better."""
    thread, model = finished(saver, do, "a river", "Winter.", "more", max_rounds=1)
    output = do(do(thread, "fork", at=1, feedback="Longer.", limits={"max_rounds": 2}), "resume")
    assert "Current draft:\na river Winter." in model.calls[-1][0].text
    assert next(event["base"] for event in output["events"] if event["round"] == 2 and event["kind"] == "revision") == 1


@pytest.mark.parametrize("node", ["generate", "feedback", "check", "refine"])
def test_a_thread_that_was_cut_off_before_its_next_step_goes_on(node: str, saver: Any, do: Any) -> None:
    """A cancelled run can leave a thread without a next step and without an end; resuming asks for nothing twice."""
    graph, model = graph_of(["a river", "a river, a lamp"], saver)
    thread = Thread(graph, "demo-1")
    do(graph, "invoke", {"task": TASK}, {**thread.config}, interrupt_after=[node])
    do(graph, "update_state", thread.config, None, as_node="__end__")
    output = do(thread, "resume")
    assert (output["answer"], output["stop_reason"], len(model.calls)) == ("a river, a lamp", "accepted", 2)
    assert thread.replay().matches


def test_a_resumed_thread_can_be_watched(saver: Any) -> None:
    """What `ready` returns streams the rest of the run."""
    graph, _ = graph_of(["a river", RuntimeError("down"), "a river, a lamp"], saver)
    thread = Thread(graph, "demo-1")
    graph.invoke({"task": TASK}, thread.config)
    nodes = [name for update in graph.stream(thread.ready(), thread.config, stream_mode="updates") for name in update]
    assert nodes == ["refine", "feedback", "check"]


def test_a_second_task_that_is_refused_leaves_the_first_run_as_it_was(saver: Any, do: Any) -> None:
    """After a typo in a limit the thread still replays, forks and reruns its last run, and the task can be mended."""
    thread, _ = finished(
        saver, do, "a river", "river, lamp", "a lamp", "lamp, river", "a lamp and a river", max_rounds=1
    )
    with pytest.raises(ValueError, match="'max_round' is not a limit"):
        do(thread.graph, "invoke", {"task": "t2", "limits": {"max_round": 5}}, thread.config)

    replay = do(thread, "replay")
    assert (replay.differences, replay.output["answer"]) == ((), "river, lamp")
    branch = do(thread, "fork", at=0)
    state = thread.graph.get_state(branch.config).values
    assert (state["task"], state["limits"]) == (TASK, Limits(max_rounds=1))
    assert do(branch, "replay").matches
    again = do(thread, "rerun")
    assert do(again, "replay").output["answer"] == "lamp, river"

    with pytest.raises(ValueError, match="'max_round' is not a limit"):
        do(thread, "resume")
    output = do(thread, "resume", Limits(max_rounds=5))
    assert (output["answer"], output["stop_reason"]) == ("a lamp and a river", "accepted")
    assert thread.graph.get_state(thread.config).values["task"] == "t2"
    assert do(thread, "replay").matches


@pytest.mark.parametrize(("lost", "following"), [(("put",), ()), (("put", "put_writes"), ("__start__",))])
def test_a_run_killed_before_its_first_step_takes_other_limits(
    saver: Any, monkeypatch: pytest.MonkeyPatch, lost: Any, following: Any
) -> None:
    """What waits in the first checkpoint of a run is the task that is resumed, not the thread's last one."""
    graph, model = graph_of(["a river, a lamp", "lamp, river"], saver)
    thread = Thread(graph, "demo-1")
    graph.invoke({"task": TASK}, thread.config)
    kept: Any = graph.checkpointer  # with strict msgpack LangGraph gives a graph a saver of its own, on the same store
    put, saved = kept.put, []

    def killed(*given: Any) -> Any:
        if saved:
            raise OSError("killed")
        saved.append("the input")
        return put(*given)

    with monkeypatch.context() as patch:
        for method in lost:
            patch.setattr(kept, method, killed)
        with pytest.raises(OSError, match="killed"):
            graph.invoke({"task": "t2", "limits": {"patience": 2}}, thread.config, durability="sync")
    assert graph.get_state(thread.config).next == following

    output = thread.resume({"max_rounds": 1})
    assert (output["answer"], len(model.calls)) == ("lamp, river", 2)
    state = graph.get_state(thread.config).values
    assert (state["task"], state["limits"]) == ("t2", Limits(max_rounds=1, patience=2))


def test_a_thread_without_a_begun_task_can_not_run_one_again(saver: Any, do: Any) -> None:
    """There is nothing yet to run once more; the message says what begins it."""
    graph, _ = graph_of([], saver)
    thread = Thread(graph, "demo-1")
    graph.invoke({"task": TASK}, thread.config, interrupt_before=["prepare"])
    with pytest.raises(ValueError, match=r"resume\(\) begins it"):
        do(thread, "rerun")
