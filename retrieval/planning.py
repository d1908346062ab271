"""Query planning: key terms, complexity, sub-queries, and the order in which they run. Internal."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from itertools import pairwise
from time import perf_counter
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.prompts import ChatPromptTemplate
from langgraph.errors import GraphBubbleUp
from pydantic import BaseModel, Field

from ..nodes.arguments import checked_count, checked_share
from ..nodes.critics.structured_replies import StructuredModel
from ..nodes.runtime.meter import METER
from ..nodes.writing.prompt_injection import fenced_messages
from ..nodes.writing.replies import read_text
from ..state.dual import Do, DualCallable
from .calibration import key_terms
from .search import failed

__all__ = [
    "ADAPTATION",
    "MOST_CHARACTERS",
    "Planner",
    "QueryPlan",
    "frequent_terms",
    "leans",
    "normalized",
    "plan_by_rules",
    "without_modifiers",
]


ADAPTATION = {"simple": 0.1, "moderate": 0.0, "complex": -0.1}
"""A simple query is met in the words of one passage; what a complex one asks for is spread over several."""


MOST_CHARACTERS = 500
"""Of a query that is taken apart, of one that a model made up, and of its reason."""


def frequent_terms(texts: Iterable[str], *, besides: Collection[str]) -> list[str]:
    """Return the key terms that most of the texts hold, the most shared first, without other forms of those given."""
    counts = Counter(term for text in texts for term in key_terms(text) if term.isalpha() and len(term) > 2)
    stems = {term[:5] for term in besides}
    begun = {stem[:length] for stem in stems for length in range(1, 6)}
    return [
        term
        for term, _ in counts.most_common()
        if term[:5] not in begun and stems.isdisjoint(term[:length] for length in range(1, 6))
    ]


def normalized(query: str) -> str:
    """Return a query as it counts for "already run": without case, surplus white space and final punctuation."""
    return " ".join(query.split()).casefold().rstrip(" ?.!")


def without_modifiers(query: str) -> str:
    """Return the query without words that judge instead of naming: "best Python framework" → "Python framework"."""
    return " ".join(word for word in query.split() if word.casefold().strip(",.!?\"'") not in MODIFIERS)


def leans(query: str, said: Sequence[str]) -> bool:
    """Return True if a query can only be understood after what was said before: "and how do I resume it?"."""
    if not said:
        return False
    if CONTINUES.match(query):
        return True
    return len(key_terms(query)) < 3 and bool(REFERS.search(query))


class QueryPlan(BaseModel):
    """The plan of a query: its complexity, sub-queries and their order, and the reason for it."""

    reason: str = Field(default="", description="Why it is planned so, in one sentence.", max_length=MOST_CHARACTERS)
    complexity: Literal["simple", "moderate", "complex"] = Field(
        description="simple: one fact; moderate: several facts on one matter; complex: a comparison or several matters."
    )
    strategy: Literal["parallel", "sequential"] = Field(
        description="parallel when the sub-queries stand alone, sequential when a later one follows from an earlier."
    )
    queries: list[str] = Field(description="One to four short search queries that together cover the question.")


class Planner(DualCallable[[Mapping[str, Any]], dict[str, Any]]):
    """The `prepare` step of a search: plans it, and says in `searched_on` whether it may go on after the first search.

    A simple query is searched for once, unless passages are reranked.

    Args:
        model: Plans; `None` plans by rules. One that fails or can't be read is replaced by the rules, and the record
            says so.
        template: What the model is asked: `task`, and `history` for what was said before.
        top_k: Kept in the plan, where the caller gives none: the most passages in the result.
        threshold: Kept in the plan, where the caller gives none: the confidence that ends the search.
        adaptive: Whether the threshold follows the query's complexity.
        iterative: `False` runs the plan once and refines nothing.
        measures: Kept in the plan: how passages are ranked and their confidence is read; see `measuring`.

    Reads: task, events, conversation, top_k, confidence_threshold. Writes: plan, events.

    Raises:
        ValueError: At run: `conversation` is not a list of texts, or a number makes no sense.
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
        measures: Mapping[str, Any],
    ) -> None:
        self._measures = dict(measures)
        self.model = model
        self.templates = [] if model is None else [template]
        self._top_k = top_k
        self._threshold = threshold
        self._adaptive = adaptive
        self._iterative = iterative
        self.fingerprint = {
            "top_k": top_k,
            "threshold": threshold,
            "adaptive": adaptive,
            "iterative": iterative,
            **measures,
        }

    def logic(self, state: Mapping[str, Any]) -> Generator[Do, Any, dict[str, Any]]:
        """Plan, and note the plan."""
        start = perf_counter()
        query = state["task"]
        # Kept apart from the graph's own, so that the task can be run once more as it was given.
        overrides = {name: state[name] for name in ASKED if state.get(name) is not None}
        top_k = checked_count("top_k", overrides.get("top_k", self._top_k), least=1)
        threshold = checked_share("confidence_threshold", overrides.get("confidence_threshold", self._threshold))
        earlier = [event["text"] for event in state["events"] if event["kind"] == "task"][:-1]
        said = [*_said(state.get("conversation")), *earlier][-MOST_SAID:]
        plan = plan_by_rules(query, said)
        event: dict[str, Any] = {"kind": "retrieval", "round": 0, "by": "rules"}
        if self.model is not None:
            history = "\n".join(f"- {one}" for one in said) or "(nothing)"
            messages = fenced_messages(
                self.templates[0], {"task": query, "history": history, "draft": "", "feedback": "", "round": 0}
            )
            try:
                read: QueryPlan = yield Do(self.model.invoke, self.model.ainvoke, (messages,))
                # The question itself stays among the queries, whatever a model makes of it, in one piece.
                own = " ".join([query.rstrip(" ?.!") if plan["context"] else query, *plan["context"]])
                queries = [" ".join(text.split())[:MOST_CHARACTERS] for text in read.queries if text.strip()]
                if not queries:
                    raise ValueError("the model's plan holds no query")  # noqa: TRY301  # the rules plan instead
                plan |= {**read.model_dump(), "queries": _distinct([own, *queries])}
                event["by"] = "model"
            except GraphBubbleUp:
                raise
            except Exception as error:
                event = failed("plan", 0, error, by="rules")
        adapted = round(min(1.0, max(0.0, threshold + ADAPTATION[plan["complexity"]])), 6)
        plan["threshold"] = adapted if self._adaptive else threshold
        plan["top_k"] = top_k
        if overrides:
            plan["asked"] = overrides
        plan |= self._measures
        # Where passages are reranked, the second look is deeper, and of use to a simple query too.
        plan["searched_on"] = self._iterative and (plan["complexity"] != "simple" or "reranked" in self._measures)
        event["text"] = f"{plan['complexity']}, {plan['strategy']}: " + " | ".join(plan["queries"])
        event["plan"] = plan
        if (meter := METER.get()) is not None:
            event["usage"] = meter.usage(seconds=perf_counter() - start)
        return {"plan": plan, "events": [event]}


def plan_by_rules(query: str, said: Sequence[str] = ()) -> dict[str, Any]:
    """Return a plan made without a model.

    Several questions become one query each; a comparison becomes the question and a query for each side; "first X,
    then Y" runs in that order. A query that leans on what was said gets key terms of the last thing said. One question
    of at most two key terms is simple, unless it compares or offers a choice; three parts, or a comparison whose sides
    can be told, are complex. More than 500 characters are one moderate query.

    Args:
        query: What is asked.
        said: What was said before, oldest first.
    """
    one_line = " ".join(query.split())
    context: list[str] = []
    if leans(one_line, said):
        own_terms = set(key_terms(one_line))
        context = [term for term in key_terms(said[-1]) if term not in own_terms][:4]
    strategy = "parallel"
    parts: list[str] = []
    if len(one_line) > MOST_CHARACTERS:
        queries, complexity, reason = [one_line], "moderate", "It is too long to be taken apart."
    elif sides := _sides(one_line):
        queries, complexity, reason = [one_line, *sides], "complex", "It compares: a query for each side as well."
    else:
        ordered = SEQUENCE.split(one_line)
        parts = ordered if len(ordered) > 1 else QUESTIONS.split(one_line)
        strategy = "sequential" if len(ordered) > 1 else "parallel"
        queries = [bare for part in parts if key_terms(bare := FIRST.sub("", part).strip(" ,;.!?"))] or [one_line]
        if len(queries) == 1:
            queries = [one_line]
            simple = len(key_terms(one_line)) <= 2 and not COMPARES.search(one_line)
            complexity = "simple" if simple else "moderate"
            reason = f"It is one question{', of at most two key terms' if simple else ''}."
        else:
            complexity = "moderate" if len(queries) == 2 else "complex"
            parts = _distinct(queries)
            reason = f"It has {len(parts)} parts{', in this order' if len(ordered) > 1 else ''}: a query for each."
    if context:
        opening = CONTINUED.sub("", queries[0])
        queries = [f"{opening.rstrip(' ?.!')} {' '.join(context)}", *queries[1:]]
        reason += f" It leans on what was said before: {', '.join(context)}."
    return {
        "query": one_line,
        "reason": reason,
        "complexity": complexity,
        "strategy": strategy if len(queries) > 1 else "parallel",
        "queries": _distinct(queries),
        "context": context,
        "terms": sorted({*key_terms(one_line), *context}),
        **({"parts": _understood(parts, context)} if len(parts) > 1 else {}),
    }


def _understood(parts: Sequence[str], context: Sequence[str]) -> list[list[str]]:
    """Return each part of a question, and how it is measured: with terms of the one before where it leans on that."""
    pairs = [[parts[0], " ".join([parts[0], *context])]]
    for before, part in pairwise(parts):
        pairs.append([part, " ".join([part, *(key_terms(before)[:4] if leans(part, [before]) else ())])])
    return pairs


def _sides(line: str) -> list[str]:
    """Return the sides of a comparison; empty if a question compares nothing."""
    for opening, separator in COMPARISONS:
        opened = opening.search(line)
        parted = separator.search(line, opened.end()) if opened else None
        if opened and parted:
            sides = [line[opened.end() : parted.start()], line[parted.end() :]]
            if all(named := [side.strip(" ,?.!") for side in sides]):
                return named
    return []


def _distinct(queries: Sequence[str]) -> list[str]:
    distinct: dict[str, str] = {}
    for query in queries:
        distinct.setdefault(normalized(query), query)
    return list(distinct.values())[:MOST_SUB_QUERIES]


def _said(conversation: object) -> list[str]:
    """Return the texts of a conversation that are not blank, oldest first."""
    if conversation is None:
        return []
    if not isinstance(conversation, list | tuple):
        raise ValueError(f"conversation must be a list of texts, oldest first, not {conversation!r}")  # noqa: TRY004
    texts = []
    for entry in conversation:
        text = entry.get("content") if isinstance(entry, Mapping) else entry
        if isinstance(text, list):  # content in blocks
            text = AIMessage(text)
        if isinstance(text, BaseMessage):
            text = read_text(entry) if entry is text and isinstance(entry, AIMessage) else text.text
        if not isinstance(text, str):
            raise ValueError(  # noqa: TRY004
                f"conversation must hold texts, messages, or mappings with 'content', not {entry!r}"
            )
        texts.append(text)
    return [text for text in texts if text.strip()]


ASKED = ("top_k", "confidence_threshold")
"""Options of a single call that override the graph's own."""

AND = re.compile(r" and ", re.IGNORECASE)
COMPARISONS = [
    (re.compile(r"\bcompare ", re.IGNORECASE), re.compile(r" (?:and|with|to) ", re.IGNORECASE)),
    (re.compile(r"\b(?:differences?|choice|choos(?:e|ing)|decid(?:e|ing)) between ", re.IGNORECASE), AND),
    (re.compile(r"^"), re.compile(r" (?:vs\.?|versus|compared (?:to|with)) ", re.IGNORECASE)),
    (
        re.compile(r"\bhow (?:do|does|is|are) ", re.IGNORECASE),
        re.compile(r" differ(?:ent)? from ", re.IGNORECASE),
    ),
    (
        re.compile(r"^(?:is|are) ", re.IGNORECASE),
        re.compile(r" (?!(?:rather|other) )(?:worse|(?:more|less) \w+|\w+er) than ", re.IGNORECASE),
    ),
    # Only where the choice is all there is, or ends a question for the better one: in "copy a file or folder to a disk"
    # the sides can't be told.
    (
        re.compile(r"^(?:(?:which|what)\b[^,:]*[,:] )?(?=(?:\S+ ){1,2}or \S+(?: \S+)?$)", re.IGNORECASE),
        re.compile(r" or (?!not\b)", re.IGNORECASE),
    ),
]
"""Openings of a comparison, each with the separator of its sides; single spaces, since a query is one line."""
COMPARES = re.compile(r" or (?!not\b)| than |\bcompar|\bdiffer|\bbetween ", re.IGNORECASE)
"""A comparison or a choice, whether or not its sides can be told."""
SEQUENCE = re.compile(r"[,;.]?\s+(?:and\s+)?(?:then|after that|afterwards)\s+", re.IGNORECASE)
QUESTIONS = re.compile(
    r"\?\s+|;\s+|,?\s+and\s+(?=(?:how|what|when|where|which|who|why|can|does|do|is|are)\b)", re.IGNORECASE
)
FIRST = re.compile(r"^\s*(?:first(?:ly)?,?|and)\s+", re.IGNORECASE)
CONTINUED = re.compile(r"^\s*(?:and|also|but|or|then)\b[\s,]*", re.IGNORECASE)

CONTINUES = re.compile(r"\s*(?:and|also|but|or|then|what about|how about)\b", re.IGNORECASE)

REFERS = re.compile(
    r"\b(?:it|its|they|them|their|theirs|he|him|his|she|her|hers)\b|\b(?:this|that|these|those|one|ones|there)\s*[?.!]*$",
    re.IGNORECASE,
)

MODIFIERS = frozenset(
    """amazing awesome basic best better cool current easiest easy efficient excellent fast fastest favorite favourite
    fine full good great ideal important latest main modern new newest nice optimal perfect popular proper quick
    quickest really recent recommended right simple simplest standard suitable top typical useful very""".split()  # noqa: SIM905  # a long list of words reads better as text
)

MOST_SUB_QUERIES = 5
MOST_SAID = 6
"""Earlier questions that a plan looks back on."""
