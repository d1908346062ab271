"""Documents that the shell, a recipe or a caller names: a folder, or a stored index. Internal.

`redraft.retrieval`, which reads and searches them, is a room of its own, and found by its entry point in the group
`redraft.documents`.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .._plugins import default_plugin

if TYPE_CHECKING:
    from langchain_core.retrievers import BaseRetriever

__all__ = ["index_path", "measured", "named_documents"]


def named_documents(documents: Any, index: str | None, *, top_k: int, **search: Any) -> Any:
    """Return a retriever of a folder or a stored index; anything else that can be searched as it is.

    Args:
        documents: The path of a folder, a retriever, or `None`.
        index: The name of a stored index.
        top_k: The most passages that a search finds.
        search: Further options of `folder_index` and `open_index`.

    Raises:
        ValueError: Both are given, or what is named is not there.
    """
    if documents is not None and index is not None:
        raise ValueError("--documents and --index both say what is searched: give one of them")
    if index is not None:
        return _retrieval().open_index(index, top_k=top_k, **search)
    if isinstance(documents, str | os.PathLike):
        return _retrieval().folder_index(documents, top_k=top_k, **search)
    return documents


def measured(retriever: BaseRetriever) -> BaseRetriever:
    """Return a retriever that measures what another finds; that one as it is where the model is not installed."""
    measuring: BaseRetriever = _retrieval().measured(retriever)
    return measuring


def index_path(name: str) -> Path:
    """Return the file of a stored index.

    Raises:
        ValueError: It can be no index's name.
    """
    return Path(_retrieval().index_path(name))


def _retrieval() -> Any:
    return default_plugin("redraft.documents", ModuleType)
