"""Search rounds: the plan's queries first, then follow-up queries, until the search is over. Internal."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Annotated, Any, NotRequired

from langchain_core.messages import BaseMessage
from langchain_core.prompts import ChatPromptTemplate
from langgraph.channels.ephemeral_value import EphemeralValue
from pydantic import BaseModel, Field

from ..nodes.critics.structured_replies import StructuredModel
from ..nodes.runtime.step import tolerated
from ..nodes.writing.prompt_injection import fenced_messages
from ..state.dual import Do, DualCallable
from ..state.events import Event
from ..state.schema import RefineInput, RefineState
from ..state.stopping import StopReason, decide
from ..state.summary import Attempt, latest_draft, rounds
from .documents import passage
from .findings import (
    RetrievedPassage,
    anchors_of,
    confidence,
    distinct_sources,
    plan_of,
    ranked,
    rendered,
    searches,
)
from .follow_ups import Patterns, Situation, by_rules, new_queries
from .planning import MOST_CHARACTERS, frequent_terms
from .search import Query, Search, failed

__all__ = ["FirstSearch", "GapAnalysis", "RetrievalInput", "RetrievalState", "SearchOn", "search_is_over", "summary"]


class RetrievalInput(RefineInput):
    """The input of a search. `conversation` stays with the thread until it is given again."""

    conversation: NotRequired[list[Any]]
    """The conversation before the query, oldest first: texts, or mappings with `content`."""
    top_k: NotRequired[Annotated[int, EphemeralValue]]
    """The most passages in the result of this call, in place of the graph's."""
    confidence_threshold: NotRequired[Annotated[float, EphemeralValue]]
    """The confidence, 0–1, that ends the search of this call, in place of the graph's."""


class RetrievalState(RefineState, total=False):
    """The state of a search."""

    conversation: list[Any]
    # For one step, in which the plan takes them: they are of one call, and not of the thread.
    top_k: Annotated[int, EphemeralValue]
    confidence_threshold: Annotated[float, EphemeralValue]
    plan: dict[str, Any]
    """How the query is searched for; the record holds it too."""


class FirstSearch(DualCallable[[Mapping[str, Any]], dict[str, Any]]):
    """The `generate` step of a search: runs the plan's queries, and those that helped such a query before.

    Args:
        search: Runs them.
        patterns: Knows what helped.

    It asks no model, so it is made also where planning has spent the budget.

    Reads: events. Writes: events.

    Raises:
        Exception: At run: whatever the retriever raises; the thread resumes from here.
    """

    def __init__(self, search: Search, patterns: Patterns) -> None:
        self.__name__ = "search"  # how its draft is signed
        self.asks_no_model = True
        self.no_draft = "a search begins with what it finds"
        self._search = search
        self._patterns = patterns

    def logic(self, state: Mapping[str, Any]) -> Generator[Do, Any, dict[str, Any]]:
        """Search, and return the passages as the draft."""
        events = state["events"]
        plan = plan_of(events)
        queries = [Query(text, "plan") for text in plan["queries"]]
        notes: list[dict[str, Any]] = []
        helpful = yield from tolerated(
            self._patterns.recall(plan["terms"]),
            instead=[],
            note=lambda error: notes.append(failed("patterns", 0, error)),
        )
        queries += [query for query in helpful if query.text not in plan["queries"]]
        how = {"top_k": plan["top_k"], "parallel": plan["strategy"] == "parallel", "strict": True}
        how["parts"] = [measured for _, measured in plan.get("parts", [])]
        searched = yield from self._search.logic(
            queries, anchors_of(events), 0, **how, depth=depth_of(plan, FIRST_DEPTH)
        )
        return {"draft": rendered([*events, *searched]), "events": [*notes, *searched]}


FIRST_DEPTH = 20
"""Passages that a query's reranking measures."""
DEEPER = 60
"""Passages that are measured where the confidence in the first is low."""
WORTH_REMEMBERING = 0.005
"""How much a follow-up query must raise the confidence to count as one that helped."""
MOST_GAPS = 10
"""Gaps that are kept of those that a model names."""
MOST_TERMS = 50
"""Terms of the passages that are measured against the query."""


def depth_of(plan: Mapping[str, Any], depth: int) -> int:
    """Return the number of passages that a query measures: none beyond its result where the plan does not rerank."""
    return depth if plan.get("reranked") else 0


class GapAnalysis(BaseModel):
    """What is missing first, then the queries that could find it."""

    gaps: list[str] = Field(description="What the question asks for and the passages do not say.")
    queries: list[str] = Field(description="At most three new search queries, each for one of the gaps.")


class SearchOn(DualCallable[[Mapping[str, Any]], dict[str, Any]]):
    """The `refine` step of a search: proposes follow-up queries, runs them, and ranks all that was found anew.

    A model that fails, can't be read, or proposes nothing new is replaced by the rules; a query that fails is told in
    the record, and the search goes on with the others. With nothing new to ask or nothing new found the passages stay
    as they are, which ends the run with `no_progress`.

    Args:
        search: Runs the queries.
        patterns: Notes which of them helped.
        model: Proposes queries; `None` leaves that to the rules.
        template: What the model is asked: `task`, `history` (the queries run), `draft` (a summary of what was found)
            and `feedback`.

    Reads: events. Writes: events.
    """

    def __init__(
        self,
        search: Search,
        patterns: Patterns,
        model: StructuredModel[GapAnalysis] | None,
        template: ChatPromptTemplate,
    ) -> None:
        self._search = search
        self._patterns = patterns
        self.model = model
        self.templates = [] if model is None else [template]

    def logic(self, state: Mapping[str, Any]) -> Generator[Do, Any, dict[str, Any]]:
        """Search on, and return the passages as the draft."""
        events: Sequence[Event] = state["events"]
        number = rounds(events) + 1
        latest = latest_draft(events)
        if latest is None:
            raise ValueError("there is no draft to search on from")
        before, plan = ranked(events), plan_of(events)
        news: list[dict[str, Any]] = []
        deeper = self._deeper(events, plan, latest)
        queries = [] if deeper else (yield from self._proposed(state["task"], events, latest, news))
        if not deeper and not queries:
            news.append(
                {
                    "kind": "retrieval",
                    "round": number,
                    "by": "refine",
                    "text": "No follow-up query is left that was not run already.",
                }
            )
            return {"draft": latest.text, "events": news}
        # What a person asks for counts as asked from here on.
        demands = [query.text for query in queries if query.why == "feedback"]
        anchors = list(dict.fromkeys([*anchors_of(events), *demands]))
        how = {
            "top_k": plan["top_k"],
            "parallel": True,
            "strict": False,
            "parts": [measured for _, measured in plan.get("parts", [])],
        }
        depth = depth_of(plan, DEEPER if deeper else FIRST_DEPTH)
        searched = yield from self._search.logic([*deeper, *queries], anchors, number, **how, depth=depth)
        yield from self._learn(events, before, searched, news, number)
        after = ranked([*events, *searched])
        same = {item.id for item in after} == {item.id for item in before} and latest.text == rendered(events)
        return {"draft": latest.text if same else rendered([*events, *searched]), "events": [*news, *searched]}

    def _deeper(self, events: Sequence[Event], plan: Mapping[str, Any], latest: Attempt) -> list[Query]:
        """Return the plan's queries, to be searched for deeper; none where that was done, or a reader has a say."""
        if not plan.get("reranked") or self.model is not None or _feedback(latest):
            return []
        done = any(event["why"] == "deeper" for event in searches(events))
        return [] if done else [Query(text, "deeper") for text in plan["queries"]]

    def _proposed(
        self, task: str, events: Sequence[Event], latest: Attempt, news: list[dict[str, Any]]
    ) -> Generator[Do, Any, list[Query]]:
        """Return the follow-up queries, by the model or by rules; what there is to tell is added to `news`."""
        number, passages, plan = rounds(events) + 1, ranked(events), plan_of(events)
        run = [one["text"] for one in searches(events)]
        feedback = _feedback(latest)
        if self.model is not None:
            messages = fenced_messages(
                self.templates[0],
                {
                    "task": task,
                    "history": "\n".join(f"- {query}" for query in run),
                    "draft": summary(passages, plan),
                    "feedback": "\n".join(feedback) or "(none)",
                    "round": number,
                },
            )
            gap = yield from tolerated(
                _gap_analysis(self.model, messages),
                instead=None,
                note=lambda error: news.append(
                    failed("refine", number, error, text="The model failed; the rules propose the queries.")
                ),
            )
            if gap is not None:
                proposals = [Query(text[:MOST_CHARACTERS], "model") for text in gap.queries]
                queries = new_queries(proposals, run=run)
                gaps = [one[:MOST_CHARACTERS] for one in gap.gaps[:MOST_GAPS]]
                text = "; ".join(gaps) if queries else "It proposes no new query; the rules do."
                news.append({"kind": "retrieval", "round": number, "by": "model", "text": text, "gaps": gaps})
                if queries:
                    return queries
        if plan.get("reranked") and not feedback:
            return []  # the deeper search takes the place of what the rules would ask
        terms = frequent_terms((passage(one.text, one.heading) for one in passages), besides=plan["terms"])[:MOST_TERMS]
        order = yield from tolerated(
            self._patterns.helpful_rules(),
            instead=[],
            note=lambda error: news.append(failed("patterns", number, error)),
        )
        terms = yield from tolerated(
            self._closest_first(terms, plan["queries"]),
            instead=terms,
            note=lambda error: news.append(failed("rules", number, error)),
        )
        sure = bool(passages) and confidence(passages, plan) >= plan["threshold"]
        situation = Situation(plan["queries"], passages, sure, plan["top_k"], terms, feedback)
        return by_rules(situation, run=run, order=order)

    def _closest_first(self, terms: Sequence[str], queries: Sequence[str]) -> Generator[Do, Any, list[str]]:
        close = yield from self._search.similarity.logic(terms, queries)
        return [term for _, term in sorted(zip(close, terms, strict=True), key=lambda pair: -pair[0])]

    def _learn(
        self,
        events: Sequence[Event],
        before: Sequence[RetrievedPassage],
        searched: Sequence[Mapping[str, Any]],
        news: list[dict[str, Any]],
        number: int,
    ) -> Generator[Do, Any, None]:
        gains: dict[Query, float] = {}
        plan = plan_of(events)
        for event in searched:
            # What one person missed is no rule for others, and is measured against other questions.
            if event["why"] not in ("feedback", "deeper") and "documents" in event:
                gain = confidence(ranked([*events, event]), plan) - confidence(before, plan)
                gains[Query(event["text"], event["why"])] = gain if gain >= WORTH_REMEMBERING else 0.0
        yield from tolerated(
            self._patterns.learn(plan["terms"], gains),
            instead=None,
            note=lambda error: news.append(failed("patterns", number, error)),
        )


def summary(passages: Sequence[RetrievedPassage], plan: Mapping[str, Any]) -> str:
    """Return a summary of the passages: how many, how close, and the beginnings of the five best passages."""
    return "\n".join(
        [
            f"{len(passages)} passages of {distinct_sources(passages)} documents, "
            f"confidence {confidence(passages, plan):.2f} of 1.",
            *(
                f"[{rank}] similarity {item.similarity:.2f}, score {item.score:.4f}, {item.source}: "
                f"{' '.join(item.text.split())[:150]}"
                for rank, item in enumerate(passages[:5], start=1)
            ),
        ]
    )


def _gap_analysis(
    model: StructuredModel[GapAnalysis], messages: Sequence[BaseMessage]
) -> Generator[Do, Any, GapAnalysis | None]:
    gap: GapAnalysis = yield Do(model.invoke, model.ainvoke, (messages,))
    return gap


def _feedback(latest: Attempt) -> list[str]:
    """Return the objections of those who read the passages; a program is not one of them."""
    return [
        critique["text"]
        for critique in latest.critiques
        if not critique.get("verifier") and critique.get("accepted") is False and critique["text"].strip()
    ]


def search_is_over(state: Mapping[str, Any]) -> StopReason | None:
    """Return why the search ends now, or `None` when follow-up queries are due.

    A query that is searched for once, for it is simple or `iterative` is off, ends as `max_rounds`, unless a person
    objected to what was found: that is searched for, while rounds are left.
    """
    events = state["events"]
    reason = decide(events, state["limits"])
    if reason is None and not plan_of(events).get("searched_on", True):
        latest = latest_draft(events)
        objected = latest is not None and any(
            one["kind"] == "human" and one.get("accepted") is not True for one in latest.deciding
        )
        return None if objected else "max_rounds"
    return reason
