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

from redraft.evals.analysis.paired import fisher_p, holm, mcnemar_p, paired, power_of, proportion

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
    from scipy.optimize import minimize_scalar

    # At either end the score test gives exactly 5%: its variance is that of the likeliest shares with that difference.
    for diff in found.diff_ci95:
        likely = minimize_scalar(
            lambda q, d=diff: -(12 * math.log(q + d) + 2 * math.log(q) + 186 * math.log(1 - 2 * q - d)),
            bounds=(1e-9, (1 - diff) / 2 - 1e-9),
            method="bounded",
            options={"xatol": 1e-12},
        ).x
        assert (10 - 200 * diff) ** 2 / (200 * (2 * likely + diff - diff**2)) == pytest.approx(Z2, rel=1e-4)


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
        ((0, 0, 40, 20), (-Z2 / (60 + Z2), Z2 / (60 + Z2))),
        ((60, 0, 0, 0), ((60 - Z2) / (60 + Z2), 1)),
        ((0, 60, 0, 0), (-1, (Z2 - 60) / (60 + Z2))),
        ((1, 0, 0, 0), ((1 - Z2) / (1 + Z2), 1)),
    ],
)
def test_where_all_changed_alike_the_interval_claims_no_certainty(
    counts: tuple[int, int, int, int], interval: tuple[float, float]
) -> None:
    """No problem, no change, or the same change everywhere: there is still an interval, and no NaN reaches the JSON."""
    found = paired(*verdicts(*counts))
    assert found.diff_ci95 == pytest.approx(interval, abs=1e-6)
    json.dumps(found.model_dump(mode="json"), allow_nan=False)


def test_the_interval_never_contradicts_the_test() -> None:
    """Someone who reads p >= 0.05 finds 0 in the interval, and below it does not; so for 4 fixed, none broken."""
    for fixed in range(61):
        for broken in range(fixed + 1, 61 - fixed):
            for n in {fixed + broken, 60}:
                found = paired(*verdicts(fixed, broken, n - fixed - broken, 0))
                low, high = found.diff_ci95
                assert (low <= 0 <= high) == (found.mcnemar_p >= 0.05), (fixed, broken, n)
    four = paired(*verdicts(4, 0, 8, 8))
    assert (four.mcnemar_p, four.diff_ci95[0]) == (0.125, 0)


@pytest.mark.one_of_each
@pytest.mark.parametrize(("n", "fixed", "broken"), [(60, 6, 0), (200, 12, 2), (494, 120, 80), (20, 4, 0)])
def test_the_power_that_is_told_is_that_of_the_exact_test(n: int, fixed: int, broken: int) -> None:
    """Of samples drawn at the difference that is named, and of the size that is named, four in five give p <= 0.05."""
    import numpy as np

    told = power_of(paired(*verdicts(fixed, broken, n - fixed - broken, 0)), wanted=0.05)
    assert told.detectable is not None
    assert told.needed is not None
    for size, diff in ((n, told.detectable), (told.needed, 0.05)):
        share = max(told.changed, diff)
        drawn = np.random.default_rng(1).multinomial(
            size, [(share + diff) / 2, (share - diff) / 2, 1 - share], size=2000
        )
        found = [mcnemar_p(int(one), int(two)) <= 0.05 for one, two, _ in drawn]
        assert 0.77 < sum(found) / len(found) < 0.84


def test_a_sample_that_shows_nothing_of_any_size_says_so() -> None:
    """Five problems can't give p <= 0.05 whatever happens; a wanted difference of 0 or of 5 for 5 points is refused."""
    assert power_of(paired(*verdicts(5, 0, 0, 0))).detectable is None
    assert power_of(paired(*verdicts(6, 0, 0, 0))).detectable is not None
    for wanted in (0, 5):
        with pytest.raises(ValueError, match="between 0 and 1"):
            power_of(paired([True], [True]), wanted=wanted)


def test_several_tests_are_corrected_in_their_order() -> None:
    """Of three p-values the smallest counts threefold, the next twofold, and none falls below one before it."""
    assert holm([0.03, 0.01, 0.04]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([]) == []


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
    with pytest.raises(ImportError, match=r'pip install "\.\[evals\]"'):
        paired([True] * n, [True] * (n - 1) + [False])  # sizes that nothing before has cached
