"""Calibration of judges: the setting under which at most a share alpha of what is accepted is wrong. Internal.

Learn-then-Test (Angelopoulos and others, arXiv 2110.01052). A setting is a combination of critics with votes and a
threshold. Of the drafts that it accepts each is wrong with the setting's risk, so given how many it accepts, the wrong
ones are binomial, and the hypothesis "its risk exceeds alpha" has the exact p-value P(Bin(accepted, alpha) <= wrong).
Thresholds of one combination are tested from strict to lax, each at the full level, until one is not rejected (fixed-
sequence testing). Combinations share delta evenly, so whichever setting is chosen afterwards, the chance that its risk
exceeds alpha is at most delta. The share of wrong among accepted is no monotone risk, which conformal risk control
(arXiv 2208.02814) would need.

Strict settings that too few rows pass to show anything are left out by their count alone. With that the bound is exact
where a stricter threshold is no riskier; the tests simulate it where that fails too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from ...nodes.critics.judge_file import THRESHOLDS, JudgeFile, JudgePart, bin_of
from .paired import auc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

__all__ = [
    "Calibration",
    "Scored",
    "Setting",
    "calibrate",
    "first_start",
    "reachable_alpha",
    "rows_needed",
    "shown",
    "smallest_alpha",
]

MOST_COMBINED = 3
"""Critics of one combination; more combinations leave each less of delta."""


@dataclass(frozen=True)
class Scored:
    """The numbers that one critic gave with so many votes, one row a problem, one column a round.

    Rounds that a problem has no draft of hold NaN.
    """

    part: JudgePart
    numbers: np.ndarray[Any, Any]
    tokens: float = 0.0
    """Tokens that it spends on a draft, on average."""


@dataclass(frozen=True)
class Setting:
    """A combination of critics at the threshold that was chosen for it, and how it did on the calibration's rows."""

    parts: tuple[JudgePart, ...]
    threshold: float | None
    """`None` where none could be shown to keep alpha."""
    accepted: int
    wrong: int
    right_accepted: int
    tokens: float
    """Tokens that judging a draft takes at most, on average."""
    auc: float | None
    """The chance that a right first draft scores above a wrong one; `None` where all are right or all wrong."""
    p: float = 1.0

    @property
    def name(self) -> str:
        return " + ".join(
            f"{part.name}{f' x{part.votes}' if part.votes > 1 else ''}{' (score)' if part.reading == 'score' else ''}"
            for part in self.parts
        )


@dataclass(frozen=True)
class Calibration:
    """The result of a calibration."""

    alpha: float
    delta: float
    n: int
    """Problems."""
    right: int
    """Problems of which some draft is right."""
    rounds: int
    settings: tuple[Setting, ...]
    """Each combination, the best first."""
    scores: Mapping[float, int]

    @property
    def chosen(self) -> Setting | None:
        """The setting that accepts most right drafts of those that keep alpha."""
        return next((setting for setting in self.settings if setting.threshold is not None), None)

    def judge(self, *, made_from: str, drafts_by: str, date: str) -> JudgeFile:
        """Return the file of the chosen setting.

        Raises:
            ValueError: No setting keeps alpha.
        """
        if self.chosen is None or self.chosen.threshold is None:
            raise ValueError(f"no setting keeps alpha {self.alpha:g}")
        return JudgeFile(
            critics=self.chosen.parts,
            threshold=self.chosen.threshold,
            alpha=self.alpha,
            delta=self.delta,
            rounds=self.rounds,
            n=self.n,
            right=self.right,
            accepted=self.chosen.accepted,
            wrong=self.chosen.wrong,
            made_from=made_from,
            drafts_by=drafts_by,
            date=date,
            scores=dict(self.scores),
        )


def calibrate(scored: Sequence[Scored], right: np.ndarray[Any, Any], *, alpha: float, delta: float) -> Calibration:
    """Return the setting under which at most a share alpha of what is accepted is wrong, with confidence 1 - delta.

    A problem counts once: its first draft that a setting accepts is what is accepted of it.

    Args:
        scored: Each critic with each number of votes.
        right: Of each problem and round, whether the draft is right; rounds without a draft are not looked at.
        alpha: Share, 0–1.
        delta: Share, 0–1.

    Raises:
        ValueError: There are no rows, or alpha or delta is not between 0 and 1.
        ImportError: The extra `evals` is not installed.
    """
    import numpy as np

    for name, value in (("alpha", alpha), ("delta", delta)):
        if not 0 < value < 1:
            raise ValueError(f"{name} must be between 0 and 1, not {value!r}")
    if not scored or not len(right):
        raise ValueError("there is nothing to calibrate on")
    drafted = ~np.isnan(scored[0].numbers)
    right = np.asarray(right, dtype=bool) & drafted
    families = combined(scored)
    level = delta / len(families)
    settings = sorted(
        (_setting(family, right, alpha=alpha, level=level) for family in families), key=_worth, reverse=True
    )
    chosen = next(family for family in families if tuple(member.part for member in family) == settings[0].parts)
    return Calibration(
        alpha=alpha,
        delta=delta,
        n=len(right),
        right=int(right.any(axis=1).sum()),
        rounds=right.shape[1] - 1,
        settings=tuple(settings),
        scores=_fingerprint(chosen, settings[0].threshold),
    )


def smallest_alpha(scored: Sequence[Scored], right: np.ndarray[Any, Any], *, delta: float) -> float | None:
    """Return the smallest alpha that some setting would have kept on these rows, in steps of half a per cent.

    It is found by looking at the labels, so it is to be confirmed on other rows.
    """
    families = combined(scored)
    level = delta / len(families)
    counted = [_counted(family, right)[:2] for family in families]
    for step in range(1, 200):
        for accepted, wrong in counted:
            if shown(accepted, wrong, alpha=step / 200, level=level, rows=len(right)).any():
                return step / 200
    return None


def combined(scored: Sequence[Scored]) -> list[tuple[Scored, ...]]:
    """Return the combinations that are tested: each critic by itself, then those of several with all their votes.

    In one the cheapest is asked first, so that most drafts that fail cost little.
    """
    most: dict[str, Scored] = {}
    for member in scored:
        if member.part.name not in most or member.part.votes > most[member.part.name].part.votes:
            most[member.part.name] = member
    several = [
        tuple(sorted(group, key=lambda member: member.tokens))
        for size in range(2, MOST_COMBINED + 1)
        for group in combinations(most.values(), size)
    ]
    return [*((member,) for member in scored), *several]


def shown(
    accepted: np.ndarray[Any, Any], wrong: np.ndarray[Any, Any], *, alpha: float, level: float, rows: int
) -> np.ndarray[Any, Any]:
    """Return the settings of a sequence that are shown to keep alpha: along the last axis, strict to lax.

    Args:
        accepted: How many drafts each accepts.
        wrong: How many of these are wrong.
        alpha: The share that may be wrong.
        level: The chance of error for the whole sequence.
        rows: Problems.
    """
    import numpy as np
    from scipy.stats import binom

    p = binom.cdf(wrong, accepted, alpha)
    too_few = accepted < first_start(rows, alpha=alpha, level=level)
    # Counts grow along the sequence, so what is left out stands before the first that is tested.
    return np.logical_and.accumulate(too_few | (p <= level), axis=-1) & ~too_few


def first_start(rows: int, *, alpha: float, level: float) -> int:
    """Return the number of drafts that the first tested setting must accept.

    Enough to be shown with no wrong one among them; with many rows, with a few, so that one unlucky draft does not end
    the sequence at once.
    """
    allowed = min(3, rows // 100)
    while allowed and rows_needed(alpha, level, wrong=allowed) > rows / 4:
        allowed -= 1
    return rows_needed(alpha, level, wrong=allowed)


def rows_needed(alpha: float, level: float, *, wrong: int = 0) -> int:
    """Return the number of accepted drafts, `wrong` of them wrong, that shows alpha."""
    from scipy.stats import nbinom

    # Fewer than `wrong + 1` of n are wrong where the draft that is wrong for the `wrong + 1`-th time comes after them.
    return wrong + 1 + int(nbinom.isf(level, wrong + 1, alpha))


def reachable_alpha(accepted: int, delta: float) -> float:
    """Return the smallest alpha that so many accepted drafts can show: all of them right."""
    return float(1 - delta ** (1 / accepted)) if accepted else 1.0


def _setting(family: Sequence[Scored], right: np.ndarray[Any, Any], *, alpha: float, level: float) -> Setting:
    import numpy as np
    from scipy.stats import binom

    accepted, wrong, numbers = _counted(family, right)
    ok = np.flatnonzero(shown(accepted, wrong, alpha=alpha, level=level, rows=len(right)))
    parts = tuple(member.part for member in family)
    unproven = Setting(parts, None, 0, 0, 0, sum(member.tokens for member in family), auc(numbers[:, 0], right[:, 0]))
    if not len(ok):
        return unproven
    # Of thresholds that accept the same rows the strictest: nothing between them was seen.
    at = max(int(np.flatnonzero(accepted == accepted[ok[-1]])[0]), int(ok[0]))
    k, n = int(wrong[at]), int(accepted[at])
    p = float(binom.cdf(k, n, alpha))
    return replace(unproven, threshold=THRESHOLDS[at], accepted=n, wrong=k, right_accepted=n - k, p=p)


def _counted(family: Sequence[Scored], right: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], ...]:
    """Count accepted problems and wrong ones among them for each threshold; return the numbers of all drafts too."""
    import numpy as np

    numbers = np.min([member.numbers for member in family], axis=0)
    # NaN, where there is no draft, reaches no threshold.
    reached = numbers[:, :, None] >= np.array(THRESHOLDS)
    taken = reached.any(axis=1)
    good = np.take_along_axis(right, reached.argmax(axis=1), axis=1) & taken
    return taken.sum(axis=0), (taken & ~good).sum(axis=0), numbers


def _worth(setting: Setting) -> tuple[bool, int, float, float]:
    return setting.threshold is not None, setting.right_accepted, setting.auc or 0.0, -setting.tokens


def _fingerprint(family: Sequence[Scored], threshold: float | None) -> dict[float, int]:
    """Return the histogram of the judge's numbers for first drafts.

    The first critic below the threshold ends it, so that is the number which it shows then.
    """
    import numpy as np

    columns = np.array([member.numbers[:, 0] for member in family])
    below = columns < (threshold or 0.0)
    ended = np.where(below.any(axis=0), below.argmax(axis=0), len(columns) - 1)
    numbers = [min(column[: end + 1]) for column, end in zip(columns.T, ended, strict=True)]
    return dict(sorted(Counter(bin_of(float(number)) for number in numbers).items()))
