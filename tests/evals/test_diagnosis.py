"""What a sample predicts for the rest, and whether refining is recommended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from redraft.evals.run.result_record import Iteration, ResultRecord
from redraft.evals.run.run_folder import write_run_info

pytest.importorskip("scipy")
pytest.importorskip("statsmodels")
from redraft.evals.analysis.diagnosis import diagnose, predict_rounds
from redraft.evals.analysis.ledger import find_runs
from redraft.evals.analysis.paired import proportion

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
    assert (one.observed, two.observed, three.observed) == (True, False, False)
    assert (one.accuracy, one.ci95) == (0.875, pytest.approx(proportion(35, 40).ci95))
    assert (two.accuracy, three.accuracy) == (pytest.approx(0.96875), pytest.approx(0.9921875))
    assert (one.tokens, two.tokens) == (pytest.approx(150), pytest.approx(162.5))
    assert one.tokens_per_fix == pytest.approx(50 / 0.375)
    assert one.p < one.p_corrected < 0.001
    assert found.recommendation.startswith(
        "Nobody ran it, but try program-1 with 3 rounds: it is predicted to get 99.2% at 166 "
        "tokens a problem, +49.2 points against zero-shot (95% "
    )


@pytest.mark.parametrize(("n", "says"), [(30, "Can't tell whether refining helps here"), (90, "Don't refine here")])
def test_refining_that_only_accepts_is_not_recommended(tmp_path: Path, n: int, says: str) -> None:
    """A judge that accepts everything mends nothing: 30 problems can't tell that, 90 can."""
    right = [number % 3 == 0 for number in range(n)]
    written(tmp_path, "zero-shot", [record(number, [one], accepted=False) for number, one in enumerate(right)])
    written(tmp_path, "self-refine-2", [record(n, [one], accepted=True) for n, one in enumerate(right)], rounds=2)
    found = diagnose(find_runs([tmp_path]))
    assert found.recommended is None
    assert found.recommendation.startswith(
        f"{says}: self-refine-2 with 1 round got 33.3% at 100 tokens a problem, +0.0 points"
    )
    assert found.recommendation.endswith("(80% power); 5 points take about 157.")


RESULTS = Path(__file__).resolve().parents[2] / "evals" / "results" / "development"


def test_a_gain_for_fewer_tokens_has_no_price() -> None:
    """On CommonGen-Hard refining took fewer tokens than sampling, and no negative price for each point is told."""
    results = RESULTS.parent / "commongen_hard"
    found = diagnose(find_runs([results / "adaptive", results / "best-of-6"]))
    assert found.recommendation.startswith(
        "Use adaptive with 10 rounds: it got 83.0% at 821 tokens a problem, +75.0 points"
    )
    assert found.recommendation.endswith("p < 0.001). It took no more tokens than best-of-6.")


def test_rounds_that_were_played_are_reported_as_they_were_delivered() -> None:
    """On the project's own results round 3 got 10.0% and round 1 70.0%, and the advice is what the tables say."""
    words = diagnose(find_runs([RESULTS / "commongen_hard_dev"]))
    shown = {option.rounds: option for option in words.options if option.method == "program-10"}
    assert [round(60 * shown[number].accuracy) for number in range(1, 11)] == [3, 3, 6, 9, 14, 18, 29, 37, 44, 52]
    assert (words.recommended, shown[10].ci95) == ("program-10", proportion(52, 60).ci95)
    sums = diagnose(find_runs([RESULTS / "gsm8k_dev"]), rounds=4)
    shown = {option.rounds: option for option in sums.options if option.method == "program-3"}
    assert [round(60 * shown[number].accuracy) for number in (1, 2, 3)] == [42, 41, 41]
    assert [shown[number].observed for number in (3, 4)] == [True, False]
    assert sums.recommended is None
    assert sums.recommendation.startswith(
        "Can't tell whether refining helps here: program-3 with 1 round got 70.0% at 1,189 tokens"
    )
    assert (
        "60 problems would have shown 15.7 points or more (80% power); 5 points take about 622." in sums.recommendation
    )


@pytest.mark.one_of_each
@pytest.mark.parametrize(
    ("first", "fixed", "broken", "fooled", "unlike", "n"),
    [
        *[(0.5, 0.3, 0.1, 0.1, 0.0, 30), (0.1, 0.15, 0.02, 0.0, 0.0, 60), (0.6, 0.5, 0.0, 0.0, 0.0, 60)],
        *[(0.85, 0.1, 0.05, 0.02, 0.0, 200), (0.5, 0.3, 0.1, 0.1, 0.3, 60), (0.5, 0.3, 0.1, 0.1, 0.3, 200)],
    ],
)
def test_a_predicted_interval_holds_the_truth_as_often_as_it_says(
    *, first: float, fixed: float, broken: float, fooled: float, unlike: float, n: int
) -> None:
    """Of many samples of two rounds, 95% intervals of the third and fourth hold the truth 93 to 97% of the time.

    So they do where problems are unlike each other, and what is left after two rounds is harder to fix."""
    import numpy as np

    rng = np.random.default_rng(3)

    def played(problems: int, rounds: int) -> tuple[Any, Any, Any]:
        draft = rng.random(problems) < first
        fixable = rng.beta(fixed / unlike, (1 - fixed) / unlike, problems) if unlike else fixed
        accepted = rng.random(problems) < np.where(draft, 0.9, fooled)
        answer, last, by_round = draft, np.zeros(problems, int), [draft]
        for number in range(1, rounds + 1):
            last = np.where(accepted, last, number)
            draft = np.where(
                accepted, draft, np.where(draft, rng.random(problems) >= broken, rng.random(problems) < fixable)
            )
            now = ~accepted & (rng.random(problems) < np.where(draft, 0.9, fooled))
            # What a verifier rejected never takes the place of the first draft.
            answer, accepted = np.where(now, draft, answer), accepted | now
            by_round.append(answer)
        return np.array(by_round), last, ~accepted

    truth = played(400_000, 4)[0].mean(axis=1)
    held = np.zeros(2)
    for _ in range(SAMPLES):
        by_round, last, still_open = played(n, 2)
        answers = [list(one[: number + 1]) for one, number in zip(by_round.T, last, strict=True)]
        found = predict_rounds(answers, still_open, by_round[0], observed=2, further=2)
        held += [one.accuracy_ci95[0] <= truth[at] <= one.accuracy_ci95[1] for at, one in enumerate(found, 3)]
    assert (held / SAMPLES > 0.925).all()
    assert (held / SAMPLES < 0.98).all()


SAMPLES = 300


def test_runs_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    """Results of two datasets, or two of one method, are not mixed: the folders to choose from are named."""
    for name in ("zero-shot", "a/program-1", "b/program-1"):
        written(
            tmp_path / name.rpartition("/")[0], name.rpartition("/")[2], [record(0, [True], accepted=True)], rounds=1
        )
    with pytest.raises(ValueError, match=r"several runs of program-1; name one of: .*/a/program-1, .*/b/program-1"):
        diagnose(find_runs([tmp_path]))
    with pytest.raises(ValueError, match=r"one dataset and model; name one of: .*commongen_hard_dev .*gsm8k_dev"):
        diagnose(find_runs([RESULTS]))


def test_a_vote_that_does_as_well_for_less_is_preferred(tmp_path: Path) -> None:
    """Refining that helps, but no more than a cheaper baseline does, is not recommended, and the baseline is named."""
    right = [number % 2 == 0 for number in range(40)]
    written(tmp_path, "zero-shot", [record(number, [one], accepted=False) for number, one in enumerate(right)])
    written(tmp_path, "majority-2", [record(n, [True], accepted=False, tokens=140) for n in range(40)])
    refined = [record(n, [True] if one else [False, True], accepted=True) for n, one in enumerate(right)]
    written(tmp_path, "program-1", refined, rounds=1)
    found = diagnose(find_runs([tmp_path]), rounds=1)
    assert found.recommended is None
    assert "but majority-2 got 100.0% at 140." in found.recommendation


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
