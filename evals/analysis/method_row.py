"""The ledger's row of a method: how often it is right, what refining changed, and what it cost. Internal."""

from __future__ import annotations

import re
from collections import Counter
from math import fsum
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import Field

from .paired import WANTED, Finding, Paired, Power, Proportion, Row, paired, power_of, proportion
from .round_rates import (
    RoundRates,
    answers_right,
    drafts_right,
    rejected_revisions,
    round_limit,
    round_rates,
    tokens_by_round,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..run.result_record import ResultRecord
    from ..run.run_folder import Run

__all__ = ["Headline", "MethodRow", "RoundRow", "after_round", "is_baseline", "method_row", "refines_nothing"]

T = TypeVar("T")

BASELINE = re.compile(r"zero-shot|few-shot|longer-call|(majority|best-of|blind|clauses)-\d+")
EARLY = ("accepted", "undecided", "no_progress", "human")


class RoundRow(Row):
    """One round of revisions."""

    round: int = Field(ge=1, description="1 is the first revision.")
    revised: Paired = Field(description="The problems revised in this round: the draft before against the one after.")
    rejected: int = Field(ge=0, description="Of these, revisions that are no draft; the one before stays in force.")
    measured: Proportion = Field(description="Of all problems, those whose draft is right after this round.")
    delivered: Proportion = Field(
        description="Of all problems, those whose answer would be right, had the run ended after this round."
    )
    tokens: float = Field(ge=0, description="Tokens a problem until the end of this round.")


class Headline(Row):
    """A method held against the baseline that tells most about it."""

    how: Literal["equal tokens", "zero-shot", "nearest tokens", "first draft"] = Field(
        description="Which baseline: the one of equal tokens, else zero-shot, else the one nearest in tokens; where "
        "there is none, its own first drafts. A baseline is held against zero-shot."
    )
    against: str = Field(description="The same in words, with the baseline's name and cost.")
    paired: Paired = Field(description="The baseline's answers (before) against the method's (after).")
    p_corrected: float = Field(
        ge=0,
        le=1,
        description="Its p by Holm's method among the headlines of the refining methods, or of the "
        "baselines, of its group; an oracle's as it is.",
    )
    finding: Finding = Field(description="By the corrected p and the interval; see `redraft.evals.analysis.paired`.")


class MethodRow(Row):
    """One method on one dataset. Rates are shares, 0–1; a problem that failed is wrong and stays in `n`."""

    label: str = Field(description="Names the row; unique in the ledger, and marked where an oracle had a say.")
    name: str = Field(description="Names the row among those of its dataset and model.")
    method: str
    run: str = Field(description="The folder of the run.")
    dataset: str
    dataset_sha256: str
    kind: str = Field(description="How answers are judged.")
    model: str
    critic: str | None
    seed: int | None
    oracle: bool = Field(description="A gold answer had a say: nothing that could be had in earnest.")
    baseline: bool = Field(
        description="Zero-shot, few-shot, longer-call, majority, best-of, blind or clauses, or a log without rounds: "
        "nothing is refined on feedback."
    )
    n: int = Field(ge=0, description="Problems with a result.")
    asked: int = Field(ge=0, description="Problems asked for.")
    failed: int = Field(ge=0, description="Problems that an error kept from any draft; they are wrong.")
    cut_short: int = Field(ge=0, description="Problems that an error ended later: the best draft so far is the answer.")
    cut_off: int = Field(ge=0, description="Drafts and samples that met the limit of output tokens.")
    accuracy: Proportion = Field(description="Answers that are right.")
    first_draft: Proportion = Field(description="First drafts that are right.")
    ever_right: Proportion = Field(
        description="Problems with a right draft in any round: what perfect choice would get."
    )
    accepted: Proportion = Field(description="Answers that the critics accepted.")
    overall: Paired = Field(description="First draft against answer.")
    p_corrected: float | None = Field(
        description="The p of `overall` (of a baseline, of `vs_zero_shot`) by Holm's method among the refining "
        "methods (the baselines) of its group; an oracle's as it is; null where there is none."
    )
    power: Power = Field(description="Of `overall`: the difference it would have shown, and the problems one takes.")
    best_round: int = Field(ge=0, description="The first round after which most answers are right; 0: the first draft.")
    after_best: Paired | None = Field(
        description="The answers after the best round against those at the end; null where no round was played."
    )
    tokens_per_point: float | None = Field(
        description="Tokens a problem after the first draft, for each point gained over it; null where none was."
    )
    tokens_per_fix: float | None = Field(description="Tokens after the first drafts, for each problem fixed.")
    rounds: list[RoundRow] = Field(description="The rounds that were played, 1 first.")
    rates: RoundRates
    tokens: float = Field(ge=0, description="Tokens a problem, input and output of all calls.")
    cost_usd: float | None = Field(ge=0, description="Dollars a problem; null where a price is not known.")
    seconds: float = Field(ge=0, description="Seconds in calls a problem.")
    accuracy_per_1000_tokens: float | None = Field(description="Right answers for 1,000 tokens; null without tokens.")
    mean_iterations: float = Field(ge=0, description="Revisions a problem.")
    early_stop_rate: float | None = Field(
        description="Problems that stopped (accepted, no progress, a person) with rounds left; null without rounds."
    )
    stop_reasons: dict[str, int] = Field(description="Problems for each reason, the most frequent first.")
    on_frontier: bool = Field(description="No other method gets as much right with as few tokens; never an oracle.")
    token_ratio: float | None = Field(description="Its tokens as a multiple of zero-shot's, on the same problems.")
    vs_zero_shot: Paired | None = Field(description="Zero-shot's answers against its own, on the same problems.")
    headline: Headline | None = Field(description="Its difference to a baseline; null where there is none to take.")
    warnings: list[str] = Field(description="What to know before trusting the row.")
    verdict: str = Field(description="The row in plain sentences.")


def is_baseline(method: str) -> bool:
    """Return True if a method refines nothing on feedback, so that refining is compared with it."""
    return BASELINE.fullmatch(method) is not None


def refines_nothing(run: Run) -> bool:
    """Return True if a run is a baseline by its method, or a log of another tool in which no draft was revised."""
    unrevised = run.info.kind == "log" and not any(record.num_iterations for record in run.records)
    return unrevised or is_baseline(run.info.method)


def method_row(run: Run, *, label: str, wanted: float = WANTED) -> MethodRow:
    """Return the row of one run by itself: what names it among or holds it against other runs, and the
    verdict, are still open.

    Args:
        run: The run.
        label: Names the row.
        wanted: The difference worth finding, a share between 0 and 1.

    Raises:
        ValueError: No answer and no draft has a verdict by the gold answers.
    """
    records, info, n = run.records, run.info, len(run.records)
    if records and all(record.is_correct is None and record.error is None for record in records):
        raise ValueError(
            f"{run.folder}: no result has a verdict (is_correct): a ledger needs gold answers, or a score that can tell"
        )
    drafts = [drafts_right(one) for one in records]
    firsts = [rights[:1] == [True] for rights in drafts]
    answers = list(run.verdicts.values())
    overall = paired(firsts, answers)
    failed = sum(one.error is not None and not rights for one, rights in zip(records, drafts, strict=True))
    return MethodRow(
        label=label,
        name=label,
        method=info.method,
        run=str(run.folder),
        dataset=info.dataset,
        dataset_sha256=info.dataset_sha256,
        kind=info.kind,
        model=info.model,
        critic=info.critic,
        seed=info.seed,
        oracle=run.oracle,
        baseline=refines_nothing(run),
        n=n,
        asked=info.n,
        failed=failed,
        cut_short=sum(record.error is not None for record in records) - failed,
        cut_off=sum(record.cut_off[0] for record in records),
        accuracy=proportion(sum(answers), n),
        first_draft=proportion(sum(firsts), n),
        ever_right=proportion(sum(map(any, drafts)), n),
        accepted=proportion(sum(record.is_correct_per_feedback for record in records), n),
        overall=overall,
        p_corrected=None,
        power=power_of(overall, wanted=wanted),
        **_by_round(run, drafts, answers),
        **_costs(records, overall),
        stop_reasons=dict(Counter(one.stop_reason or "none" for one in records).most_common()),
        on_frontier=False,
        token_ratio=None,
        vs_zero_shot=None,
        headline=None,
        warnings=_warnings(run, failed),
        verdict="",
    )


def after_round(number: int, values: Sequence[T]) -> T:
    """Return the value after a round; a run that ended before it keeps its last one."""
    return values[min(number, len(values) - 1)]


def _by_round(run: Run, drafts: list[list[bool]], answers: list[bool]) -> dict[str, Any]:
    """Return the fields of a row that follow a run from round to round."""
    records, limit = run.records, round_limit(run)
    rates = round_rates(records, max_rounds=limit)
    delivered = [answers_right(one) or [False] for one in records]
    played = max((len(rights) - 1 for rights in drafts if rights), default=0)
    by_round = [sum(after_round(number, rights) for rights in delivered) for number in range(played + 1)]
    best = by_round.index(max(by_round))
    early = [one.stop_reason in EARLY and one.num_iterations < limit for one in records]
    return {
        "best_round": best,
        "after_best": paired([after_round(best, rights) for rights in delivered], answers) if played else None,
        "rounds": _rounds(run, drafts, by_round),
        "rates": rates,
        "mean_iterations": sum(one.num_iterations for one in records) / max(len(records), 1),
        "early_stop_rate": fmean(early) if early and limit else None,
    }


def _costs(records: Sequence[ResultRecord], overall: Paired) -> dict[str, Any]:
    """Return the fields of a row that say what a run cost, and what was had for it."""
    n, gain = len(records), overall.diff or 0.0
    tokens = sum(one.total_tokens for one in records)
    steps = (step for one in records for step in one.iterations_log)
    later = tokens - sum(step.tokens_used for step in steps if step.type == "initial_generation")
    prices = [one.cost_usd for one in records if one.cost_usd is not None]
    return {
        "tokens_per_point": later / n / (100 * gain) if gain > 0 else None,
        "tokens_per_fix": later / overall.fixed if overall.fixed else None,
        "tokens": tokens / max(n, 1),
        # A mean over some would pass for one over all: one unknown price makes it unknown.
        "cost_usd": fmean(prices) if len(prices) == n > 0 else None,
        "seconds": fsum(one.seconds for one in records) / max(n, 1),
        "accuracy_per_1000_tokens": 1000 * (overall.fixed + overall.kept_right) / tokens if tokens else None,
    }


def _rounds(run: Run, drafts: list[list[bool]], by_round: list[int]) -> list[RoundRow]:
    n, played = len(drafts), len(by_round) - 1
    if not played:
        return []
    spent = [tokens_by_round(record) for record in run.records]
    rejected = Counter(number for record in run.records for number in rejected_revisions(record))
    rows = []
    for number in range(1, played + 1):
        revised = [rights for rights in drafts if len(rights) > number]
        rows.append(
            RoundRow(
                round=number,
                revised=paired([rights[number - 1] for rights in revised], [rights[number] for rights in revised]),
                rejected=rejected[number],
                measured=proportion(sum(after_round(number, rights) for rights in drafts if rights), n),
                delivered=proportion(by_round[number], n),
                tokens=fmean(after_round(number, costs) for costs in spent),
            )
        )
    return rows


def _warnings(run: Run, failed: int) -> list[str]:
    records, asked = run.records, run.info.n
    unjudged = sum(record.is_correct is None and record.error is None for record in records)
    cut_short = sum(record.error is not None for record in records) - failed
    cut_off, drafts = (
        (sum(counts) for counts in zip(*(record.cut_off for record in records), strict=True)) if records else (0, 0)
    )
    notes = [
        (run.torn, "the results end within a line, which is left out: resume the run to mend it"),
        (len(records) < asked, f"{asked - len(records)} of {asked} problems have no result yet"),
        (bool(failed), f"{failed} of {len(records)} problems failed and count as wrong"),
        (bool(cut_short), f"an error cut {cut_short} of {len(records)} problems short: their best draft so far counts"),
        (bool(unjudged), f"{unjudged} answers have no verdict and count as wrong"),
        (
            bool(cut_off),
            f"{cut_off} of {drafts} drafts (and samples) were cut off at the limit of output tokens",
        ),
        (run.oracle, "a critic knew the gold answers: this shows what a perfect judge would bring, not what one gets"),
    ]
    return [text for holds, text in notes if holds]
