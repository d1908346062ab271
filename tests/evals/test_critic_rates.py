"""Who judged well: a user sees each critic's errors on right and wrong drafts, and is warned of a worthless one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scipy", reason="the extra evals is not installed")
pytest.importorskip("statsmodels", reason="the extra evals is not installed")

from redraft.evals.analysis.round_rates import CriticRow, critic_rows
from redraft.evals.run.result_record import Iteration, ResultRecord
from redraft.evals.run.run_folder import Run, RunInfo

SAID = {"a": True, "n": False, "?": None}


def judged(right: bool | None, **said: str) -> ResultRecord:
    """A problem with one draft, and what each critic said of it: accepted, not, or unreadable (`a`, `n`, `?`)."""
    draft: dict[str, Any] = {"iteration": 0, "solution": "x", "predicted_answer": None, "is_correct": right}
    feedback = [
        Iteration(
            **draft, type="feedback", feedback="…", tokens_used=5, by=by, accepted=SAID[verdict], verifier=by == "tests"
        )
        for by, verdict in said.items()
    ]
    return ResultRecord(
        question_id="",
        question="",
        predicted_answer=None,
        ground_truth=None,
        is_correct=right,
        is_correct_per_feedback=False,
        final_solution="x",
        num_iterations=0,
        total_tokens=10,
        stop_reason="max_rounds",
        accepted_by=None,
        oracle=False,
        seconds=1,
        iterations_log=[Iteration(**draft, type="initial_generation", feedback=None, tokens_used=5), *feedback],
    )


def rows(*records: ResultRecord, oracle: bool = False) -> list[CriticRow]:
    info = {"dataset": "d", "dataset_sha256": "", "kind": "exact", "n": len(records), "method": "m", "model": "x"}
    return critic_rows(Run(Path(), RunInfo(**info, oracle=oracle), records), label="m")


def test_errors_are_counted_against_the_gold_answers() -> None:
    """Of 20 wrong drafts one was accepted, of 10 right ones two were not, one of these because it can't be read."""
    one = rows(
        *[judged(True, tests="a")] * 8,
        judged(True, tests="n"),
        judged(True, tests="?"),
        *[judged(False, tests="n")] * 19,
        judged(False, tests="a"),
        judged(None, tests="a"),
    )[0]
    assert (one.critic, one.method, one.verifier, one.oracle) == ("tests", "m", True, False)
    assert (one.right, one.wrong, one.unlabelled, one.unreadable) == (10, 20, 1, 1)
    assert (one.false_accept.k, one.false_accept.rate, one.false_reject.k, one.false_reject.rate) == (1, 0.05, 2, 0.2)
    assert one.false_accept.ci95 == pytest.approx((0.0089, 0.2361), abs=1e-4)  # Wilson's for 1 of 20
    assert (one.better_than_chance, one.warning) == (True, None)


@pytest.mark.parametrize(
    ("records", "warning"),
    [
        (
            [judged(True, self="a")] * 35 + [judged(False, self="a")] * 25,
            "no better than chance: accepted 35 of 35 right and 25 of 25 wrong drafts (p = 1)",
        ),
        (
            [judged(True, self="a")] * 2 + [judged(False, self="n")] * 3,
            "too few drafts to tell: accepted 2 of 2 right and 0 of 3 wrong drafts",
        ),
        ([judged(True, self="a")] * 50, "too few drafts to tell: accepted 50 of 50 right and 0 of 0 wrong drafts"),
        (
            [judged(True, self="n")] * 5 + [judged(False, self="a")] * 5,
            "worse than chance: accepted 0 of 5 right and 5 of 5 wrong drafts (p = 0.0079)",
        ),
    ],
    ids=["accepts all", "few", "one kind only", "the wrong way round"],
)
def test_a_judge_whose_acceptance_is_worth_nothing_is_warned_of(records: list[ResultRecord], warning: str) -> None:
    """A model that says yes 60 times of 60 is no judge, nor is one of whom too little was seen, or that errs."""
    one = rows(*records)[0]
    assert (one.better_than_chance, one.warning) == (False, warning)


def test_several_critics_have_a_row_together() -> None:
    """A draft is accepted when all accept it; a verdict that can't be read does not, and the row counts it."""
    found = rows(
        *[judged(True, tests="a", self="a")] * 5,
        judged(True, tests="a", self="?"),
        *[judged(False, tests="n", self="a")] * 6,
        judged(False, tests="a", self="a"),
    )
    assert [one.critic for one in found] == ["self", "tests", "all together"]
    assert [one.false_accept.k for one in found] == [7, 1, 1]
    assert [one.false_reject.k for one in found] == [1, 0, 1]
    assert [one.unreadable for one in found] == [1, 0, 1]
    assert [one.better_than_chance for one in found] == [False, True, True]
    assert [one.verifier for one in found] == [False, True, False]


def test_a_judge_with_the_gold_answers_is_marked() -> None:
    """Rows of a run in which a critic knew the answers say so; a run without critics has no rows."""
    assert rows(judged(True, gold="a"), oracle=True)[0].oracle
    assert rows(judged(True)) == []
