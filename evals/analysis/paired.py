"""Paired statistics: two verdicts on the same problems, with McNemar's and Fisher's tests and intervals. Internal."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "CHANCE",
    "Finding",
    "Interval",
    "Paired",
    "Proportion",
    "finding",
    "fisher_p",
    "holm",
    "mcnemar_p",
    "paired",
    "proportion",
]

Interval = tuple[float, float]
"""Lower and upper end of a 95% interval."""

CHANCE = 0.05
"""A p-value above this could be chance."""

Finding = Literal["better", "worse", "no gain", "undecided"]
"""A difference is beyond chance, or the wanted gain is ruled out, or these problems can't tell."""

Z = 1.959963984540054
"""The normal quantile that leaves 2.5% above."""


class Row(BaseModel):
    """A row of the ledger: plain, frozen, and without NaN."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Proportion(Row):
    """A proportion: so many of so many."""

    k: int = Field(ge=0, description="How many.")
    n: int = Field(ge=0, description="Of how many.")
    rate: float | None = Field(ge=0, le=1, description="k / n, 0–1; null where n is 0.")
    ci95: Interval = Field(description="Wilson's 95% interval, 0–1; (0, 1) where n is 0.")


class Paired(Row):
    """Two verdicts on each of the same problems, one before and one after."""

    n: int = Field(ge=0, description="Problems.")
    before: float | None = Field(description="Share right before, 0–1; null where n is 0.")
    after: float | None = Field(description="Share right after, 0–1; null where n is 0.")
    before_ci95: Interval = Field(description="Wilson's 95% interval, 0–1.")
    after_ci95: Interval = Field(description="Wilson's 95% interval, 0–1.")
    fixed: int = Field(ge=0, description="Wrong before, right after.")
    broken: int = Field(ge=0, description="Right before, wrong after.")
    kept_right: int = Field(ge=0, description="Right before and after.")
    kept_wrong: int = Field(ge=0, description="Wrong before and after.")
    mcnemar_p: float = Field(ge=0, le=1, description="McNemar's exact two-sided test of fixed against broken.")
    diff: float | None = Field(description="after - before, -1 to 1; null where n is 0.")
    diff_ci95: Interval = Field(
        description="95% interval of diff: Tango's score interval, widened to hold 0 where p >= 0.05."
    )


def proportion(k: int, n: int) -> Proportion:
    """Return a share with Wilson's 95% interval.

    Raises:
        ImportError: The extra `evals` is not installed.
    """
    return Proportion(k=k, n=n, rate=k / n if n else None, ci95=_wilson(k, n))


def paired(before: Sequence[bool], after: Sequence[bool]) -> Paired:
    """Compare two lists of verdicts; the same place is the same problem.

    The interval of the difference is Tango's score interval (Statistics in Medicine 17, 1998, 891-908). It follows the
    asymptotic test, and the exact one is stricter in small samples: of 4 fixed and none broken it would leave 0 out at
    p = 0.125. There the end nearer to 0 is moved to 0, so that interval and test never disagree.

    Raises:
        ValueError: The lists differ in length.
        ImportError: The extra `evals` is not installed.
    """
    pairs = list(zip(before, after, strict=True))
    fixed, broken = pairs.count((False, True)), pairs.count((True, False))
    right, wrong = pairs.count((True, True)), pairs.count((False, False))
    n = fixed + broken + right + wrong
    if n != len(pairs):
        raise ValueError("verdicts must be True or False")
    old, new = proportion(right + broken, n), proportion(right + fixed, n)
    return Paired(
        n=n,
        before=old.rate,
        after=new.rate,
        before_ci95=old.ci95,
        after_ci95=new.ci95,
        fixed=fixed,
        broken=broken,
        kept_right=right,
        kept_wrong=wrong,
        mcnemar_p=mcnemar_p(fixed, broken),
        diff=(fixed - broken) / n if n else None,
        diff_ci95=_difference_interval(fixed, broken, n),
    )


def finding(diff: float, interval: Interval, p: float, *, wanted: float) -> Finding:
    """Return the finding of a comparison; every verdict, recommendation and picture takes it from here.

    Args:
        diff: The difference, -1 to 1.
        interval: Its 95% interval.
        p: Corrected, where there are other tests beside it.
        wanted: The gain worth finding, a share between 0 and 1.
    """
    if p < CHANCE and diff:
        return "better" if diff > 0 else "worse"
    return "no gain" if interval[1] < wanted else "undecided"


def mcnemar_p(fixed: int, broken: int) -> float:
    """Return the two-sided p of McNemar's exact test; 1 where nothing changed."""
    return float(_scipy().stats.binomtest(fixed, fixed + broken).pvalue) if fixed + broken else 1.0


def fisher_p(k: int, n: int, other_k: int, other_n: int) -> float:
    """Return the two-sided p of Fisher's exact test of k of n against other_k of other_n; 1 where one has none."""
    if not n or not other_n:
        return 1.0
    # Rounding can put it a hair above 1, which a row refuses.
    return min(float(_scipy().stats.fisher_exact([[k, n - k], [other_k, other_n - other_k]]).pvalue), 1.0)


def holm(ps: Sequence[float]) -> list[float]:
    """Return the p-values of several tests corrected by Holm's method, in their order."""
    try:
        from statsmodels.stats.multitest import multipletests
    except ImportError as error:
        raise _missing(error) from None
    return [float(p) for p in multipletests(ps, method="holm")[1]] if ps else []


@lru_cache(maxsize=4096)
def _wilson(k: int, n: int) -> Interval:
    try:
        from statsmodels.stats.proportion import proportion_confint
    except ImportError as error:
        raise _missing(error) from None
    if not n:
        return 0.0, 1.0
    low, high = proportion_confint(k, n, alpha=0.05, method="wilson")
    return _within(low, 0, k / n), _within(high, k / n, 1)


@lru_cache(maxsize=4096)
def _difference_interval(fixed: int, broken: int, n: int) -> Interval:
    if not n:
        return -1.0, 1.0
    if fixed < broken:  # so that the way back has the mirrored interval
        low, high = _difference_interval(broken, fixed, n)
        return -high, -low
    brentq = _scipy().optimize.brentq
    seen = (fixed - broken) / n

    def excess(diff: float) -> float:
        """Return by how much the squared score test of this difference exceeds what 95% allow."""
        # The share broken that is likeliest if this is the difference, from Tango's quadratic equation.
        b = (2 * n - fixed + broken) * diff - fixed - broken
        c = -broken * diff * (1 - diff)
        share = (math.sqrt(max(b * b - 8 * n * c, 0.0)) - b) / (4 * n)
        return (fixed - broken - n * diff) ** 2 - Z * Z * n * (2 * share + diff * (1 - diff))

    # Beside what was seen, not on it: where all were fixed the variance is 0 there.
    low = brentq(excess, -1.0, seen - APART)
    high = brentq(excess, seen + APART, 1.0) if seen < 1 else 1.0
    if mcnemar_p(fixed, broken) >= CHANCE:
        low = min(low, 0.0)
    return _within(low, -1, seen), _within(high, seen, 1)


APART = 1e-9


def _within(value: float, low: float, high: float) -> float:
    """Return the value without the rounding error that would put it outside of what is possible."""
    return float(min(max(value, low), high)) if math.isfinite(value) else float(low)


def _scipy() -> Any:
    try:
        import scipy
    except ImportError as error:
        raise _missing(error) from None
    return scipy


def _missing(error: ImportError) -> ImportError:
    return ImportError(f'the statistics need an extra: pip install "redraft[evals]" ({error})')
