"""One ranking from several: reciprocal rank fusion, and a retriever that fuses what others find."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field

from .documents import chunk_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun

__all__ = ["RANK_CONSTANT", "FusedRetriever", "fuse"]

RANK_CONSTANT = 60
"""As in Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet …" (SIGIR 2009)."""


def fuse(rankings: Sequence[Sequence[Document]], *, top_k: int) -> list[Document]:
    """Return the best documents of several rankings, each once, best first.

    A document scores 1 / (60 + rank) in each ranking that holds it. The sum is its `score` in the metadata, and only
    ranks: with two rankings it is at most 0.033.

    Args:
        rankings: Each best first. Documents of one source with one text are the same; a text alone will do.
        top_k: The most documents to return.

    Raises:
        TypeError: A ranking holds something else.
    """
    scores: dict[str, float] = {}
    documents: dict[str, Document] = {}
    for ranking in rankings:
        seen: set[str] = set()
        for document in map(_document, ranking):
            key = chunk_id(str(document.metadata.get("source") or ""), document.page_content)
            if key not in seen:
                seen.add(key)
                documents.setdefault(key, document)
                scores[key] = scores.get(key, 0.0) + 1 / (RANK_CONSTANT + len(seen))
    best = sorted(scores, key=lambda key: -scores[key])[:top_k]
    return [
        Document(
            documents[key].page_content,
            metadata={**documents[key].metadata, "id": key, "score": scores[key]},
        )
        for key in best
    ]


def _document(found: object) -> Document:
    if isinstance(found, str):
        return Document(found)
    if not isinstance(found, Document):
        raise TypeError(f"a retriever must return documents or texts, not {found!r:.200}")
    return found


class FusedRetriever(BaseRetriever):
    """Asks several retrievers at once and fuses what they find.

    Args:
        retrievers: One or more.
        top_k: The most documents to return.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    retrievers: list[BaseRetriever] = Field(min_length=1)
    top_k: int = Field(default=5, ge=1)

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.name = self.name or "+".join(retriever.get_name() for retriever in self.retrievers)

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        config = {"callbacks": run_manager.get_child()}
        return fuse([one.invoke(query, config) for one in self.retrievers], top_k=self.top_k)  # type: ignore[arg-type]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        config = {"callbacks": run_manager.get_child()}
        asked = (one.ainvoke(query, config) for one in self.retrievers)  # type: ignore[arg-type]
        return fuse(await asyncio.gather(*asked), top_k=self.top_k)
