"""A solution is right or wrong by the gold answer: as a number, by hidden tests, by its words, or as a text."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from redraft.evals.datasets.scorers import CodeScorer, ExactScorer, HiddenTests, Kind, scorer
from redraft.nodes.verify.numeric_answers import lone_number

if TYPE_CHECKING:
    from redraft.sandbox import Sandbox

DOUBLE = HiddenTests(
    prompt='def double(n):\n    """Return twice n."""\n',
    entry_point="double",
    test="def check(candidate):\n    assert candidate(3) == 6\n    assert candidate(-1) == -2\n",
    canonical_solution="    return 2 * n\n",
)


@pytest.mark.parametrize(
    ("kind", "gold", "solution", "answer", "right"),
    [
        ("numeric", Decimal(1080), "so 9 * 120 = 1,080\n#### 1,080", "1080", True),
        ("numeric", Decimal("2.5"), "Answer: $2.50", "2.50", True),
        ("numeric", Decimal(42), "It is not 42.\n#### 41", "41", False),
        ("numeric", Decimal(42), "I do not know.", None, False),
        ("numeric", Decimal(42), "", None, False),
        ("words", ("dog", "run"), "Dog and man RUN.", "Dog and man RUN.", True),
        ("words", ("dog", "run"), "Dogs are running, a dogrun!", "Dogs are running, a dogrun!", False),
        ("words", ("dog",), " ", None, False),
        ("exact", "Mount Kenya", "It is high.\n#### mount  kenya.", "mount  kenya.", True),
        ("exact", "Mount Kenya", "**Answer:** *Mount Kenya*", "Mount Kenya", True),
        ("exact", "Mount Kenya", "Mount Kenya", "Mount Kenya", True),
        ("exact", "Mount Kenya", "It is not Mount Kenya", "It is not Mount Kenya", False),
        ("exact", "yes", "Answer: yes\nAnswer: no", "no", False),
        ("exact", "a, b, c", "<think>Answer: d</think>Answer: A,B,C", "A,B,C", True),
        ("exact", "don't", "#### Don’t!", "Don’t!", True),
        ("exact", "1.5", "Answer: 15", "15", False),
        ("exact", "1.50", "Answer: 1.5", "1.5", True),
        ("exact", "-5", "Answer: 5", "5", False),
        ("exact", "5", "Answer: five 5", "five 5", False),
        ("exact", "C++", "C", "C", False),
        ("exact", "?", "Answer: ?", "?", True),
        ("exact", "?", "?", "?", True),
        ("exact", "?", "!", "!", False),
        ("exact", "x", "", None, False),
    ],
)
def test_a_solution_is_judged(kind: Kind, gold: Any, solution: str, answer: str | None, right: bool) -> None:
    """A solution counts as right only by the answer that it gives, never because the gold answer stands in it."""
    assert scorer(kind).read_answer(solution) == answer
    assert scorer(kind).is_correct(gold, solution) is right


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *[("42", "42"), (" 1,080 ", "1080"), ("$4.50", "4.50"), ("-3", "-3"), ("25%", "25"), ("3/4", "0.75")],
        *[("1 1/2", "1.5"), ("-$5", "-5"), ("7.", "7"), ("0", "0"), ("+5", "5"), (".5", "0.5")],
        *[("4 apples", None), ("1994-05-02", None), ("3 4", None), ("", None), ("1/0", None), ("x", None)],
        *[
            ("NaN", None),
            ("--5", None),
            ("- 5", None),
            ("-$ 5", "-5"),
            ("$-5", "-5"),
            ("1 080", "1080"),
            ("10:30", None),
            ("1.2.3", None),
            ("٣", "3"),
        ],
    ],
)
def test_a_gold_answer_is_a_number_or_it_is_not(text: str, number: str | None) -> None:
    """A date or a phrase with a number in it is compared as a text, not by a number that happens to be in it."""
    assert lone_number(text) == (None if number is None else Decimal(number))


@pytest.mark.parametrize(
    ("kind", "gold", "shown"),
    [
        ("numeric", Decimal("1E+3"), "1000"),
        ("numeric", Decimal("19.80"), "19.80"),
        ("words", ("dog", "run"), "dog, run"),
        ("exact", "Mount Kenya", "Mount Kenya"),
        ("code", DOUBLE, "    return 2 * n"),
        ("code", DOUBLE._replace(canonical_solution=""), None),
    ],
)
def test_a_gold_answer_is_shown_in_records(kind: Kind, gold: Any, shown: str | None) -> None:
    """A record shows the gold answer as a person writes it."""
    assert scorer(kind).shown_gold(gold) == shown


def test_code_is_judged_by_hidden_tests(sandbox: Sandbox) -> None:
    """A function is right when it passes the hidden tests, whole or as a body; a fake pass or no code is wrong."""
    judge = CodeScorer(sandbox)
    assert judge.is_correct(DOUBLE, "```python\ndef double(n):\n    return n + n\n```")
    assert judge.is_correct(DOUBLE, "    return n * 2\n")
    assert judge.read_answer("```python\ndef double(n):\n    return n + n\n```") == "def double(n):\n    return n + n"
    for wrong in (
        "```python\ndef double(n):\n    return n ** 2\n```",
        "```python\nimport sys\ndef double(n):\n    sys.exit(0)\n```",
        "I can't write that.",
        "",
    ):
        assert not judge.is_correct(DOUBLE, wrong), wrong
    assert judge.read_answer("I can't write that.") is None


def test_code_is_run_once_for_each_solution(sandbox: Sandbox) -> None:
    """A solution that stands in several lines of a record costs one run of its tests."""

    class Counting(type(sandbox)):  # type: ignore[misc]
        runs = 0

        def check(self, *args: Any, **options: Any) -> Any:
            type(self).runs += 1
            return super().check(*args, **options)

    judge = CodeScorer(Counting(timeout_s=10))
    for solution in ("    return 2 * n", "    return n", "    return 2 * n", "    return n"):
        judge.is_correct(DOUBLE, solution)
    assert Counting.runs == 2


def test_a_kind_must_be_known() -> None:
    """A misspelt kind is named at once."""
    assert scorer("exact") is scorer("exact")
    assert isinstance(scorer("exact"), ExactScorer)
    with pytest.raises(ValueError, match="kind must be one of numeric, code, words, exact, not 'number'"):
        scorer("number")  # type: ignore[arg-type]
