"""Pipelines: each step a node, checkpointed, resumable, and gone on with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from redraft.graphs.pipeline import build_pipeline_graph
from redraft.graphs.reasoning import build_reasoning_graph
from redraft.models import ScriptedModel
from redraft.nodes.reasoning.pipeline_language import PipelineError, SetTopic, UseCritique, UseDraft, UseImprove
from redraft.nodes.reasoning.pipeline_steps import StepFailedError
from redraft.state import Thread, open_checkpointer
from redraft.state.reasoning import reasoning_events, self_critique

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = [f"text {number}" for number in range(30)]


def kinds(output: Any) -> list[str]:
    return [event.kind for event in reasoning_events(output["events"])]


def config(thread: str = "t", **more: Any) -> Any:
    return {"configurable": {"thread_id": thread}, **more}


@pytest.mark.parametrize(
    ("pipeline", "expected"),
    [
        ("SetTopic('Microservices') | UseRefinementLoop('3')", ["draft", *["critique", "final"] * 3]),
        ("SetTopic('Microservices') | UseRefinementLoop", ["draft", *["critique", "final"] * 3]),
        ("SetTopic('M') | UseDraft | UseCritique | UseImprove", ["draft", "critique", "final"]),
        ("SetTopic('M') | UseDraft | UseCritique | UseFinal", ["draft", "critique", "final"]),
        ("SetTopic('M') | UseDraft | UseRefinementLoop('1')", ["draft", "critique", "final"]),
        ("SetTopic('M') | UseRefinementLoop('1') | UseRefinementLoop('1')", ["draft", *["critique", "final"] * 2]),
        ("SetTopic('M') | UseDraft | UseCritique | UseCritique", ["draft", "critique", "critique"]),
        ("SetTopic('M') | UseDraft | SetTopic('N') | UseDraft", ["draft"]),
        (SetTopic("M") | UseDraft | UseCritique | UseImprove, ["draft", "critique", "final"]),
    ],
)
def test_the_steps_run_in_the_order_in_which_they_stand(run: Any, pipeline: Any, expected: list[str]) -> None:
    """What is written is what happens, step for step, and each writing step is one model call."""
    model = ScriptedModel(TEXTS)
    output = run(build_pipeline_graph(pipeline, model), {})
    assert kinds(output) == expected
    assert len(model.calls) == len(expected) + ("SetTopic('N')" in str(pipeline))
    latest = [event.text for event in reasoning_events(output["events"]) if event.kind != "critique"][-1]
    assert (output["answer"], output["stop_reason"]) == (latest, "max_rounds")


def test_a_step_with_nothing_to_do_says_so_and_changes_nothing(run: Any) -> None:
    """A critique before any draft, or an improvement without a critique, asks nobody; the stream says why."""
    model = ScriptedModel(TEXTS)
    graph = build_pipeline_graph("SetTopic('M') | UseCritique | UseDraft | UseImprove", model)
    told = [
        (item["node"], item["text"]) for item in graph.stream({}, stream_mode="custom") if item["kind"] == "skipped"
    ]
    assert told == [
        ("UseCritique", "No draft or previous improvement found to critique"),
        ("UseImprove", "No critique of the most recent draft or improvement found to improve it by"),
    ]
    assert len(model.calls) == 1


def test_self_critique_gives_draft_critique_answer_iterations_and_confidence(run: Any) -> None:
    """Criticising itself twice ends with a score of the last text: the confidence in it."""
    said = [json.dumps({"feedback": f"flaw {number}", "score": score}) for number, score in enumerate((0.2, 0.5, 0.9))]
    model = ScriptedModel(["a", said[0], "b", said[1], "c", said[2]])
    found = self_critique(run(build_pipeline_graph("SetTopic('M') | UseSelfCritique('2')", model), {})["events"])
    assert (found.draft, found.critique, found.improved) == ("a", "flaw 1", "c")
    assert (found.iterations, found.confidence, found.rating) == (2, 0.9, "high")
    assert len(model.calls) == 6


def test_a_threshold_ends_a_loop_and_the_pipeline_goes_on(run: Any) -> None:
    """A loop whose text is good enough is left early; the steps behind it still run."""
    good = json.dumps({"feedback": "fine", "score": 0.9})
    model = ScriptedModel(["a", good, good, "b"])
    pipeline = "SetTopic('M') | UseRefinementLoop('5') | UseCritique | UseImprove"
    output = run(build_pipeline_graph(pipeline, model, threshold=0.8), {})
    assert (kinds(output), output["answer"]) == (["draft", "critique", "critique", "final"], "b")


@pytest.mark.parametrize("given", ["UseDraft", "SetTopic('Rain') | UseDraft"])
def test_the_topic_comes_from_the_pipeline_or_the_caller(run: Any, given: str) -> None:
    """A pipeline that sets no topic works on the caller's task."""
    model = ScriptedModel(TEXTS)
    run(build_pipeline_graph(given, model), {} if "Rain" in given else {"task": "Rain"})
    assert "Topic:\nRain" in model.calls[0][0].text


def test_without_any_topic_it_is_refused(run: Any) -> None:
    """A pipeline that never says what it is about is refused with the step that is missing."""
    with pytest.raises(ValueError, match=r"no topic: begin it with SetTopic"):
        run(build_pipeline_graph("UseDraft", ScriptedModel([])), {})


def test_a_thread_is_gone_on_with(saver: Any) -> None:
    """A second pipeline on the same thread criticises and improves what the first one wrote, on every database."""
    build_pipeline_graph("SetTopic('M') | UseDraft", ScriptedModel(["a"]), checkpointer=saver).invoke({}, config())
    model = ScriptedModel(["flaw", "b"])
    graph = build_pipeline_graph("UseCritique | UseImprove", model, checkpointer=saver)
    output = graph.invoke({}, config())
    assert [event.text for event in reasoning_events(output["events"])] == ["a", "flaw", "b"]
    assert "<<<\na\n>>>" in model.calls[0][0].text
    assert Thread(graph, "t").replay().matches


def test_each_step_has_a_checkpoint_and_a_failed_one_is_run_again(saver: Any) -> None:
    """A step that fails leaves the thread before it; resuming repeats that step and pays for no other."""
    model = ScriptedModel(["a", "flaw", ConnectionError("lost"), "b"])
    graph = build_pipeline_graph("SetTopic('M') | UseDraft | UseCritique | UseImprove", model, checkpointer=saver)
    with pytest.raises(StepFailedError, match="UseImprove failed: ConnectionError: lost"):
        graph.invoke({}, config())
    thread = Thread(graph, "t")
    assert graph.get_state(config()).next == ("UseImprove",)
    assert thread.resume()["answer"] == "b"
    assert len(model.calls) == 4
    assert [one.next for one in graph.get_state_history(config())][::-1] == [
        ("__start__",), ("begin",), ("SetTopic",), ("UseDraft",), ("UseCritique",), ("UseImprove",), ("check",), (),
    ]  # fmt: skip


def test_the_reasoning_graph_forks_a_pipelines_thread() -> None:
    """Any draft of a pipeline can be taken up with other feedback: the reasoning graph reads and forks its threads."""
    with open_checkpointer("memory") as saver:
        first = build_pipeline_graph("SetTopic('M') | UseDraft", ScriptedModel(["a"]), checkpointer=saver)
        first.invoke({}, config())
        graph = build_reasoning_graph(ScriptedModel(["b"]), iterations=1, checkpointer=saver)
        output = Thread(graph, "t").fork(at=0, feedback="Shorter.", limits={"max_rounds": 1}).resume()
    assert [event.text for event in reasoning_events(output["events"])] == ["a", "Shorter.", "b"]


def test_a_spent_budget_ends_it_with_what_there_is(run: Any) -> None:
    """Once the tokens are spent no further step asks a model, and the run says so."""
    model = ScriptedModel(TEXTS)
    graph = build_pipeline_graph("SetTopic('M') | UseRefinementLoop('5')", model)
    output = run(graph, {"limits": {"max_tokens": 10}})
    assert (output["stop_reason"], output["answer"], len(model.calls)) == ("token_budget", "text 0", 1)


def test_many_iterations_need_no_recursion_limit(run: Any) -> None:
    """Forty iterations run as they are; under a limit of the caller's own the run ends early and says why."""
    texts = [f"text {number}" for number in range(100)]
    graph = build_pipeline_graph("SetTopic('M') | UseRefinementLoop('40')", ScriptedModel(texts))
    assert run(graph, {})["rounds"] == 40
    graph = build_pipeline_graph("SetTopic('M') | UseRefinementLoop('40')", ScriptedModel(texts))
    output = run(graph, {}, {"recursion_limit": 25})
    assert 0 < output["rounds"] < 40
    assert "recursion_limit" in output["events"][-1]["text"]


def test_passages_come_from_the_folder_and_query_in_force(run: Any) -> None:
    """`UseDir` and `SetQuery` hold for the steps behind them; the same query is looked up once."""
    asked: list[tuple[str, str]] = []

    class Folder:
        def __init__(self, path: str) -> None:
            self.path = path

        def invoke(self, query: str) -> list[str]:
            asked.append((self.path, query))
            return [f"{self.path} on {query}"]

    model = ScriptedModel(TEXTS)
    pipeline = "SetTopic('M') | UseDraft | UseDir('docs') | UseRefinementLoop('1') | SetQuery('q') | UseCritique"
    output = run(build_pipeline_graph(pipeline, model, open_folder=Folder), {})
    assert asked == [("docs", "M"), ("docs", "q")]
    assert "Passages" not in model.calls[0][0].text
    assert "docs on M" in model.calls[2][0].text
    assert "docs on q" in model.calls[3][0].text
    assert [event["by"] for event in output["events"] if event["kind"] == "retrieval"] == ["docs", "docs"]


def test_a_real_folder_is_searched(run: Any, tmp_path: Path) -> None:
    """`UseDir` reads real Markdown files, and the passage that fits the topic reaches the prompt and the record."""
    pytest.importorskip("bm25s")
    pytest.importorskip("wordllama")
    (tmp_path / "bread.md").write_text("# Bread\n\nSourdough bread rises with wild yeast over night.\n")
    (tmp_path / "boats.md").write_text("# Boats\n\nA keel keeps a sailing boat upright in the wind.\n")
    model = ScriptedModel(["a"])
    pipeline = f"SetTopic('How does sourdough bread rise?') | UseDir({str(tmp_path)!r}) | UseDraft"
    output = run(build_pipeline_graph(pipeline, model, k=1), {})
    assert "wild yeast" in model.calls[0][0].text
    assert "keel" not in model.calls[0][0].text
    (event,) = [event for event in output["events"] if event["kind"] == "retrieval"]
    assert [one["source"] for one in event["documents"]] == ["bread.md"]


def test_a_folder_that_is_not_there_is_said_before_anything_is_paid(run: Any, tmp_path: Path) -> None:
    """A missing folder raises at its step, before the model is asked."""
    pytest.importorskip("bm25s")
    graph = build_pipeline_graph(f"SetTopic('M') | UseDir({str(tmp_path / 'no')!r}) | UseDraft", ScriptedModel([]))
    with pytest.raises(ValueError, match="no"):
        run(graph, {})


def test_what_is_no_pipeline_is_refused_at_build() -> None:
    """A wrong step is pointed at when the graph is built."""
    with pytest.raises(PipelineError, match="UseDarft"):
        build_pipeline_graph("UseDarft", ScriptedModel([]))


def test_its_picture_shows_the_steps() -> None:
    """The graph draws itself as the pipeline was written."""
    picture = build_pipeline_graph("SetTopic('M') | UseDraft | UseDraft", ScriptedModel([])).get_graph().draw_mermaid()
    assert all(name in picture for name in ("SetTopic", "UseDraft", "UseDraft-2"))
