"""A first draft of the caller's own, as the input of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from redraft.graphs import (
    build_adaptive_graph,
    build_agent_graph,
    build_branching_graph,
    build_code_graph,
    build_math_graph,
    build_pipeline_graph,
    build_reasoning_graph,
    build_refine_graph,
    build_rubric_graph,
    build_writing_graph,
    critique,
    draft,
    improve,
)
from redraft.models import ScriptedModel
from redraft.nodes import Branch, Dimension, Rubric, model_critic, uses_words, verifier_critic
from redraft.retrieval import build_retrieval_graph
from redraft.state import Critique, Thread, open_checkpointer

if TYPE_CHECKING:
    from collections.abc import Callable

OWN = {"task": "Use river and lamp.", "draft": "A boat by the river.", "limits": {"max_rounds": 1}}
BETTER = "A lamp by the river."
RUBRIC = Rubric(dimensions=(Dimension(name="brevity", weight=1),))


def checked(task: str, draft: str) -> Critique:
    return Critique("The lamp is missing.", accepted="lamp" in draft)


class Finds(BaseRetriever):
    """Finds what it is asked for."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(query)]


def rated(task: str, draft: str) -> float:
    return float("lamp" in draft)


PRESETS: dict[str, Callable[..., Any]] = {
    "refine": lambda model, **kept: build_refine_graph(model, critics=[verifier_critic(checked)], **kept),
    "adaptive": lambda model, **kept: build_adaptive_graph(model, critics=[verifier_critic(checked)], **kept),
    "writing": lambda model, **kept: build_writing_graph(model, words=["lamp"], clause_prompt=None, **kept),
    "math": lambda model, **kept: build_math_graph(model, critic=verifier_critic(checked), **kept),
    "code": lambda model, **kept: build_code_graph(model, critics=[verifier_critic(checked)], **kept),
    "agent": lambda model, **kept: build_agent_graph(model=model, critic=verifier_critic(checked), **kept),
    "rubric": lambda model, **kept: build_rubric_graph(model, rubric=RUBRIC, judges={"brevity": rated}, **kept),
}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_run_begins_with_feedback_on_the_callers_draft(run: Any, preset: str) -> None:
    """Nobody is asked for a draft; the caller's is judged and revised, on record as theirs, and a rerun has it too."""
    with open_checkpointer("memory") as saver:
        model = ScriptedModel([BETTER, BETTER, "A lamp and a river."])
        graph = PRESETS[preset](model, checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "1"}}
        output = run(graph, OWN, config)
        first = output["events"][1]
        assert (first["kind"], first["by"], first["text"]) == ("draft", "human", OWN["draft"])
        assert (first["usage"]["calls"], len(model.calls)) == (0, 1)
        assert (output["answer"], output["rounds"], output["stop_reason"]) == (
            BETTER, 1, "max_rounds" if preset == "code" else "accepted",  # prose passes no test of code
        )  # fmt: skip
        assert Thread(graph, "1").replay().matches
        again = Thread(graph, "1").rerun(thread_id="2")
        assert again.replay().output["events"][1]["text"] == OWN["draft"]
        later = run(graph, {"task": OWN["task"]}, config)
        assert later["answer"] == "A lamp and a river."
        assert Branch.of_run("whole", later).topic == OWN["task"]


def test_reasoning_and_pipelines_go_on_with_the_callers_draft(run: Any) -> None:
    """The first call is the critique of it; a pipeline that would write over it says so."""
    model = ScriptedModel(["Shorter.", BETTER])
    output = run(build_reasoning_graph(model), OWN)
    assert [event["kind"] for event in output["events"]][:4] == ["task", "draft", "critique", "verdict"]
    assert (OWN["draft"] in model.calls[0][0].text, output["answer"]) == (True, BETTER)
    model = ScriptedModel(["Shorter.", BETTER])
    output = run(build_pipeline_graph("UseCritique | UseImprove", model), OWN)
    assert (OWN["draft"] in model.calls[0][0].text, output["answer"]) == (True, BETTER)
    with pytest.raises(ValueError, match="draft has no place in a pipeline that sets its topic"):
        run(build_pipeline_graph("SetTopic('Tea') | UseCritique", model), {"draft": "Tea."})


@pytest.mark.parametrize("draft", ["", " \n", 7, ["a"]])
def test_a_draft_that_is_no_text_is_refused(run: Any, draft: Any) -> None:
    """Before anybody is paid for anything."""
    model = ScriptedModel([])
    with pytest.raises(ValueError, match="draft must be the text to begin with"):
        run(build_refine_graph(model, critics=[model_critic(model)]), {**OWN, "draft": draft})


def test_a_draft_that_would_go_unused_is_refused(run: Any) -> None:
    """A search over documents, and one over drafts, write their own."""
    pytest.importorskip("wordllama")
    model = ScriptedModel([])
    graphs: list[Any] = [
        build_retrieval_graph(Finds()),
        build_branching_graph(model, critics=[verifier_critic(uses_words("lamp"))]),
    ]
    for graph in graphs:
        with pytest.raises(ValueError, match="draft has no place here: a search"):
            run(graph, OWN)


def test_a_branch_takes_a_draft_of_ones_own() -> None:
    """The next critique is about it, and what was written before stays on record."""
    model = ScriptedModel(["Old.", "Shorter."])
    branch = (draft(model)).invoke(Branch("main").with_topic("Tea")).with_draft("Mine.")
    assert (branch.latest.text if branch.latest else "", len(branch.reasoning_events())) == ("Mine.", 2)
    critique(model).invoke(branch)
    assert "Mine." in model.calls[1][0].text
    for wrong, says in ((Branch("main"), "has no topic"), (branch, "draft must be")):
        with pytest.raises(ValueError, match=says):
            wrong.with_draft(" ")


def test_a_branch_takes_a_critique_and_an_improved_text_of_ones_own() -> None:
    """The next improvement goes by the critique, the next critique is about the text, and both are reasoning events."""
    model = ScriptedModel(["Old.", "Longer, with milk.", "Sweet."])
    branch = draft(model).invoke(Branch("main").with_topic("Tea")).with_critique("Add milk.", score=0.5)
    branch = improve(model).invoke(branch)
    assert "Add milk." in "".join(message.text for message in model.calls[1])
    branch = branch.with_final("Tea with milk.")
    assert [event.kind for event in branch.reasoning_events()] == ["draft", "critique", "final", "final"]
    assert (branch.latest.text, branch.latest.round) == ("Tea with milk.", 2)  # type: ignore[union-attr]
    critique(model).invoke(branch)
    assert "Tea with milk." in "".join(message.text for message in model.calls[2])
    with pytest.raises(ValueError, match="has no text yet"):
        Branch("main").with_topic("Tea").with_final("Mine.")
    for wrong in (branch.with_critique, branch.with_final):
        with pytest.raises(ValueError, match="is a text that is not blank"):
            wrong(" ")
