"""Retrieval sources: a folder, documents, a vector store or a retriever, joined into one retriever."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore

from .fusion import FusedRetriever
from .index import DocumentIndex, folder_index

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

__all__ = ["open_sources"]


def open_sources(sources: Any, *, embeddings: Embeddings, top_k: int, hybrid: bool) -> BaseRetriever:
    """Return one retriever whose documents carry a rank score.

    Args:
        sources: A folder, a list of documents, a vector store, a retriever, or a list of these, which are fused.
        embeddings: Of folders and documents; a vector store has its own.
        top_k: The most passages that a query returns, also of an index that was made with a smaller number.
        hybrid: Whether folders and documents are searched by words too; what others do is their own affair.

    Raises:
        TypeError: A source is none of these.
        ValueError: There is none, a folder does not exist, or there is no text.
        ImportError: The extra `retrieval` is not installed and a folder or documents need it.
    """
    given = list(sources) if isinstance(sources, list | tuple) else [sources]
    if not given:
        raise ValueError("sources is empty: give a folder, documents, a vector store or a retriever")
    documents = [one for one in given if isinstance(one, Document)]
    retrievers: list[BaseRetriever] = []
    if documents:
        retrievers.append(DocumentIndex(documents=documents, embeddings=embeddings, top_k=top_k, hybrid=hybrid))
    for one in given:
        if isinstance(one, str | os.PathLike):
            retrievers.append(folder_index(one, embeddings=embeddings, top_k=top_k, hybrid=hybrid))
        elif isinstance(one, VectorStore):
            retrievers.append(one.as_retriever(search_kwargs={"k": top_k}, name=type(one).__name__))
        elif isinstance(one, DocumentIndex | FusedRetriever) and one.top_k < top_k:
            retrievers.append(one.model_copy(update={"top_k": top_k}))  # one that finds more is cut afterwards
        elif isinstance(one, BaseRetriever):
            retrievers.append(one)
        elif not isinstance(one, Document):
            raise TypeError(
                f"a source is a folder, a Document, a LangChain vector store or retriever, or a list of these, "
                f"not {one!r:.120}"
            )
    if len(retrievers) == 1 and isinstance(retrievers[0], DocumentIndex | FusedRetriever):
        return retrievers[0]
    return FusedRetriever(retrievers=retrievers, top_k=top_k)
