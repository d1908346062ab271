"""Majority vote of sampled texts. Internal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence

__all__ = ["majority_text"]


def majority_text(texts: Sequence[str], answer: Callable[[str], Hashable | None]) -> str:
    """Return the first text whose answer is the most frequent; of equally frequent ones, the one given first.

    An empty text has no vote.
    """
    answers = [answer(text) if text.strip() else None for text in texts]
    votes = Counter(vote for vote in answers if vote is not None)
    if not votes:
        return next((text for text in texts if text.strip()), texts[0])
    winner = votes.most_common(1)[0][0]
    return texts[answers.index(winner)]
