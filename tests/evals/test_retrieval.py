"""The retrieval ledger: ranks of known sources, what refining changes, and how far a confidence can be trusted."""

from __future__ import annotations

from typing import Any

import pytest
from redraft.evals.analysis.retrieval import Found, KnownQuestion, measured, retrieval_ledger

pytest.importorskip("statsmodels")

QUESTIONS = [
    KnownQuestion(question="one", sources=["a.md"]),
    KnownQuestion(question="two", sources=["b.md", "c.md"], text="in  The Shade"),
    KnownQuestion(question="three", sources=["d.md"]),
    KnownQuestion(question="off", sources=[]),
]


def search(table: dict[str, list[tuple[str, str]]], confidence: dict[str, float], nothing: tuple[str, ...] = ()) -> Any:
    return lambda question: Found(
        passages=table.get(question, []), confidence=confidence[question], nothing=question in nothing
    )


def test_ranks_refining_and_confidence_are_told() -> None:
    """A reader sees hits, MRR and nDCG of questions with a source, what refining found and lost, and what was withheld;
    a source that is found twice counts once, and a passage without the known words does not count."""
    found = {
        "one": [("x.md", ""), ("a.md", ""), ("a.md", "")],
        "two": [("b.md", "in the sun"), ("b.md", "In the shade.")],
    }
    deeper = {**found, "one": [], "three": [("d.md", "")]}
    trust = {"one": 0.8, "two": 0.6, "three": 0.3, "off": 0.1}
    runs = {
        "unrefined": measured(search(found, trust), QUESTIONS),
        "refined": measured(search(deeper, trust, nothing=("off",)), QUESTIONS),
        "careful": measured(search(found, trust, nothing=("two", "off")), QUESTIONS),
    }
    ledger = retrieval_ledger(runs, QUESTIONS, refining=[("unrefined", "refined")])
    first, _, careful = ledger.methods
    assert (ledger.questions, ledger.off_topic, first.n, first.hit1.k, first.hit5.k) == (3, 1, 3, 0, 2)
    assert first.mrr == pytest.approx((1 / 2 + 1 / 2) / 3)
    assert first.ndcg == pytest.approx((0.6309298 + 0.6309298 / 1.6309298) / 3)
    assert careful.hit5.k == 1
    (change,) = ledger.refining
    assert (change.hit5.fixed, change.hit5.broken, change.hit5.mcnemar_p) == (1, 1, 1.0)
    rows = {row.method: row for row in ledger.confidence}
    assert (rows["unrefined"].auc, rows["refined"].off_topic.k, rows["careful"].withheld.k) == (1.0, 1, 1)
    assert rows["unrefined"].error == pytest.approx((0.2 + 0.4 + 0.3 + 0.1) / 4)
