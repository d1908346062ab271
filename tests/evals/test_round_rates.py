"""Rates of rounds: a user sees what was accepted, given up, fixed and broken where a round was left."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("scipy", reason="the extra evals is not installed")
pytest.importorskip("statsmodels", reason="the extra evals is not installed")

from redraft.evals.analysis.round_rates import (
    answers_right,
    drafts_right,
    rejected_revisions,
    round_rates,
)
from redraft.evals.run.result_record import ResultRecord


def run_of(drafts: str, stop: str = "max_rounds") -> ResultRecord:
    """One letter a draft: right, wrong, or `x` for a revision that is none."""
    log = [
        {
            "iteration": number,
            "type": "refinement" if number else "initial_generation",
            "solution": "",
            "predicted_answer": None,
            "feedback": None,
            "tokens_used": 1,
            "is_correct": None if letter == "x" else letter == "r",
            "rejected": "empty" if letter == "x" else "",
        }
        for number, letter in enumerate(drafts)
    ]
    fields: dict[str, Any] = dict.fromkeys(("question_id", "question", "final_solution"), "")
    fields |= dict.fromkeys(("predicted_answer", "ground_truth", "accepted_by", "is_correct"))
    fields |= {"is_correct_per_feedback": stop == "accepted", "num_iterations": max(len(drafts) - 1, 0)}
    fields |= {"total_tokens": 1, "oracle": False, "seconds": 1, "stop_reason": stop, "iterations_log": log}
    return ResultRecord(**fields)


def test_drafts_are_read_round_by_round() -> None:
    """A revision that is no draft leaves the one before in force, and is counted."""
    record = run_of("wxrw")
    assert drafts_right(record) == [False, False, True, False]
    assert rejected_revisions(record) == {1}
    assert drafts_right(run_of("rx")) == [True, True]
    assert drafts_right(run_of("")) == []


def test_a_first_draft_that_was_refused_answers_nothing() -> None:
    """An agent that ended without a text is reported like any other: wrong until there is a draft."""
    record = run_of("xxrr").model_copy(update={"is_correct": True})
    assert answers_right(record) == [False, False, True, True]
    assert len(answers_right(record)) == len(drafts_right(record))


def test_rates_are_measured_where_a_round_was_left() -> None:
    """Who was accepted, given up, fixed and broken in eight runs of two rounds at most; drafts of round 2 do not."""
    records = [
        run_of("r", "accepted"),
        run_of("r", "accepted"),
        run_of("w", "accepted"),
        run_of("w", "no_progress"),
        run_of("wr", "accepted"),
        run_of("wwr"),
        run_of("rww"),
        run_of("", "failed"),
    ]
    found = round_rates(records, max_rounds=2)
    assert {name: (one.k, one.n) for name, one in found} == {
        "accept_right": (3, 4),
        "accept_wrong": (1, 6),
        "give_up": (1, 6),
        "fixed": (2, 4),
        "broken": (1, 1),
    }
