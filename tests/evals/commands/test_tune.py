"""`redraft tune`: recorded runs tell which rung of the ladder mends drafts, and at what price."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

LONG, BETTER = "A boat drifts down the wide and silent river.", "A river boat."
TASK = ("run", "Write about a boat.", "--verify", "length:3 words", "--verify", "uses_words:river")
"""Of the long text no edit fits: the word stands at its end."""


def everyday(path: Path, **brought: tuple[int, int, int]) -> str:
    """A file as `benchmarks/everyday.py` writes it: by rung, how many revisions were accepted, how many not, tokens."""
    drafts = [
        {"refiner": rung, "accepted": number < accepted, "tokens": tokens}
        for rung, (accepted, rejected, tokens) in brought.items()
        for number in range(accepted + rejected)
    ]
    first = {"text": "", "tokens": 9, "accepted": False}
    path.write_text(json.dumps({"method": "refine", "drafts": [first, *drafts]}) + "\n")
    return str(path)


def test_threads_tell_what_each_rung_brought(shell: Any, scripted: Any, tmp_path: Path) -> None:
    """Of each rung stand its revisions, those that were accepted and their tokens, by the check that had failed."""
    replies = [{"text": text, "input_tokens": 70, "output_tokens": 30} for text in (LONG, LONG + " Far.", BETTER)]
    assert shell(*TASK, "--model", scripted(*replies), "--db", str(tmp_path / "runs.sqlite")).code == 0
    told = shell("tune", "--db", str(tmp_path / "runs.sqlite"), "--json").json
    mend, rewrite, sample = (told["rungs"][name] for name in ("mend", "rewrite", "sample"))
    assert [(row["revisions"], row["accepted"]) for row in (mend, rewrite, sample)] == [(1, 0), (1, 1), (0, 0)]
    assert (rewrite["tokens"], rewrite["per_1000_tokens"]) == (100, 10)
    assert {check: row["accepted"] for check, row in rewrite["by_check"].items()} == {"has_length": 1}
    assert told["order"] == ["mend", "rewrite", "sample"]


def test_results_of_an_evaluation_are_read_too(shell: Any, scripted: Any, tmp_path: Path) -> None:
    """A folder of `redraft eval` counts with the threads; runs whose revisions no rung wrote are left out."""
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps({"question": "Write about a boat.", "answer": BETTER}) + "\n")
    wanted = ("--option", 'verifiers=["length:3 words", "uses_words:river"]')
    fields = ("--question-field", "question", "--answer-field", "answer", "--out", "out")
    model = scripted(LONG, LONG + " Far.", BETTER)
    assert shell("eval", str(data), "--methods", "refine", "--model", model, *wanted, *fields).code == 0
    shown = shell("tune", "out")
    assert "rewrite  " in shown.out
    assert "after has_length" in shown.out
    assert shell("tune", "out", "--json").json["rungs"]["rewrite"]["accepted"] == 1
    plain = shell("eval", str(data), "--methods", "blind-1", "--model", model, *fields[:-1], "blind")
    assert plain.code == 0, plain.err
    assert "no revision of the ladder is recorded" in shell("tune", "blind").err


def test_a_rung_that_is_worth_more_per_token_goes_first_and_runs_take_that_order(
    shell: Any, scripted: Any, tmp_path: Path
) -> None:
    """Beyond chance ahead, a rung is moved; the recipe that says so is what `run` goes by, and flags before it."""
    runs = everyday(tmp_path / "runs.jsonl", mend=(4, 96, 120), rewrite=(60, 40, 180), sample=(20, 80, 130))
    shown = shell("tune", runs, "--out", "recipe.json")
    assert "order: rewrite, sample, mend" in shown.out
    recipe = json.loads((tmp_path / "recipe.json").read_text())
    assert recipe == {"preset": "refine", "rungs": ["rewrite", "sample", "mend"]}
    for flags, first in (((), "rewrite"), (("--rung", "sample"), "sample")):
        shown = shell(*TASK, "--model", scripted(LONG, BETTER), "--recipe", "recipe.json", *flags)
        assert (shown.code, f"revision · scripted ({first})" in shown.out) == (0, True)


def test_what_can_be_chance_moves_nothing_and_the_evidence_that_is_missing_is_named(shell: Any, tmp_path: Path) -> None:
    """With few revisions the default order stands, and how many more would tell is said."""
    runs = everyday(tmp_path / "runs.jsonl", mend=(1, 9, 100), rewrite=(3, 7, 100))
    told = shell("tune", runs, "--json").json
    assert told["order"] == ["mend", "rewrite", "sample"]
    [pair] = told["unsettled"]
    assert (pair["rung"], pair["ahead_of"]) == ("rewrite", "mend")
    more = 1 + pair["more_revisions"] // 10
    enough = everyday(tmp_path / "more.jsonl", mend=(more, 9 * more, 100), rewrite=(3 * more, 7 * more, 100))
    assert shell("tune", enough, "--json").json["order"] == ["rewrite", "mend", "sample"]
    assert f"{pair['more_revisions']} more revisions of each would tell" in shell("tune", runs).out


@pytest.mark.parametrize("words", [(), ("--db", "none.sqlite"), ("nowhere",)])
def test_nothing_to_read_is_said(shell: Any, words: tuple[str, ...]) -> None:
    """Without runs, or where there are none, the command ends with a reason and writes nothing."""
    shown = shell("tune", *words, "--out", "recipe.json")
    assert shown.code == 2
    assert not Path("recipe.json").exists()
    Path("other.jsonl").write_text('{"method": "refine"}\n\n{"method": "refine", "drafts": [{"accepted": true}]}\n')
    assert "other.jsonl, line 3 is no run" in shell("tune", "other.jsonl").err


@pytest.mark.parametrize("content", ["[]", '{"rungs": ["polish"]}', '{"hue": 1}'])
def test_a_recipe_that_makes_no_sense_is_refused(shell: Any, scripted: Any, tmp_path: Path, content: str) -> None:
    """`run --recipe` names what is wrong with the file before anything is asked."""
    (tmp_path / "recipe.json").write_text(content)
    shown = shell(*TASK, "--model", scripted("A boat."), "--recipe", "recipe.json")
    assert shown.code == 2
    assert any(word in shown.err for word in ("no recipe", "polish", "hue"))
