"""The result of a search, computed from its record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from ...state.summary import best_draft, rounds, run_options, usage_total
from .findings import confidence, distinct_sources, findings, plan_of, rendered, searches

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RetrievalResult", "RetrievedPassage", "retrieval_result"]


class RetrievedPassage(BaseModel):
    """One passage of the result."""

    model_config = ConfigDict(frozen=True)

    id: str
    text: str
    source: str
    heading: str
    score: float
    """Rank score over all queries; it only ranks."""
    similarity: float
    """Cosine, 0–1, with the closest of what was asked."""
    sub_query: str
    """The query that ranked it highest."""


class RetrievalResult(BaseModel):
    """A search as a whole."""

    model_config = ConfigDict(frozen=True)

    query: str
    plan: dict[str, Any]
    """`complexity`, `strategy`, `queries`, `context` (terms taken from what was said before), `threshold`, `top_k`, and
    `searched_on`: whether follow-up queries may be asked for."""
    results: list[RetrievedPassage]
    """Best first; empty where a person wrote the answer in place of what was found."""
    iterations: int
    """How often follow-up queries were asked for."""
    confidence: float
    """Mean similarity of the results, 0–1."""
    confidence_met: bool
    """Whether that reaches the plan's threshold."""
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
    """Return the result of a search, for the draft that is its answer.

    Args:
        output: What the graph returned, or any mapping with its `events`.

    Raises:
        ValueError: The record holds no search.
    """
    events = output.get("events") or []
    plan = plan_of(events)
    if not plan:
        raise ValueError("these events hold no plan of a search; give the output of a retrieval graph")
    answer = best_draft(events, keep=run_options(events).get("keep", "best"))
    found = findings(events, until=answer.round) if answer else []
    if answer is not None and rendered(found) != answer.text:
        found = []
    run = searches(events)
    hits = [document["id"] for one in run for document in one.get("documents", [])]
    value = confidence(found)
    usage = usage_total(events)
    return RetrievalResult(
        query=plan["query"],
        plan=plan,
        results=[RetrievedPassage(**vars(one)) for one in found],
        iterations=rounds(events),
        confidence=value,
        confidence_met=bool(found) and value >= plan["threshold"],
        stop_reason=output.get("stop_reason"),
        seconds=usage["seconds"],
        queries_run=len(run),
        failed_queries=sum("failed" in one for one in run),
        documents_seen=len(hits),
        unique_passages=len(set(hits)),
        unique_documents=distinct_sources(found),
        usage=dict(usage),
    )
