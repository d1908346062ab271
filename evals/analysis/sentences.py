"""Plain sentences about rows of the ledger, honest when nothing was gained or nothing can be told. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .paired import CHANCE, Finding, Interval, Paired, Power, finding

if TYPE_CHECKING:
    from .equal_cost import EqualCostRow
    from .method_row import MethodRow

__all__ = [
    "change_in_words",
    "finding_in_words",
    "p_in_words",
    "percent",
    "points",
    "power_in_words",
    "prices_in_words",
    "undecided",
    "verdict",
]


def verdict(row: MethodRow, equal_cost: EqualCostRow | None) -> str:
    """Describe what a run showed: a refining method by what it fixed and broke, a baseline by what it got right.

    Args:
        row: The method, with its tokens held against zero-shot's where there is such a run.
        equal_cost: It beside the nearest baseline; `None` for a baseline, or where there is none.
    """
    name = f"{row.label}, with the gold answers in hand," if row.oracle else row.label
    if not row.n:
        return f"{name} has no results."
    if row.baseline:
        return f"{_baseline(row, name)}."
    cost = f"at {row.token_ratio:.1f}× the tokens of zero-shot" if row.token_ratio else _tokens(row)
    sentence = f"{name} {change_in_words(row.overall, row.p_corrected, row.power)} {cost}"
    sentences = [f"{sentence}; {_beside(equal_cost)}." if equal_cost else f"{sentence}."]
    if undecided(row.overall, row.p_corrected, row.power):
        sentences.append(f"Can't tell whether it helped: {power_in_words(row.power, row.n)}")
    elif row.tokens_per_point is not None:
        sentences.append(prices_in_words(row.tokens_per_point, row.tokens_per_fix, over="the first drafts"))
    return " ".join([*sentences, *_best_round(row)])


def change_in_words(change: Paired, corrected: float | None, power: Power) -> str:
    """Describe what was fixed and broken, and whether that means anything: `fixed 12 and broke 2 of 200 (p = 0.013)`.

    Args:
        change: The counts.
        corrected: Its p among other tests; `None`: it is the only one.
        power: The difference that was wanted.
    """
    counted = f"fixed {change.fixed} and broke {change.broken} of {change.n}"
    if change.fixed or change.broken:
        counted += f" ({p_in_words(change.mcnemar_p, corrected)})"
    outcome = _finding(change, corrected, power)
    if outcome == "undecided":
        return f"{counted}, which could be chance," if change.fixed or change.broken else counted
    return counted + {"better": "", "worse": ", so it did harm,", "no gain": ", so it did not help,"}[outcome]


def finding_in_words(found: Finding, power: Power) -> str:
    """Return a finding in the fewest words."""
    return {"no gain": f"no gain of {_wanted(power)}", "undecided": "can't tell"}.get(found, found)


def undecided(change: Paired, corrected: float | None, power: Power) -> bool:
    """Return True if a change is within chance, and so is the wanted one."""
    return _finding(change, corrected, power) == "undecided"


def power_in_words(power: Power, n: int) -> str:
    """Return the difference that so many problems would have shown, and the number that the wanted one takes."""
    problems = "1 problem" if n == 1 else f"{n:,} problems"
    difference = "no difference" if power.detectable is None else f"{100 * power.detectable:.1f} points or more"
    takes = "more than ten million" if power.needed is None else f"about {power.needed:,}"
    return f"{problems} would have shown {difference} (80% power); {_wanted(power)} take {takes}."


def prices_in_words(point: float | None, fix: float | None, *, over: str) -> str:
    """Return the tokens that a gain over something took beyond it, for each point and for each problem."""
    if point is not None and point <= 0:
        return f"It took no more tokens than {over}."
    prices = [f"{price:,.0f}" if price >= 10 else f"{price:.2g}" for price in (point or 0.0, fix or 0.0)]
    return f"Each point gained over {over} took {prices[0]} more tokens a problem, each problem fixed {prices[1]}."


def p_in_words(p: float, corrected: float | None = None) -> str:
    """Return a p-value as `p = 0.031`, and beside it the corrected one where that reads otherwise."""
    both = (p, p if corrected is None else corrected)
    raw, also = ("< 0.001" if value < 0.001 else f"= {value:.2g}" for value in both)
    return f"p {raw}" if raw == also else f"p {raw}, corrected {also.removeprefix('= ')}"


def percent(share: float | None) -> str:
    """Return a share as a percentage with one decimal."""
    return "none" if share is None else f"{100 * share:.1f}%"


def points(ends: float | Interval | None) -> str:
    """Return a difference in percentage points, or its interval, always with the sign."""
    if ends is None:
        return "–"
    if isinstance(ends, tuple):
        return f"{points(ends[0])} to {points(ends[1])}"
    rounded = round(100 * ends, 1)
    return f"{rounded:+.1f}".replace("-", "−") if rounded else "0.0"


def _best_round(row: MethodRow) -> list[str]:
    """Return the round after which most answers are right, and what came after it."""
    best, last = row.best_round, len(row.rounds)
    if row.after_best is None or best == last == 1:
        return []
    right = [row.first_draft.k, *(played.delivered.k for played in row.rounds)]
    if best == last:
        return [f"Most are right after round {best}: {right[0]} → {right[best]} of {row.n}."]
    after = (
        f"round {best}: {right[0]} → {right[best]} of {row.n}" if best else f"the first draft: {right[0]} of {row.n}"
    )
    if right[last] == right[best]:
        return [f"Stop after {after}, and no more later."]
    chance = row.after_best.mcnemar_p > CHANCE
    return [f"Stop after {after}, then it falls to {right[last]}{', which could be chance' if chance else ''}."]


def _baseline(row: MethodRow, name: str) -> str:
    change = row.vs_zero_shot
    low, high = (100 * end for end in row.accuracy.ci95)
    got = f"{name} got {row.accuracy.k} of {row.n} right ({percent(row.accuracy.rate)}, 95% {low:.1f}–{high:.1f}%)"
    if change is None or change.diff is None:
        return f"{got} {_tokens(row)}"
    cost = f"at {row.token_ratio:.1f}× its tokens" if row.token_ratio else _tokens(row)
    same = f"on the same {change.n}"
    if not change.diff:
        return f"{got}, as many as zero-shot {same}, {cost}"
    points = f"{abs(100 * change.diff):.1f} points {'above' if change.diff > 0 else 'below'} zero-shot"
    chance = ", which could be chance," if _p(change, row.p_corrected) > CHANCE else ""
    return f"{got}, {points} {same} ({p_in_words(change.mcnemar_p, row.p_corrected)}){chance} {cost}"


def _beside(row: EqualCostRow) -> str:
    both = row.paired
    where = "at equal cost" if row.near else f"at {row.token_ratio:.1f}× its tokens" if row.token_ratio else "beside it"
    name = row.baseline if row.samples is None else f"{row.baseline}, cut to {row.samples:.1f} samples,"
    reached = f"{name} {where} reached {percent(both.before)} against its {percent(both.after)}"
    if not both.diff:
        return reached
    chance = ", which could be chance" if _p(both, row.p_corrected) > CHANCE else ""
    return f"{reached} ({p_in_words(both.mcnemar_p, row.p_corrected)}{chance})"


def _wanted(power: Power) -> str:
    return f"{100 * power.wanted:g} point{'' if power.wanted == 0.01 else 's'}"


def _tokens(row: MethodRow) -> str:
    # A log without tokens is not one of a method without any.
    return "at an unknown cost" if row.kind == "log" and not row.tokens else f"at {row.tokens:,.0f} tokens a problem"


def _finding(change: Paired, corrected: float | None, power: Power) -> Finding:
    return finding(change.diff or 0.0, change.diff_ci95, _p(change, corrected), wanted=power.wanted)


def _p(change: Paired, corrected: float | None) -> float:
    return change.mcnemar_p if corrected is None else corrected
