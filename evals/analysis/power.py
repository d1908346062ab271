"""Power of McNemar's exact test: the difference that a sample would have found, and the sample for one. Internal."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pydantic import Field

from .paired import CHANCE, Row

if TYPE_CHECKING:
    from .paired import Paired

__all__ = ["WANTED", "Power", "power_of"]

WANTED = 0.05
"""The difference that is worth finding where nobody says another: 5 points."""

ENOUGH = 0.8
MOST = 10**7


class Power(Row):
    """The reach of a paired comparison at 80% power, two-sided 5%."""

    changed: float = Field(
        ge=0,
        le=1,
        description="Share of problems taken to change their verdict: (observed + 0.5) / (n + 1), and never less than "
        "the difference that is asked about.",
    )
    detectable: float | None = Field(
        description="The smallest difference that these problems would have shown, 0–1; null: none of any size."
    )
    wanted: float = Field(gt=0, lt=1, description="The difference that is worth finding, 0–1.")
    needed: int | None = Field(description="Problems that show it; null where more than ten million.")


def power_of(change: Paired, *, wanted: float = WANTED) -> Power:
    """Return the difference that a comparison of so many problems finds, and how many problems find the wanted one.

    Args:
        change: The comparison, whose share of changed verdicts is taken for that of others like it.
        wanted: The difference worth finding, a share between 0 and 1.

    Raises:
        ValueError: `wanted` is not between 0 and 1.
        ImportError: The extra `evals` is not installed.
    """
    if not 0 < wanted < 1:
        raise ValueError(f"the wanted difference must be a share between 0 and 1, not {wanted!r}")
    return _power(change.n, change.fixed + change.broken, wanted)


@lru_cache(maxsize=1024)
def _power(n: int, changes: int, wanted: float) -> Power:
    changed = (changes + 0.5) / (n + 1)
    detectable = None
    if _chance_to_find(1.0, n, changed) >= ENOUGH:
        low, detectable = 0.0, 1.0
        while detectable - low > PRECISE:
            middle = (low + detectable) / 2
            if _chance_to_find(middle, n, changed) >= ENOUGH:
                detectable = middle
            else:
                low = middle
    return Power(changed=changed, detectable=detectable, wanted=wanted, needed=_needed(wanted, changed))


PRECISE = 1e-4


def _needed(wanted: float, changed: float) -> int | None:
    enough = 8
    while _chance_to_find(wanted, enough, changed) < ENOUGH:
        enough *= 2
        if enough > MOST:
            return None
    few = enough // 2
    # The exact test's power climbs in small teeth, so the sample is right within a few problems.
    while enough - few > 1:
        middle = (few + enough) // 2
        if _chance_to_find(wanted, middle, changed) >= ENOUGH:
            enough = middle
        else:
            few = middle
    return enough


def _chance_to_find(diff: float, n: int, changed: float) -> float:
    """Return the chance that the exact test of n problems gives p <= 0.05 where this is the difference."""
    try:
        import numpy as np
        from scipy.stats import binom
    except ImportError as error:
        raise ImportError(f'the statistics need an extra: pip install "redraft[evals]" ({error})') from None
    share = max(changed, diff)
    low, high = binom.ppf(TAIL, n, share), binom.isf(TAIL, n, share)
    changes = np.arange(max(low, 1), high + 1)
    # The most changes the rarer way at which the two-sided test still rejects; -1 where it never does.
    rejects = binom.ppf(CHANCE / 2, changes, 0.5) - 1
    fixed = (1 + diff / share) / 2
    found = binom.cdf(rejects, changes, 1 - fixed) + binom.cdf(rejects, changes, fixed)
    return float(np.sum(binom.pmf(changes, n, share) * found))


TAIL = 1e-9
