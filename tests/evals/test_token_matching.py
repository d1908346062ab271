"""Equal tokens: a user sees a method held against as many samples as its own tokens would have paid for."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("scipy", reason="the extra evals is not installed")
pytest.importorskip("statsmodels", reason="the extra evals is not installed")

from redraft.evals.analysis.equal_cost import SLACK, match_tokens
from redraft.evals.analysis.ledger import build_ledger, read_run
from redraft.evals.run.result_record import ResultRecord
from redraft.evals.run.run_folder import Run, RunInfo

INFO: dict[str, Any] = {
    "dataset": "sums",
    "dataset_sha256": "0",
    "kind": "numeric",
    "n": 3,
    "oracle": False,
    "model": "m",
}


def step(**fields: Any) -> dict[str, Any]:
    plain = {
        "type": "initial_generation",
        "solution": "",
        "predicted_answer": None,
        "feedback": None,
        "is_correct": None,
    }
    return {"iteration": 0, "tokens_used": 0, **plain, **fields}


def problem(name: str, log: list[dict[str, Any]], *, right: bool) -> dict[str, Any]:
    return {
        **{"question_id": name, "question": "", "predicted_answer": None, "ground_truth": None, "is_correct": right},
        **{"is_correct_per_feedback": False, "final_solution": "", "num_iterations": 0, "stop_reason": "max_rounds"},
        **{"accepted_by": None, "oracle": False, "seconds": 1.0, "iterations_log": log},
        "total_tokens": sum(one["tokens_used"] for one in log),
    }


def voted(name: str, votes: str, *, tokens: int = 100) -> dict[str, Any]:
    """A problem of majority-N, one letter a sample; `r` is right, and is written in two ways."""
    written = [{"a": "1", "b": "2", "r": "7" if number % 2 else "7.00"}[one] for number, one in enumerate(votes)]
    samples = [
        {
            "text": f"#### {number}",
            "vote": number,
            "predicted_answer": number,
            "is_correct": one == "r",
            "tokens_used": tokens,
            "cut_off": False,
        }
        for one, number in zip(votes, written, strict=True)
    ]
    winner = Counter(votes).most_common(1)[0][0] == "r"
    return problem(name, [step(tokens_used=tokens * len(votes), samples=samples)], right=winner)


def run_of(method: str, problems: list[dict[str, Any]]) -> Run:
    records = tuple(ResultRecord.model_validate(one) for one in problems)
    return Run(Path(method), RunInfo(**INFO, method=method), records)


@given(st.lists(st.text("rab", min_size=3, max_size=3), min_size=1, max_size=20), st.integers(50, 400))
def test_a_vote_is_cut_to_the_tokens_and_never_far_above(votes: list[str], tokens: int) -> None:
    """With tokens for everything the baseline is as it ran; with fewer it costs at most 5% more than the method."""
    run = run_of("majority-3", [voted(str(number), one) for number, one in enumerate(votes)])
    ids = list(run.verdicts)
    cut = match_tokens(run, ids, tokens)
    assert cut is not None
    assert cut.tokens <= SLACK * tokens or cut.samples == 1
    assert cut.tokens == pytest.approx(100 * cut.samples)
    if tokens * SLACK >= 300:
        assert cut.verdicts == run.verdicts
    elif cut.samples < 3:  # one sample more anywhere would cost too much
        assert (cut.tokens * len(ids) + 100) > SLACK * tokens * len(ids)


def test_best_of_n_is_cut_before_the_sample_that_was_accepted() -> None:
    """Cut to one sample, a problem whose second was accepted is answered by its first; judged samples count as paid."""
    first = [
        step(tokens_used=90, is_correct=False),
        step(type="feedback", tokens_used=10, accepted=False, score=0.5, verifier=True),
    ]
    second = [
        step(iteration=1, type="refinement", tokens_used=90, is_correct=True),
        step(iteration=1, type="feedback", tokens_used=10, accepted=True, score=1.0, verifier=True),
    ]
    run = run_of("best-of-2", [problem("a", [*first, *second], right=True)])
    once, twice = match_tokens(run, ["a"], 100), match_tokens(run, ["a"], 200)
    assert once is not None
    assert twice is not None
    assert (once.tokens, once.verdicts, twice.tokens, twice.verdicts) == (100, {"a": False}, 200, {"a": True})


def test_a_report_holds_a_method_against_the_hardest_baseline_of_equal_cost(tmp_path: Path) -> None:
    """The ledger cuts a vote that spent more, says so in its sentence, and prefers what is right more often."""
    judged = [step(tokens_used=200, is_correct=True)]
    runs = {
        "adaptive": [problem(name, judged, right=True) for name in "abc"],
        "majority-3": [voted(name, "arr") for name in "abc"],
        "zero-shot": [
            problem(name, [step(tokens_used=200, is_correct=name == "a")], right=name == "a") for name in "abc"
        ],
    }
    for method, problems in runs.items():
        folder = tmp_path / method
        folder.mkdir()
        (folder / "results.jsonl").write_text("".join(json.dumps(one) + "\n" for one in problems))
        (folder / "run.json").write_text(json.dumps({**INFO, "method": method}))
    ledger = build_ledger([read_run(tmp_path / method) for method in runs])
    (beside,) = ledger.equal_cost
    assert (beside.baseline, beside.near, beside.paired.before) == ("zero-shot", True, pytest.approx(1 / 3))
    ledger = build_ledger([read_run(tmp_path / method) for method in ("adaptive", "majority-3")])
    (beside,) = ledger.equal_cost
    assert (beside.samples, beside.baseline_tokens, beside.near, beside.paired.before) == (2, 200, True, 0)
    assert "majority-3, cut to 2.0 samples, at equal cost reached 0.0%" in ledger.methods[0].verdict
