"""Diagnosis of labelled results: whether refining is worth its tokens, and how many rounds. Internal."""

from __future__ import annotations

import re
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pydantic import Field

from .equal_cost import mean_tokens
from .method_row import after_round, refines_nothing
from .paired import Interval, Paired, Proportion, Row, finding, holm, paired, proportion
from .power import WANTED, Power, power_of
from .prediction import predict_rounds
from .round_rates import answers_right, drafts_right, round_limit, tokens_by_round
from .sentences import p_in_words, percent, power_in_words, prices_in_words
from .token_matching import SLACK, match_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..run.run_folder import Run
    from .paired import Finding

__all__ = ["Diagnosis", "Option", "diagnose"]


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
    by_id = {one.question_id: one for one in run.records}
    records = [by_id[name] for name in ids]
    limit = round_limit(run)
    answers = [answers_right(one) or [False] for one in records]
    spent = [tokens_by_round(one) or [one.total_tokens] for one in records]
    changes = [paired(reference, [after_round(number, rights) for rights in answers]) for number in range(limit + 1)]
    options = [
        (_observed(run, number, change, fmean(after_round(number, costs) for costs in spent), cost), change)
        for number, change in enumerate(changes)
        if number
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

    helps = [one for one in refining if found(one) == "better"]
    # The cheapest that is within a point of the best: further rounds must earn their tokens.
    top = max(one.accuracy for one in helps or refining)
    best = min((one for one in helps or refining if one.accuracy >= top - 0.01), key=lambda one: one.tokens)
    name = re.sub(r"-\d+$", "", best.method) + f"-{best.rounds}"
    low, high = best.gain_ci95
    shown = "got" if best.observed else "is predicted to get"
    got = f"{shown} {percent(best.accuracy)} at {best.tokens:,.0f} tokens a problem"
    against = (
        f"{100 * best.gain:+.1f} points against {cheapest.method} "
        f"(95% {100 * low:+.1f} to {100 * high:+.1f}; {p_in_words(best.p, best.p_corrected)})"
    )
    rivals = [(one.method, one.accuracy, one.tokens) for one in baselines if one.tokens <= SLACK * best.tokens]
    for run in runs:
        dear = mean_tokens(run, ids) > SLACK * best.tokens
        if dear and (cut := match_tokens(run, ids, best.tokens)) and cut.tokens <= SLACK * best.tokens:
            label = f"{run.info.method}, cut to {cut.samples:.1f} samples,"
            rivals.append((label, fmean(cut.verdicts.values()), cut.tokens))
    rival, reached, price = max(rivals, key=lambda one: (one[1], -one[2]), default=(cheapest.method, 0.0, 0.0))
    instead = f"{rival} got {percent(reached)} at {price:,.0f}"
    if helps and reached < best.accuracy:
        worth = prices_in_words(best.tokens_per_point, best.tokens_per_fix)
        return best, name, f"Use {name}: it {got}, {against}. {worth}"
    if helps:
        return best, None, f"Don't refine here: {name} {got}, {against}, but {instead}."
    if found(best) != "undecided":
        return best, None, f"Don't refine here: {name} {got}, {against}: no {100 * wanted:g} points; {instead}."
    return best, None, f"Can't tell whether refining helps here: {name} {got}, {against}; {instead}."
