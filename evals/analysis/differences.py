"""Differences between a refining method and the same means without refining, each with its interval and p. Internal."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pydantic import Field

from ...nodes.verify.numeric_answers import extract_number, lone_number, same_number
from ..run.result_record import worth_of
from .equal_cost import SLACK, match_tokens, mean_tokens, shared_ids
from .paired import CHANCE, WANTED, Finding, Interval, Row, finding, holm, paired
from .sentences import p_in_words, percent, points

if TYPE_CHECKING:
    from ..run.result_record import ResultRecord
    from ..run.run_folder import Run
    from .method_row import MethodRow

__all__ = ["Difference", "differences", "graded", "worths"]

RESAMPLES = 10_000
APART = 1e-9

_Other = tuple[str, Mapping[str, float], Mapping[str, float]]
"""The words for what a method is held against, its scores and its tokens, by the problem's id."""


class Difference(Row):
    """A refining method beside what the same means bring without refining, on the problems that both have."""

    label: str = Field(description="The refining method.")
    against: str = Field(description="What it is held against, in words.")
    n: int = Field(ge=0, description="Problems that both have.")
    before: float = Field(ge=0, le=1, description="Mean score of the other, 0–1; of right and wrong the share right.")
    after: float = Field(ge=0, le=1, description="Mean score of the method.")
    diff: float = Field(description="after - before.")
    diff_ci95: Interval = Field(
        description="95% interval: Tango's of right and wrong, else bias-corrected bootstrap over the problems."
    )
    p: float = Field(ge=0, le=1, description="Two-sided: McNemar's exact test, else a sign-flip test.")
    p_corrected: float = Field(ge=0, le=1, description="By Holm's method among the differences of its method.")
    token_ratio: float | None = Field(description="Tokens of the other as a multiple of the method's.")
    finding: Finding
    sentence: str = Field(description="The same in words.")


def differences(
    row: MethodRow, run: Run, others: Sequence[tuple[MethodRow, Run]], *, wanted: float = WANTED
) -> list[Difference]:
    """Return what a method's answers are worth beside its first drafts, and beside each baseline cut to its tokens.

    Where its critics wrote programs, a vote of the first draft and of those that judged it stands among them: the same
    evidence, and nothing revised.

    Args:
        row: The refining method's row.
        run: Its run.
        others: Rows and runs on the same dataset and model.
        wanted: The gain worth finding, a share between 0 and 1.
    """
    own = worths(run.records)
    tokens = {record.question_id: float(record.total_tokens) for record in run.records}
    beside: list[_Other] = [("its own first drafts", *_firsts(run.records))]
    if (voted := _votes(run)) is not None:
        beside.append(("a vote of first draft and programs, nothing revised", *voted))
    for other, baseline in others:
        if other.baseline and not other.oracle and (ids := shared_ids(run, baseline)):
            beside.append(_cut(other, baseline, ids, mean_tokens(run, ids)))
    rows = [one for other in beside if (one := _row(row.label, other, own, tokens))["n"]]
    for one, corrected in zip(rows, holm([one["p"] for one in rows]), strict=True):
        outcome = finding(one["diff"], one["diff_ci95"], corrected, wanted=wanted)
        one |= {"p_corrected": corrected, "finding": outcome, "sentence": _sentence(one, corrected, outcome)}
    return [Difference(**one) for one in rows]


def worths(records: Sequence[ResultRecord]) -> dict[str, float]:
    """Return the score of each answer by its problem's id: right is 1, and what has no verdict or failed is 0."""
    return {record.question_id: worth_of(record) for record in records}


def graded(before: Sequence[float], after: Sequence[float]) -> tuple[Interval, float]:
    """Return the 95% interval of the mean difference of paired scores, and the two-sided p that there is none.

    Raises:
        ImportError: The extra `evals` is not installed.
    """
    if {*before, *after} <= {0.0, 1.0}:
        pair = paired([value == 1 for value in before], [value == 1 for value in after])
        return pair.diff_ci95, pair.mcnemar_p
    changes = [new - old for old, new in zip(before, after, strict=True)]
    if len(changes) < 2:  # one difference has no spread
        return (-1.0, 1.0), 1.0
    stats, numpy = importlib.import_module("scipy.stats"), importlib.import_module("numpy")
    settings = {"n_resamples": RESAMPLES, "vectorized": True, "axis": -1, "rng": numpy.random.default_rng(0)}
    p = float(stats.permutation_test((changes,), numpy.mean, permutation_type="samples", **settings).pvalue)
    low = high = changes[0]
    if max(changes) - min(changes) > APART:  # else no resample differs
        low, high = map(float, stats.bootstrap((changes,), numpy.mean, **settings).confidence_interval)
    # As in `paired`, interval and test never disagree.
    return (low, high) if p < CHANCE else (min(low, 0.0), max(high, 0.0)), min(p, 1.0)


def _firsts(records: Sequence[ResultRecord]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the scores of first drafts, and their tokens."""
    steps = {
        record.question_id: [one for one in record.iterations_log if one.type == "initial_generation"]
        for record in records
    }
    worth = {name: worth_of(drafts[-1]) if drafts else 0.0 for name, drafts in steps.items()}
    return worth, {name: float(sum(draft.tokens_used for draft in drafts)) for name, drafts in steps.items()}


def _votes(run: Run) -> tuple[dict[str, float], dict[str, float]] | None:
    """Return the scores and tokens of a majority of first draft and programs; `None` where there are no programs."""
    worth, spent = {}, {}
    for record in run.records:
        steps = [step for step in record.iterations_log if step.iteration == 0]
        programs = [program for step in steps for program in step.programs]
        if run.info.kind != "numeric" or (record.error is None and not programs):
            return None
        texts = [step.solution for step in steps if step.type == "initial_generation"][-1:]
        answers = [*map(extract_number, texts), *(lone_number(one.answer) for one in programs if one.answer)]
        counts = Counter(answer for answer in answers if answer is not None)
        chosen = counts.most_common(1)[0][0] if counts else None  # of equal ones the earliest
        worth[record.question_id] = float(same_number(chosen, lone_number(str(record.gold))))
        spent[record.question_id] = float(sum(step.tokens_used for step in steps))
    return worth, spent


def _cut(other: MethodRow, run: Run, ids: Sequence[str], tokens: float) -> _Other:
    """Return a baseline in words, its scores and its tokens, cut to a method's tokens where it took more."""
    spent = {record.question_id: float(record.total_tokens) for record in run.records}
    if mean_tokens(run, ids) > SLACK * tokens and (cut := match_tokens(run, ids, tokens)):
        return f"{other.method} cut to {cut.samples:.1f} samples", cut.verdicts, dict.fromkeys(ids, cut.tokens)
    return other.method, worths(run.records), spent


def _row(label: str, other: _Other, own: Mapping[str, float], tokens: Mapping[str, float]) -> dict[str, Any]:
    text, worth, spent = other
    ids = [name for name in own if name in worth]
    before, after = [worth[name] for name in ids], [own[name] for name in ids]
    interval, p = graded(before, after) if ids else ((-1.0, 1.0), 1.0)
    means = (fmean(before), fmean(after)) if ids else (0.0, 0.0)
    cost = sum(tokens[name] for name in ids)
    return {
        **{"label": label, "against": text, "n": len(ids), "before": means[0], "after": means[1]},
        **{"diff": means[1] - means[0], "diff_ci95": interval, "p": p},
        "token_ratio": sum(spent[name] for name in ids) / cost if cost else None,
    }


def _sentence(row: Mapping[str, Any], corrected: float, outcome: Finding) -> str:
    cost = "" if row["token_ratio"] is None else f" at {row['token_ratio']:.2f}× its tokens"
    words = {"no gain": "no gain worth having", "undecided": "can't tell"}.get(outcome, outcome)
    change = f"{points(row['diff'])} points ({points(row['diff_ci95'])}; {p_in_words(row['p'], corrected)})"
    means = f"{percent(row['after'])} against {percent(row['before'])}"
    return f"{row['label']} {means}, {row['against']}{cost}: {change}, n = {row['n']}: {words}"
