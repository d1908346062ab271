"""Calibrated confidence: the probability that passages answer a question, by logistic regression. Internal.

`benchmarks/retrieval_confidence.py` finds the numbers on questions with known passages. Those in force were fitted when
passages were ordered by similarity alone; as they are ordered now it finds -5.69, 7.29 and 2.29, whose probabilities
differ by at most 0.023, so that they stay: stored threads were judged by them.
"""

from __future__ import annotations

import math
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

from .key_terms import key_terms

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CALIBRATIONS", "FEATURES", "Calibrated", "features", "relevance"]

FEATURES = ("best", "overlap")
"""Similarity of the best passage, and the share of the question's key terms that the passages hold."""


def features(question: str, texts: Sequence[str], similarities: Sequence[float]) -> tuple[float, ...]:
    """Return the numbers that the confidence is read from, in the order of `FEATURES`.

    Args:
        question: In the words of the user.
        texts: Passages, best first, with their headings.
        similarities: Of the passages, 0–1.
    """
    return max(similarities), _held(question, " ".join(texts))


def relevance(question: str, text: str, similarity: float) -> float:
    """Return a passage's rank in reranking: its similarity, and a fifth of the share of key terms that it holds."""
    return similarity + WEIGHT_OF_TERMS * _held(question, text)


def _held(question: str, text: str) -> float:
    """Return the share of a question's key terms that a text holds, 0–1."""
    terms, folded = key_terms(question), text.casefold()
    # Without their endings, so that "copies" counts for "copying".
    return sum(term[: max(4, len(term) - 3)] in folded for term in terms) / len(terms) if terms else 0.0


WEIGHT_OF_TERMS = 0.2
"""Without it more passages to measure are more that are close and miss the point; chosen on the dev questions."""


class Calibrated(NamedTuple):
    """A logistic regression over `FEATURES`, and what its probabilities mean for a search."""

    intercept: float
    weights: tuple[float, ...]
    threshold: float
    """Below this, measuring deeper found more on the questions that it was fitted on, and lost none."""
    nothing_under: float
    """Below this passages are withheld: of those fitted on at most 2% of the hits."""

    def probability(self, question: str, texts: Sequence[str], similarities: Sequence[float]) -> float:
        """Return the probability, 0–1, that one of the passages answers the question."""
        values = features(question, texts, similarities)
        return 1 / (1 + math.exp(-self.intercept - sum(map(mul, self.weights, values))))


CALIBRATIONS: dict[str, Calibrated] = {
    "minilm": Calibrated(-5.57, (7.18, 2.31), threshold=0.65, nothing_under=0.2),
}
"""By embedding model. A stored thread names the one it was judged by, so that a new one needs a new name."""
