"""Searching one's own documents: an index, a plan of queries, follow-up queries, and what was found as a fold."""

from __future__ import annotations

from .documents import load_folder
from .findings import RetrievalResult, as_retriever, retrieval_result
from .retrievers import DocumentIndex, folder_index

__all__ = ["DocumentIndex", "RetrievalResult", "as_retriever", "folder_index", "load_folder", "retrieval_result"]
