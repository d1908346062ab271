"""`redraft pipeline` and the reasoning preset from the shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from redraft.faces.run_config import RunConfig
from redraft.state import open_checkpointer

TEXTS = ["a draft", "a flaw", "better", "another flaw", "best"]


def test_a_pipeline_prints_its_answer_and_how_to_look_further(shell: Any, scripted: Any) -> None:
    """Without --trace only the answer and its facts are printed."""
    shown = shell("pipeline", "SetTopic('Rain') | UseRefinementLoop('2')", "--model", scripted(*TEXTS), "--thread", "t")
    assert shown.code == 0
    assert "best" in shown.out
    assert "2 rounds" in shown.out
    assert "a flaw" not in shown.out
    assert "redraft history t" in shown.out


def test_a_trace_shows_every_step(shell: Any, scripted: Any, tmp_path: Path) -> None:
    """With --trace one sees the passages, every text and critique, and what each cost."""
    pytest.importorskip("bm25s")
    pytest.importorskip("wordllama")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rain.md").write_text("# Rain\n\nRain is water that falls from clouds.\n")
    pipeline = "SetTopic('Rain') | UseDir('docs') | UseDraft | UseCritique | UseImprove"
    shown = shell("pipeline", pipeline, "--model", scripted(*TEXTS), "--trace")
    assert shown.code == 0
    for seen in ("retrieval · docs · 1 passage", "rain.md", "a draft", "a flaw", "better", "tokens"):
        assert seen in shown.out


def test_self_critique_prints_its_five_parts(shell: Any, scripted: Any) -> None:
    """`UseSelfCritique` prints draft, critique, improved answer, iterations and confidence."""
    said = [json.dumps({"feedback": text, "score": score}) for text, score in (("too short", 0.3), ("good", 0.9))]
    model = scripted("a draft", said[0], "better", said[1])
    shown = shell("pipeline", "SetTopic('Rain') | UseSelfCritique('1')", "--model", model)
    lines = shown.out.splitlines()
    for title, text in (("draft", "a draft"), ("critique", "too short"), ("improved answer", "better")):
        assert lines[lines.index(title) + 1].strip() == text
    assert "iterations 1" in shown.out
    assert "confidence high (0.90)" in shown.out


@pytest.mark.parametrize(
    ("pipeline", "says"),
    [
        ("SetTopic('a') | UseDarft", "did you mean UseDraft?"),
        ("SetTopic('a') | UseDir('nowhere') | UseDraft", "there is no folder 'nowhere'"),
        ("SetTopic('a') | UseRefinementLoop('many')", "from 1 to 1000, not 'many'"),
    ],
)
def test_a_mistake_is_pointed_at_and_leaves_nothing_behind(
    shell: Any, scripted: Any, tmp_path: Path, pipeline: str, says: str
) -> None:
    """A wrong step ends with 2, carets under it, and no database."""
    shown = shell("pipeline", pipeline, "--model", scripted("a"))
    assert shown.code == 2
    first, line, carets, *_ = shown.err.splitlines()
    assert says in first
    assert line.strip() == pipeline
    assert set(carets.strip()) == {"^"}
    assert not (tmp_path / "runs.sqlite").exists()


def test_an_unknown_step_lists_the_known_ones(shell: Any, scripted: Any) -> None:
    """Whoever mistypes a step is shown all of them."""
    shown = shell("pipeline", "UseNothing", "--model", scripted("a"))
    assert "known steps:" in shown.err
    assert "UseSelfCritique('1')" in shown.err


def test_a_pipeline_without_a_topic_needs_a_thread_that_has_one(shell: Any, scripted: Any) -> None:
    """A pipeline that goes on with a thread says so when there is none, and works where there is."""
    shown = shell("pipeline", "UseCritique", "--model", scripted("a"), "--thread", "t")
    assert (shown.code, "no topic" in shown.err) == (2, True)
    shell("pipeline", "SetTopic('Rain') | UseDraft", "--model", scripted("a draft"), "--thread", "t")
    shown = shell(
        "pipeline", "UseCritique | UseImprove", "--model", scripted("a flaw", "better"), "--thread", "t", "--json"
    )
    assert (shown.code, shown.json["answer"], shown.json["task"]) == (0, "better", "Rain")


def test_a_failed_step_is_resumed_from_the_shell(shell: Any, scripted: Any) -> None:
    """A pipeline that broke off says how it goes on, and `redraft resume` runs the rest."""
    model = scripted("a draft", {"error": "ConnectionError: lost"}, "a flaw", "better")
    shown = shell("pipeline", "SetTopic('Rain') | UseRefinementLoop('1')", "--model", model, "--thread", "t")
    assert shown.code == 1
    assert "redraft resume t" in shown.err
    more = scripted("a flaw", "better")
    (path,) = [model.removeprefix("scripted:")]
    (replies,) = [more.removeprefix("scripted:")]
    with open(replies, encoding="utf-8") as source, open(path, "w", encoding="utf-8") as target:
        target.write(source.read())
    shown = shell("resume", "t", "--json")
    assert (shown.code, shown.json["answer"]) == (0, "better")


def test_a_pipelines_thread_is_listed_replayed_and_forked(shell: Any, scripted: Any) -> None:
    """Its threads are like any other: listed, shown, replayed without a model, forked and resumed."""
    model = scripted("a draft", "a flaw", "better")
    shell("pipeline", "SetTopic('Rain') | UseRefinementLoop('1')", "--model", model, "--thread", "t")
    assert "Rain" in shell("threads").out
    assert "no model was called" in shell("replay", "t").out
    assert "better" in shell("show", "t").out
    assert shell("fork", "t", "--at", "0", "--feedback", "Shorter.", "--as", "u").code == 0
    assert shell("resume", "u", "--json").json["stop_reason"] in ("no_progress", "max_rounds")


def test_reasoning_runs_over_a_folder(shell: Any, scripted: Any, tmp_path: Path) -> None:
    """`redraft run --graph reasoning --dir` looks passages up in a folder and iterates."""
    pytest.importorskip("bm25s")
    pytest.importorskip("wordllama")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rain.md").write_text("# Rain\n\nRain is water that falls from clouds.\n")
    shown = shell(
        "run", "Rain", "--graph", "reasoning", "--dir", "docs", "--passages", "2", "--max-rounds", "1",
        "--model", scripted(*TEXTS), "--thread", "t",
    )  # fmt: skip
    assert shown.code == 0
    assert "rain.md" in shown.out
    assert "better" in shown.out


def test_a_program_judges_reasoning_and_pipelines(shell: Any, scripted: Any) -> None:
    """`--verify` in the preset, `EvaluateQuality` as a step: what the program accepts is the answer."""
    model = scripted("A boat.", "A river.")
    shown = shell("run", "Rain", "--graph", "reasoning", "--model", model, "--verify", "uses_words:river", "--json")
    assert (shown.json["answer"], shown.json["accepted_by"]) == ("A river.", "uses_words")
    steps = "SetTopic('Rain') | UseThinking | UseDraft | EvaluateQuality('uses_words:river') | UseImprove"
    shown = shell("pipeline", steps, "--model", scripted("Notes.", "A river.", "A boat."), "--json")
    assert (shown.json["answer"], shown.json["accepted_by"]) == ("A river.", "uses_words")
    Path("schema.json").write_text("{}")
    shown = shell("pipeline", "SetTopic('x') | UseDraft | EvaluateQuality('json_schema:schema.json')", "--model",
                  scripted("{}"), "--thread", "json", "--json")  # fmt: skip
    assert shown.json["accepted_by"] == "matches_json_schema"
    with open_checkpointer("runs.sqlite") as saver:
        assert str(Path("schema.json").absolute()) in RunConfig.of_thread(saver, "json").options["pipeline"]
    assert "thought" in shell("pipeline", steps, "--model", scripted("Notes.", "A", "B"), "--trace").out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--graph", "rubric", "--verify", "uses_words:a"], "--verify has no use"),
        (["--graph", "reasoning", "--verify", "uses_words:a", "--critic", "self"], "programs judge alone"),
        (["--graph", "math", "--dir", "."], "--documents is for --graph agent, reasoning, retrieval"),
        (["--graph", "writing", "--threshold", "0.5"], "--threshold is for --graph reasoning, rubric, pipeline, retr"),
        (["--graph", "retrieval"], "retrieval needs --documents"),
        (["--graph", "pipeline"], "run with `redraft pipeline`"),
        (["--graph", "reasoning", "--dir", "nowhere"], "nowhere"),
    ],
)
def test_options_without_use_are_refused(shell: Any, scripted: Any, words: list[str], says: str) -> None:
    """An option that the graph has no use for is named, rather than ignored."""
    shown = shell("run", "Rain", "--model", scripted("a"), *words)
    assert (shown.code, says in shown.err) == (2, True), shown.err


def test_more_budget_goes_on_from_the_shell(shell: Any, scripted: Any) -> None:
    """`redraft resume ID --token-budget N` runs the steps that a budget left over, and says when there are none."""
    model = scripted("a draft", "a flaw", "better")
    pipeline = "SetTopic('Rain') | UseRefinementLoop('1')"
    shown = shell("pipeline", pipeline, "--model", model, "--thread", "t", "--token-budget", "1", "--json")
    assert (shown.json["stop_reason"], shown.json["answer"]) == ("token_budget", "a draft")
    written = scripted("a flaw", "better").removeprefix("scripted:")
    with open(written, encoding="utf-8") as source, open(model.removeprefix("scripted:"), "w", encoding="utf-8") as to:
        to.write(source.read())
    shown = shell("resume", "t", "--token-budget", "100000")
    assert "better" in shown.out
    assert "max_rounds: the pipeline is at its end" in shown.out


def test_self_critique_as_json_and_under_a_budget(shell: Any, scripted: Any) -> None:
    """`--json` holds the five parts; a draft that was never improved is not passed off as an improvement."""
    said = [json.dumps({"feedback": text, "score": score}) for text, score in (("too short", 0.3), ("good", 0.9))]
    pipeline = "SetTopic('Rain') | UseSelfCritique('1')"
    found = shell("pipeline", pipeline, "--model", scripted("a draft", said[0], "better", said[1]), "--json").json
    assert found["self_critique"] == {
        "draft": "a draft", "critique": "too short", "improved_answer": "better", "iterations": 1, "confidence": 0.9,
        "rating": "high",
    }  # fmt: skip
    shown = shell("pipeline", pipeline, "--model", scripted("a draft"), "--token-budget", "1")
    lines = shown.out.splitlines()
    assert lines[lines.index("improved answer") + 1].strip() == "(none: the draft is the answer)"


def test_a_folder_in_the_home_is_found(shell: Any, scripted: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """`UseDir('~/docs')` means the home, as elsewhere on the shell."""
    pytest.importorskip("bm25s")
    pytest.importorskip("wordllama")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "docs").mkdir(parents=True)
    (tmp_path / "home" / "docs" / "rain.md").write_text("# Rain\n\nRain is water that falls from clouds.\n")
    shown = shell(
        "pipeline", "SetTopic('Rain') | UseDir('~/docs') | UseDraft", "--model", scripted("a draft"), "--trace"
    )
    assert (shown.code, "rain.md" in shown.out) == (0, True)


def test_a_search_by_rules_builds_no_model(shell: Any, tmp_path: Path) -> None:
    """`--graph retrieval` without `--critic` asks no model: one that can't be had is not missed, and none is spoken of.

    With a critic it says what is wrong.
    """
    pytest.importorskip("bm25s")
    pytest.importorskip("wordllama")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rain.md").write_text("# Rain\n\nRain is water that falls from clouds.\n")
    words = ["run", "What is rain?", "--graph", "retrieval", "--dir", "docs", "--model", "gguf:/nowhere.gguf"]
    shown = shell(*words, "--json")
    assert (shown.code, "falls from clouds" in shown.json["answer"]) == (0, True)
    assert shell(*words, "--critic", "self").code == 2
    unnamed = shell(*words[:-2])
    assert (unnamed.code, "model" in unnamed.err) == (0, False)
