"""Several refiners, of which one is chosen for each revision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from redraft.evals.run.result_record import result_record
from redraft.faces.views.timeline import event_row
from redraft.graphs import build_writing_graph
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.nodes import AdaptiveWriter, Arm, has_length, uses_words, verifier_critic
from redraft.nodes.writing.prompts import PromptedModel
from redraft.state import Thread, open_checkpointer

if TYPE_CHECKING:
    from collections.abc import Callable

TASK = {"task": "Use river and lamp, in three words at most."}
FACTS = "Add to {draft}: {feedback}"
WORDS, SHORT = verifier_critic(uses_words("river", "lamp")), verifier_critic(has_length(max_words=3), name="length")
CRITICS = [WORDS, SHORT]


def revisions(output: Any) -> list[Any]:
    return [event for event in output["events"] if event["kind"] == "revision"]


def shorten(state: Any) -> str:
    """Three words of the draft at hand."""
    drafts = [event["text"] for event in state["events"] if event["kind"] in ("draft", "revision")]
    return " ".join(drafts[-1].split()[:3])


async def shorten_later(state: Any) -> dict[str, str]:
    return {"draft": shorten(state)}


CHAIN: Any = RunnableLambda(lambda values: " ".join(values["draft"].split()[:3]))


@pytest.mark.parametrize("short", [shorten, shorten_later, CHAIN], ids=["sync", "async", "chain"])
def test_a_draft_goes_to_the_refiner_that_is_named_like_who_objected(run: Any, short: Any) -> None:
    """Missing words are added by a prompt and length is cut by a function; the record says which of them wrote."""
    model = ScriptedModel(["A boat.", "river lamp and also a boat"])
    refiners = {"uses_words": FACTS, "length": short}
    graph = build_refine_graph(model, critics=CRITICS, refine=refiners)
    output = run(graph, TASK)

    assert (output["answer"], output["stop_reason"]) == ("river lamp and", "accepted")
    assert [event["refiner"] for event in revisions(output)] == ["uses_words", "length"]
    assert model.calls[1][0].text == "Add to A boat.: These words are missing: river, lamp."
    assert [event["usage"]["calls"] for event in revisions(output)] == [1, 0]
    assert [event_row(event)["by"] for event in revisions(output)] == ["scripted (uses_words)", "length"]
    record = result_record(output, question_id="1", question="q", read_answer=str)
    assert [step.refiner for step in record.iterations_log if step.type == "refinement"] == ["uses_words", "length"]


def by_length(state: Any) -> str:
    return "short" if state["events"][-1]["score"] else "facts"


async def by_length_later(state: Any) -> str:
    return by_length(state)


def asking(state: Any) -> Any:
    return ScriptedModel([by_length(state)]).invoke("Which?").text


@pytest.mark.parametrize(
    ("choose", "calls"),
    [(by_length, 1), (by_length_later, 1), (RunnableLambda(by_length), 1), (asking, 2)],
    ids=["sync", "async", "runnable", "model"],
)
def test_a_function_of_the_state_chooses(run: Any, choose: Callable[[Any], Any], calls: int) -> None:
    """Whatever chooses may be async, a Runnable, or ask a model, whose tokens are those of the revision."""
    model = ScriptedModel(["A boat.", "A river lamp."])
    refiners = {"short": shorten, "facts": ChatPromptTemplate.from_template(FACTS)}
    graph = build_refine_graph(model, critics=[WORDS], refine=refiners, choose_refiner=choose)
    output = run(graph, TASK)
    assert [(event["refiner"], event["usage"]["calls"]) for event in revisions(output)] == [("facts", calls)]
    assert output["stop_reason"] == "accepted"


@pytest.mark.parametrize(
    ("choose", "says"),
    [(lambda _: "fact", "choose_refiner returned 'fact'; the refiners are 'facts'"), (None, "no words")],
    ids=["a typo", "a refiner that fails"],
)
def test_a_choice_or_a_refiner_that_fails_keeps_the_best_draft(run: Any, choose: Any, says: str) -> None:
    """An error after the first draft ends the run with that draft, and says which refiner it was in."""

    def failing(state: Any) -> str:
        raise ValueError("no words")

    graph = build_refine_graph(
        ScriptedModel(["A boat."]), critics=[WORDS], refine={"facts": failing}, choose_refiner=choose
    )
    output = run(graph, TASK)
    failed = next(event for event in output["events"] if event["kind"] == "failure")
    assert (output["answer"], output["stop_reason"]) == ("A boat.", "failed")
    assert says in failed["text"]
    assert failed.get("refiner") == (None if choose else "facts")


def test_a_fork_asks_the_refiner_that_its_feedback_calls_for_and_a_replay_asks_nobody() -> None:
    """A person's words in a fork are for the first refiner, since none has their name; the record replays as it is."""
    model = ScriptedModel(["A boat.", "A river lamp.", "Lamp river!"])
    refiners = {"any": FACTS, "uses_words": "Mend {draft}: {feedback}"}
    with open_checkpointer("memory") as saver:
        graph = build_refine_graph(model, critics=[WORDS], refine=refiners, checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "1"}}
        assert [event["refiner"] for event in revisions(graph.invoke(TASK, config))] == ["uses_words"]
        thread = Thread(graph, "1")
        assert thread.replay().matches
        forked = thread.fork(at=0, feedback="Say it louder.")
        assert [event["refiner"] for event in revisions(forked.resume())] == ["any"]
        assert forked.replay().matches
        said = "These words are missing: river, lamp.\n\nSay it louder."
        listed = "The text must meet all of these:\n- Say it louder."
        assert model.calls[2][0].text == f"Add to A boat.: {said}\n\n{listed}"


def test_presets_take_several_refiners_too() -> None:
    """A preset's own refiner gives way to those that are given."""
    model = ScriptedModel(["A boat.", "A river lamp."])
    graph = build_writing_graph(model, critics=[WORDS], refine={"uses_words": FACTS})
    assert [event["refiner"] for event in revisions(graph.invoke(TASK))] == ["uses_words"]


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"refine": {}}, ValueError, "refine= is an empty mapping"),
        ({"refine": {"facts": FACTS, "short": shorten}}, ValueError, r"'short' that nothing would choose.*\['uses_w"),
        ({"refine": {" ": shorten}}, ValueError, "the names of refiners are texts, not ' '"),
        ({"refine": {"facts": "Mend {draft}"}}, ValueError, "refine_prompt of 'facts' lacks {feedback}"),
        ({"refine": {"facts": 3}}, TypeError, "a writer is a Runnable, or a callable over the state, not 3"),
        ({"refine": {"a": shorten}, "choose_refiner": "a"}, TypeError, "choose_refiner is a callable over the state"),
        ({"refine": shorten, "choose_refiner": by_length}, ValueError, "choose_refiner= chooses among several"),
        ({"choose_refiner": by_length}, ValueError, "choose_refiner= chooses among several"),
        (
            {"model": None, "generate": shorten, "refine": {"facts": FACTS}},
            ValueError,
            "refine_prompt of 'facts' is a prompt, and there is no model",
        ),
        (
            {"refine": {"a": AdaptiveWriter({"a": PromptedModel(ScriptedModel([]), "x", what="a")}, [Arm("a", 1)])}},
            TypeError,
            "chooses for itself",
        ),
    ],
)  # fmt: skip
def test_refiners_that_make_no_sense_are_refused_at_build(options: Any, error: Any, says: str) -> None:
    """A refiner that nothing could choose, or a prompt that would revise blindly, shows before anything is paid."""
    with pytest.raises(error, match=says):
        build_refine_graph(**{"model": ScriptedModel([]), "critics": [WORDS], **options})
