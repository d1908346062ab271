"""`redraft eval`, `report`, `compare` and `diagnose`."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from redraft.evals.run import provenance
from redraft.evals.run.methods import build_method
from redraft.models import ScriptedModel

pytest.importorskip("scipy")
pytest.importorskip("statsmodels")


@pytest.fixture
def problems(tmp_path: Path) -> str:
    """Four word problems in GSM8K's format; their answers are 2, 3, 4 and 5."""
    rows = [{"question": f"What is {n} + 1?", "answer": f"{n} + 1 = {n + 1}\n#### {n + 1}"} for n in range(1, 5)]
    path = tmp_path / "sums.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_methods_are_run_and_told_apart(shell: Any, scripted: Any, problems: str, tmp_path: Path) -> None:
    """Each method gets a folder with a result for every problem; the table and the verdicts say what refining did."""
    replies = ["#### 2", "#### 9", "#### 4", "#### 5"]
    refining = [
        "#### 2", "SOLUTION_IS_CORRECT", "#### 9", "2 + 1 is 3", "#### 3", "SOLUTION_IS_CORRECT",
        "#### 4", "SOLUTION_IS_CORRECT", "#### 5", "SOLUTION_IS_CORRECT",
    ]  # fmt: skip
    words = ("--methods", "zero-shot,self-refine-2", "--concurrency", "1", "--out", "out")
    shown = shell("eval", problems, "--model", scripted(*replies, *refining), *words)
    assert shown.code == 0, shown.err
    assert "zero-shot got 3 of 4 right (75.0%" in shown.out
    assert "self-refine-2 fixed 1 and broke 0 of 4" in shown.out
    assert "redraft report out" in shown.out
    for method in ("zero-shot", "self-refine-2"):
        lines = (tmp_path / "out" / method / "results.jsonl").read_text().splitlines()
        assert [json.loads(line)["question_id"] for line in lines] == ["1", "2", "3", "4"]
        info = json.loads((tmp_path / "out" / method / "run.json").read_text())
        assert (info["method"], info["n"], info["kind"], info["oracle"]) == (method, 4, "numeric", False)


def test_run_json_says_what_gave_the_results(shell: Any, serve: Any, problems: str, tmp_path: Path) -> None:
    """A stranger reads which code, prompts, server and settings made the results, and how many drafts were cut off."""
    cut = {"text": "#### 2", "finish_reason": "length", "system_fingerprint": "b4711"}
    server = serve([cut] * 4)
    words = ("--methods", "majority-2", "--limit", "2", "--concurrency", "1", "--out", "out", "--json")
    sampling = ("--seed", "3", "--max-output-tokens", "9", "--temperature", "0")
    shown = shell("eval", problems, "--model", server.spec, *words, *sampling)
    assert shown.code == 0, shown.err
    (row,) = shown.json["methods"]
    assert row["cut_off"] == 4
    assert "4 of 4 drafts (and samples) were cut off at the limit of output tokens" in row["warnings"]
    info = json.loads((tmp_path / "out" / "majority-2" / "run.json").read_text())
    assert info["server"] == {"kind": "loopback", "models": ["test-model"]}
    assert info["system_fingerprints"] == ["b4711"]
    sampled = [info[name] for name in ("seed", "max_output_tokens", "temperature", "sampling_temperature")]
    assert sampled == [3, 9, 0.0, 0.7]
    asked = build_method("majority-2", "numeric", ScriptedModel([]))
    assert info["prompts"] == {"generate": hashlib.sha256(asked.prompts["generate"].encode()).hexdigest()}
    checkout = Path(__file__).parents[3]
    words = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    if (checkout / ".git").exists() and Path(provenance.__file__).resolve().is_relative_to(checkout):
        assert info["commit"] == subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    else:
        assert info["commit"] is None


def test_a_run_is_gone_on_with_and_never_mixed_up(shell: Any, scripted: Any, problems: str) -> None:
    """A folder that holds a run is left alone unless --resume is given, with which nothing is asked twice."""
    model = scripted("#### 2", "#### 3", "#### 4", "#### 5")
    words = ("--methods", "zero-shot", "--concurrency", "1", "--out", "out")
    assert shell("eval", problems, "--model", model, *words).code == 0
    again = shell("eval", problems, "--model", model, *words)
    assert (again.code, "--resume goes on with it" in again.err) == (2, True)
    idle = shell("eval", problems, "--model", model, *words, "--resume")
    assert (idle.code, "4 of 4 right" in idle.out) == (0, True)
    other = shell("eval", problems, "--model", scripted("x"), *words, "--resume")
    assert (other.code, "another model" in other.err) == (2, True)
    for option, says in [("--temperature=0", "temperature (None, now 0.0)"), ("--offset=1", "offset (0, now 1)")]:
        other = shell("eval", problems, "--model", model, *words, "--resume", option)
        assert (other.code, f"another {says}" in other.err) == (2, True)


def test_problems_that_prompts_were_tuned_on_are_left_out(shell: Any, scripted: Any, problems: str) -> None:
    """--offset N begins after the first N problems, and an offset past the end is refused."""
    words = ("--methods", "zero-shot", "--concurrency", "1", "--out", "out", "--offset")
    done = shell("eval", problems, "--model", scripted("#### 4", "#### 5"), *words, "2")
    assert (done.code, "2 of 2 right" in done.out) == (0, True)
    refused = shell("eval", problems, "--model", scripted("x"), *words, "4")
    assert (refused.code, "offset must be from 0 to 3 here, not 4" in refused.err) == (2, True)


def test_what_makes_no_sense_is_refused_before_anything_is_paid(
    shell: Any, scripted: Any, problems: str, tmp_path: Path
) -> None:
    """A wrong method, dataset or option ends with 2 and leaves no folder behind."""
    model = scripted("#### 1")
    for words, says in [
        (["eval", problems, "--methods", "guess"], "there is no method 'guess'"),
        (["eval", "nowhere.jsonl"], "nowhere.jsonl"),
        (["eval", problems, "--retry-failed"], "--retry-failed is for --resume"),
        (["eval", problems, "--rpm", "0"], "rpm must be above 0"),
    ]:
        shown = shell(*words, "--model", model, "--out", "out")
        assert (shown.code, says in shown.err) == (2, True), shown.err
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"question": "1 + 1?", "answer": "#### 2"}\nnonsense\n')
    shown = shell("eval", str(bad), "--model", model, "--out", "out")
    assert (shown.code, "line 2" in shown.err) == (2, True)
    shown = shell(
        "eval", str(bad), "--model", scripted("#### 2"), "--out", "skipped", "--methods", "zero-shot", "--skip-bad"
    )
    assert (shown.code, "line 2" in shown.err, "1 of 1 right" in shown.out) == (0, True, True)


def test_an_oracle_is_marked(shell: Any, scripted: Any, problems: str, tmp_path: Path) -> None:
    """Results that the gold answers had a say in say so, in the records, in run.json and in the verdict."""
    model = scripted("#### 2", "#### 3", "#### 4", "#### 9", "#### 5")
    shown = shell(
        "eval", problems, "--model", model, "--methods", "oracle-refine-1", "--concurrency", "1", "--out", "out"
    )
    assert shown.code == 0, shown.err
    assert "with the gold answers in hand" in shown.out
    lines = (tmp_path / "out" / "oracle-refine-1" / "results.jsonl").read_text().splitlines()
    assert all(json.loads(line)["oracle"] for line in lines)
    assert json.loads((tmp_path / "out" / "oracle-refine-1" / "run.json").read_text())["oracle"] is True


def test_a_model_that_is_not_there_ends_the_run_with_a_hint(shell: Any, scripted: Any, tmp_path: Path) -> None:
    """When every call fails the run ends early, and says how it is tried again."""
    rows = [{"question": f"What is {n} + 1?", "answer": f"#### {n + 1}"} for n in range(9)]
    (tmp_path / "many.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = scripted(*[{"error": "ConnectionError: refused"}] * 9)
    words = ("--methods", "zero-shot", "--concurrency", "1", "--out", "out")
    shown = shell("eval", "many.jsonl", "--model", model, *words)
    assert shown.code == 1
    assert "--resume --retry-failed tries again" in shown.err


def test_two_files_of_anyones_are_compared(shell: Any, tmp_path: Path) -> None:
    """`compare` prints what was fixed and broken, also as JSON with the names that scripts rely on."""
    for name, values in (("a", [True, False, False, True]), ("b", [True, True, True, False])):
        lines = [json.dumps({"id": number, "correct": value}) + "\n" for number, value in enumerate(values)]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    found = shell("compare", "a.jsonl", "b.jsonl", "--json").json
    assert (found["n"], found["fixed"], found["broken"], found["kept_right"], found["kept_wrong"]) == (4, 2, 1, 1, 0)
    assert {"before", "after", "mcnemar_p", "diff", "diff_ci95"} <= set(found)
    shown = shell("compare", "a.jsonl", "b.jsonl")
    assert (shown.code, "fixed 2 and broke 1 of 4" in shown.out) == (0, True)
    assert shown.out.startswith("+25.0 points (95% ")
    assert "; p = 1): can't tell" in shown.out.splitlines()[0]
    assert shell("compare", "a.jsonl", "none.jsonl").code == 2


@pytest.mark.slow
def test_logs_of_other_tools_are_read_by_three_commands(shell: Any, tmp_path: Path) -> None:
    """`compare`, `report` and `diagnose` take a log, say which fields it took, and list them where they can't tell."""
    rows = [{"id": n, "round": at, "grade": 0.9 * (n <= at)} for n in range(3) for at in range(2)]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    took = (
        "log.jsonl: JSONL with an id and a verdict, id from 'id', right or wrong from 'grade' where it is 0.5 or more"
    )
    for words in (("compare", str(log), str(log)), ("report", str(log)), ("diagnose", str(log))):
        refused = shell(*words)
        assert (refused.code, "field 'grade' must be true or false" in refused.err) == (2, True), refused.err
        assert "--right-from 0.5" in refused.err
        shown = shell(*words, "--right-from", "0.5")
        assert shown.code == 0, shown.err
        assert took in " ".join(shown.out.split())
        assert took in shell(*words, "--right-from", "0.5", "--json").json["read"]
    assert "log fixed 1 and broke 0 of 3" in shell("report", str(log), "--right-from", "0.5").out
    assert (tmp_path / "report.html").exists()


def test_a_sample_is_diagnosed(shell: Any, scripted: Any, problems: str) -> None:
    """`diagnose` runs a sample and says that 4 problems can't tell; then it reads the same results without a model."""
    replies = ["#### 2", "#### 9", "#### 4", "#### 5"] + ["#### 2", "SOLUTION_IS_CORRECT"] * 4
    words = ("--methods", "zero-shot,self-refine-1", "--limit", "4", "--concurrency", "1", "--out", "sample")
    shown = shell("diagnose", problems, "--model", scripted(*replies), *words)
    assert shown.code == 0, shown.err
    assert "4 problems; the first draft is right in" in shown.out
    reported = shell("report", "sample").out.splitlines()
    assert "its own first drafts" in reported[0]
    title = next(at for at, line in enumerate(reported) if line.endswith(": 4 problems"))
    assert reported[title + 2].split()[:2] == ["self-refine-1", "−50.0"]
    assert "Can't tell whether refining helps here" in reported[title + 3]
    assert "Can't tell whether refining helps here" in shown.out
    again = shell("diagnose", "sample", "--wanted", "50", "--json")
    assert (again.code, again.json["n"], again.json["power"]["wanted"]) == (0, 4, 0.5)
    for words, says in [(("sample", "--model", "x"), "is a folder of results"), ((problems,), "name --out")]:
        refused = shell("diagnose", *words)
        assert (refused.code, says in refused.err) == (2, True), refused.err


def test_a_report_is_one_page(shell: Any, scripted: Any, problems: str, tmp_path: Path) -> None:
    """`report` writes one HTML file with the verdicts, and prints the table."""
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    model = scripted("#### 2", "#### 9", "#### 4", "#### 5")
    assert shell("eval", problems, "--model", model, "--methods", "zero-shot", "--out", "out").code == 0
    shown = shell("report", "out")
    assert shown.code == 0, shown.err
    page = (tmp_path / "out" / "report.html").read_text()
    assert "zero-shot" in page
    assert "What is 2 + 1?" in page
    assert shell("report", "nowhere").code == 2
