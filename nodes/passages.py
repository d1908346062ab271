"""Passages that a retriever returns: where one stands, and one that is withheld. Internal.

These are the core's own. What finds passages is a LangChain retriever, whoever made it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document

from ..state.events import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PLACES", "WithheldDocument", "place_of"]

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
