"""Quality of texts: a user sees how much of the given words a method covers, and who reads better, judged blind."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scipy", reason="the extra evals is not installed")

from redraft.evals.run.result_record import ResultRecord
from redraft.evals.run.run_folder import Run, RunInfo
from redraft.models import ScriptedModel

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from writing_quality import covered, fluency

sys.path.pop(0)


def run_of(method: str, texts: list[str], kind: str = "words") -> Run:
    info: Any = {"dataset": "d", "dataset_sha256": "0", "kind": kind, "n": 2, "oracle": False, "model": "m"}
    records = [
        ResultRecord(
            **{
                "question_id": str(number),
                "question": "Use sea, moon.",
                "predicted_answer": None,
                "gold": ["sea", "moon"],
            },
            **{"ground_truth": None, "is_correct": None, "is_correct_per_feedback": False, "final_solution": text},
            **{"num_iterations": 0, "total_tokens": 1, "stop_reason": None, "accepted_by": None, "oracle": False},
            seconds=0,
            iterations_log=[],
        )
        for number, text in enumerate(texts)
    ]
    return Run(Path(method), RunInfo(**info, method=method), tuple(records))


def test_the_share_of_given_words_counts_every_text() -> None:
    """A text with one of two words covers half of them, and one without an answer covers none."""
    assert covered(run_of("a", ["The sea.", ""])) == [0.5, 0.0]
    with pytest.raises(ValueError, match="not of words"):
        covered(run_of("a", ["4"], kind="numeric"))


def test_only_a_text_that_wins_in_both_orders_has_won() -> None:
    """The judge is shown no method; one that always prefers what stands first decides nothing."""
    says = [json.dumps({"reason": "", "better": one}) for one in ("first", "second", "first", "first")]
    judge = ScriptedModel(says)
    found = asyncio.run(
        fluency(run_of("adaptive", ["Sea.", "Moon."]), run_of("zero-shot", ["x", "y"]), judge, concurrency=1)
    )
    assert (found["won"], found["lost"], found["ties"], found["p"]) == (1, 0, 1, 1.0)
    assert not any(name in str(call) for call in judge.calls for name in ("adaptive", "zero-shot"))
