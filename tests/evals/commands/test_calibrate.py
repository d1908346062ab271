"""`redraft calibrate`, and `--judge` of the commands that take what it found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from redraft.faces.run_config import RunConfig
from redraft.models import ScriptedModel
from redraft.nodes.critics.measured_critics import QUESTIONS, ChecklistCritic, LogprobCritic
from redraft.server.engine.assistants import assistants_of
from redraft.server.settings import Settings


def labelled(path: Path, n: int = 60, *, wrong_sure: int = 0) -> str:
    """Write rows of which two thirds are right, with a score that knows it but for some."""
    rows = [
        {
            "task": f"Task {i}",
            "draft": f"Draft {i}",
            "right": i % 3 > 0,
            "sure": 0.9 if i % 3 or i // 3 < wrong_sure else 0.1,
        }
        for i in range(n)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_a_labelled_file_becomes_a_judge(shell: Any, tmp_path: Path) -> None:
    """The table says what each judge accepts and loses; the file holds the bound, and the foot says how to use it."""
    file = labelled(tmp_path / "rows.jsonl")
    shown = shell("calibrate", file, "--critic", "field:sure", "--out", "judge.json")
    assert shown.code == 0, shown.err
    assert "60 problems: with all of them accepted and right, no alpha below 3.8% can be shown" in shown.err
    assert "at most 10.0% of what it accepts is wrong, with confidence 90.0%" in " ".join(shown.out.split())
    judge = json.loads(Path("judge.json").read_text())
    assert (judge["threshold"], judge["n"], judge["accepted"], judge["wrong"]) == (0.9, 60, 40, 0)
    assert judge["scores"] == {"0.1": 20, "0.9": 40}


def test_where_alpha_can_not_be_had_nothing_is_written(shell: Any, tmp_path: Path) -> None:
    """The command ends with 1 and names the alpha that could be had; too few rows are refused before anybody judges."""
    file = labelled(tmp_path / "rows.jsonl", wrong_sure=10)
    shown = shell("calibrate", file, "--critic", "field:sure", "--out", "judge.json", "--json")
    assert (shown.code, shown.json["judge"]) == (1, None)
    assert f"the smallest that one would have kept here is {shown.json['smallest_alpha']:g}" in shown.err
    assert not Path("judge.json").exists()
    shown = shell("calibrate", file, "--critic", "self", "--alpha", "0.01", "--out", "judge.json")
    assert "--alpha 0.01 needs at least 230 accepted drafts without a wrong one" in shown.err


def test_a_dataset_is_drafted_judged_and_the_judge_used(shell: Any, scripted: Any, tmp_path: Path) -> None:
    """The model's drafts are labelled by the gold answers; `run --judge` keeps the judge's content in its recipe."""
    rows = [{"question": f"What is {n} + 1?", "answer": f"#### {n + 1}"} for n in range(30)]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    drafts = [f"It is {n + 1 if n % 3 else 99}.\n#### {n + 1 if n % 3 else 99}" for n in range(30)]
    # Three verdicts a draft.
    verdicts = [("no issues" if n % 3 else "Wrong.") for n in range(30) for _ in range(3)]
    model = scripted(*drafts, *verdicts)
    words = ("--critic", "self", "--votes", "3", "--alpha", "0.2", "--concurrency", "1", "--model", model)
    shown = shell("calibrate", str(tmp_path / "sums.jsonl"), *words, "--out", "judge.json", "--json")
    assert shown.code == 0, shown.err
    assert (shown.json["n"], shown.json["right"]) == (30, 20)
    judge = json.loads(Path("judge.json").read_text())
    assert (judge["critics"][0]["spec"], judge["drafts_by"]) == ("self", model)
    used = scripted("A draft.", *["no issues"] * 3)
    ran = shell("run", "Write.", "--model", used, "--judge", "judge.json", "--thread", "t", "--json")
    assert ran.json["accepted_by"] == "judge (calibrated)", ran.err
    # Where the judge may not say, a person is asked.
    used = scripted("A draft.", *["Wrong."] * 3)
    words = ("--judge", "judge.json", "--human", "--ask", "unaccepted")
    asked = shell("run", "Write.", "--model", used, *words, "--thread", "w", "--json").json
    assert asked["waiting"]["answer_with"]["accept"] == "redraft answer w --at 0 --accept"
    assert shell("answer", "w", "--at", "0", "--accept", "--json").json["accepted_by"] == "human"
    Path("judge.json").unlink()
    replayed = shell("resume", "t", "--json")
    assert replayed.json["accepted_by"] == "judge (calibrated)"


def test_a_recipe_says_what_its_judge_would_reach() -> None:
    """A judge that asks a foreign server is named before somebody else's recipe is followed."""
    part = {"spec": "logprob:http://other:1/v1#m", "name": "logprob", "reading": "score", "votes": 1}
    judge = {"critics": [part], "threshold": 0.5, "alpha": 0.1, "delta": 0.1, "n": 50, "right": 40, "accepted": 30}
    recipe = RunConfig(model="local", judge={**judge, "wrong": 0, "date": "2026-01-01", "scores": {"0.5": 50}})  # type: ignore[call-arg]
    assert any("http://other:1/v1#m" in said for said in recipe.reaches())
    assert "judge" not in recipe.silent().options
    with pytest.raises(ValueError, match="is no file of redraft calibrate"):
        RunConfig(model="local", judge={"threshold": 2})  # type: ignore[call-arg]


def test_the_probability_of_yes_is_the_score() -> None:
    """Among the likely first words only yes and no count, however they are written."""
    tokens = [
        {"token": token, "logprob": logprob} for token, logprob in ((" Yes", -0.5), ("no", -1.5), ("Maybe", -3.0))
    ]
    told = {"logprobs": {"content": [{"token": "Yes", "logprob": -0.5, "top_logprobs": tokens}]}}
    model = GenericFakeChatModel(messages=iter([AIMessage("Yes", response_metadata=told), AIMessage("Yes")]))
    critic = LogprobCritic(model)
    critique = critic("Add.", "1", ())
    assert (critique.accepted, critique.score) == (True, pytest.approx(1 / (1 + 2.718281828**-1), abs=1e-6))
    with pytest.raises(ValueError, match="gives no log-probabilities"):
        critic("Add.", "1", ())


def test_a_checklist_scores_the_share_of_yes() -> None:
    """Only a reply that is yes and nothing else counts, and the questions that failed are what is to be mended."""
    model = ScriptedModel(["Yes.", "yes", "Yes, but the sum is wrong.", "no"])
    critique = ChecklistCritic(model)("Add.", "1", ())
    assert (critique.accepted, critique.score) == (False, 0.5)
    assert critique.text == "\n".join(f"The answer is not yes: {question}" for question in QUESTIONS[2:])
    with pytest.raises(ValueError, match="none blank"):
        ChecklistCritic(model, questions=[" "])


def test_eval_and_server_take_a_judge(shell: Any, scripted: Any, tmp_path: Path) -> None:
    """`eval --judge` accepts by it in self-refine and notes it in run.json; a server's recipes hold its content."""
    part = {"spec": "self", "name": "self", "reading": "verdict", "votes": 1}
    judge = {"critics": [part], "threshold": 1, "alpha": 0.1, "delta": 0.1, "n": 50, "right": 40, "accepted": 30}
    judge |= {"wrong": 0, "date": "2026-01-01", "scores": {"1.0": 50}}
    (tmp_path / "judge.json").write_text(json.dumps(judge))
    (tmp_path / "sums.jsonl").write_text(json.dumps({"question": "What is 1 + 1?", "answer": "#### 2"}) + "\n")
    model, words = scripted("#### 2", "no issues"), ("--methods", "self-refine-1", "--out", "out")
    shown = shell(
        "eval", str(tmp_path / "sums.jsonl"), *words, "--model", model, "--judge", str(tmp_path / "judge.json")
    )
    assert shown.code == 0, shown.err
    record = json.loads(Path("out/self-refine-1/results.jsonl").read_text())
    assert (record["accepted_by"], record["is_correct"]) == ("judge (calibrated)", True)
    assert json.loads(Path("out/self-refine-1/run.json").read_text())["judge"]["threshold"] == 1
    settings = Settings(model="local", judge=str(tmp_path / "judge.json"))
    served = assistants_of(settings)["refine"].recipe("local")
    assert served is not None
    assert served.options["judge"]["n"] == 50
