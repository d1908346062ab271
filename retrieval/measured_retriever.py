"""Measured retrievers: what an index finds is withheld where it hardly answers the query. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever  # noqa: TC002  # pydantic reads it at run time
from pydantic import Field

from ..models.embeddings import best_installed, embeddings
from ..nodes.passages import WithheldDocument
from ..state.dual import Do, do
from .calibration import CALIBRATIONS
from .retrievers import DualRetriever, indexed
from .search import Similarity

if TYPE_CHECKING:
    from collections.abc import Generator


__all__ = ["MeasuredRetriever", "measured"]

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
