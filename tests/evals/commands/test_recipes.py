"""A recipe that `choose` wrote is a graph for every command that takes one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

ONE = ("--concurrency", "1")


@pytest.fixture
def rows(tmp_path: Path) -> str:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"task": f"Write about boat {number}."}) + "\n" for number in range(6)))
    return str(path)


def test_what_choose_wrote_is_run_evaluated_and_gated(shell: Any, scripted: Any, rows: str, tmp_path: Path) -> None:
    """Where the rows can't tell, the cheapest method is the recipe: `run`, `eval` and `gate` take its file, with the
    model, the checks and the rounds that it says."""
    model = ("--model", scripted(*["A boat in rain."] * 200))
    shown = shell("choose", rows, "--verify", "length:3 words", *model, *ONE, "--out", "recipe.json")
    assert (shown.code, "use it: redraft run" in shown.out) == (0, True)
    recipe = json.loads((tmp_path / "recipe.json").read_text())
    assert (recipe["verifiers"], recipe["limits"]) == (["length:3 words"], {"max_rounds": 0})
    assert shell("run", "Write about a boat.", "--recipe", "recipe.json", *model, "--json").json["rounds"] == 0
    shown = shell("eval", rows, "--graph", "recipe.json", *ONE, "--out", "mine")
    assert (shown.code, "best-of-2" in shown.out) == (0, True)
    assert shell("gate", rows, "--graph", "recipe.json", *ONE, "--write", "base.json").code == 0
    shown = shell("gate", rows, "--graph", "recipe.json", *ONE, "--against", "base.json")
    assert (shown.code, "Can't tell" in shown.out) == (3, True)


def test_one_row_is_enough_for_a_report(shell: Any, scripted: Any, rows: str, tmp_path: Path) -> None:
    """A share of one row has no spread: the report says so, and does not end with an error of the statistics."""
    one = tmp_path / "one.jsonl"
    one.write_text(json.dumps({"task": "Write about a boat."}) + "\n")
    checks = ("--verify", "length:3 words", "--verify", "uses_words:boat")
    model = ("--model", scripted(*["A boat in rain."] * 40))
    shown = shell("eval", str(one), "--graph", "refine", *checks, *model, *ONE, "--out", "mine")
    assert shown.code == 0, shown.err


def test_a_recipe_says_itself_who_judges(shell: Any, scripted: Any, rows: str, tmp_path: Path) -> None:
    """Flags that would contradict it, and a file that is none, are refused before anything is paid."""
    (tmp_path / "recipe.json").write_text(json.dumps({"model": scripted("A boat."), "verifiers": ["length:3 words"]}))
    shown = shell("eval", rows, "--graph", "recipe.json", "--verify", "length:5", "--out", "mine")
    assert (shown.code, "leave these flags out" in shown.err) == (2, True)
    (tmp_path / "other.json").write_text("[]")
    shown = shell("gate", rows, "--graph", "other.json", "--write", "base.json")
    assert (shown.code, "is no recipe" in shown.err) == (2, True)
    shown = shell("choose", rows, "--graph", "recipe.json", "--out", "better.json")
    assert (shown.code, "--out writes a recipe" in shown.err) == (2, True)
