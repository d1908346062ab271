"""Paired comparisons that may be looked at after every problem: evidence by betting, p-values and intervals. Internal.

Each difference of two scores lies between -1 and 1. Against the hypothesis that their mean is at most some bound, a
gambler stakes a share of a capital of 1 on each difference being above it. Where the hypothesis holds the capital is a
nonnegative supermartingale, so by Ville's inequality it ever reaches 1 / alpha with probability alpha at most, however
often one looks and whenever one stops (Waudby-Smith and Ramdas, "Estimating means of bounded random variables by
betting", Journal of the Royal Statistical Society B 86, 2024). Several stakes are played side by side and their
capitals averaged, which keeps the promise. On right and wrong answers this is a sequential form of McNemar's test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .paired import CHANCE, Interval

__all__ = ["Bets", "anytime_interval"]

STAKES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
"""Shares of the capital that are staked, from those that find small differences to those that find large ones soon."""
HALVINGS = 20


class Bets:
    """The evidence that the mean of differences is above a bound.

    Args:
        bound: The mean that the hypothesis allows at most, above -1 and below 1.

    Example:
        >>> bets = Bets()
        >>> for _ in range(20):
        ...     bets.add(1.0)
        >>> bets.p < 0.001
        True
    """

    def __init__(self, bound: float = 0.0) -> None:
        self.bound = bound
        self._logs = [0.0] * len(STAKES)
        self._most = 0.0

    def add(self, difference: float) -> None:
        """Play one difference, from -1 to 1."""
        gain = (difference - self.bound) / (1 + self.bound)
        self._logs = [log + math.log1p(stake * gain) for log, stake in zip(self._logs, STAKES, strict=True)]
        largest = max(self._logs)
        mean = math.fsum(math.exp(log - largest) for log in self._logs) / len(STAKES)
        self._most = max(self._most, largest + math.log(mean))

    @property
    def p(self) -> float:
        """The p-value of the hypothesis, valid whenever one looks."""
        return math.exp(-self._most)


def anytime_interval(differences: Sequence[float], alpha: float = CHANCE) -> Interval:
    """Return an interval that holds the mean with confidence 1 - alpha, though one looked after every difference.

    Args:
        differences: In the order in which they were seen, each from -1 to 1.
        alpha: The chance that the interval misses, at any time.
    """

    def lowest(values: Sequence[float]) -> float:
        """Return the largest bound that the mean is shown to be above of."""
        low, high = -1.0, 1.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            bets = Bets(middle)
            for value in values:
                bets.add(value)
            low, high = (middle, high) if bets.p <= alpha / 2 else (low, middle)
        return low

    return lowest(differences), -lowest([-value for value in differences])
