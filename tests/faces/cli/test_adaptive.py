"""`redraft run --graph adaptive`, and the methods of `redraft eval` that choose or add clauses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = "```python\nprint(2 + 1)\n```"
RUNS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "verifier": (
        "Use river and lamp.",
        ("--verify", "uses_words:river,lamp"),
        ("A boat.", "A river.", "A lamp and a river."),
    ),
    "program": ("What is 2 + 1?", ("--critic", "program"), ("#### 4", PROGRAM, PROGRAM, PROGRAM, "2 + 1\n#### 3")),
    "tests": (
        "Write double(n).\n>>> double(2)\n4",
        ("--critic", "tests"),
        ("```python\ndef double(n):\n    return n\n```", "```python\ndef double(n):\n    return 2 * n\n```"),
    ),
}


@pytest.mark.parametrize("evidence", RUNS)
@pytest.mark.usefixtures("sandbox")
def test_a_run_shows_what_it_chose_and_is_read_again(shell: Any, scripted: Any, evidence: str) -> None:
    """With words, a program or tests as evidence the choice stands in progress and history; the thread replays."""
    task, words, replies = RUNS[evidence]
    shown = shell("run", task, "--graph", "adaptive", *words, "--model", scripted(*replies), "--thread", "t")
    assert shown.code == 0, shown.err
    assert "Next: sample, the first way to try." in shown.out + shown.err
    found = shell("show", "t", "--json").json
    assert (found["answer"], found["stop_reason"]) == (replies[-1], "accepted")
    assert [draft["revises"] for draft in found["drafts"]] == [None] * len(found["drafts"])
    assert "Next: sample, the first way to try." in shell("history", "t").out
    wishes = ['It has each of the words "river", "lamp", exactly as written.'] if evidence == "verifier" else []
    assert found["wishes"] == wishes
    assert all(f"wanted: {wish}" in shell("show", "t").out for wish in wishes)
    assert shell("replay", "t").code == 0
    [row] = shell("threads", "--json").json
    assert row["recipe"]["preset"] == "adaptive"


def test_a_run_without_evidence_is_refused(shell: Any, scripted: Any) -> None:
    """A run that could not choose is refused before anything is paid, and the message says what to give."""
    refused = shell("run", "Write.", "--graph", "adaptive", "--model", scripted("a"))
    assert (refused.code, "adaptive chooses by evidence: give --verify" in refused.err) == (2, True)


def test_adaptive_runs_and_clauses_are_evaluated(shell: Any, scripted: Any, tmp_path: Path) -> None:
    """Both methods write a record for each problem; clauses without feedback stand among the baselines."""
    pytest.importorskip("scipy")
    pytest.importorskip("statsmodels")
    (tmp_path / "words.jsonl").write_text(json.dumps({"concepts": ["dog", "run"]}) + "\n")
    replies = ["A dog.", "A dog can run.", "A dog.", "and it can run", "over a hill"]
    words = ("--methods", "adaptive,clauses-2", "--concurrency", "1", "--out", "out", "--json")
    shown = shell("eval", str(tmp_path / "words.jsonl"), "--model", scripted(*replies), *words)
    assert shown.code == 0, shown.err
    rows = {row["method"]: row for row in shown.json["methods"]}
    assert {name: (row["baseline"], row["accuracy"]["k"]) for name, row in rows.items()} == {
        "adaptive": (False, 1),
        "clauses-2": (True, 1),
    }
