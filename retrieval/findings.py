"""Findings: folds over the `retrieval` events of a search, its result, and a search graph as a retriever. Internal."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from math import inf
from statistics import fmean
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import (
    Runnable,
    RunnableConfig,
)
from pydantic import BaseModel

from ..nodes.documents import FoundDocuments, place_of
from ..state.dual import Do, do
from ..state.retrievals import latest_retrieval, nothing_for, paged
from ..state.summary import best_draft, current_run, rounds, run_options, usage_total
from .calibration import CALIBRATIONS, relevance
from .documents import passage
from .retrievers import DualRetriever

__all__ = [
    "NOTHING_CLOSE",
    "NOTHING_FOUND",
    "GraphRetriever",
    "RetrievalResult",
    "RetrievedPassage",
    "anchors_of",
    "as_retriever",
    "confidence",
    "distinct_sources",
    "findings",
    "open_parts",
    "part_confidences",
    "plan_of",
    "ranked",
    "rendered",
    "retrieval_result",
    "searches",
    "withheld",
]

NOTHING_FOUND = "(The search found no passage.)"
NOTHING_CLOSE = "(The search found nothing that answers this.)"


class RetrievedPassage(BaseModel, frozen=True):
    """One passage, with what it is worth over all queries that found it."""

    id: str
    text: str
    source: str
    heading: str
    page: int | None = None
    """Of a PDF, from 1."""
    line: int | None = None
    """Its first, in source code."""
    url: str | None = None
    """Of a web page."""
    score: float
    """It is ranked by this: its relevance where the search reranks, else the sum of its rank scores."""
    similarity: float
    """Cosine, 0–1, with the closest of what was asked."""
    sub_query: str
    """The query that ranked it highest."""
    parts: list[float] = []
    """Cosine, 0–1, with each part of a question that consists of several."""
    found_by: list[str] = []
    """The searches that found it: `vectors`, `bm25`, or the name of a retriever; empty in records that don't say."""
    metadata: dict[str, Any] = {}
    """The rest of the document's metadata."""


def searches(events: Sequence[Mapping[str, Any]], *, until: int | None = None) -> list[Mapping[str, Any]]:
    """Return the events of the queries that were run, failed ones too.

    Args:
        events: The record.
        until: The last round that counts; default: all.
    """
    run: Sequence[Any] = current_run(events)  # type: ignore[arg-type]  # also over events that are not sealed yet
    return [event for event in run if "why" in event and (until is None or event["round"] <= until)]


def plan_of(events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the plan of the current task; empty before there is one."""
    run: Sequence[Any] = current_run(events)  # type: ignore[arg-type]  # as above
    plans = [event["plan"] for event in run if "plan" in event]
    return dict(plans[-1]) if plans else {}


def anchors_of(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the texts that passages are measured against: a person's demands, and the plan's queries.

    Follow-up queries that a rule or a model made up are not among them: a search could else raise its confidence by
    asking easier questions.
    """
    plan = plan_of(events)
    demands = [event["text"] for event in searches(events) if event["why"] == "feedback"]
    return list(dict.fromkeys([plan["query"], *plan["queries"], *demands]))


def findings(events: Sequence[Mapping[str, Any]], *, until: int | None = None) -> list[RetrievedPassage]:
    """Return the passages found up to a round, as `ranked`; none where they are withheld.

    Args:
        events: The record, or events that are still to be recorded.
        until: The last round that counts; default: all.
    """
    passages = ranked(events, until=until)
    return [] if withheld(passages, plan_of(events)) else passages


def withheld(passages: Sequence[RetrievedPassage], plan: Mapping[str, Any]) -> bool:
    """Return True if the passages so improbably hold the answer, to any part, that nobody is shown them."""
    surest = max([_confidence_in_all(passages, plan), *part_confidences(passages, plan).values()])
    return bool(passages) and surest < plan.get("nothing_under", 0.0)


def ranked(events: Sequence[Mapping[str, Any]], *, until: int | None = None) -> list[RetrievedPassage]:
    """Return the passages found up to a round, each once, best first by their `score`, cut to the plan's `top_k`.

    Where the search reranks, the most relevant lead, whichever query found them; else those that the searches ranked
    highest. Of each part of a question the closest passage is among them.

    Args:
        events: The record, or events that are still to be recorded.
        until: The last round that counts; default: all.
    """
    highest: dict[str, float] = {}
    passages: dict[str, dict[str, Any]] = {}
    for search in searches(events, until=until):
        for document in search.get("documents", []):
            key, score = document["id"], document["score"]
            before = passages.get(key, {"score": 0.0, "similarity": 0.0, "found_by": []})
            leads = score > highest.get(key, -inf)
            highest[key] = max(score, highest.get(key, -inf))
            passages[key] = {
                **{name: document[name] for name in ("id", "text", "source")},
                "heading": document.get("heading", ""),
                **place_of(document),
                "score": score + before["score"],
                "similarity": max(document["similarity"], before["similarity"]),
                "parts": document.get("parts", []),
                "sub_query": search["text"] if leads else before["sub_query"],
                "found_by": list(dict.fromkeys([*before["found_by"], *document.get("found_by", [])])),
            }
    plan = plan_of(events)
    ranking = sorted(passages.values(), key=lambda one: (-round(one["score"], 9), -one["similarity"]))
    if plan.get("reranked"):
        for one in ranking:
            one["score"] = relevance(plan["query"], passage(one["text"], one["heading"]), one["similarity"])
        ranking.sort(key=lambda one: -one["score"])  # of equal ones that which the searches ranked higher
    parts = zip(*(one["parts"] for one in ranking), strict=True)
    closest = {ranking[near.index(max(near))]["id"] for near in parts}
    chosen = sorted(ranking, key=lambda one: one["id"] not in closest)[: plan.get("top_k", 5)]
    return [RetrievedPassage(**one) for one in sorted(chosen, key=lambda one: -one["score"])]


def confidence(passages: Sequence[RetrievedPassage], plan: Mapping[str, Any]) -> float:
    """Return the confidence in passages, best first, 0–1; 0 where there are none.

    With a calibrated model it is the probability that one of them answers the question; else their mean similarity. It
    is never more than that in a part of the question that is open.
    """
    parts = part_confidences(passages, plan)
    return min([_confidence_in_all(passages, plan), *(parts[part] for part in open_parts(passages, plan))])


def part_confidences(passages: Sequence[RetrievedPassage], plan: Mapping[str, Any]) -> dict[str, float]:
    """Return the confidence that passages answer each part of a question; empty where it has no parts.

    Without a calibrated model it is the mean similarity of those that are closest to that part.
    """
    name, parts = plan.get("calibration"), plan.get("parts", [])
    values: dict[str, float] = {}
    for number, (part, measured) in enumerate(parts):
        near = [one for one in passages if name or one.parts[number] == max(one.parts)]
        similarities = [one.parts[number] for one in near]
        texts = [passage(one.text, one.heading) for one in near]
        value = CALIBRATIONS[name].probability if name and near else None
        values[part] = round(value(measured, texts, similarities) if value else fmean(similarities or [0.0]), 6)
    return values


def open_parts(passages: Sequence[RetrievedPassage], plan: Mapping[str, Any]) -> list[str]:
    """Return the parts of a question that passages so improbably answer that this is nothing found."""
    least = plan.get("nothing_under", plan["threshold"])
    return [part for part, value in part_confidences(passages, plan).items() if value < least]


def _confidence_in_all(passages: Sequence[RetrievedPassage], plan: Mapping[str, Any]) -> float:
    if not passages:
        return 0.0
    if name := plan.get("calibration"):
        texts = [passage(item.text, item.heading) for item in passages]
        return round(CALIBRATIONS[name].probability(plan["query"], texts, [item.similarity for item in passages]), 6)
    return round(fmean(item.similarity for item in passages), 6)


def distinct_sources(passages: Sequence[RetrievedPassage]) -> int:
    """Return the number of documents that the passages come from; one without a source counts as its own."""
    return len({item.source or item.id for item in passages})


def rendered(events: Sequence[Mapping[str, Any]], *, until: int | None = None) -> str:
    """Return the passages found up to a round numbered and with their sources, as a prompt can hold them."""
    passages = findings(events, until=until)
    if not passages:
        return NOTHING_CLOSE if ranked(events, until=until) else NOTHING_FOUND
    numbered = [
        f"[{number}] {item.source or 'unnamed source'}{paged(item.page)}\n{passage(item.text, item.heading)}"
        for number, item in enumerate(passages, start=1)
    ]
    return "\n\n".join([*numbered, *filter(None, [nothing_for(open_parts(passages, plan_of(events)))])])


class RetrievalResult(BaseModel, frozen=True):
    """A search as a whole."""

    query: str
    plan: dict[str, Any]
    """`complexity`, `strategy`, `reason`, `queries`, `context` (terms taken from what was said before), `threshold`,
    `top_k`, and `searched_on`: whether follow-up queries may be asked for; `asked`, where the call had numbers of its
    own."""
    results: list[RetrievedPassage]
    """Best first; empty where nothing was found, or a person wrote the answer in place of it."""
    withheld: list[RetrievedPassage] = []
    """Found in place of results, and so improbable to hold an answer that nobody is shown them."""
    iterations: int
    """How often follow-up queries were asked for."""
    confidence: float
    """Probability that a passage answers the query, 0–1; without a calibrated reranker their mean similarity."""
    confidence_met: bool
    """True if that reaches the plan's threshold."""
    parts: dict[str, float] = {}
    """The confidence in each part of a question that consists of several."""
    open_parts: list[str] = []
    """Those that nothing was found for; the whole is no surer than they are."""
    stop_reason: str | None
    seconds: float
    """Spent in searches, models and critics; a pause costs nothing."""
    queries_run: int
    failed_queries: int
    """Of these, how many raised an error; the events say which."""
    documents_seen: int
    """Passages that all queries returned together, each time counted."""
    unique_passages: int
    """Of these, how many differ."""
    unique_documents: int
    """Documents that the results come from."""
    usage: dict[str, Any]


def retrieval_result(output: Mapping[str, Any]) -> RetrievalResult:
    """Return the result of a search, for the draft that is its answer; of an answer by passages that of its search.

    Args:
        output: What the graph returned, or any mapping with its `events`.

    Raises:
        ValueError: The record holds no search.
    """
    events = output.get("events") or []
    plan = plan_of(events)
    looked_up: Mapping[str, Any] = latest_retrieval(events) or {}
    if not plan and (search := looked_up.get("search")):
        shown = [{"heading": "", "sub_query": search["query"], **one} for one in looked_up["documents"]]
        return RetrievalResult(**search, results=[RetrievedPassage(**one) for one in shown])
    if not plan:
        raise ValueError("these events hold no plan of a search; give the output of a retrieval graph")
    answer = best_draft(events, keep=run_options(events).get("keep", "best"))
    best = ranked(events, until=answer.round) if answer else []
    if answer is not None and rendered(events, until=answer.round) != answer.text:
        best = []
    hidden = withheld(best, plan)
    results = [] if hidden else best
    run = searches(events)
    hits = [document["id"] for event in run for document in event.get("documents", [])]
    value = confidence(best, plan)
    usage = usage_total(events)
    return RetrievalResult(
        query=plan["query"],
        plan=plan,
        results=results,
        withheld=best if hidden else [],
        iterations=rounds(events),
        confidence=value,
        confidence_met=bool(results) and value >= plan["threshold"],
        parts=part_confidences(best, plan),
        open_parts=open_parts(best, plan),
        stop_reason=output.get("stop_reason"),
        seconds=usage["seconds"],
        queries_run=len(run),
        failed_queries=sum("failed" in event for event in run),
        documents_seen=len(hits),
        unique_passages=len(set(hits)),
        unique_documents=distinct_sources(results),
        usage=dict(usage),
    )


def as_retriever(graph: Runnable[Any, Any], *, name: str = "retrieval") -> GraphRetriever:
    """Return a LangChain retriever that runs a search graph for each query.

    Its documents have `id`, `source`, `heading`, `score`, `similarity`, `sub_query` and `found_by` in their metadata,
    `page`, `line` and `url` where they are known, and what their user had put there; what had one of these names stands
    in `metadata` there. A single call may ask for more or closer ones:
    `invoke(query, top_k=20, confidence_threshold=0.5)`.

    Args:
        graph: Of `build_retrieval_graph`. In a node of another graph its checkpoints are that graph's; one with a
            checkpointer of its own needs a thread in the config of each call.
        name: How traces and events name it.
    """
    return GraphRetriever(graph=graph, name=name)


class GraphRetriever(DualRetriever):
    """Runs a search graph and returns its passages; see `as_retriever`."""

    graph: Runnable[Any, Any]

    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:  # noqa: A002
        """Return the passages for a query; the graph runs with `configurable` of the config."""
        return super().invoke(input, config, **{**_thread(config), **kwargs})

    async def ainvoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:  # noqa: A002
        """Async twin of `invoke`."""
        return await super().ainvoke(input, config, **{**_thread(config), **kwargs})

    def logic(
        self, query: str, callbacks: Any, *, configurable: dict[str, Any] | None = None, **options: Any
    ) -> Generator[Do, Any, list[Document]]:
        """Run the graph, and return its passages."""
        config = {"callbacks": callbacks, **({"configurable": configurable} if configurable else {})}
        output = yield do(self.graph, "invoke", {"task": query, **options}, config)
        result = retrieval_result(output)
        gaps = {"gaps": result.open_parts} if result.open_parts else {}
        documents = FoundDocuments()
        documents.search = result.model_dump(mode="json", exclude={"results", "withheld"})
        for found in result.results:
            ours = found.model_dump(exclude={"text", "parts", "metadata"}, exclude_none=True)
            own = {name: value for name, value in found.metadata.items() if name in ours}
            metadata = {**found.metadata, **ours, **gaps, **({"metadata": own} if own else {})}
            documents.append(Document(found.text, metadata=metadata))
        return documents


def _thread(config: RunnableConfig | None) -> dict[str, Any]:
    configurable = dict((config or {}).get("configurable") or {})
    return {"configurable": configurable} if "thread_id" in configurable else {}
