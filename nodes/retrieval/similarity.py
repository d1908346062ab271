"""Cosine similarity of passages and queries, 0–1, for any retriever."""

from __future__ import annotations

import math
import threading
from operator import mul
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.embeddings import Embeddings

__all__ = ["Similarity"]

MOST_KEPT = 4096
"""Vectors kept, so that a passage found again is not embedded again: some 40 MB at 1,024 numbers each."""


class Similarity:
    """Measures passages against texts. Scores of different stores can't be compared; this can.

    Args:
        embeddings: Turns texts into vectors. Each text is embedded once while it is remembered.
    """

    def __init__(self, embeddings: Embeddings) -> None:
        self._embeddings = embeddings
        self._vectors: dict[str, list[float]] = {}
        self._lock = threading.Lock()

    def measure(self, passages: Sequence[str], anchors: Sequence[str]) -> list[float]:
        """Return for each passage its cosine with the closest anchor, 0–1; a negative one counts 0."""
        vectors, missing = self._known([*passages, *anchors])
        if missing:
            vectors |= self._keep(missing, self._embeddings.embed_documents(missing))
        return _closest(vectors, passages, anchors)

    async def ameasure(self, passages: Sequence[str], anchors: Sequence[str]) -> list[float]:
        """Async twin of `measure`."""
        vectors, missing = self._known([*passages, *anchors])
        if missing:
            vectors |= self._keep(missing, await self._embeddings.aembed_documents(missing))
        return _closest(vectors, passages, anchors)

    def _known(self, texts: Sequence[str]) -> tuple[dict[str, list[float]], list[str]]:
        with self._lock:
            known = {text: self._vectors[text] for text in texts if text in self._vectors}
        return known, list(dict.fromkeys(text for text in texts if text not in known))

    def _keep(self, texts: Sequence[str], vectors: Sequence[Sequence[float]]) -> dict[str, list[float]]:
        made = {text: _unit(vector) for text, vector in zip(texts, vectors, strict=True)}
        with self._lock:
            self._vectors |= made
            while len(self._vectors) > MOST_KEPT:
                del self._vectors[next(iter(self._vectors))]
        return made


def _unit(vector: Sequence[float]) -> list[float]:
    length = math.hypot(*vector)
    return [value / length for value in vector] if 0 < length < math.inf else [0.0] * len(vector)


def _closest(vectors: dict[str, list[float]], passages: Sequence[str], anchors: Sequence[str]) -> list[float]:
    def cosine(one: str, other: str) -> float:
        return math.fsum(map(mul, vectors[one], vectors[other]))

    return [round(min(1.0, max([0.0, *(cosine(passage, anchor) for anchor in anchors)])), 6) for passage in passages]
