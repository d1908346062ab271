"""Retrieval: indexes of documents, and searches that refine themselves.

These names are its whole interface. Each is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .documents import load_folder, load_page
    from .findings import RetrievalResult, as_retriever, retrieval_result
    from .graph import build_retrieval_graph
    from .index_file import index_path
    from .index_update import update_index
    from .retrievers import DocumentIndex, folder_index
    from .search import measured
    from .stored_index import open_index
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            f"{__name__}.documents": ["load_folder", "load_page"],
            f"{__name__}.findings": ["RetrievalResult", "as_retriever", "retrieval_result"],
            f"{__name__}.graph": ["build_retrieval_graph"],
            f"{__name__}.index_file": ["index_path"],
            f"{__name__}.index_update": ["update_index"],
            f"{__name__}.retrievers": ["DocumentIndex", "folder_index"],
            f"{__name__}.search": ["measured"],
            f"{__name__}.stored_index": ["open_index"],
        },
    )

__all__ = [
    "DocumentIndex",
    "RetrievalResult",
    "as_retriever",
    "build_retrieval_graph",
    "folder_index",
    "index_path",
    "load_folder",
    "load_page",
    "measured",
    "open_index",
    "retrieval_result",
    "update_index",
]
