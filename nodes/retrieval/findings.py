"""Findings: folds over the `retrieval` events of the current task."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ...state.summary import current_run
from .documents import passage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "NOTHING_FOUND",
    "Finding",
    "anchors_of",
    "confidence",
    "distinct_sources",
    "findings",
    "plan_of",
    "rendered",
    "searches",
]

NOTHING_FOUND = "(The search found no passage.)"


@dataclass(frozen=True)
class Finding:
    """One passage, with what it is worth over all queries that found it."""

    id: str
    text: str
    source: str
    heading: str
    score: float
    """Sum of its rank scores. It only ranks."""
    similarity: float
    """Cosine, 0–1, with the closest of what was asked."""
    sub_query: str
    """The query that ranked it highest."""


def searches(events: Sequence[Mapping[str, Any]], *, until: int | None = None) -> list[Mapping[str, Any]]:
    """Return the events of the queries that were run, failed ones too.

    Args:
        events: The record.
        until: The last round that counts; default: all.
    """
    run: Sequence[Any] = current_run(events)  # type: ignore[arg-type]  # also over events that are not sealed yet
    return [one for one in run if "why" in one and (until is None or one["round"] <= until)]


def plan_of(events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the plan of the current task; empty before there is one."""
    run: Sequence[Any] = current_run(events)  # type: ignore[arg-type]  # as above
    plans = [one["plan"] for one in run if "plan" in one]
    return dict(plans[-1]) if plans else {}


def anchors_of(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what passages are measured against: what a person asked, and the plan's queries.

    Follow-up queries that a rule or a model made up are not among them: a search could else raise its confidence by
    asking easier questions.
    """
    plan = plan_of(events)
    asked = [one["text"] for one in searches(events) if one["why"] == "feedback"]
    return list(dict.fromkeys([plan["query"], *plan["queries"], *asked]))


def findings(events: Sequence[Mapping[str, Any]], *, until: int | None = None) -> list[Finding]:
    """Return the passages found up to a round, each once, best first, cut to the plan's `top_k`.

    Args:
        events: The record, or events that are still to be recorded.
        until: The last round that counts; default: all.
    """
    best: dict[str, tuple[float, Finding]] = {}
    for search in searches(events, until=until):
        for document in search.get("documents", []):
            before = best.get(document["id"])
            own = document["score"]
            leads = before is None or own > before[0]
            best[document["id"]] = (
                own if before is None else max(own, before[0]),
                Finding(
                    id=document["id"],
                    text=document["text"],
                    source=document["source"],
                    heading=document.get("heading", ""),
                    score=own + (before[1].score if before else 0.0),
                    similarity=max(document["similarity"], before[1].similarity if before else 0.0),
                    sub_query=search["text"] if leads or before is None else before[1].sub_query,
                ),
            )
    # Equal ranks are told apart by similarity, then by who came first.
    ranked = sorted((found for _, found in best.values()), key=lambda one: (-round(one.score, 9), -one.similarity))
    return ranked[: plan_of(events).get("top_k", 5)]


def confidence(found: Sequence[Finding]) -> float:
    """Return the mean similarity of the passages, 0–1; 0 where there are none."""
    return round(fmean(one.similarity for one in found), 6) if found else 0.0


def distinct_sources(found: Sequence[Finding]) -> int:
    """Return how many documents the passages come from; one without a source counts as its own."""
    return len({one.source or one.id for one in found})


def rendered(found: Sequence[Finding]) -> str:
    """Return the passages numbered and with their sources, as a prompt can hold them."""
    if not found:
        return NOTHING_FOUND
    return "\n\n".join(
        f"[{number}] {one.source or 'unnamed source'}\n{passage(one.text, one.heading)}"
        for number, one in enumerate(found, start=1)
    )
