"""Searching one's own documents: an index, a plan of queries, follow-up queries, and what was found as a fold."""

from __future__ import annotations

from .documents import load_folder
from .graph_retriever import as_retriever
from .index import DocumentIndex, folder_index
from .result import RetrievalResult, retrieval_result

__all__ = ["DocumentIndex", "RetrievalResult", "as_retriever", "folder_index", "load_folder", "retrieval_result"]
