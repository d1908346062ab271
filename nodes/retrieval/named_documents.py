"""Documents that the shell, a recipe or a caller names: a folder, or a stored index. Internal."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["named_documents"]


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
        from .stored_index import open_index

        return open_index(index, top_k=top_k, **search)
    if isinstance(documents, str | os.PathLike):
        from .retrievers import folder_index

        return folder_index(documents, top_k=top_k, **search)
    return documents
