"""Passages that a retriever returns: where one stands, and one that is withheld. Internal.

These are the core's own. What finds passages is a LangChain retriever, whoever made it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PLACES", "WithheldDocument", "place_of"]

PLACES = ("page", "line", "url")
"""Where a passage stands beside its source and heading, as far as that is known: a page of a PDF, the first line in
source code, an address."""


class WithheldDocument(Document):
    """A document that so improbably answers the query that no writer is shown it."""


def place_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the page, line and address that a document's metadata has, as plain data."""
    place: dict[str, Any] = {}
    for name in PLACES:
        value = metadata.get(name)
        # Another package's loader may mean anything by these names.
        if (isinstance(value, str) and value) if name == "url" else (type(value) is int and value >= 0):
            place[name] = value
    return place
