"""Key terms, and calibrated confidence: how probably passages answer a question, by logistic regression. Internal.

`benchmarks/retrieval_confidence.py` finds the numbers on questions with known passages. Those in force were fitted when
passages were ordered by similarity alone; as they are ordered now it finds -5.69, 7.29 and 2.29, whose probabilities
differ by at most 0.023, so that they stay: stored threads were judged by them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from operator import mul
from typing import NamedTuple

__all__ = ["CALIBRATIONS", "FEATURES", "Calibrated", "features", "key_terms", "relevance"]


def key_terms(text: str) -> list[str]:
    """Return the words of a text that are not function words, in lower case, each once, in order."""
    words = (word.casefold().replace("’", "'").removesuffix("'s") for word in WORD.findall(text))
    return list(dict.fromkeys(word for word in words if len(word) > 1 and word not in FUNCTION_WORDS))


WORD = re.compile(r"[^\W_](?:[\w'’+#.-]*[\w+#])?")

FUNCTION_WORDS = frozenset(
    """a about above after again against all also am an and any are aren't as at be because been before being below
    between both but by can can't cannot could couldn't did didn't do does doesn't doing don't down during each either
    few for from further get gets give given go goes had has hasn't have haven't having he her here hers him his how
    however i i'd i'll i'm i've if in into is isn't it its just let let's like made make makes many may me might more
    most much must my need needs neither no nor not now of off on once only onto or other our ours out over own please
    same shall she should so some such tell than that the their theirs them then there these they this those through to
    too under until up us use used uses using very via was wasn't way we were what when where whether which while who
    whom whose why will with within without won't would you your yours""".split()  # noqa: SIM905  # a long list of words reads better as text
)

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
    """Return the score that reranks a passage: its similarity, and a fifth of the share of key terms that it holds."""
    return similarity + WEIGHT_OF_TERMS * _held(question, text)


def _held(question: str, text: str) -> float:
    """Return the share of a question's key terms that a text holds, 0–1."""
    terms, words = key_terms(question), text.casefold()
    # Without their endings, so that "copies" counts for "copying".
    return sum(term[: max(4, len(term) - 3)] in words for term in terms) / len(terms) if terms else 0.0


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
