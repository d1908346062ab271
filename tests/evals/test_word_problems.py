"""The bundled word problems: each is computed anew from its own expression, and its worked answer holds."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from importlib.resources import files
from typing import Any

import pytest
from redraft.evals.datasets.dataset import load_dataset
from redraft.nodes.verify.expressions import compute
from redraft.nodes.verify.numeric_answers import ends_with_answer, extract_number

ROWS: list[dict[str, Any]] = [
    json.loads(line)
    for line in files("redraft.evals.datasets").joinpath("word_problems.jsonl").read_text(encoding="utf-8").splitlines()
]


def test_there_are_many_of_many_kinds() -> None:
    """A user without a data set measures on 60 problems or more, of a dozen kinds, some with answers like 2.8."""
    dataset = load_dataset("bundled")
    assert len(dataset.problems) == len(ROWS) >= 60
    assert (dataset.name, dataset.kind, dataset.skipped) == ("bundled", "numeric", ())
    assert len({row["id"].partition("-")[0] for row in ROWS}) >= 11
    assert sum(problem.gold % 1 != 0 for problem in dataset.problems) >= 10
    assert len({row["question"] for row in ROWS}) == len(ROWS)
    assert all(row.keys() == {"id", "question", "answer", "check"} for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["id"]))
def test_its_answer_is_what_its_expression_computes(row: dict[str, Any]) -> None:
    """A model is never counted wrong because the gold answer is: two computations agree on it, to the last digit."""
    gold = extract_number(row["answer"])
    assert gold is not None
    assert compute(row["check"]) == Fraction(gold), "the expression is read to its end"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["id"]))
def test_its_worked_answer_holds(row: dict[str, Any]) -> None:
    """Every step of a worked answer is a sum that is right, the last one gives the answer, and 2 to 7 are needed."""
    critique = ends_with_answer()(row["question"], row["answer"])
    assert critique is not None
    assert critique.accepted, critique.text
    sums = SUM.findall(row["answer"])
    assert row["answer"].count(" = ") == len(sums), "no sum goes unread"
    assert 2 <= len(sums) <= 7
    for left, right in sums:
        assert compute(left) == compute(right), left
    assert extract_number(sums[-1][1]) == extract_number(row["answer"])


SUM = re.compile(r"((?:[-(]?[0-9.,]+[%)]* (?:[-+*/^]|of) )+[-(]?[0-9.,]+[%)]*) = ([0-9.,]*[0-9])")
