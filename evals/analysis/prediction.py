"""Prediction of the rounds beyond the last observed one. Internal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .paired import Interval

__all__ = ["Predicted", "predict_rounds"]

DRAWS = 4000
AT_ONCE = 500
HALF = 0.5
"""The weight of a round for the rounds to come, as a share of the next one's."""

LEAST = 0.7
"""A further round moves between this share and all of what the one before it did, where they fade."""


@dataclass(frozen=True)
class Predicted:
    """A further round as it is expected, with 95% intervals. Shares are 0–1."""

    revised: float
    """Share of the problems that are still open before it, so that their drafts are revised in it."""
    accuracy: float
    accuracy_ci95: Interval
    gain: float
    """Accuracy above the baseline's on the same problems."""
    gain_ci95: Interval
    p: float
    """Two-sided tail of the gain."""


def predict_rounds(
    answers: Sequence[Sequence[bool]],
    still_open: Sequence[bool],
    baseline: Sequence[bool],
    *,
    observed: int,
    further: int,
) -> list[Predicted]:
    """Return the rounds that follow the observed ones, drawn from a posterior.

    After the last observed round a problem is in one of eight cells: answered right or wrong, open or done, and right
    or wrong by the baseline. In a further round an open one moves as open ones of its kind did before; the latest round
    counts most, since what is left is harder; in half of the draws the rounds to come fade. The draws are a Bayesian
    bootstrap over problems (Rubin 1981), each of which brings its cell and its moves together, for a sample that was
    lucky in its rounds is so in both; a prior that weighs as much as one problem keeps what was never seen possible.
    The same arguments give the same draws.

    Args:
        answers: For each problem, for every round that it was in, 0 first, whether its answer was right.
        still_open: For each problem, whether a further round would revise its draft.
        baseline: For each problem, whether the baseline's answer is right.
        observed: The last observed round.
        further: How many rounds are predicted.
    """
    try:
        import numpy as np
        from scipy import stats
    except ImportError as error:
        raise ImportError(f'a diagnosis needs an extra: pip install "redraft[evals]" ({error})') from None
    n = len(answers)
    cells = np.zeros((n, 2, 2, 2))  # by the baseline, answered right, open
    moves = np.zeros((n, 2, 2, 2))  # right before; right and open after
    squared = np.zeros(2)
    for at, (rights, goes_on, by_baseline) in enumerate(zip(answers, still_open, baseline, strict=True)):
        last = len(rights) - 1
        cells[at, int(by_baseline), int(rights[-1]), int(goes_on)] = 1
        for number in range(1, last + 1):
            weight, before = HALF ** (observed - number), int(rights[number - 1])
            moves[at, before, int(rights[number]), int(number < last or goes_on)] += weight
            squared[before] += weight**2
    rng = np.random.default_rng(0)
    counted = np.concatenate([cells.reshape(n, 8), moves.reshape(n, 8)], axis=1)
    # The first row is the sample itself, the others are draws, so that both go the same way. Weights of all draws at
    # once would take gigabytes where there are many problems.
    drawn = [rng.standard_exponential((AT_ONCE, n)) @ counted for _ in range(DRAWS // AT_ONCE)]
    sums = np.concatenate([counted.sum(axis=0, keepdims=True), *drawn])
    shares = _with_prior(sums[:, :8], rng).reshape(-1, 2, 2, 2)
    turns = []
    for kind in (0, 1):
        total = moves[:, kind].sum()
        # As many moves as would say as much without weights (Kish's effective size).
        counts = sums[:, 8 + 4 * kind : 12 + 4 * kind] * (total / squared[kind] if total else 0)
        if not total:  # nobody was seen to move from here: the estimate is that it stays
            counts[0, 2 * kind + 1] = 1
        turns.append(_with_prior(counts, rng).reshape(-1, 2, 2))
    by_baseline_right, state = shares[:, 1].sum(axis=(1, 2)), shares.sum(axis=1)
    # Percentiles of a difference are a little narrow in small samples; see Hesterberg 2015, "expanded percentile".
    tail = stats.norm.sf(math.sqrt(n / (n - 1)) * stats.t.isf(0.025, n - 1)) if n > 1 else 0.0
    # What is left may be harder still. The estimate and every other draw take the rounds to come for like the latest.
    fading = np.ones(1 + DRAWS)
    fading[2::2] = rng.uniform(LEAST, 1, DRAWS // 2)
    stays = np.eye(4).reshape(2, 2, 2, 2)[[0, 1], 1]
    found = []
    for number in range(1, further + 1):
        revised = float(state[0, :, 1].sum())
        moved = (fading**number)[:, None, None]
        wrong, right = (stay + moved * (turn - stay) for stay, turn in zip(stays, turns, strict=True))
        after = state[:, 0, 1, None, None] * wrong + state[:, 1, 1, None, None] * right
        after[:, :, 0] += state[:, :, 0]
        state = after
        accuracy = np.clip(state[:, 1].sum(axis=1), 0, 1)
        gain = accuracy - by_baseline_right
        above, below = (gain[1:] >= 0).mean(), (gain[1:] <= 0).mean()
        found.append(
            Predicted(
                revised=revised,
                accuracy=float(accuracy[0]),
                accuracy_ci95=_interval(accuracy, 0.025),
                gain=float(gain[0]),
                gain_ci95=_interval(gain, tail),
                p=float(min(max(2 * min(above, below), 1 / DRAWS), 1)),
            )
        )
    return found


def _with_prior(counts: Any, rng: Any) -> Any:
    """Return the shares of drawn counts, to each of which but the first a prior worth one problem is added."""
    kinds = counts.shape[1]
    counts[1:] += rng.standard_gamma(1 / kinds, (len(counts) - 1, kinds))
    return counts / counts.sum(axis=1, keepdims=True)


def _interval(values: Any, tail: float) -> Interval:
    import numpy as np

    low, high = np.quantile(values[1:], [tail, 1 - tail])
    return min(float(low), float(values[0])), max(float(high), float(values[0]))
