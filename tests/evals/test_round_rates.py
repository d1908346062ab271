"""Predicted accuracy: a user sees where the accept, fix and break rates lead, beside what was measured."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("scipy", reason="the extra evals is not installed")
pytest.importorskip("statsmodels", reason="the extra evals is not installed")

from redraft.evals.analysis.paired import proportion
from redraft.evals.analysis.round_rates import (
    RoundRates,
    answers_right,
    drafts_right,
    predicted_accuracy,
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


def rates(**given: tuple[int, int]) -> RoundRates:
    names = ("accept_right", "accept_wrong", "give_up", "fixed", "broken")
    return RoundRates(**{name: proportion(*given.get(name, (0, 0))) for name in names})


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


def test_the_prediction_follows_the_rates_by_hand() -> None:
    """Half right at first, 80% of right and 25% of wrong drafts accepted, half fixed and half broken: 63.8%, 70.3%."""
    given = rates(accept_right=(8, 10), accept_wrong=(1, 4), give_up=(0, 9), fixed=(1, 2), broken=(1, 2))
    assert predicted_accuracy(given, first=0.5, rounds=2) == pytest.approx([0.5, 0.6375, 0.7028125])
    halved = rates(accept_right=(8, 10), accept_wrong=(1, 4), give_up=(1, 2), fixed=(1, 2), broken=(1, 2))
    assert predicted_accuracy(halved, first=0.5, rounds=1) == pytest.approx([0.5, 0.5 - 0.025 + 0.09375])


@pytest.mark.parametrize(
    ("given", "after"),
    [
        (rates(), 0.4),
        (rates(fixed=(3, 3)), 0.9),
        (rates(fixed=(3, 3), accept_wrong=(3, 3)), 0.4),
        (rates(broken=(3, 3)), 0.0),
        (rates(broken=(3, 3), accept_right=(3, 3)), 0.4),
    ],
    ids=["nothing known", "all fixed", "fooled", "all broken", "saved by the judge"],
)
def test_the_extremes_are_as_one_expects(given: RoundRates, after: float) -> None:
    """A perfect fixer reaches every problem that has a draft, unless wrong drafts are accepted before."""
    assert predicted_accuracy(given, first=0.4, rounds=1, drafted=0.9)[1] == pytest.approx(after)


def test_one_round_is_predicted_as_measured() -> None:
    """With a single round nothing is pooled, so prediction and measurement are the same."""
    records = [run_of("r", "accepted"), run_of("w", "accepted"), *map(run_of, ("rr", "rw", "wr", "wr", "ww"))]
    found = predicted_accuracy(round_rates(records, max_rounds=1), first=3 / 7, rounds=1)
    assert found[1] == pytest.approx(sum(drafts_right(record)[-1] for record in records) / 7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"first": 0.5, "rounds": -1}, "rounds must be 0 or more, not -1"),
        ({"first": 0.5, "rounds": 1, "drafted": 0.4}, "not 0.5 and 0.4"),
        ({"first": 1.5, "rounds": 1}, "must be shares"),
    ],
)
def test_impossible_shares_are_refused(options: dict[str, Any], message: str) -> None:
    """The message names what is out of range."""
    with pytest.raises(ValueError, match=message):
        predicted_accuracy(rates(), **options)
