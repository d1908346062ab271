"""Query execution: one `retrieval` event each, with the passages found and their cosine similarity. Internal."""

from __future__ import annotations

import math
import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langgraph.errors import GraphBubbleUp
from pydantic import Field

from ..models.embeddings import best_installed, embeddings
from ..nodes.documents import WithheldDocument, place_of
from ..nodes.runtime.step import emit
from ..state.dual import Do, DualCallable, adrive, at_once, do, drive
from ..state.events import clean
from ..state.masking import masked
from .calibration import CALIBRATIONS, relevance
from .documents import chunk_id, passage
from .retrievers import DualRetriever, RankedRetriever, indexed

__all__ = ["MeasuredRetriever", "Query", "Search", "Similarity", "failed", "measured"]

MOST_KEPT = 4096
"""Vectors kept, so that a passage found again is not embedded again: some 40 MB at 1,024 numbers each."""


class Similarity(DualCallable[[Sequence[str], Sequence[str]], list[float]]):
    """Measures passages against texts. Scores of different stores can't be compared; this can.

    Args:
        embeddings: Turns texts into vectors. Each text is embedded once while it is remembered.
    """

    def __init__(self, embeddings: Embeddings) -> None:
        self._embeddings = embeddings
        self._vectors: dict[str, list[float]] = {}
        self._lock = threading.Lock()

    def remember(self, retriever: BaseRetriever, texts: Sequence[str]) -> None:
        """Take over the vectors of passages that a stored index holds, if this model made them."""
        if isinstance(retriever, RankedRetriever):
            stored = retriever.stored_vectors(texts, self._embeddings)
            self._keep({text: _unit(vector) for text, vector in stored.items()})

    def logic(self, passages: Sequence[str], anchors: Sequence[str]) -> Generator[Do, Any, list[float]]:
        """Return for each passage its cosine with the closest anchor, 0–1; a negative one counts 0."""
        with self._lock:
            vectors = {text: self._vectors[text] for text in (*passages, *anchors) if text in self._vectors}
        if missing := list(dict.fromkeys(text for text in (*passages, *anchors) if text not in vectors)):
            # Outside the lock: a text may be embedded twice, but nobody waits for another's call.
            embedded = yield do(self._embeddings, "embed_documents", missing)
            new = {text: _unit(vector) for text, vector in zip(missing, embedded, strict=True)}
            vectors |= new
            self._keep(new)
        cosines = ([math.fsum(map(mul, vectors[text], vectors[anchor])) for anchor in anchors] for text in passages)
        # Rounding may leave a hair more than 1.
        return [round(min(1.0, max([0.0, *row])), 6) for row in cosines]

    def _keep(self, vectors: dict[str, list[float]]) -> None:
        with self._lock:
            self._vectors |= vectors
            while len(self._vectors) > MOST_KEPT:
                # The oldest, as dicts keep the order of insertion.
                del self._vectors[next(iter(self._vectors))]


def _unit(vector: Sequence[float]) -> list[float]:
    length = math.hypot(*vector)
    return [value / length for value in vector] if 0 < length < math.inf else [0.0] * len(vector)


@dataclass(frozen=True)
class Query:
    """A query, and why it is run: `plan`, `pattern`, `model`, or the name of a rule."""

    text: str
    why: str


class Search(DualCallable[..., list[dict[str, Any]]]):
    """Runs queries against a retriever.

    Args:
        retriever: One whose documents have `score` in their metadata, as a `FusedRetriever` or a `DocumentIndex` gives.
        similarity: Measures what is found.
    """

    def __init__(self, retriever: BaseRetriever, similarity: Similarity) -> None:
        self._retriever = retriever
        self.similarity = similarity
        self._by = retriever.get_name()

    def logic(
        self,
        queries: Sequence[Query],
        anchors: Sequence[str],
        number: int,
        *,
        top_k: int,
        parallel: bool,
        strict: bool,
        depth: int = 0,
        parts: Sequence[str] = (),
    ) -> Generator[Do, Any, list[dict[str, Any]]]:
        """Return one event a query, in their order.

        Args:
            queries: What is searched for.
            anchors: What the passages are measured against, the question first.
            number: The round.
            top_k: How many passages a query must be able to find.
            parallel: All at once; else one after the other.
            strict: Whether an error is raised; else it is told in the event of its query.
            depth: How many passages are measured, to keep the most relevant ones; 0 for the retriever's own order.
            parts: The questions that the one consists of: each passage is measured against each of them too.
        """
        how: dict[str, Any] = {"top_k": top_k, "depth": depth, "strict": strict, "parts": parts}
        calls = [Do(drive, adrive, (self._event(query, anchors, number, **how),)) for query in queries]
        events: list[dict[str, Any]] = []
        for batch in [calls] if parallel else [[call] for call in calls]:
            for event in (yield at_once(batch, most_threads=8)):
                emit(**event)
                events.append(event)
        return events

    def _event(
        self,
        query: Query,
        anchors: Sequence[str],
        number: int,
        *,
        top_k: int,
        depth: int,
        strict: bool,
        parts: Sequence[str],
    ) -> Generator[Do, Any, dict[str, Any]]:
        """Run one query, and return its event."""
        try:
            documents = yield do(self._retriever, "invoke", query.text, top_k=max(top_k, depth))
            passages = [_recorded(document) for document in documents]
            texts = [passage(one["text"], one["heading"]) for one in passages]
            self.similarity.remember(self._retriever, texts)
            similarities = yield from self.similarity.logic(texts, anchors)
            for part in parts:
                close = yield from self.similarity.logic(texts, [part])
                for one, value in zip(passages, close, strict=True):
                    one.setdefault("parts", []).append(value)
        except GraphBubbleUp:
            raise
        except Exception as error:
            if strict:
                raise
            return failed("search", number, error, text=query.text, why=query.why, by=self._by)
        measured = [{**one, "similarity": value} for one, value in zip(passages, similarities, strict=True)]
        event = {"kind": "retrieval", "round": number, "by": self._by, "text": query.text, "why": query.why}
        if not depth:
            return {**event, "documents": measured}
        relevances = [relevance(anchors[0], *one) for one in zip(texts, similarities, strict=True)]
        order = sorted(range(len(measured)), key=lambda rank: -relevances[rank])[:top_k]
        return {**event, "documents": [measured[rank] for rank in order], "measured": len(measured)}


def _recorded(document: Document) -> dict[str, Any]:
    """Return a passage as its event records it, before it is measured."""
    metadata = document.metadata
    text, source = clean(document.page_content), clean(str(metadata.get("source") or ""))
    return {
        "id": chunk_id(source, text),
        "text": text,
        "source": source,
        "heading": clean(str(metadata.get("heading") or "")),
        **place_of(metadata),
        "score": float(metadata["score"]),
        "similarity": 0.0,
        **({"found_by": finders} if (finders := metadata.get("found_by")) else {}),
    }


def failed(step: str, number: int, error: Exception, **fields: Any) -> dict[str, Any]:
    """Return the event that says what went wrong in a search that goes on.

    A `failure` event would end the run; this one only tells.
    """
    return {
        "kind": "retrieval",
        "round": number,
        "by": step,
        "text": "",
        "failed": {"step": step, "error": type(error).__name__, "message": masked(str(error))[:2000]},
        **fields,
    }


MODEL = "minilm"
"""The embedding model whose confidence is calibrated."""


def measured(retriever: BaseRetriever) -> BaseRetriever:
    """Return a retriever that measures what another finds; that one as it is where the model is not installed."""
    if best_installed() != MODEL:
        return retriever
    return MeasuredRetriever(retriever=retriever, similarity=Similarity(embeddings(MODEL)), name=retriever.get_name())


class MeasuredRetriever(DualRetriever):
    """Measures what a retriever finds, and withholds all of it where it is improbable that it answers the query.

    The documents keep their order, and have their `similarity` with the query, 0–1, in the metadata.

    Args:
        retriever: What is asked.
        similarity: Measures by the model that the confidence is calibrated for.
    """

    retriever: BaseRetriever
    similarity: Similarity = Field(repr=False)

    def logic(self, query: str, callbacks: Any, **_: Any) -> Generator[Do, Any, list[Document]]:
        """Return the documents, all of them withheld or none."""
        documents: list[Document] = yield do(self.retriever, "invoke", query, {"callbacks": callbacks})
        texts = [indexed(document) for document in documents]
        self.similarity.remember(self.retriever, texts)
        similarities = yield from self.similarity.logic(texts, [query])
        calibration = CALIBRATIONS[MODEL]
        close = not texts or calibration.probability(query, texts, similarities) >= calibration.nothing_under
        kind = Document if close else WithheldDocument
        return [
            kind(page_content=document.page_content, metadata={**document.metadata, "similarity": similarity})
            for document, similarity in zip(documents, similarities, strict=True)
        ]
