"""`redraft eval --retrieval`: searches over questions whose sources are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from redraft.evals.analysis.retrieval import known_questions

pytest.importorskip("statsmodels")


def test_the_shell_measures_searches(shell: Any, tmp_path: Path) -> None:
    """`redraft eval --retrieval` prints words, vectors, and the search with and without refining, and keeps the
    numbers; what is missing or wrong is said by name."""
    pytest.importorskip("wordllama")
    garden = Path(__file__).parents[2] / "graphs" / "data" / "garden"
    rows = [
        {"question": "How do I keep potatoes over the winter?", "sources": ["vegetables/potatoes.md"]},
        {"question": "Which beetle eats aphids?", "sources": ["pests.md"]},
        {"question": "Who won the World Cup of 1998?", "sources": []},
    ]
    file = tmp_path / "questions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = (
        "--retrieval",
        str(file),
        "--dir",
        str(garden),
        "--out",
        "out",
        "--embedding",
        "static",
        "--rerank",
        "none",
    )
    shown = shell("eval", *words)
    assert shown.code == 0, shown.err
    assert "2 questions with known sources, 1 without" in shown.out
    assert "refining found 0 and lost 0 of 2 among the first five (p = 1)" in shown.out
    kept = json.loads((tmp_path / "out" / "retrieval.json").read_text())
    assert [row["method"] for row in kept["methods"]] == ["bm25", "vectors", "unrefined", "refined"]
    assert all(row["hit5"]["k"] >= 1 for row in kept["methods"])

    empty = tmp_path / "empty.jsonl"
    empty.write_text('{"question": "a", "sources": []}\n')
    with pytest.raises(ValueError, match="no question with known sources"):
        known_questions(empty)
    for bad, says in (
        (("--retrieval", str(file)), "--retrieval needs a --dir"),
        (("--dir", str(garden), "bundled", "--out", "out"), "--documents is for --retrieval"),
        (("bundled", *words), "takes the place of the dataset 'bundled'"),
        (("bundled",), "give a DATASET and --out DIR"),
        ((*words, "--methods", "bm26"), "there is no method 'bm26' of retrieval"),
    ):
        refused = shell("eval", *bad)
        assert refused.code == 2
        assert says in refused.err or says in " ".join(refused.err.split())


def test_the_reranker_can_be_chosen_at_the_shell(shell: Any, tmp_path: Path) -> None:
    """`--rerank none` searches without a contextual model; a name that is not known is refused."""
    pytest.importorskip("wordllama")
    garden = Path(__file__).parents[2] / "graphs" / "data" / "garden"
    search = ("--graph", "retrieval", "--dir", str(garden), "--embedding", "static")
    words = ("run", "What do slugs eat?", *search, "--json")
    shown = shell(*words, "--rerank", "none")
    assert shown.code == 3, shown.err  # words and static vectors alone are not confident of it
    assert "Slugs" in shown.json["answer"]
    refused = shell(*words, "--rerank", "best")
    assert refused.code == 2
    assert "embeddings 'best' are not known" in refused.err
