"""A search over several paths at the shell: `redraft run --graph branching`, and its paths as threads."""

from __future__ import annotations

import re
from typing import Any

import pytest

TASK = "Write one short sentence."
VERIFY = ("--verify", "uses_words:river,lamp")
FAILING: dict[str, Any] = {"status": 400, "body": {"error": {"message": "not now"}}}


def reply_to(request: dict[str, Any]) -> str:
    asked = str(request["messages"])
    return "A river lamp." if "missing" in asked or "this word" in asked else "A lamp."


def test_a_search_runs_and_its_paths_are_threads(shell: Any, serve: Any) -> None:
    """Three drafts, the best revised three times; `tree` shows every path, and one that ended goes on by itself."""
    server = serve(reply_to)
    words = ("--graph", "branching", "--paths", "3", "--depth", "1", *VERIFY)
    shown = shell("run", TASK, *words, "--model", server.spec, "--thread", "wide", "--json")
    assert shown.code == 0, shown.err
    assert (shown.json["answer"], shown.json["stop_reason"], shown.json["rounds"]) == ("A river lamp.", "accepted", 1)
    assert len(server.requests) == 6
    tree = shell("tree", "wide").out
    assert all(f"wide/b{level}.{number}" in tree for level in (0, 1) for number in (1, 2, 3))

    left = next(name for name in ("wide/b0.3", "wide/b0.2") if re.search(rf"{name} .* max_rounds ", tree))
    more = shell("resume", left, "--max-rounds", "1", "--json")
    assert (more.json["thread_id"], more.json["answer"], more.json["rounds"]) == (left, "A river lamp.", 1)
    branch = shell("fork", left, "--at", "0", "--feedback", "A word is missing: winter.", "--max-rounds", "1", "--run")
    assert branch.code == 3, branch.err  # undecided: nothing here tells if winter is in it
    assert len(server.requests) == 8


def test_a_search_that_failed_is_resumed(shell: Any, serve: Any) -> None:
    """Where no first draft could be had the command says how to go on, and the same search goes on."""
    server = serve(lambda request: FAILING if len(server.requests) <= 2 else reply_to(request))
    words = ("--graph", "branching", "--paths", "2", "--depth", "1", "--beam", "1", *VERIFY)
    failed = shell("run", TASK, *words, "--model", server.spec, "--thread", "wide")
    assert failed.code == 1
    assert "redraft resume wide" in failed.err
    shown = shell("resume", "wide", "--json")
    assert (shown.json["answer"], shown.json["stop_reason"]) == ("A river lamp.", "accepted")
    assert len(server.requests) == 6


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--paths", "2"), "--branching-factor is for --graph branching"),
        (("--graph", "math", "--depth", "0"), "--depth is for --graph branching"),
        (("--graph", "branching", "--human"), "--human is for --graph refine"),
        (("--graph", "branching", "--paths", "0"), "greater than or equal to 1"),
    ],
)
def test_options_of_another_graph_are_refused(words: tuple[str, ...], told: str, shell: Any, scripted: Any) -> None:
    """A user reads which graph the option is for, before anything is written."""
    shown = shell("run", TASK, *words, "--model", scripted("A lamp."))
    assert shown.code == 2
    assert told in " ".join(shown.err.split())
