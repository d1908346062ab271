"""From a query to a plan: how complex it is, which sub-queries it becomes, and in what order they run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

from langgraph.errors import GraphBubbleUp
from pydantic import BaseModel, Field

from ..meter import METER
from .confidence import adapted_threshold
from .search import failed
from .terms import key_terms, leans, normalized
from .twofold import Do, Twofold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.prompts import ChatPromptTemplate

    from ..structured_replies import StructuredModel
    from .twofold import Work

__all__ = ["Planner", "QueryPlan", "plan_by_rules"]

MOST_SUB_QUERIES = 5
MOST_SAID = 6
"""Earlier questions that a plan looks back on."""


class QueryPlan(BaseModel):
    """How a query is searched for."""

    complexity: Literal["simple", "moderate", "complex"] = Field(
        description="simple: one fact; moderate: several facts on one matter; complex: a comparison or several matters."
    )
    strategy: Literal["parallel", "sequential"] = Field(
        description="parallel when the sub-queries stand alone, sequential when a later one follows from an earlier."
    )
    queries: list[str] = Field(description="One to four short search queries that together cover the question.")


class Planner(Twofold):
    """The `prepare` step of a search: plans it, and lets a simple query skip iteration.

    Args:
        model: Plans; `None` plans by rules. One that fails or can't be read is replaced by the rules, and the record
            says so.
        template: What the model is asked: `task`, and `history` for what was said before.
        top_k: Kept in the plan: the most passages in the result.
        threshold: Kept in the plan: the confidence that ends the search.
        adaptive: Whether the threshold follows the query's complexity.
        iterative: `False` runs the plan once and refines nothing.

    Reads: task, events, limits, conversation, plan. Writes: plan, limits, events.

    Raises:
        ValueError: At run: `conversation` is not a list of texts.
    """

    def __init__(
        self,
        model: StructuredModel[QueryPlan] | None,
        template: ChatPromptTemplate,
        *,
        top_k: int,
        threshold: float,
        adaptive: bool,
        iterative: bool,
    ) -> None:
        self._model = model
        self._template = template
        self._top_k = top_k
        self._threshold = threshold
        self._adaptive = adaptive
        self._iterative = iterative

    def work(self, state: Mapping[str, Any]) -> Work:
        """Plan, and note the plan."""
        start = perf_counter()
        query = state["task"]
        earlier = [event["text"] for event in state["events"] if event["kind"] == "task"][:-1]
        said = [*_said(state.get("conversation")), *earlier][-MOST_SAID:]
        plan = plan_by_rules(query, said)
        event: dict[str, Any] = {"kind": "retrieval", "round": 0, "by": "rules"}
        if self._model is not None:
            messages = self._template.format_messages(
                task=query, history="\n".join(f"- {one}" for one in said) or "(nothing)", draft="", feedback="", round=0
            )
            try:
                read: QueryPlan = yield Do(self._model.invoke, self._model.ainvoke, (messages,))
                # The question itself stays among the queries, whatever a model makes of it.
                plan |= _checked(read, own=_whole(query, plan))
                event["by"] = "model"
            except GraphBubbleUp:
                raise
            except Exception as error:
                event = failed("plan", 0, error, by="rules")
        threshold = self._threshold
        plan["threshold"] = adapted_threshold(threshold, plan["complexity"]) if self._adaptive else threshold
        plan["top_k"] = self._top_k
        rounds = _rounds(state)
        skips = not self._iterative or plan["complexity"] == "simple"
        plan["skips"] = rounds if skips else None
        event["text"] = f"{plan['complexity']}, {plan['strategy']}: " + " | ".join(plan["queries"])
        event["plan"] = plan
        if (meter := METER.get()) is not None:
            event["usage"] = meter.usage(seconds=perf_counter() - start)
        return {
            "plan": plan,
            "limits": {**state["limits"], "max_rounds": 0 if skips else rounds},
            "events": [event],
        }


def plan_by_rules(query: str, said: Sequence[str] = ()) -> dict[str, Any]:
    """Return a plan made without a model.

    Several questions become one query each; a comparison becomes the question and a query for each side; "first X,
    then Y" runs in that order. A query that leans on what was said gets key terms of the last thing said. One question
    of at most two key terms is simple; three parts, or a comparison, are complex.

    Args:
        query: What is asked.
        said: What was said before, oldest first.
    """
    one_line = " ".join(query.split())
    context: list[str] = []
    if leans(one_line, said):
        known = set(key_terms(one_line))
        context = [term for term in key_terms(said[-1]) if term not in known][:4]
    strategy = "parallel"
    if compared := COMPARISON.search(one_line):
        sides = [side.strip(" ,?.!") for side in compared.groups() if side]
        queries, complexity = [one_line, *sides], "complex"
    else:
        ordered = SEQUENCE.split(one_line)
        parts = ordered if len(ordered) > 1 else QUESTIONS.split(one_line)
        strategy = "sequential" if len(ordered) > 1 else "parallel"
        queries = [kept for part in parts if key_terms(kept := FIRST.sub("", part).strip(" ,;.!?"))] or [one_line]
        if len(queries) == 1:
            queries = [one_line]
            complexity = "simple" if len(key_terms(one_line)) <= 2 else "moderate"
        else:
            complexity = "moderate" if len(queries) == 2 else "complex"
    if context:
        asked = CONTINUED.sub("", queries[0])
        queries = [f"{asked.rstrip(' ?.!')} {' '.join(context)}", *queries[1:]]
    return {
        "query": one_line,
        "complexity": complexity,
        "strategy": strategy if len(queries) > 1 else "parallel",
        "queries": _distinct(queries),
        "context": context,
        "terms": sorted({*key_terms(one_line), *context}),
    }


def _whole(query: str, plan: Mapping[str, Any]) -> str:
    """Return the question in one piece, with the terms that it takes from what was said."""
    return " ".join([query.rstrip(" ?.!") if plan["context"] else query, *plan["context"]])


def _checked(read: QueryPlan, *, own: str) -> dict[str, Any]:
    queries = [" ".join(query.split()) for query in read.queries if query.strip()]
    if not queries:
        raise ValueError("the model's plan holds no query")
    return {"complexity": read.complexity, "strategy": read.strategy, "queries": _distinct([own, *queries])}


def _distinct(queries: Sequence[str]) -> list[str]:
    found: dict[str, str] = {}
    for query in queries:
        found.setdefault(normalized(query), query)
    return list(found.values())[:MOST_SUB_QUERIES]


def _said(conversation: object) -> list[str]:
    if conversation is None:
        return []
    if not isinstance(conversation, list | tuple):
        raise ValueError(f"conversation must be a list of texts, oldest first, not {conversation!r}")  # noqa: TRY004
    texts = [one.get("content") if isinstance(one, Mapping) else one for one in conversation]
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(f"conversation must hold texts, or mappings with 'content', not {text!r}")  # noqa: TRY004
    return [text for text in texts if isinstance(text, str) and text.strip()]


def _rounds(state: Mapping[str, Any]) -> int:
    """Return how many rounds are allowed; those that the thread's last task skipped are back."""
    rounds = int(state["limits"]["max_rounds"])
    before = (state.get("plan") or {}).get("skips")
    return before if rounds == 0 and before else rounds


COMPARISON = re.compile(
    r"(?:\bcompare\b\s+(.+?)\s+(?:and|with|to)\s+(.+)|\bdifferences?\s+between\s+(.+?)\s+and\s+(.+)"
    r"|(.+?)\s+(?:vs\.?|versus)\s+(.+))",
    re.IGNORECASE,
)
SEQUENCE = re.compile(r"[,;.]?\s+(?:and\s+)?(?:then|after that|afterwards)\s+", re.IGNORECASE)
QUESTIONS = re.compile(
    r"\?\s+|;\s+|,?\s+and\s+(?=(?:how|what|when|where|which|who|why|can|does|do|is|are)\b)", re.IGNORECASE
)
FIRST = re.compile(r"^\s*(?:first(?:ly)?,?|and)\s+", re.IGNORECASE)
CONTINUED = re.compile(r"^\s*(?:and|also|but|or|then)\b[\s,]*", re.IGNORECASE)
