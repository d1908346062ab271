"""Query patterns: follow-up queries that raised the confidence before, with their rules, kept in a store."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from langgraph.config import get_store

from ..runtime.dual import Do
from .search import Query

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from langgraph.store.base import BaseStore

__all__ = ["NAMESPACE", "Patterns"]

NAMESPACE = ("redraft", "retrieval")

MOST_RECALLED = 2
MOST_REMEMBERED = 10
"""Follow-up queries kept for one set of key terms, those that helped most."""


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
        known: Mapping[str, Any] = (yield from self._read("follow_ups", _key(terms))).get("queries", {})
        best = sorted(known, key=lambda query: -known[query]["gain"])
        return [Query(query, "pattern") for query in best[:MOST_RECALLED]]

    def helpful_rules(self) -> Generator[Do, Any, list[str]]:
        """Return the names of the rules that have helped, the one that did so most often first."""
        known = yield from self._read("rules", "counts")
        shares = {
            name: (count["helped"] + 1) / (count["tried"] + 2) for name, count in known.items() if count["helped"]
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
        kept = sorted(queries, key=lambda query: -queries[query]["gain"])[:MOST_REMEMBERED]
        value = {"terms": list(terms), "queries": {query: queries[query] for query in kept}}
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
