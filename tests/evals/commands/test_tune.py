"""`redraft tune`, and `--prompts` of the commands that take what it found."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from redraft.faces.run_config import RunConfig
from redraft.graphs.math_problems import build_math_graph
from redraft.models import ScriptedModel
from redraft.nodes import builder_prompts
from redraft.state import open_checkpointer

PROMPTS = {
    "generate": "GENERATE {task}",
    "refine": "REFINE {task} {history} {draft} {feedback}",
    "critic": "JUDGE {task} {draft} or say SOLUTION_IS_CORRECT",
}


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    """A file as `redraft tune` writes it."""
    path = tmp_path / "prompts.json"
    hashes = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in PROMPTS.items()}
    path.write_text(json.dumps({"format": 1, "kind": "numeric", "prompts": PROMPTS, "prompts_sha256": hashes}))
    return str(path)


@pytest.fixture
def problems(tmp_path: Path) -> str:
    """Six word problems in GSM8K's format."""
    rows = [{"question": f"What is {n} + 1?", "answer": f"#### {n + 1}"} for n in range(6)]
    path = tmp_path / "sums.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_a_run_that_finds_nothing_better_says_so_and_pays_nothing_again(
    shell: Any, scripted: Any, problems: str
) -> None:
    """Proposals that break the template leave the untuned prompts, in a file with all that was measured."""
    pytest.importorskip("gepa", reason="the extra tune is not installed")
    model = scripted(*["#### 99"] * 200)
    words = ("tune", problems, "--model", model, "--method", "zero-shot", "--budget-tokens", "3000", "--out", "p.json")
    shown = shell(*words)
    assert shown.code == 0, shown.err
    assert "No better prompts at this cost" in shown.out
    found = json.loads(Path("p.json").read_text())
    assert (found["changed"], found["held_out"], found["model"]) == ([], None, model)
    assert found["validation"]["untuned"]["n"] == 2
    assert found["refused"][0]["why"].startswith("the prompt 'generate' lacks {task}")
    before = Path("p.json.run/calls.jsonl").read_text()
    assert "--resume goes on" in shell(*words).err
    again = shell(*words, "--resume", "--json")
    assert again.json == found
    assert Path("p.json.run/calls.jsonl").read_text() == before


def test_run_eval_and_python_take_the_prompts(
    shell: Any, scripted: Any, prompts: str, problems: str, tmp_path: Path
) -> None:
    """A run asks with the file's prompts, keeps them in its recipe, and an evaluation records their hashes."""
    asked = ["#### 7", "One is missing.", "#### 5", "SOLUTION_IS_CORRECT"]
    words = ("--graph", "math", "--critic", "self", "--prompts", prompts, "--thread", "one", "--db", "runs.sqlite")
    shown = shell("run", "What is 4 + 1?", "--model", scripted(*asked), *words)
    assert shown.code == 0, shown.err
    with open_checkpointer("runs.sqlite") as saver:
        kept = RunConfig.of_thread(saver, "one").options
    assert kept == {f"{name}_prompt": text for name, text in PROMPTS.items()}

    model = ScriptedModel(asked)
    build_math_graph(model, critic="self", **builder_prompts(prompts)).invoke({"task": "What is 4 + 1?"})
    assert [str(call[-1].text).split()[0] for call in model.calls] == ["GENERATE", "JUDGE", "REFINE", "JUDGE"]

    pytest.importorskip("scipy")
    pytest.importorskip("statsmodels")
    words = ("--methods", "zero-shot,self-refine-1", "--limit", "1", "--prompts", prompts, "--out", "out")
    shown = shell("eval", problems, "--model", scripted("#### 1", "#### 1", "SOLUTION_IS_CORRECT"), *words)
    assert shown.code == 0, shown.err
    info = json.loads((tmp_path / "out" / "self-refine-1" / "run.json").read_text())
    assert info["prompts"] == {name: hashlib.sha256(text.encode()).hexdigest() for name, text in PROMPTS.items()}


def test_prompts_that_do_not_fit_are_refused_before_anything_is_paid(
    shell: Any, prompts: str, problems: str, tmp_path: Path
) -> None:
    """Edited prompts, without a task, for another preset or kind, or that nothing asks with: each says why."""
    file = tmp_path / "other.json"
    (tmp_path / "none.jsonl").write_text('"#### 1"\n')

    def refused(content: Any, *words: str) -> str:
        file.write_text(json.dumps(content))
        shown = shell(*words, "--prompts", str(file), "--model", "scripted:none.jsonl")
        assert shown.code != 0
        return str(shown.err)

    measured = json.loads(Path(prompts).read_text())
    measured["prompts"] = {**PROMPTS, "generate": "Other {task}"}
    run, evaluate = ("run", "What?", "--graph"), ("eval", problems, "--out", "out", "--methods")
    assert "not the one that was measured" in refused(measured, *run, "math")
    assert "holds no prompts" in refused({"generate": "{task}"}, *run, "math")
    assert "program_prompts is for --graph math" in refused({"prompts": {"program_1": "{task}"}}, *run, "rubric")
    assert "lacks {task}" in refused({"prompts": {"generate": "Say 1."}}, *evaluate, "zero-shot")
    assert "none of these methods asks with refine" in refused(
        {"prompts": {"refine": PROMPTS["refine"]}}, *evaluate, "zero-shot"
    )
    assert "are for problems of kind code; these are numeric" in refused(
        {"kind": "code", "prompts": {"generate": "{task}"}}, *evaluate, "zero-shot"
    )


def test_a_server_uses_the_prompts_in_the_preset_of_their_kind(prompts: str) -> None:
    """Math is asked with the tuned prompts, and every other assistant with its own."""
    pytest.importorskip("starlette")
    from redraft.server.engine.assistants import assistants_of
    from redraft.server.settings import Settings

    known = assistants_of(Settings(prompts=prompts))
    assert known["math"].options["generate_prompt"] == PROMPTS["generate"]
    assert "generate_prompt" not in known["refine"].options
