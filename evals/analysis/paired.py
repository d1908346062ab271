"""Paired statistics of two verdicts on the same problems: McNemar's and Fisher's tests, intervals, power. Internal."""

from __future__ import annotations

import importlib
import math
from bisect import bisect_left
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    Vector = np.ndarray[Any, Any]

__all__ = [
    "CHANCE",
    "WANTED",
    "Finding",
    "Interval",
    "Paired",
    "Power",
    "Proportion",
    "Row",
    "auc",
    "finding",
    "fisher_p",
    "holm",
    "mcnemar_p",
    "paired",
    "power_of",
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

WANTED = 0.05
"""Default of the difference worth finding: 5 points."""

ENOUGH = 0.8
MOST = 10**7
STEPS = 2**14
"""Of a difference from 0 to 1, as finely as the smallest one is told."""
TAIL = 1e-9
APART = 1e-9


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
    return float(_library("scipy").stats.binomtest(fixed, fixed + broken).pvalue) if fixed + broken else 1.0


def fisher_p(k: int, n: int, other_k: int, other_n: int) -> float:
    """Return the two-sided p of Fisher's exact test of k of n against other_k of other_n; 1 where one has none."""
    if not n or not other_n:
        return 1.0
    # Rounding can put it a hair above 1, which a row refuses.
    return min(float(_library("scipy").stats.fisher_exact([[k, n - k], [other_k, other_n - other_k]]).pvalue), 1.0)


def holm(ps: Sequence[float]) -> list[float]:
    """Return the p-values of several tests corrected by Holm's method, in their order."""
    multipletests = _library("statsmodels.stats.multitest").multipletests
    return [float(p) for p in multipletests(ps, method="holm")[1]] if ps else []


def auc(numbers: Sequence[float] | Vector, right: Sequence[bool] | Vector) -> float | None:
    """Return the chance that a right one has a higher number than a wrong one, ties counting half.

    `None` where all are right, or all wrong.
    """
    verdicts = _library("numpy").asarray(right, dtype=bool)
    good, bad = int(verdicts.sum()), int((~verdicts).sum())
    if not good or not bad:
        return None
    return float((_library("scipy").stats.rankdata(numbers)[verdicts].sum() - good * (good + 1) / 2) / (good * bad))


@lru_cache(maxsize=4096)
def _wilson(k: int, n: int) -> Interval:
    proportion_confint = _library("statsmodels.stats.proportion").proportion_confint
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
    brentq = _library("scipy").optimize.brentq
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

    def finds(step: int) -> bool:
        return _chance_to_find(step / STEPS, n, changed) >= ENOUGH

    smallest = bisect_left(range(STEPS), True, lo=1, key=finds) / STEPS if finds(STEPS) else None
    return Power(changed=changed, detectable=smallest, wanted=wanted, needed=_needed(wanted, changed))


def _needed(wanted: float, changed: float) -> int | None:
    enough = 8
    while _chance_to_find(wanted, enough, changed) < ENOUGH:
        enough *= 2
        if enough > MOST:
            return None
    # The exact test's power climbs in small teeth, so the sample is right within a few problems.
    return bisect_left(
        range(enough), True, lo=enough // 2 + 1, key=lambda few: _chance_to_find(wanted, few, changed) >= ENOUGH
    )


def _chance_to_find(diff: float, n: int, changed: float) -> float:
    """Return the chance that the exact test of n problems gives p <= 0.05 where this is the difference."""
    binom = _library("scipy").stats.binom
    numpy = _library("numpy")
    share = max(changed, diff)
    low, high = binom.ppf(TAIL, n, share), binom.isf(TAIL, n, share)
    changes = numpy.arange(max(low, 1), high + 1)
    # The most changes the rarer way at which the two-sided test still rejects; -1 where it never does.
    rejects = binom.ppf(CHANCE / 2, changes, 0.5) - 1
    fixed = (1 + diff / share) / 2
    power = binom.cdf(rejects, changes, 1 - fixed) + binom.cdf(rejects, changes, fixed)
    return float(numpy.sum(binom.pmf(changes, n, share) * power))


def _within(value: float, low: float, high: float) -> float:
    """Return the value without the rounding error that would put it outside of what is possible."""
    return float(min(max(value, low), high)) if math.isfinite(value) else float(low)


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f'the statistics need an extra: pip install ".[evals]" in a checkout ({error})') from None
