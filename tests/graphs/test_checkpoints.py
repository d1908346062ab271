"""A checkpoint a round: what a run, its record and its forks come to is the same as with a checkpoint a step."""

from __future__ import annotations

import asyncio
import operator
from functools import partial
from random import Random
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessageChunk, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained
from langgraph.types import Command, interrupt
from redraft.faces.views.timeline import timeline_facts
from redraft.graphs import build_adaptive_graph, build_branching_graph, build_reasoning_graph, build_refine_graph
from redraft.graphs.middleware import RefineMiddleware
from redraft.models import ScriptedModel
from redraft.nodes import has_length, uses_words
from redraft.nodes.critics.critics import model_critic, verifier_critic
from redraft.nodes.writing.writers import from_runnable
from redraft.state import Critique, Thread, open_checkpointer
from redraft.state.schema import RefineState
from redraft.state.summary import attempts

ON: Any = {"configurable": {"thread_id": "t"}}
VOLATILE = {
    "at",
    "prev",
    "head",
    "seconds",
    "total_seconds",
    "parent_head",
    "checkpoint_id",
    "created_at",
    "updated_at",
    "thread_id",
}
WRITTEN = ("a river", "a lamp", "a river, a lamp", "", "No changes needed.", "the night", {"error": "away"}, "by night")
JUDGED = ("no issues", "The lamp is missing.", "Shorter.", {"error": "gone"}, "")


def told(value: Any) -> Any:
    """What a run came to, without its clocks and hashes."""
    if isinstance(value, dict):
        return {key: told(one) for key, one in value.items() if key not in VOLATILE}
    if isinstance(value, BaseMessage):
        return [value.type, value.text]
    return [told(one) for one in value] if isinstance(value, (list, tuple)) else value


def scripted(seed: int, saver: Any, **options: Any) -> tuple[Any, Any]:
    """A loop with options and replies by chance, the same for a seed, and its input."""
    chance = Random(seed)
    writer = ScriptedModel(["first"] * (seed % 2) + [chance.choice(WRITTEN) for _ in range(40)])
    judge = ScriptedModel([chance.choice(JUDGED) for _ in range(40)], model_name="judge")
    scores = [chance.choice([None, 0.2, 0.5, 0.5, 0.9]) for _ in range(40)]
    kind = chance.choice(["judged", "scored", "verified"])
    critics: list[Any] = [model_critic(judge)]
    if kind == "scored":
        critics.append(lambda task, draft, history: Critique(draft, accepted=False, score=scores.pop(0)))
    if kind == "verified":
        critics.append(verifier_critic(uses_words("river", "lamp")))
    custom = (
        (lambda state: "human" if "lamp" in state["events"][-2]["text"] else None) if chance.random() < 0.2 else None
    )
    wanted = {
        "critics": critics,
        "keep": chance.choice(["best", "last", None]),
        "memory": chance.choice(["all", "last"]),
        "critics_after": chance.choice(["undecided", "always"]),
        "judge_last": kind == "verified" or chance.random() < 0.8,
        "check": custom if chance.random() < 0.2 else None,
    }
    limits = {"max_rounds": chance.randint(0, 4)}
    if chance.random() < 0.3:
        limits["max_tokens"] = chance.randint(1, 200)
    if chance.random() < 0.3:
        limits["patience"] = chance.randint(1, 2)
    given: dict[str, Any] = {"task": "Write."} if chance.random() < 0.7 else {"messages": [("user", "Write.")]}
    if chance.random() < 0.2:
        given["draft"] = "my draft"
    return build_refine_graph(writer, checkpointer=saver, **wanted, **options), {**given, "limits": limits}


def came_to(seed: int, checkpoints: str) -> Any:
    """All that is seen of a run: what is streamed, its end, its record, timeline, diff, tree, forks and replays."""
    chance, found = Random(seed), []
    with open_checkpointer("memory") as saver:
        graph, given = scripted(seed, saver, checkpoints=checkpoints)
        thread = Thread(graph, "t")

        def end(run: Any) -> Any:
            try:
                found.append(told(run()))
            except Exception as error:  # before the first draft an error is raised
                found.append(f"{type(error).__name__}: {error}")

        end(lambda: list(graph.stream(given, ON, stream_mode="custom")))
        end(thread.resume)
        events = graph.get_state(ON).values.get("events") or []
        for draft in attempts(events):
            change = chance.choice([{}, {"feedback": "shorter"}, {"draft": "river, by hand"}])
            limits = chance.choice([None, {"max_rounds": 5}, {"max_rounds": 0}])
            branch = thread.fork(at=draft.round, limits=limits, thread_id=f"fork{draft.round}", **change)
            end(branch.resume)
            end(partial(thread.diff, branch))
            assert branch.replay().matches
        end(lambda: thread.resume({"max_rounds": 6}))
        assert thread.replay().matches
        values = graph.get_state(ON)
        facts = timeline_facts("t", thread.history())
        rows = [{**row, "step": None, "node": None} for row in facts.pop("rows")]
        tree = [(one.thread_id, one.row.fork_at, one.row.stop_reason, one.row.rounds) for one in thread.tree().children]
        return [*found, told(values.values), values.next, told(rows), told(facts), tree]


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 40))])
def test_a_checkpoint_a_round_changes_nothing_that_is_seen(seed: int) -> None:
    """Stream, output, record, timeline, tree, diff, forks and replays of runs by chance are those of a checkpoint a
    step."""
    assert came_to(seed, "round") == came_to(seed, "step")


def river(saver: Any, checkpoints: Any, *replies: Any, **options: Any) -> tuple[Any, ScriptedModel]:
    model = ScriptedModel(list(replies) or ["a river", "Where is the lamp?", "a river, a lamp", "no issues"])
    return build_refine_graph(model, checkpointer=saver, checkpoints=checkpoints, **options), model


@pytest.mark.parametrize("node", ["prepare", "generate", "feedback", "check", "refine"])
@pytest.mark.parametrize("begun", ["step", "round"])
def test_a_thread_goes_on_with_the_other_setting(begun: Any, node: str) -> None:
    """Wherever a run stood, it goes on with the other setting as if it had begun with it, and pays nothing twice."""
    with open_checkpointer("memory") as saver:
        graph, model = river(saver, begun)
        graph.invoke({"task": "Write."}, ON, interrupt_after=[node])
        other, rest = river(saver, {"step": "round", "round": "step"}[begun], *model.replies[len(model.calls) :])
        output = Thread(other, "t").resume()
    assert (output["answer"], output["stop_reason"], output["usage"]["calls"]) == ("a river, a lamp", "accepted", 4)
    assert len(model.calls) + len(rest.calls) == 4
    kinds = [event["kind"] for event in output["events"]]
    assert kinds == ["task", "draft", "critique", "verdict", "revision", "critique", "verdict"]


def test_a_round_is_one_checkpoint(run: Any) -> None:
    """History shows a step a draft, with all that was said of it; a recursion limit of 25 holds 24 rounds less one."""
    saver = InMemorySaver()
    graph, _ = river(saver, "round")
    run(graph, {"task": "Write."}, ON)
    assert [(step.node, [event["kind"] for event in step.events]) for step in Thread(graph, "t").history()] == [
        ("input", []), ("start", []), ("prepare", ["task"]),
        ("generate", ["draft", "critique", "verdict"]), ("refine", ["revision", "critique", "verdict"]),
    ]  # fmt: skip
    replies = [reply for number in range(30) for reply in (f"draft {number}", "Longer.")]
    graph, _ = river(saver, "round", *replies, limits={"max_rounds": 99})
    output = run(graph, {"task": "Write."}, {"configurable": {"thread_id": "long"}, "recursion_limit": 25})
    assert (output["stop_reason"], output["rounds"], output["events"][-1]["out_of_steps"]) == ("max_rounds", 22, True)


def test_nobody_is_asked_about_a_draft_that_is_then_written_anew(run: Any) -> None:
    """A critic of one's own that pauses the run does so after the draft is saved, also where no journal is kept."""

    def asking(task: str, draft: str, history: Any) -> Critique:
        answer = interrupt(draft)
        return Critique(answer, accepted=answer == "yes")

    graph, model = river(InMemorySaver(), "round", "one", "two", critics=[asking])
    assert run(graph, {"task": "Write."}, ON)["__interrupt__"][0].value == "one"
    assert run(graph, Command(resume="no"), ON)["__interrupt__"][0].value == "two"
    output = run(graph, Command(resume="yes"), ON)
    assert (output["answer"], output["stop_reason"], len(model.calls)) == ("two", "accepted", 2)


@pytest.mark.parametrize("how", ["sync", "async"])
def test_a_stop_is_heard_within_a_round(how: str) -> None:
    """A run that is asked to stop while it writes saves the draft, and asks no critic before it is resumed."""
    with open_checkpointer("memory") as saver:
        graph, model = river(saver, "round", lambda messages: Thread(graph, "t").stop() and "one", "no issues")
        thread = Thread(graph, "t")

        def invoked() -> None:
            with thread.stoppable() as control:
                graph.invoke({"task": "Write."}, ON, control=control)

        async def awaited() -> None:
            async with thread.astoppable() as control:
                await graph.ainvoke({"task": "Write."}, ON, control=control)

        with pytest.raises(GraphDrained):
            invoked() if how == "sync" else asyncio.run(awaited())
        assert (graph.get_state(ON).next, len(model.calls)) == (("feedback",), 1)
        assert (thread.resume()["stop_reason"], len(model.calls)) == ("accepted", 2)


class Noted(RefineState, total=False):
    notes: Annotated[list[str], operator.add]


def test_keys_of_ones_own_are_added_up_as_their_reducer_says(run: Any) -> None:
    """What writers and a check of one's own add to a key in one round is all there, and each sees what was added."""
    seen: list[list[str]] = []

    def writing(state: Any) -> Any:
        return {"draft": f"draft {len(seen)}", "notes": [f"written {len(seen)}"]}

    def checking(state: Any) -> Any:
        seen.append(state["notes"])
        return {"stop_reason": "human" if len(seen) == 2 else None, "notes": [f"checked {len(seen)}"]}

    made = {"generate": writing, "refine": writing, "check": checking, "state_schema": Noted}
    critics = [lambda task, draft, history: Critique("again", accepted=False)]
    graph = build_refine_graph(**made, critics=critics, checkpointer=InMemorySaver(), checkpoints="round")
    run(graph, {"task": "Write."}, ON)
    assert seen == [["written 0"], ["written 0", "checked 1", "written 1"]]
    assert graph.get_state(ON).values["notes"] == ["written 0", "checked 1", "written 1", "checked 2"]


async def test_a_stream_of_messages_says_which_node_asked() -> None:
    """Words of a critic come from `feedback`, also where it runs within the round of `refine`."""
    found = []
    for checkpoints in ("step", "round"):
        graph, _ = river(InMemorySaver(), checkpoints)
        parts = [part async for part in graph.astream({"task": "Write."}, ON, stream_mode="messages")]
        found.append([(one.text, of["langgraph_node"]) for one, of in parts if isinstance(one, AIMessageChunk)])
    assert found[0] == found[1]
    assert {node for _, node in found[1]} == {"generate", "feedback", "refine"}


WORDS = verifier_critic(uses_words("river", "lamp"))
PRESETS: dict[str, Any] = {
    "adaptive": lambda **options: build_adaptive_graph(critics=[WORDS], **options),
    "branching": lambda **options: build_branching_graph(critics=[WORDS], branching_factor=1, **options),
    "reasoning": build_reasoning_graph,
}


@pytest.mark.parametrize("preset", PRESETS)
def test_what_is_built_on_the_loop_takes_it_too(preset: str) -> None:
    """Presets save a checkpoint a round where they are told to, and come to the same."""
    found = []
    for checkpoints in ("step", "round"):
        replies = ["a river", "The lamp is missing.", "a river, a lamp", "Good.", "a lamp by the river", "Good."]
        with open_checkpointer("memory") as saver:
            graph = PRESETS[preset](model=ScriptedModel(replies), checkpointer=saver, checkpoints=checkpoints)
            output = graph.invoke({"task": "Write."}, ON)
            found.append((output["answer"], output["stop_reason"], output["usage"]["calls"]))
            saved = len(list(saver.list(None)))
        found[-1] = (*found[-1], saved)
    assert found[0][:3] == found[1][:3]
    assert found[0][3] > found[1][3]


TYPOS: list[tuple[dict[str, Any], str]] = [
    ({"checkpoints": "node"}, "checkpoints must be 'step' or 'round', not 'node'"),
    ({"keep": "newest"}, "keep must be 'best', 'last' or 'vote', not 'newest'"),
    ({"memory": "al"}, "memory must be 'all' or 'last', not 'al'"),
    ({"critics_after": ["always"]}, r"critics_after must be 'undecided' or 'always', not \['always'\]"),
    ({"judge_last": "no"}, "judge_last must be True or False, not 'no'"),
    ({"tell_checks": None}, "tell_checks must be True or False, not None"),
]


def test_no_other_setting_is_taken() -> None:
    """A typo is told when the graph is built, and what there is."""
    for typo, says in TYPOS:
        with pytest.raises(ValueError, match=says):
            build_refine_graph(ScriptedModel([]), **typo)
    for build, says in (
        (lambda: RefineMiddleware([lambda *_: None], keep="newest"), "keep must be"),
        (lambda: RefineMiddleware([lambda *_: None], limits=3), "limits must be Limits or a dict of limits, not 3"),
        (lambda: model_critic(ScriptedModel([]), memory="al"), "memory must be"),
        (lambda: from_runnable(ScriptedModel([]), given="text"), "given must be 'auto', 'values'"),
        (lambda: uses_words(["river", "lamp"]), "each a text, not"),
        (lambda: has_length(max_words="3"), "not 0 and '3'"),
    ):
        with pytest.raises(ValueError, match=says):
            build()  # type: ignore[no-untyped-call]
