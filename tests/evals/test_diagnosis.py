"""What a sample predicts for the rest, and whether refining is recommended."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from redraft.evals.run.result_record import Iteration, ResultRecord
from redraft.evals.run.run_folder import write_run_info

pytest.importorskip("scipy")
pytest.importorskip("statsmodels")
from redraft.evals.analysis.diagnosis import diagnose
from redraft.evals.analysis.ledger import find_runs

if TYPE_CHECKING:
    from pathlib import Path

TOKENS = 100


def record(number: int, rights: list[bool], *, accepted: bool, tokens: int = TOKENS) -> ResultRecord:
    """A result whose drafts are right or wrong in that order; each draft and each judgement costs as much."""
    log = []
    for round_, right in enumerate(rights):
        kind = "refinement" if round_ else "initial_generation"
        common = {"iteration": round_, "solution": f"{number}-{round_}", "predicted_answer": "1", "is_correct": right}
        log.append(Iteration(type=kind, feedback=None, tokens_used=tokens, **common))
        last = round_ == len(rights) - 1
        log.append(
            Iteration(type="feedback", feedback="…", tokens_used=0, by="judge", accepted=accepted and last, **common)
        )
    return ResultRecord(
        question_id=f"q{number}",
        question="?",
        predicted_answer="1",
        ground_truth="1",
        is_correct=rights[-1],
        is_correct_per_feedback=accepted,
        final_solution="…",
        num_iterations=len(rights) - 1,
        total_tokens=tokens * len(rights),
        stop_reason="accepted" if accepted else "max_rounds",
        accepted_by="judge" if accepted else None,
        oracle=False,
        seconds=1.0,
        iterations_log=log,
    )


def written(folder: Path, method: str, records: list[ResultRecord], *, rounds: int = 0) -> None:
    """Write a run as `redraft eval` does."""
    info: dict[str, Any] = {
        "format": 1, "dataset": "d", "dataset_sha256": "0", "kind": "numeric", "n": len(records), "method": method,
        "oracle": False, "model": "m", "critic": None, "limits": {"max_rounds": rounds}, "seed": None,
        "prompts_sha256": "0", "versions": {}, "machine": {}, "started": "2026-01-01T00:00:00+00:00", "seconds": 1.0,
        "engine": "asyncio",
    }  # fmt: skip
    write_run_info(folder / method, info)
    lines = [json.dumps(one.model_dump()) + "\n" for one in records]
    (folder / method / "results.jsonl").write_text("".join(lines))


def test_refining_that_fixes_is_recommended_with_its_rounds(tmp_path: Path) -> None:
    """Where half the drafts are wrong, and a round mends most of them and breaks none, it is recommended."""
    right = [number % 2 == 0 for number in range(40)]
    written(tmp_path, "zero-shot", [record(number, [one], accepted=False) for number, one in enumerate(right)])
    refined = [
        record(n, [True] if one else [False, n % 8 != 1], accepted=one or n % 8 != 1) for n, one in enumerate(right)
    ]
    written(tmp_path, "program-1", refined, rounds=1)
    found = diagnose(find_runs([tmp_path]), rounds=3)
    assert (found.n, found.first_draft.k, found.recommended) == (40, 20, "program-3")
    one, two, three = (option for option in found.options if option.method == "program-1")
    assert one.accuracy == pytest.approx(0.5 + 0.5 * 0.75)
    assert one.accuracy < two.accuracy < three.accuracy
    assert one.ci95[0] < one.accuracy < one.ci95[1]
    assert (one.tokens, two.tokens) == (pytest.approx(150), pytest.approx(162.5))
    assert found.recommendation.startswith("Use program-3: predicted 99.2%, +49.2% against zero-shot (95% ")


def test_refining_that_only_accepts_is_not_recommended(tmp_path: Path) -> None:
    """A judge that accepts everything mends nothing: the advice is not to refine."""
    right = [number % 3 == 0 for number in range(30)]
    written(tmp_path, "zero-shot", [record(number, [one], accepted=False) for number, one in enumerate(right)])
    written(tmp_path, "self-refine-2", [record(n, [one], accepted=True) for n, one in enumerate(right)], rounds=2)
    found = diagnose(find_runs([tmp_path]))
    assert found.recommended is None
    assert "Don't refine here: no method's predicted gain over zero-shot is above chance." in found.recommendation


def test_a_vote_that_does_as_well_for_less_is_preferred(tmp_path: Path) -> None:
    """Refining that helps, but no more than a cheaper baseline does, is not recommended, and the baseline is named."""
    right = [number % 2 == 0 for number in range(40)]
    written(tmp_path, "zero-shot", [record(number, [one], accepted=False) for number, one in enumerate(right)])
    written(tmp_path, "majority-2", [record(n, [True], accepted=False, tokens=140) for n in range(40)])
    refined = [record(n, [True] if one else [False, True], accepted=True) for n, one in enumerate(right)]
    written(tmp_path, "program-1", refined, rounds=1)
    found = diagnose(find_runs([tmp_path]), rounds=1)
    assert found.recommended is None
    assert "majority-2 reaches 100.0% at 140 tokens" in found.recommendation


@pytest.mark.parametrize(
    ("methods", "rounds", "says"),
    [
        (["zero-shot"], 3, "at least one baseline and of one refining method"),
        (["program-2"], 3, "at least one baseline and of one refining method"),
        (["zero-shot", "program-2"], 0, "rounds must be 1 or more"),
    ],
)
def test_what_can_not_be_diagnosed_is_refused(tmp_path: Path, methods: list[str], rounds: int, says: str) -> None:
    """Without something to compare with there is no advice."""
    for method in methods:
        written(tmp_path, method, [record(0, [True], accepted=True)], rounds=2)
    with pytest.raises(ValueError, match=says):
        diagnose(find_runs([tmp_path]), rounds=rounds)
