"""Documents that the shell, a recipe or a caller names, a folder or a stored index, and passages of them. Internal.

`redraft.retrieval`, which reads and searches them, is a room of its own, and found by its entry point in the group
`redraft.documents`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document

from .._plugins import default_plugin
from ..state.events import clean

if TYPE_CHECKING:
    from langchain_core.retrievers import BaseRetriever

__all__ = [
    "PLACES",
    "FoundDocuments",
    "WithheldDocument",
    "index_path",
    "measured",
    "named_documents",
    "place_of",
    "with_id",
]


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


OURS = frozenset(
    [
        *("id", "text", "source", "heading", "page", "line", "url", "metadata"),
        *("score", "similarity", "relevance_score", "relevance", "sub_query", "found_by"),
    ]
)
"""What of a document's metadata, or a recorded passage, is read by its name."""
PLACES = ("page", "line", "url")
"""Where a passage stands beside its source and heading, as far as that is known: a page of a PDF, the first line in
source code, an address."""


class WithheldDocument(Document):
    """A document that so improbably answers the query that no writer is shown it."""


class FoundDocuments(list[Document]):
    """Documents that a search of ours found, with what it tells besides, as plain data."""

    search: Mapping[str, Any] = {}


def with_id(metadata: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the metadata of a document with the id of a passage; an `id` and `score` of its user's own stay in
    `metadata` there."""
    if metadata.get("id") == key:
        return dict(metadata)
    own = {name: metadata[name] for name in ("id", "score") if name in metadata}
    stated = metadata.get("metadata")
    kept = {"metadata": {**(stated if isinstance(stated, dict) else {}), **own}} if own else {}
    return {**metadata, **kept, "id": key}


def place_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the page, line and address that a document's metadata has, and as `metadata` all that is its user's own.

    Args:
        metadata: Of a document, or a passage as a record holds it. What is no plain data is kept as its text.
    """
    own = {name: value for name, value in metadata.items() if name not in OURS}
    if isinstance(recorded := metadata.get("metadata"), dict):
        own |= recorded
    try:
        text = clean(json.dumps(own, ensure_ascii=False, allow_nan=False, default=str)).replace("\\u0000", "")
        # No checkpoint holds a whole number of more than 64 bits.
        own = json.loads(text, parse_int=lambda digits: int(digits) if len(digits) < 19 else digits)
    except (TypeError, ValueError, RecursionError):
        own = {}
    place: dict[str, Any] = {"metadata": own} if own else {}
    for name in PLACES:
        value = metadata.get(name)
        # Another package's loader may mean anything by these names.
        if (isinstance(value, str) and value) if name == "url" else (type(value) is int and value >= 0):
            place[name] = value
    return place
