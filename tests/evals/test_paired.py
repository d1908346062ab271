"""Paired statistics: a user sees what changed and whether it could be chance, with an interval in every case."""

from __future__ import annotations

import json
import math
import random
import sys
from typing import Any

import pytest

pytest.importorskip("scipy", reason="the extra evals is not installed")
pytest.importorskip("statsmodels", reason="the extra evals is not installed")

from redraft.evals.analysis.paired import could_be_chance, fisher_p, mcnemar_p, paired, proportion

Z2 = 1.959963984540054**2


def verdicts(fixed: int, broken: int, right: int, wrong: int) -> tuple[list[bool], list[bool]]:
    pairs = [(False, True)] * fixed + [(True, False)] * broken + [(True, True)] * right + [(False, False)] * wrong
    return [one for one, _ in pairs], [two for _, two in pairs]


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [
        (0, 0, 0, 1),
        (0, 10, 0, Z2 / (10 + Z2)),
        (10, 10, 10 / (10 + Z2), 1),
        (1, 2, 0.5 - math.sqrt(Z2 * (0.5 + Z2 / 4)) / (2 + Z2), 0.5 + math.sqrt(Z2 * (0.5 + Z2 / 4)) / (2 + Z2)),
    ],
)
def test_a_share_has_wilsons_interval(k: int, n: int, low: float, high: float) -> None:
    """Of none, all and half the interval is the textbook's; of nothing it is everything."""
    found = proportion(k, n)
    assert found.ci95 == pytest.approx((low, high), abs=1e-9)
    assert found.rate == (k / n if n else None)


def test_what_changed_is_counted_and_tested() -> None:
    """12 fixed and 2 broken of 200 is p = 2 · (1 + 14 + 91) / 2^14, and the interval leaves zero out."""
    found = paired(*verdicts(12, 2, 130, 56))
    assert (found.n, found.fixed, found.broken, found.kept_right, found.kept_wrong) == (200, 12, 2, 130, 56)
    assert (found.before, found.after) == (0.66, 0.71)
    assert found.diff == pytest.approx(0.05)
    assert found.mcnemar_p == pytest.approx(2 * (1 + 14 + 91) / 2**14)
    assert not could_be_chance(found)
    spread = 1.96 * math.sqrt((14 - 100 / 200) / 200**2)
    assert found.diff_ci95 == pytest.approx((0.05 - spread, 0.05 + spread), abs=0.006)


def test_the_exact_test_is_that_of_statsmodels() -> None:
    """McNemar's p agrees with statsmodels wherever something changed, and is 1 where nothing did."""
    from statsmodels.stats.contingency_tables import mcnemar

    for fixed in range(9):
        for broken in range(9):
            theirs = mcnemar([[3, fixed], [broken, 4]], exact=True).pvalue if fixed + broken else 1.0
            assert mcnemar_p(fixed, broken) == pytest.approx(theirs)


@pytest.mark.parametrize(
    ("counts", "interval"),
    [
        ((0, 0, 0, 0), (-1, 1)),
        ((0, 0, 40, 20), (-(1 - 0.025 ** (1 / 60)), 1 - 0.025 ** (1 / 60))),
        ((60, 0, 0, 0), (2 * 0.025 ** (1 / 60) - 1, 1)),
        ((0, 60, 0, 0), (-1, 1 - 2 * 0.025 ** (1 / 60))),
        ((1, 0, 0, 0), (-0.95, 1)),
    ],
)
def test_where_all_changed_alike_the_interval_claims_no_certainty(
    counts: tuple[int, int, int, int], interval: tuple[float, float]
) -> None:
    """No problem, no change, or the same change everywhere: there is still an interval, and no NaN reaches the JSON."""
    found = paired(*verdicts(*counts))
    assert found.diff_ci95 == pytest.approx(interval)
    json.dumps(found.model_dump(mode="json"), allow_nan=False)


def test_counts_and_intervals_hold_for_any_verdicts() -> None:
    """The counts add up, the interval holds the difference, the order plays no part, and the way back is mirrored."""
    rng = random.Random(7)
    for _ in range(60):
        n = rng.randrange(1, 40)
        before, after = ([rng.random() < rng.random() for _ in range(n)] for _ in range(2))
        there, back = paired(before, after), paired(after, before)
        assert there.fixed + there.broken + there.kept_right + there.kept_wrong == n
        assert there.diff == pytest.approx(sum(after) / n - sum(before) / n)
        assert there.diff is not None
        assert -1 <= there.diff_ci95[0] <= there.diff + 1e-12
        assert there.diff - 1e-12 <= there.diff_ci95[1] <= 1
        assert (there.fixed, there.broken, there.mcnemar_p) == (back.broken, back.fixed, back.mcnemar_p)
        if there.fixed != there.broken:
            assert back.diff_ci95 == (-there.diff_ci95[1], -there.diff_ci95[0])
        shuffled = rng.sample(list(zip(before, after, strict=True)), n)
        assert paired([one for one, _ in shuffled], [two for _, two in shuffled]) == there


def test_a_judge_that_tells_no_difference_has_p_1() -> None:
    """Fisher's test says 1 where both kinds are accepted alike or one kind was never seen, 1/35 · 2 for 3 against 4."""
    assert fisher_p(5, 10, 5, 10) == 1
    assert fisher_p(5, 10, 0, 0) == 1
    assert fisher_p(3, 3, 0, 4) == pytest.approx(1 / 35)


def test_verdicts_that_do_not_pair_are_refused() -> None:
    """Lists of different lengths, or verdicts that are no booleans, give no statistics."""
    with pytest.raises(ValueError, match="argument 2 is"):
        paired([True], [True, False])
    unreadable: Any = [None]
    with pytest.raises(ValueError, match="True or False"):
        paired([True], unreadable)


@pytest.mark.parametrize(("missing", "n"), [("scipy", 976), ("statsmodels.stats.proportion", 977)])
def test_without_the_extra_the_error_says_what_to_install(
    missing: str, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Someone without scipy or statsmodels reads which extra brings them."""
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=r'pip install "redraft\[evals\]"'):
        paired([True] * n, [True] * (n - 1) + [False])  # sizes that nothing before has cached
