"""Follow-up queries: rules that propose them, and patterns of those that helped before, kept in a store. Internal."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from langgraph.config import get_store
from langgraph.store.base import BaseStore

from ..state.dual import Do
from .calibration import key_terms
from .findings import RetrievedPassage, distinct_sources
from .planning import normalized, without_modifiers
from .search import Query

__all__ = ["MOST_FOLLOW_UPS", "NAMESPACE", "RULES", "Patterns", "Situation", "by_rules", "new_queries"]

MOST_FOLLOW_UPS = 3
"""New queries in one iteration."""

FEW_DOCUMENTS = 3


@dataclass(frozen=True)
class Situation:
    """The input of the follow-up rules."""

    queries: Sequence[str]
    """The plan's."""
    found: Sequence[RetrievedPassage]
    sure: bool
    """True if the confidence in them reaches the threshold."""
    top_k: int
    terms: Sequence[str] = ()
    """Of the passages, the closest to what was asked first."""
    feedback: Sequence[str] = ()
    """Objections of critics, of a person first of all: what is missing."""


def by_rules(situation: Situation, *, run: Iterable[str], order: Sequence[str] = ()) -> list[Query]:
    """Return at most three queries that were not run yet: the first of each rule, then the second of each.

    Args:
        situation: What was found, and for what.
        run: Queries that were run already.
        order: Names of rules that helped before, the best first; the others follow in their own order.
    """
    names = dict.fromkeys(
        # What a person asks for goes before what helped elsewhere.
        ("feedback", *(name for name in order if name in RULES), *RULES)
    )
    proposals = [[Query(text, name) for text in RULES[name](situation)] for name in names]
    return new_queries((one for row in zip_longest(*proposals) for one in row if one), run=run)


def new_queries(proposed: Iterable[Query], *, run: Iterable[str]) -> list[Query]:
    """Return the first three that are not blank and were not run, whatever their case and white space."""
    taken = {normalized(query) for query in run}
    queries: list[Query] = []
    for query in proposed:
        key = normalized(query.text)
        if key and key not in taken and len(queries) < MOST_FOLLOW_UPS:
            taken.add(key)
            queries.append(Query(" ".join(query.text.split()), query.why))
    return queries


def _feedback(situation: Situation) -> list[str]:
    """Return queries for what is said to be missing, alone and together with what was asked."""
    query_terms = key_terms(situation.queries[0])[:4]
    proposals = []
    for complaint in situation.feedback:
        terms = [term for term in key_terms(complaint) if term not in COMPLAINT][:8]
        if terms:
            proposals += [" ".join(terms), " ".join(dict.fromkeys([*terms, *query_terms]))]
    return proposals


def _key_terms(situation: Situation) -> list[str]:
    """Return the queries with key terms of what was found, two at a time, while the confidence is low.

    Where nothing was found, they are cut to their own key terms.
    """
    if situation.sure:
        return []
    return [
        f"{query.rstrip(' ?.!')} {' '.join(terms)}" if terms else " ".join(key_terms(query))
        for terms in (situation.terms[start : start + 2] for start in (0, 2, 4))
        for query in situation.queries
    ]


def _rephrase(situation: Situation) -> list[str]:
    """Return the queries in other words where fewer passages than wanted were found."""
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
    """Return the queries without words that judge instead of naming, where few documents were found."""
    if distinct_sources(situation.found) >= FEW_DOCUMENTS:
        return []
    return [shorter for query in situation.queries if (shorter := without_modifiers(query)) != " ".join(query.split())]


NAMESPACE = ("redraft", "retrieval")


class Patterns:
    """Reads and writes what helped, in the store that the graph was compiled with; without one, nothing is known.

    Counts are read and written back, so two runs that end at once may count one of them.

    Args:
        namespace: Where in the store it stands, or `None` to remember nothing.
    """

    def __init__(self, namespace: Sequence[str] | None = NAMESPACE) -> None:
        self._namespace = None if namespace is None else tuple(namespace)

    def recall(self, terms: Sequence[str]) -> Generator[Do, Any, list[Query]]:
        """Return the follow-up queries that helped a query with the same key terms most."""
        gains: Mapping[str, Any] = (yield from self._read("follow_ups", _key(terms))).get("queries", {})
        best = sorted(gains, key=lambda query: -gains[query]["gain"])
        return [Query(query, "pattern") for query in best[:MOST_RECALLED]]

    def helpful_rules(self) -> Generator[Do, Any, list[str]]:
        """Return the names of the rules that have helped, the one that did so most often first."""
        counts = yield from self._read("rules", "counts")
        # Laplace's rule, so that one lucky try does not lead nine of ten.
        shares = {
            name: (count["helped"] + 1) / (count["tried"] + 2) for name, count in counts.items() if count["helped"]
        }
        return sorted(shares, key=lambda name: -shares[name])

    def learn(self, terms: Sequence[str], gains: Mapping[Query, float]) -> Generator[Do, Any, None]:
        """Note how much each follow-up query raised the confidence; one of 0 did not help."""
        if not gains:
            return
        counts = dict((yield from self._read("rules", "counts")))
        for query, gain in gains.items():
            before = counts.get(query.why, {"tried": 0, "helped": 0})
            counts[query.why] = {"tried": before["tried"] + 1, "helped": before["helped"] + (gain > 0)}
        yield from self._write("rules", "counts", counts)
        if not any(gains.values()):
            return
        queries = dict((yield from self._read("follow_ups", _key(terms))).get("queries", {}))
        for query, gain in gains.items():
            if gain > 0:
                queries[query.text] = {"rule": query.why, "gain": round(gain, 6)}
        best = sorted(queries, key=lambda query: -queries[query]["gain"])[:MOST_REMEMBERED]
        value = {"terms": list(terms), "queries": {query: queries[query] for query in best}}
        yield from self._write("follow_ups", _key(terms), value)

    def _read(self, kind: str, key: str) -> Generator[Do, Any, dict[str, Any]]:
        if self._namespace is None or (store := _store()) is None:
            return {}
        item = yield Do(store.get, store.aget, ((*self._namespace, kind), key))
        return dict(item.value) if item else {}

    def _write(self, kind: str, key: str, value: dict[str, Any]) -> Generator[Do, Any, None]:
        if self._namespace is not None and (store := _store()) is not None:
            yield Do(store.put, store.aput, ((*self._namespace, kind), key, value))


def _store() -> BaseStore | None:
    try:
        return get_store()
    except (RuntimeError, KeyError):  # outside a graph
        return None


def _key(terms: Sequence[str]) -> str:
    return hashlib.blake2b("\0".join(sorted(terms)).encode(), digest_size=16).hexdigest()


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
MOST_RECALLED = 2
MOST_REMEMBERED = 10
"""Follow-up queries kept for one set of key terms, those that helped most."""
