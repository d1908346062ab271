"""Node `retrieve`: look up passages for the query and keep them in the record. Internal."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.vectorstores import VectorStore

from ..state.events import clean, failure, record
from ..state.retrievals import latest_retrieval
from .arguments import checked_count
from .documents import FoundDocuments, WithheldDocument, place_of
from .runtime.meter import BudgetSpentError, Prices
from .runtime.step import Step, Steps, call, emit, recorded

__all__ = ["Search", "as_search", "retrieve"]

Search = Runnable[str, Any] | Callable[[str], Any]
"""Function of a query that returns documents, best first."""

SCORES = ("score", "similarity", "relevance_score")


def retrieve(
    documents: Any,
    *,
    k: int = 4,
    query: str | None = None,
    prices: Prices | None = None,
    asked: Sequence[str] = (),
) -> Step:
    """Return the step that looks up the passages for the query: the task, where nobody gave one.

    They are looked up once: while the query and the documents stay the same, the record has them. As `prepare=` of a
    graph it looks them up before the first draft; the prompts show them as `context`. Where the documents were taken
    away, the record says so, and the prompts show none.

    Args:
        documents: A LangChain vector store or retriever, or a callable from a query to documents or texts. `None` looks
            up nothing.
        k: How many passages at most.
        query: Looked up in place of the task, and of the state's `query`.
        prices: Prices of the models that the retriever may call.
        asked: Keys of the state that a retriever, a Runnable, is called with beside the query, where they are given;
            `top_k` stands in for `k`.

    Reads: task, query, events, head, and what is `asked`. Writes: events, head.

    Raises:
        TypeError: At build: it is nothing to look up in. At run: it returns something else than documents.
        ValueError: At build: `k` is less than 1.
        Exception: At run: whatever the retriever raises.
    """
    search = None if documents is None else as_search(documents, k=k)

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        events = state.get("events") or []
        wanted = clean(query or state.get("query") or state["task"])
        current = latest_retrieval(events, since=state.get("documents_since") or 0)
        if search is None:
            return {} if current is not None else _taken_away(state, wanted)
        if current is not None and current["text"] == wanted:
            return {}
        emit(kind="start", node="retrieve", round=0)
        keys = {name: state[name] for name in asked if state.get(name) is not None}
        called = search.bind(**keys) if keys and isinstance(search, Runnable) else search
        outcome = yield from call(called, wanted, config=config, prices=prices, state=state)
        if isinstance(outcome.error, BudgetSpentError):  # what it cost until then is kept
            return record(state, failure("retrieve", 0, outcome.error, **outcome.failure_fields))
        if outcome.error is not None:
            raise outcome.error
        passages = _plain(outcome.result, by=_name(documents))[: keys.get("top_k", k)]
        withheld = any(isinstance(one, WithheldDocument) for one in outcome.result)
        event: dict[str, Any] = {
            "kind": "retrieval",
            "round": 0,
            "by": _name(documents),
            "text": wanted,
            "usage": outcome.usage,
            **({"documents": [], "withheld": passages} if withheld else {"documents": passages}),
            **_gaps(outcome.result),
            **({"search": outcome.result.search} if isinstance(outcome.result, FoundDocuments) else {}),
        }
        return recorded(state, event)

    step = Step("retrieve", logic)
    step.fingerprint = {"k": k, "query": query, "documents": _name(documents) if search else None}
    return step


def _taken_away(state: Mapping[str, Any], query: str) -> dict[str, Any]:
    """Return the update that says that there are no documents any more, where the record still shows some."""
    before = latest_retrieval(state.get("events") or [])
    if before is None or not (before.get("documents") or before.get("withheld")):
        return {}
    return record(state, {"kind": "retrieval", "round": 0, "by": "retrieve", "text": query, "documents": []})


def as_search(documents: Any, *, k: int) -> Search:
    """Return the retriever, vector store or callable as a function of a query.

    Raises:
        TypeError: It is no vector store, retriever or callable.
        ValueError: `k` is less than 1.
    """
    checked_count("k", k, least=1)
    if isinstance(documents, VectorStore):
        return documents.as_retriever(search_kwargs={"k": k})
    if hasattr(documents, "input_channels"):
        raise TypeError("a graph is no retriever; redraft.retrieval.as_retriever(graph) makes one of `retrieval`")
    if isinstance(documents, BaseRetriever | Runnable) or callable(documents):
        search: Search = documents
        return search
    raise TypeError(f"documents must be a vector store, a retriever, or a callable from a query, not {documents!r}")


def _plain(found: Any, *, by: str) -> list[dict[str, Any]]:
    """Return documents as plain data."""
    if isinstance(found, str | Mapping) or not hasattr(found, "__iter__"):
        raise TypeError(f"the retriever {by!r} must return a list of documents, not {found!r}")
    return [_passage(one, by=by) for one in found]


def _passage(one: Any, *, by: str) -> dict[str, Any]:
    if isinstance(one, str):
        one = Document(one)
    if not isinstance(one, Document):
        raise TypeError(f"the retriever {by!r} must return documents or texts, not {one!r}")
    source, text = clean(str(one.metadata.get("source") or "")), clean(one.page_content)
    key = one.id or one.metadata.get("id") or hashlib.sha256(f"{source}\n{text}".encode()).hexdigest()[:16]
    scores = {name: one.metadata[name] for name in SCORES if isinstance(one.metadata.get(name), int | float)}
    finite = {name: float(score) for name, score in scores.items() if math.isfinite(score)}
    heading = clean(str(one.metadata.get("heading") or ""))
    place = {**({"heading": heading} if heading else {}), **place_of(one.metadata)}
    finders = one.metadata.get("found_by")
    provenance = {"found_by": [clean(str(name)) for name in finders]} if finders and isinstance(finders, list) else {}
    return {"id": clean(str(key)), "text": text, "source": source, **place, **finite, **provenance}


def _name(documents: Any) -> str:
    return str(getattr(documents, "name", None) or getattr(documents, "__name__", None) or type(documents).__name__)


def _gaps(results: Sequence[Any]) -> dict[str, list[str]]:
    """Return the parts of the question that a search of ours found nothing for, as the record has them."""
    gaps = next((one.metadata.get("gaps") for one in results if isinstance(one, Document)), None)
    return {"gaps": [clean(str(part)) for part in gaps]} if isinstance(gaps, list) else {}
