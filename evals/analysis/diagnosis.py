"""Diagnosis of labelled results: whether refining is worth its tokens, and how many rounds. Internal."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pydantic import Field

from .equal_cost import SLACK, match_tokens, mean_tokens
from .method_row import after_round, refines_nothing
from .paired import (
    WANTED,
    Finding,
    Interval,
    Paired,
    Power,
    Proportion,
    Row,
    finding,
    holm,
    paired,
    power_of,
    proportion,
)
from .round_rates import answers_right, drafts_right, round_limit, tokens_by_round
from .sentences import p_in_words, percent, power_in_words, prices_in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..run.run_folder import Run

__all__ = ["Diagnosis", "Option", "Predicted", "diagnose", "predict_rounds"]

DRAWS = 4000
AT_ONCE = 500
HALF = 0.5
"""The weight of a round for the rounds to come, as a share of the next one's."""

LEAST = 0.7
"""A further round moves between this share and all of what the one before it did, where they fade."""


class Option(Row):
    """One way to go on: a baseline, or a method with so many rounds."""

    method: str
    rounds: int | None = Field(description="Rounds; null for a baseline.")
    observed: bool = Field(description="Measured on these problems; else predicted, beyond the last observed round.")
    accuracy: float = Field(ge=0, le=1, description="Share of right answers.")
    ci95: Interval = Field(description="95% interval: Wilson's where observed, else of the prediction.")
    tokens: float = Field(ge=0, description="Tokens a problem.")
    gain: float = Field(description="Against the cheapest baseline, on the same problems.")
    gain_ci95: Interval = Field(description="95% interval: Tango's where observed, else of the prediction.")
    p: float = Field(
        ge=0, le=1, description="Could the gain be chance? McNemar's exact test; of a prediction its two-sided tail."
    )
    p_corrected: float = Field(ge=0, le=1, description="p by Holm's method among all refining options; or p itself.")
    tokens_per_point: float | None = Field(
        description="Tokens a problem above the cheapest baseline's for each point gained; null without a gain."
    )
    tokens_per_fix: float | None = Field(
        description="Tokens above the cheapest baseline's for each problem more that is right; null without a gain."
    )


class Diagnosis(Row):
    """The findings of labelled results, and the recommendation."""

    n: int = Field(ge=1, description="Problems of the sample.")
    first_draft: Proportion
    options: list[Option] = Field(description="Baselines first, then each method by its rounds.")
    recommended: str | None = Field(description="A method's name with its rounds; null: no refining.")
    recommendation: str = Field(description="In plain sentences.")
    read: list[str] = Field(default=[], description="By which fields logs of other tools were read.")
    power: Power = Field(description="Of the refining option that is weighed against the cheapest baseline.")


def diagnose(runs: Sequence[Run], *, rounds: int = 3, wanted: float = WANTED) -> Diagnosis:
    """Diagnose whether to refine, and how many rounds, from the measured and the predicted gain of each.

    Rounds that were played are reported: what the run would have answered, had it ended there. Only those beyond are
    predicted, as if they were like the latest ones. Refining is recommended only where its gain over the cheapest
    baseline is beyond chance, Holm's correction for all options included, and no baseline does as well for as much or
    less. It is advised against where a gain of `wanted` is ruled out; between the two nothing can be told.

    Args:
        runs: Of at least one baseline and one refining method, on the same problems.
        rounds: How many rounds are looked at; those that were played always are.
        wanted: The gain that refining must bring to be worth it, a share between 0 and 1.

    Raises:
        ValueError: There is no baseline or no refining method, they share no problem, they are not of one dataset and
            model, two are of one method, or `rounds` is less than 1.
        ImportError: The extra `evals` is not installed.
    """
    if rounds < 1:
        raise ValueError(f"rounds must be 1 or more, not {rounds!r}")
    baselines, refining, ids = _sides(runs)
    zero = min(baselines, key=lambda run: mean_tokens(run, ids))
    reference = [zero.verdicts[name] for name in ids]
    cost = mean_tokens(zero, ids)
    changes = [paired(reference, [run.verdicts[name] for name in ids]) for run in baselines]
    measured = [
        _observed(run, None, change, mean_tokens(run, ids), cost)
        for run, change in zip(baselines, changes, strict=True)
    ]
    predicted = [pair for run in refining for pair in _by_rounds(run, ids, reference, rounds=rounds, cost=cost)]
    corrected = holm([option.p for option, _ in predicted])
    looked_at = [
        (option.model_copy(update={"p_corrected": p}), change)
        for (option, change), p in zip(predicted, corrected, strict=True)
    ]
    firsts = {one.question_id: drafts_right(one)[:1] == [True] for one in refining[0].records}
    options = [option for option, _ in looked_at]
    weighed, recommended, sentence = _recommended(measured, options, baselines, ids, wanted)
    power = power_of(next(change for option, change in looked_at if option is weighed), wanted=wanted)
    return Diagnosis(
        n=len(ids),
        first_draft=proportion(sum(firsts[name] for name in ids), len(ids)),
        options=[*measured, *options],
        recommended=recommended,
        recommendation=sentence if recommended else f"{sentence} {power_in_words(power, len(ids))}",
        power=power,
    )


def _sides(runs: Sequence[Run]) -> tuple[list[Run], list[Run], list[str]]:
    """Return the baselines, the runs that refine, and the ids of the problems that all of them have."""
    kinds = dict.fromkeys((run.info.dataset_sha256, run.info.model) for run in runs)
    if len(kinds) > 1:
        several = ", ".join(sorted({f"{run.folder.parent} ({run.info.dataset}, {run.info.model})" for run in runs}))
        raise ValueError(f"a diagnosis is of one dataset and model; name one of: {several}")
    names = [run.info.method for run in runs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        folders = ", ".join(str(run.folder) for run in runs if run.info.method == twice[0])
        raise ValueError(f"there are several runs of {twice[0]}; name one of: {folders}")
    # What knows the gold answers can't be had in earnest, so it is never recommended.
    baselines, refining = (
        [run for run in runs if refines_nothing(run) is side and not run.oracle] for side in (True, False)
    )
    if not baselines or not refining:
        raise ValueError("a diagnosis needs a run of at least one baseline and of one refining method")
    ids = sorted(set.intersection(*(set(run.verdicts) for run in [*baselines, *refining])))
    if not ids:
        raise ValueError("the runs have no problem in common")
    return baselines, refining, ids


def _observed(run: Run, rounds: int | None, change: Paired, tokens: float, cost: float) -> Option:
    after, gain = change.after or 0.0, change.diff or 0.0
    return Option(
        method=run.info.method,
        rounds=rounds,
        observed=True,
        accuracy=after,
        ci95=change.after_ci95,
        tokens=tokens,
        gain=gain,
        gain_ci95=change.diff_ci95,
        p=change.mcnemar_p,
        p_corrected=change.mcnemar_p,
        **_prices(tokens - cost, gain),
    )


def _prices(extra: float, gain: float) -> dict[str, Any]:
    per_fix = extra / gain if gain > 0 else None
    return {"tokens_per_point": None if per_fix is None else per_fix / 100, "tokens_per_fix": per_fix}


def _by_rounds(
    run: Run, ids: Sequence[str], reference: Sequence[bool], *, rounds: int, cost: float
) -> list[tuple[Option, Paired]]:
    """Return an option for each number of rounds, with its change against the baseline, or the last observed one's."""
    by_id = {record.question_id: record for record in run.records}
    records = [by_id[name] for name in ids]
    limit = round_limit(run)
    answers = [answers_right(one) or [False] for one in records]
    spent = [tokens_by_round(one) for one in records]
    changes = [paired(reference, [after_round(number, rights) for rights in answers]) for number in range(limit + 1)]
    options = [
        (_observed(run, number, change, fmean(after_round(number, costs) for costs in spent), cost), change)
        for number, change in enumerate(changes[1:], 1)
    ]
    if rounds <= limit:
        return options
    going_on = [
        len(rights) == limit + 1 and one.stop_reason in ("max_rounds", None)
        for rights, one in zip(answers, records, strict=True)
    ]
    played = [costs[limit] - costs[limit - 1] for costs in spent if len(costs) > limit > 0]
    tokens, each = fmean(costs[-1] for costs in spent), fmean(played or [costs[0] for costs in spent])
    ahead = predict_rounds(answers, going_on, reference, observed=limit, further=rounds - limit)
    for number, one in enumerate(ahead, limit + 1):
        tokens += one.revised * each
        option = Option(
            method=run.info.method,
            rounds=number,
            observed=False,
            accuracy=one.accuracy,
            ci95=one.accuracy_ci95,
            tokens=tokens,
            gain=one.gain,
            gain_ci95=one.gain_ci95,
            p=one.p,
            p_corrected=1.0,
            **_prices(tokens - cost, one.gain),
        )
        options.append((option, changes[-1]))
    return options


def _recommended(
    baselines: Sequence[Option], refining: Sequence[Option], runs: Sequence[Run], ids: Sequence[str], wanted: float
) -> tuple[Option, str | None, str]:
    """Return the option that was weighed, the name to use if any, and why."""
    cheapest = min(baselines, key=lambda one: one.tokens)

    def found(one: Option) -> Finding:
        return finding(one.gain, one.gain_ci95, one.p_corrected, wanted=wanted)

    helps = [option for option in refining if found(option) == "better"]
    # The cheapest that is within a point of the best: further rounds must earn their tokens.
    top = max(one.accuracy for one in helps or refining)
    best = min((one for one in helps or refining if one.accuracy >= top - 0.01), key=lambda one: one.tokens)
    name = re.sub(r"-\d+$", "", best.method) + f"-{best.rounds}"
    rounds = f"{best.rounds} round{'' if best.rounds == 1 else 's'}"
    tried = name if name == best.method else f"{best.method} with {rounds}"
    low, high = best.gain_ci95
    shown = "got" if best.observed else "is predicted to get"
    got = f"{shown} {percent(best.accuracy)} at {best.tokens:,.0f} tokens a problem"
    against = (
        f"{100 * best.gain:+.1f} points against {cheapest.method} "
        f"(95% {100 * low:+.1f} to {100 * high:+.1f}; {p_in_words(best.p, best.p_corrected)})"
    )
    rivals = [
        (option.method, option.accuracy, option.tokens) for option in baselines if option.tokens <= SLACK * best.tokens
    ]
    for run in runs:
        dear = mean_tokens(run, ids) > SLACK * best.tokens
        if dear and (cut := match_tokens(run, ids, best.tokens)) and cut.tokens <= SLACK * best.tokens:
            label = f"{run.info.method}, cut to {cut.samples:.1f} samples,"
            rivals.append((label, fmean(cut.verdicts.values()), cut.tokens))
    rival, reached, price = max(rivals, key=lambda one: (one[1], -one[2]), default=(cheapest.method, 0.0, 0.0))
    instead = f"{rival} got {percent(reached)} at {price:,.0f}"
    if helps and reached < best.accuracy:
        worth = prices_in_words(best.tokens_per_point, best.tokens_per_fix, over=cheapest.method)
        return (
            best,
            name,
            f"{'Use' if best.observed else 'Nobody ran it, but try'} {tried}: it {got}, {against}. {worth}",
        )
    if helps:
        return best, None, f"Don't refine here: {tried} {got}, {against}, but {instead}."
    if found(best) != "undecided":
        return best, None, f"Don't refine here: {tried} {got}, {against}: no {100 * wanted:g} points; {instead}."
    return best, None, f"Can't tell whether refining helps here: {tried} {got}, {against}; {instead}."


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
        raise ImportError(f'a diagnosis needs an extra: pip install ".[evals]" in a checkout ({error})') from None
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
    predictions = []
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
        predictions.append(
            Predicted(
                revised=revised,
                accuracy=float(accuracy[0]),
                accuracy_ci95=_interval(accuracy, 0.025),
                gain=float(gain[0]),
                gain_ci95=_interval(gain, tail),
                p=float(min(max(2 * min(above, below), 1 / DRAWS), 1)),
            )
        )
    return predictions


def _with_prior(counts: Any, rng: Any) -> Any:
    """Return the shares of drawn counts, to each of which but the first a prior worth one problem is added."""
    kinds = counts.shape[1]
    counts[1:] += rng.standard_gamma(1 / kinds, (len(counts) - 1, kinds))
    return counts / counts.sum(axis=1, keepdims=True)


def _interval(values: Any, tail: float) -> Interval:
    import numpy as np

    low, high = np.quantile(values[1:], [tail, 1 - tail])
    return min(float(low), float(values[0])), max(float(high), float(values[0]))
