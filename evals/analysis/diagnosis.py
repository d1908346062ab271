"""Diagnosis of a small labelled sample: whether refining is worth its tokens, and how many rounds. Internal."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from pydantic import Field

from .method_row import is_baseline
from .paired import Proportion, Row, proportion
from .round_rates import drafts_right, predicted_accuracy, predicted_revisions, round_rates

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..run.result_record import ResultRecord
    from ..run.run_folder import Run

__all__ = ["Diagnosis", "Option", "diagnose"]

CONFIDENCE = 0.95
RESAMPLES = 2000


class Option(Row):
    """One way to go on: a baseline as it was measured, or a method with so many rounds as the rates predict it."""

    method: str
    rounds: int | None = Field(description="Rounds looked ahead; null for a baseline, which is measured.")
    accuracy: float = Field(ge=0, le=1, description="Share of right answers.")
    ci95: tuple[float, float] = Field(description="95% bootstrap interval over the problems of the sample.")
    tokens: float = Field(ge=0, description="Tokens a problem.")
    gain: float = Field(description="Against the cheapest baseline, on the same problems.")
    gain_ci95: tuple[float, float]


class Diagnosis(Row):
    """The findings of a labelled sample, and the recommendation."""

    n: int = Field(ge=1, description="Problems of the sample.")
    first_draft: Proportion
    options: list[Option] = Field(description="Baselines first, then each method by its rounds.")
    recommended: str | None = Field(description="A method's name with its rounds; null: no refining.")
    recommendation: str = Field(description="In one plain sentence.")


def diagnose(runs: Sequence[Run], *, rounds: int = 3) -> Diagnosis:
    """Return what the runs of one sample predict for 1 to N rounds, and whether to refine at all.

    Refining is recommended only where its predicted gain over the cheapest baseline is positive beyond chance, and no
    baseline that costs as much or less does as well.

    Args:
        runs: Of at least one baseline and one refining method, on the same problems.
        rounds: N.

    Raises:
        ValueError: There is no baseline or no refining method, they share no problem, or `rounds` is less than 1.
        ImportError: The extra `evals` is not installed.
    """
    if rounds < 1:
        raise ValueError(f"rounds must be 1 or more, not {rounds!r}")
    baselines = [run for run in runs if is_baseline(run.info.method)]
    # What knows the gold answers can't be had in earnest, so it is never recommended.
    refining = [run for run in runs if not is_baseline(run.info.method) and not run.oracle]
    if not baselines or not refining:
        raise ValueError("a diagnosis needs a run of at least one baseline and of one refining method")
    shared = sorted(set.intersection(*(set(run.verdicts) for run in [*baselines, *refining])))
    if not shared:
        raise ValueError("the runs have no problem in common")
    by_id = {run.info.method: {record.question_id: record for record in run.records} for run in [*baselines, *refining]}
    zero = min(baselines, key=lambda run: _tokens([by_id[run.info.method][name] for name in shared]))
    options = [_baseline(run, zero, by_id, shared) for run in baselines]
    for run in refining:
        options += [_ahead(run, zero, by_id, shared, number) for number in range(1, rounds + 1)]
    first = [drafts_right(by_id[refining[0].info.method][name])[:1] == [True] for name in shared]
    best, recommendation = _recommended(options)
    return Diagnosis(
        n=len(shared),
        first_draft=proportion(sum(first), len(first)),
        options=options,
        recommended=best,
        recommendation=recommendation,
    )


Records = dict[str, dict[str, "ResultRecord"]]


def _baseline(run: Run, zero: Run, by_id: Records, shared: Sequence[str]) -> Option:
    right = [bool(by_id[run.info.method][name].is_correct) for name in shared]
    reference = [bool(by_id[zero.info.method][name].is_correct) for name in shared]

    def both(index: Sequence[int]) -> tuple[float, float]:
        accuracy = fmean(right[at] for at in index)
        return accuracy, accuracy - fmean(reference[at] for at in index)

    tokens = _tokens([by_id[run.info.method][name] for name in shared])
    return _option(run.info.method, None, both, len(shared), tokens)


def _ahead(run: Run, zero: Run, by_id: Records, shared: Sequence[str], rounds: int) -> Option:
    records = [by_id[run.info.method][name] for name in shared]
    reference = [bool(by_id[zero.info.method][name].is_correct) for name in shared]
    limit = int(run.info.limits.get("max_rounds") or 0)

    def both(index: Sequence[int]) -> tuple[float, float]:
        chosen = [records[at] for at in index]
        firsts = [drafts_right(record)[:1] for record in chosen]
        first, drafted = fmean(one == [True] for one in firsts), fmean(bool(one) for one in firsts)
        rates = round_rates(chosen, max_rounds=limit)
        accuracy = predicted_accuracy(rates, first=first, rounds=rounds, drafted=drafted)[-1]
        return accuracy, accuracy - fmean(reference[at] for at in index)

    return _option(run.info.method, rounds, both, len(shared), _tokens_after(records, rounds, limit=limit))


def _option(
    method: str, rounds: int | None, both: Callable[[Sequence[int]], tuple[float, float]], n: int, tokens: float
) -> Option:
    """Return an option with bootstrap intervals; `both` gives accuracy and gain on the problems at some places."""
    try:
        import numpy as np
        from scipy.stats import bootstrap
    except ImportError as error:
        raise ImportError(f'a diagnosis needs an extra: pip install "redraft[evals]" ({error})') from None
    accuracy, gain = both(range(n))
    intervals = []
    for part in (0, 1):
        found = bootstrap(
            # Problems are drawn by their places, so that a method and the baseline stay paired.
            (np.arange(n),),
            lambda index, part=part: both([int(at) for at in index])[part],
            vectorized=False,
            n_resamples=RESAMPLES,
            confidence_level=CONFIDENCE,
            method="percentile",
            # Seeded: the same sample gives the same advice.
            rng=np.random.default_rng(0),
        ).confidence_interval
        intervals.append((float(found.low), float(found.high)))
    return Option(
        method=method,
        rounds=rounds,
        accuracy=accuracy,
        ci95=intervals[0],
        tokens=tokens,
        gain=gain,
        gain_ci95=intervals[1],
    )


def _tokens(records: Sequence[ResultRecord]) -> float:
    return fmean(record.total_tokens for record in records)


def _tokens_after(records: Sequence[ResultRecord], rounds: int, *, limit: int) -> float:
    """Return the tokens a problem that so many rounds are predicted to take, at what a played round took on average."""
    first = fmean(sum(step.tokens_used for step in one.iterations_log if step.iteration == 0) for one in records)
    later = sum(step.tokens_used for one in records for step in one.iterations_log if step.iteration > 0)
    played = sum(one.num_iterations for one in records)
    begun = [drafts_right(one)[:1] for one in records]
    right, drafted = fmean(one == [True] for one in begun), fmean(bool(one) for one in begun)
    rates = round_rates(records, max_rounds=limit)
    revised = predicted_revisions(rates, first=right, rounds=rounds, drafted=drafted)
    return first + (sum(revised) * later / played if played else 0.0)


def _recommended(options: Sequence[Option]) -> tuple[str | None, str]:
    baselines = [one for one in options if one.rounds is None]
    cheapest = min(baselines, key=lambda one: one.tokens)
    helps = [one for one in options if one.rounds is not None and one.gain_ci95[0] > 0]
    if not helps:
        better = max(baselines, key=lambda one: (one.accuracy, -one.tokens))
        instead = f"; {better.method} got {better.accuracy:.1%}" if better is not cheapest and better.gain > 0 else ""
        return None, (f"Don't refine here: no method's predicted gain over {cheapest.method} is above chance{instead}.")
    # The cheapest that is within a point of the best: further rounds must earn their tokens.
    top = max(one.accuracy for one in helps)
    best = min((one for one in helps if one.accuracy >= top - 0.01), key=lambda one: one.tokens)
    # A quarter more passes for the same cost, as in the ledger.
    rivals = [one for one in baselines if one.tokens <= best.tokens * 1.25 and one.accuracy >= best.accuracy]
    if rivals:
        rival = max(rivals, key=lambda one: one.accuracy)
        return None, (
            f"Don't refine here: {rival.method} reaches {rival.accuracy:.1%} at {rival.tokens:,.0f} tokens a problem, "
            f"{best.method} with {best.rounds} rounds {best.accuracy:.1%} at {best.tokens:,.0f}."
        )
    name = best.method.rpartition("-")[0] + f"-{best.rounds}"
    low, high = best.gain_ci95
    return name, (
        f"Use {name}: predicted {best.accuracy:.1%}, {best.gain:+.1%} against {cheapest.method} "
        f"(95% {low:+.1%} to {high:+.1%}), at {best.tokens:,.0f} tokens a problem."
    )
