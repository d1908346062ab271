"""Follow-up queries by rules, side by side: each looks at what is weak in what was found."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from .findings import Finding, confidence, distinct_sources
from .search import Query
from .terms import key_terms, normalized, without_modifiers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

__all__ = ["MOST_FOLLOW_UPS", "RULES", "Situation", "by_rules", "new_queries"]

MOST_FOLLOW_UPS = 3
"""New queries in one iteration."""

FEW_DOCUMENTS = 3


@dataclass(frozen=True)
class Situation:
    """The input of the follow-up rules."""

    queries: Sequence[str]
    """The plan's."""
    found: Sequence[Finding]
    threshold: float
    top_k: int
    terms: Sequence[str] = ()
    """Of the passages, the closest to what was asked first."""
    feedback: Sequence[str] = ()
    """What critics, a person first of all, said is missing."""


def by_rules(situation: Situation, *, run: Iterable[str], order: Sequence[str] = ()) -> list[Query]:
    """Return at most three queries that were not run yet: the first of each rule, then the second of each.

    Args:
        situation: What was found, and for what.
        run: Queries that were run already.
        order: Names of rules that helped before, the best first; the others follow in their own order.
    """
    names = [*(name for name in order if name in RULES), *(name for name in RULES if name not in order)]
    # What a person asks for goes before what helped elsewhere.
    names.sort(key=lambda name: name != "feedback")
    proposals = [[Query(text, name) for text in RULES[name](situation)] for name in names]
    return new_queries((one for row in zip_longest(*proposals) for one in row if one), run=run)


def new_queries(proposed: Iterable[Query], *, run: Iterable[str]) -> list[Query]:
    """Return the first three that are not blank and were not run, whatever their case and white space."""
    taken = {normalized(query) for query in run}
    found: list[Query] = []
    for query in proposed:
        key = normalized(query.text)
        if key and key not in taken and len(found) < MOST_FOLLOW_UPS:
            taken.add(key)
            found.append(Query(" ".join(query.text.split()), query.why))
    return found


def _feedback(situation: Situation) -> list[str]:
    """Return queries for what is said to be missing, alone and together with what was asked."""
    asked = key_terms(situation.queries[0])[:4]
    proposals = []
    for said in situation.feedback:
        terms = [term for term in key_terms(said) if term not in COMPLAINT][:8]
        if terms:
            proposals += [" ".join(terms), " ".join(dict.fromkeys([*terms, *asked]))]
    return proposals


def _key_terms(situation: Situation) -> list[str]:
    """Low confidence: add key terms of what was found, two at a time; where there are none, leave only key terms."""
    if situation.found and confidence(situation.found) >= situation.threshold:
        return []
    return [
        f"{query.rstrip(' ?.!')} {' '.join(terms)}" if terms else " ".join(key_terms(query))
        for terms in (situation.terms[start : start + 2] for start in (0, 2, 4))
        for query in situation.queries
    ]


def _rephrase(situation: Situation) -> list[str]:
    """Fewer passages than wanted: ask in other words."""
    if len(situation.found) >= situation.top_k:
        return []
    proposals = []
    for query in situation.queries:
        for pattern, other in PHRASES:
            if pattern.match(query):
                proposals.append(pattern.sub(other, query, count=1).rstrip(" ?"))
                break
        else:
            proposals.append(" ".join(key_terms(query)))
    return proposals


def _modifiers(situation: Situation) -> list[str]:
    """Few documents: leave out the words that judge instead of naming."""
    if distinct_sources(situation.found) >= FEW_DOCUMENTS:
        return []
    return [shorter for query in situation.queries if (shorter := without_modifiers(query)) != " ".join(query.split())]


RULES: dict[str, Callable[[Situation], Collection[str]]] = {
    "feedback": _feedback,
    "key_terms": _key_terms,
    "rephrase": _rephrase,
    "modifiers": _modifiers,
}
"""By name, in the order of their priority."""

PHRASES = [
    (re.compile(r"how (?:do|can|could|should|would) (?:i|you|we|one)\b", re.IGNORECASE), "what way to"),
    (re.compile(r"how (?:is|are)\b", re.IGNORECASE), "what way of"),
    (re.compile(r"how to\b", re.IGNORECASE), "what way to"),
    (re.compile(r"what (?:is|are) (?:an?\b|the\b)?", re.IGNORECASE), "meaning of"),
    (re.compile(r"why (?:do|does|did|is|are)\b", re.IGNORECASE), "reason why"),
    (re.compile(r"(?:where|when) (?:do|does|can|is|are)\b", re.IGNORECASE), "about"),
]

COMPLAINT = frozenset(
    """absent add added answer bit cover covered document documents draft explain explained find found include included
    incomplete information irrelevant lack lacking lacks mention mentioned mentions miss missed missing nothing part
    passage passages result results section show shows still wanted want wrong""".split()  # noqa: SIM905  # a long list of words reads better as text
)
"""Words of a complaint that don't name what it is about."""
