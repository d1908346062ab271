"""Planning and follow-up queries without a model."""

from __future__ import annotations

from typing import Any

import pytest
from redraft.retrieval.calibration import key_terms
from redraft.retrieval.findings import RetrievedPassage
from redraft.retrieval.follow_ups import Situation, by_rules, new_queries
from redraft.retrieval.planning import leans, plan_by_rules
from redraft.retrieval.search import Query


@pytest.mark.parametrize(
    ("query", "complexity", "strategy", "queries"),
    [
        ("What is a checkpoint?", "simple", "parallel", ["What is a checkpoint?"]),
        ("why", "simple", "parallel", ["why"]),
        ("How do I resume a failed run?", "moderate", "parallel", ["How do I resume a failed run?"]),
        (
            "How are tomatoes planted and when are they watered?",
            "moderate", "parallel", ["How are tomatoes planted", "when are they watered"],
        ),
        ("First dig the bed, then plant the beans.", "moderate", "sequential", ["dig the bed", "plant the beans"]),
        (
            "Compare compost with manure",
            "complex", "parallel", ["Compare compost with manure", "compost", "manure"],
        ),
        (
            "What is the difference between a fork and a rerun?",
            "complex", "parallel",
            ["What is the difference between a fork and a rerun?", "a fork", "a rerun"],
        ),
        ("SQLite vs. PostgreSQL", "complex", "parallel", ["SQLite vs. PostgreSQL", "SQLite", "PostgreSQL"]),
        ("Flask or Django?", "complex", "parallel", ["Flask or Django?", "Flask", "Django"]),
        (
            "Which is faster, Flask or Django?",
            "complex", "parallel", ["Which is faster, Flask or Django?", "Flask", "Django"],
        ),
        ("Is tea better than coffee?", "complex", "parallel", ["Is tea better than coffee?", "tea", "coffee"]),
        (
            "How does Flask differ from Django?",
            "complex", "parallel", ["How does Flask differ from Django?", "Flask", "Django"],
        ),
        ("Which of A, B or C is best?", "moderate", "parallel", ["Which of A, B or C is best?"]),
        (
            "How do I copy a file or folder to a disk?",
            "moderate", "parallel", ["How do I copy a file or folder to a disk?"],
        ),
        ("Is it raining or not?", "simple", "parallel", ["Is it raining or not?"]),
        (
            "What do slugs eat? Where do aphids sit? How is blight spread?",
            "complex", "parallel", ["What do slugs eat", "Where do aphids sit", "How is blight spread"],
        ),
    ],
)  # fmt: skip
def test_a_query_becomes_sub_queries(query: str, complexity: str, strategy: str, queries: list[str]) -> None:
    """Simple ones stay whole; comparisons, several questions and steps are taken apart."""
    plan = plan_by_rules(query)
    assert (plan["complexity"], plan["strategy"], plan["queries"]) == (complexity, strategy, queries)


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("and how do I resume it?", "how do I resume it fork thread checkpoint"),
        ("What about limits?", "What about limits fork thread checkpoint"),
        ("Can they fail?", "Can they fail fork thread checkpoint"),
        ("How do I fork that?", "How do I fork that thread checkpoint"),
        ("What is a haiku?", "What is a haiku?"),
        ("Which tests need a server that listens on loopback?", "Which tests need a server that listens on loopback?"),
    ],
)
def test_a_query_that_leans_on_what_was_said_gets_its_terms(query: str, first: str) -> None:
    """A question of its own is left alone, and so is every question where nothing was said."""
    assert plan_by_rules(query, ["Older talk.", "How do I fork a thread at a checkpoint?"])["queries"] == [first]
    assert plan_by_rules(query)["context"] == []
    assert not leans(query, [])


def test_key_terms_leave_function_words_out() -> None:
    """Each once, in lower case, in order; names with signs in them stay whole."""
    assert key_terms("How do I use C++ and gpt-5-mini with C++'s own tools?") == ["c++", "gpt-5-mini", "tools"]


def finding(number: int, source: str, similarity: float = 0.5) -> RetrievedPassage:
    return RetrievedPassage(
        id=str(number), text="text", source=source, heading="", score=0.01, similarity=similarity, sub_query="q"
    )


def situation(**changes: Any) -> Situation:
    """Five passages of three documents, close enough: no rule has anything to say."""
    found = [finding(number, f"{number % 3}.md", 0.9) for number in range(5)]
    given: dict[str, Any] = {"queries": ["how to choose the best Python framework"], "found": found}
    return Situation(**{**given, "sure": True, "top_k": 5, **changes})


@pytest.mark.parametrize(
    ("changes", "proposed"),
    [
        ({}, []),
        (
            {"sure": False, "terms": ["django", "web", "flask"]},
            [
                ("how to choose the best Python framework django web", "key_terms"),
                ("how to choose the best Python framework flask", "key_terms"),
                ("choose best python framework", "key_terms"),
            ],
        ),
        ({"top_k": 6}, [("what way to choose the best Python framework", "rephrase")]),
        ({"top_k": 6, "queries": ["What is a fork?"]}, [("meaning of fork", "rephrase")]),
        ({"top_k": 6, "queries": ["fork of the thread"]}, [("fork thread", "rephrase")]),
        (
            {"found": [finding(number, "one.md", 0.9) for number in range(5)]},
            [("how to choose the Python framework", "modifiers")],
        ),
        (
            {"found": [finding(number, "one.md", 0.9) for number in range(5)], "queries": ["best Python framework"]},
            [("Python framework", "modifiers")],
        ),
        (
            {"feedback": ["The part about async views is missing."]},
            [
                ("async views", "feedback"),
                ("async views choose best python framework", "feedback"),
            ],
        ),
        (
            {"found": [], "terms": [], "sure": False},
            [
                ("choose best python framework", "key_terms"),
                ("what way to choose the best Python framework", "rephrase"),
                ("how to choose the Python framework", "modifiers"),
            ],
        ),
    ],
)
def test_each_weakness_has_its_rule(changes: Any, proposed: list[tuple[str, str]]) -> None:
    """Low confidence, few passages, few documents and a reader's complaint; several at once run side by side."""
    assert [(query.text, query.why) for query in by_rules(situation(**changes), run=[])] == proposed


def test_rules_that_helped_go_first_but_never_before_a_person() -> None:
    """The order of the rules is learnt; what a reader misses is asked for before anything else."""
    weak = situation(found=[], feedback=["Nothing on async views."])
    order = [query.why for query in by_rules(weak, run=[], order=["modifiers", "model", "rephrase"])]
    assert order == ["feedback", "modifiers", "rephrase"]


def test_no_query_is_asked_twice() -> None:
    """Whatever its case, white space and final question mark; three at most."""
    proposed = [Query(text, "model") for text in ["  A  Fork? ", "a rerun", "A RERUN", " ", "b", "c", "d"]]
    assert [query.text for query in new_queries(proposed, run=["a fork", "B"])] == ["a rerun", "c", "d"]


@pytest.mark.parametrize("unit", ["a and ", "compare a ", "difference between x ", "word ", "x. ", "what is it? "])
def test_a_long_text_is_one_query(unit: str) -> None:
    """More than 500 characters are searched for as they stand, at once: nothing looks for comparisons in them."""
    plan = plan_by_rules(unit * 20_000 + "vs")
    assert (plan["complexity"], len(plan["queries"])) == ("moderate", 1)
