"""Calibration of judges: the promise holds as often as it says, and what can't be shown is named."""

from __future__ import annotations

import math

import numpy as np
import pytest
from redraft.evals.analysis.calibration import Scored, calibrate, reachable_alpha, rows_needed, shown, smallest_alpha
from redraft.nodes.critics.judge_file import THRESHOLDS, JudgePart
from scipy.stats import binom, norm

PART = JudgePart(spec="self", name="self", reading="score", votes=1)
GRID = np.array(THRESHOLDS)
ALPHA, DELTA, SETS = 0.1, 0.1, 2000


def risks(base: float, apart: float) -> np.ndarray:
    """Return the true share of wrong among drafts that reach each threshold, where right ones score higher."""
    with np.errstate(divide="ignore"):
        logit = np.log(GRID) - np.log1p(-GRID)
    right, wrong = base * norm.sf(logit - apart), (1 - base) * norm.sf(logit)
    return np.divide(wrong, right + wrong, out=np.full_like(right, 1 - base), where=right + wrong > 0)


@pytest.mark.parametrize("n", [50, 200, 1000])
def test_the_promise_is_broken_as_rarely_as_it_says(n: int) -> None:
    """Of 2,000 calibration sets, at most a share delta end in a judge whose true risk exceeds alpha, at any base rate.

    Scores that separate well and hardly, and a critic whose surest verdicts are its worst.
    """
    random = np.random.default_rng(n)
    most = binom.ppf(0.9999, SETS, DELTA)  # the test itself errs once in ten thousand
    found_any = False
    for base in (0.1, 0.3, 0.5, 0.7, 0.9):
        for apart in (0.5, 2.5):
            broken = 0
            risk = risks(base, apart)
            for _ in range(8):  # in parts, for the memory's sake
                right = random.random((SETS // 8, n)) < base
                scores = 1 / (1 + np.exp(-(random.normal(size=right.shape) + apart * right)))
                chosen = last_shown(scores, right)
                broken += int((risk[chosen[chosen >= 0]] > ALPHA).sum())
                found_any |= bool((chosen >= 0).any())
            assert broken <= most, (base, apart, broken)
    # A flat score but for the surest tenth, where everything is wrong: stricter is riskier here.
    for base in (0.5, 0.7, 0.9):
        sure = random.random((SETS, n)) < 0.1
        right = (random.random((SETS, n)) < base) & ~sure
        chosen = last_shown(np.where(sure, 0.95, 0.5), right)
        true = np.where(GRID > 0.5, 1.0, 1 - 0.9 * base)
        assert (true[chosen[chosen >= 0]] > ALPHA).sum() <= most
    assert found_any


def last_shown(scores: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the place of the laxest threshold that is shown for each calibration set, or -1."""
    n = scores.shape[-1]
    # Counts by bins, since all scores against all thresholds would not fit into memory.
    bins = len(GRID) - np.searchsorted(GRID[::-1], scores, side="right")
    places = bins + np.arange(len(scores))[:, None] * len(GRID)
    size = len(scores) * len(GRID)
    accepted = np.bincount(places.ravel(), minlength=size).reshape(-1, len(GRID)).cumsum(axis=1)
    wrong = np.bincount(places.ravel(), (~right).ravel(), minlength=size).reshape(-1, len(GRID)).cumsum(axis=1)
    ok = shown(accepted, wrong, alpha=ALPHA, level=DELTA, rows=n)
    return np.where(ok.any(axis=1), len(GRID) - 1 - ok[:, ::-1].argmax(axis=1), -1)


def test_several_critics_share_the_risk_of_error() -> None:
    """Trying many critics, of which none knows anything, does not find one that seems to keep the promise."""
    random, found = np.random.default_rng(5), 0
    for _ in range(100):
        right = random.random((200, 1)) < 0.88
        scored = [Scored(PART.model_copy(update={"name": f"c{i}"}), random.random((200, 1))) for i in range(4)]
        found += calibrate(scored, right, alpha=ALPHA, delta=DELTA).chosen is not None
    assert found <= binom.ppf(0.9999, 100, DELTA)


def test_a_problem_counts_once_with_its_first_accepted_draft() -> None:
    """Where revisions are judged too, a wrong draft that is accepted first is not made good by a later right one."""
    numbers = np.array([[1.0, 1.0]] * 40 + [[0.0, 1.0]] * 40 + [[0.0, math.nan]] * 20)
    right = np.array([[True, False]] * 40 + [[False, True]] * 40 + [[True, False]] * 20)
    found = calibrate([Scored(PART, numbers)], right, alpha=ALPHA, delta=DELTA)
    assert found.chosen is not None
    assert (found.chosen.threshold, found.chosen.accepted, found.chosen.wrong, found.rounds) == (1.0, 80, 0, 1)
    assert (found.n, found.right, sum(found.scores.values())) == (100, 100, 100)
    late = calibrate([Scored(PART, numbers)], ~right, alpha=ALPHA, delta=DELTA)
    assert late.chosen is None


def test_what_can_not_be_shown_is_named() -> None:
    """Where no setting keeps alpha, the result says so and names the smallest alpha that one would have kept."""
    right = np.array([[True]] * 70 + [[False]] * 30)
    scores = np.where(right, 0.9, 0.4)
    scores[:12] = 0.4
    scores[95:] = 0.9
    found = calibrate([Scored(PART, scores)], right, alpha=0.05, delta=DELTA)
    assert found.chosen is None
    with pytest.raises(ValueError, match=r"no setting keeps alpha 0\.05"):
        found.judge(made_from="", drafts_by="", date="2026-01-01")
    best = smallest_alpha([Scored(PART, scores)], right, delta=DELTA)
    assert best is not None
    again = calibrate([Scored(PART, scores)], right, alpha=best, delta=DELTA)
    assert again.chosen is not None
    assert again.chosen.threshold == pytest.approx(0.9)
    assert calibrate([Scored(PART, scores)], right, alpha=best - 0.005, delta=DELTA).chosen is None


def test_it_is_known_beforehand_what_so_many_rows_can_show() -> None:
    """22 rows, all accepted and right, show 10% with 90% confidence, and 21 do not."""
    assert rows_needed(0.1, 0.1) == 22
    assert reachable_alpha(22, 0.1) <= 0.1 < reachable_alpha(21, 0.1)
    assert reachable_alpha(0, 0.1) == 1.0
    for n, chosen in ((22, True), (21, False)):
        every = np.ones((n, 1))
        found = calibrate([Scored(PART, every)], every > 0, alpha=ALPHA, delta=DELTA)
        assert (found.chosen is not None) is chosen
