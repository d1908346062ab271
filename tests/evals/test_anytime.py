"""Evidence that holds whenever one looks."""

from __future__ import annotations

import random

import pytest
from redraft.evals.analysis.anytime import Bets, anytime_interval
from redraft.evals.gating import sequential


@pytest.mark.parametrize("mean", [0.0, -0.2])
def test_who_looks_after_every_problem_is_seldom_told_of_a_gain_that_is_not_there(mean: float) -> None:
    """Of two hundred gates on chance alone, at most one in twenty ever shows a difference."""
    chance = random.Random(7)
    wrong = 0
    for _ in range(200):
        bets = Bets()
        for _ in range(80):
            bets.add(1.0 if chance.random() < 0.2 * (1 + mean) else -1.0 if chance.random() < 0.25 else 0.0)
        wrong += bets.p <= 0.05
    assert wrong <= 10


def test_a_difference_that_is_there_is_found() -> None:
    """Twenty problems that all got better are enough, and the interval leaves nothing out that they allow."""
    bets = Bets()
    for _ in range(20):
        bets.add(1.0)
    assert bets.p < 0.001
    low, high = anytime_interval([1.0] * 20)
    assert 0 < low < high == 1
    assert anytime_interval([]) == (-1.0, 1.0)


def test_interval_and_test_agree() -> None:
    """Where the evidence against no difference is strong enough, the interval leaves 0 out, and not before."""
    changes = [1.0, 0.0, 1.0, 1.0, -1.0] * 12
    for n in range(1, len(changes) + 1):
        bets = Bets()
        for change in changes[:n]:
            bets.add(change)
        low, _ = anytime_interval(changes[:n])
        assert (low > 0) is (bets.p <= 0.025) or abs(low) < 1e-5


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [([0.0] * 200, "held"), ([-1.0] * 20, "worse"), ([0.0, -1.0, 1.0] * 5, "can't tell"), ([0.5] * 40, "held")],
)
def test_a_gate_says_what_the_changes_show(changes: list[float], verdict: str) -> None:
    """A gate ends as soon as it is decided, and says so where it is not."""
    found, n = sequential(changes, margin=0.05)
    assert found == verdict
    assert n == len(changes) if verdict == "can't tell" else n < len(changes)
