"""`redraft rescore`: anyone can judge recorded results again, without a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FUNCTION = 'def double(n):\n    """Return twice n."""\n'
ROWS: dict[str, Any] = {
    "numeric": {"question": "What is 1 + 1?", "answer": "1 + 1 = 2\n#### 2"},
    "exact": {"question": "Where is the Louvre?", "answer": "Paris"},
    "words": {"concepts": ["river", "lamp"]},
    "code": {
        "task_id": "HumanEval/900",
        "prompt": FUNCTION,
        "entry_point": "double",
        "canonical_solution": "    return 2 * n",
        "test": "def check(candidate):\n    assert candidate(3) == 6\n    assert candidate(0) == 0\n",
    },
}
RIGHT = {
    "numeric": "It is\n#### 2",
    "exact": "Answer: Paris",
    "words": "A lamp by the river.",
    "code": "```python\ndef double(n):\n    return n + n\n```",
}
WRONG = {
    "numeric": "It is\n#### 3",
    "exact": "Answer: Rome",
    "words": "A lamp.",
    "code": "```python\ndef double(n):\n    return n * n\n```",
}
FIELDS = {"exact": ("--question-field", "question", "--answer-field", "answer")}


@pytest.fixture
def results(shell: Any, scripted: Any, tmp_path: Path) -> Any:
    """Run two methods on one problem of a kind, and return the folder of the second, which has several drafts."""

    def run(kind: str) -> Path:
        (tmp_path / "data").mkdir()
        data = tmp_path / "data" / f"{kind}.jsonl"
        data.write_text(json.dumps(ROWS[kind]) + "\n", encoding="utf-8")
        # A vote where answers can be counted; else a draft that a program rejects, and a revision.
        second = "majority-3" if kind in ("numeric", "exact") else "blind-2"
        model = scripted(RIGHT[kind], WRONG[kind], RIGHT[kind], RIGHT[kind])
        words = ("--methods", f"zero-shot,{second}", "--concurrency", "1", "--out", "out", *FIELDS.get(kind, ()))
        shown = shell("eval", str(data), "--model", model, *words)
        assert shown.code == 0, shown.err
        return tmp_path / "out" / second

    return run


def changed(folder: Path, change: Any) -> None:
    """Change the one record of a run by hand."""
    path = folder / "results.jsonl"
    record = json.loads(path.read_text(encoding="utf-8"))
    change(record)
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")


@pytest.mark.one_of_each
@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("kind", ROWS)
def test_a_stranger_checks_every_verdict_from_the_records_alone(shell: Any, results: Any, kind: str) -> None:
    """Each kind of record is judged again without dataset and model; a tampered verdict is found, named and mended."""
    folder = results(kind)
    whole = shell("rescore", "out", "--json")
    assert whole.code == 0, whole.err
    assert [(run["lines"], run["rescored"], run["differences"]) for run in whole.json["runs"]] == [(1, 1, [])] * 2
    before = (folder / "results.jsonl").read_text()
    # Samples are asked side by side, so any of them may be the wrong one.
    samples = json.loads(before)["iterations_log"][0]["samples"]
    wrong_one = [number for number, one in enumerate(samples, 1) if not one["is_correct"]]
    place = f"sample {wrong_one[0]} of draft 0" if samples else "draft 0"

    def tamper(record: dict[str, Any]) -> None:
        texts = [one for step in record["iterations_log"] for one in step["samples"] or [step]]
        wrong = next(one for one in texts if not one["is_correct"])
        wrong["is_correct"] = True
        record["predicted_answer"] = "better"

    changed(folder, tamper)
    found = shell("rescore", "out", "--json")
    assert found.code == 1
    (differences,) = [run["differences"] for run in found.json["runs"] if run["differences"]]
    assert {(one["where"], one["field"], one["recorded"]) for one in differences} == {
        ("answer", "predicted_answer", "better"),
        (place, "is_correct", True),
    }
    shown = shell("rescore", "out")
    assert (shown.code, f"{place}: is_correct true, found false" in shown.out) == (1, True)
    assert shell("rescore", "out", "--write").code == 0
    assert json.loads((folder / "results.jsonl").read_text()) == json.loads(before)
    assert shell("rescore", "out", "--data", "data").code == 0


def test_the_dataset_shows_a_tampered_gold_answer(shell: Any, results: Any, tmp_path: Path) -> None:
    """Gold answers in the records are compared with the dataset, which must be the one that the run was made on."""
    folder = results("numeric")

    def tamper(record: dict[str, Any]) -> None:
        record["gold"] = "3"
        for one in [record, *record["iterations_log"], *record["iterations_log"][0]["samples"]]:
            one["is_correct"] = one["predicted_answer"] == "3"

    changed(folder, tamper)
    assert shell("rescore", "out").code == 0
    found = shell("rescore", "out", "--data", "data/numeric.jsonl")
    assert (found.code, 'answer: gold "3", found "2"' in found.out) == (1, True)
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({"question": "What is 2 + 2?", "answer": "#### 4"}) + "\n")
    refused = shell("rescore", "out", "--data", str(other))
    assert (refused.code, "was made on numeric (SHA-256" in refused.err) == (2, True)


def test_a_vote_is_counted_again(shell: Any, results: Any) -> None:
    """An answer that most samples did not give is found, and --write does not pass it off as what was answered."""
    folder = results("numeric")

    def tamper(record: dict[str, Any]) -> None:
        step = record["iterations_log"][0]
        step["solution"] = record["final_solution"] = WRONG["numeric"]
        for one in (step, record):
            one |= {"predicted_answer": "3", "is_correct": False}

    changed(folder, tamper)
    for words in ([], ["--write"]):
        found = shell("rescore", "out", "--json", *words)
        (one,) = found.json["runs"][-1]["differences"]
        assert (found.code, one["where"], one["field"]) == (1, "draft 0", "solution")
        assert (one["recorded"], one["found"]) == (WRONG["numeric"], RIGHT["numeric"])


def test_what_can_not_be_judged_again_is_said(shell: Any, results: Any) -> None:
    """Records of older versions are judged by the gold answer that they show; without texts or gold they don't pass."""
    folder = results("numeric")

    def old(record: dict[str, Any]) -> None:
        del record["gold"]
        for step in record["iterations_log"]:
            for name in ("cut_off", "samples", "programs"):
                del step[name]

    changed(folder, old)
    assert shell("rescore", "out").code == 0
    assert shell("report", "out").code == 0
    changed(folder, lambda record: record.update(ground_truth=None))
    shown = shell("rescore", "out")
    assert (shown.code, "1 line not judged again: it holds no gold answer" in shown.out) == (1, True)
    changed(folder, lambda record: record.update(question=""))
    shown = shell("rescore", "out", "--data", "data")
    assert (shown.code, "its texts were taken out" in shown.out) == (1, True)
    assert "nothing is known of the record" in shell("rescore", str(folder)).out
