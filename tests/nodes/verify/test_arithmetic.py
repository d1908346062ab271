"""Sums in worked solutions: what is found wrong, what right, and what is left alone."""

from __future__ import annotations

import pytest
from redraft.nodes import arithmetic_holds, ends_with_answer, verifier
from redraft.nodes.verify.sums import find_sums

RIGHT = [
    "3 * 4 = 12",
    "3 x 4 = 12 apples and 12 + 1 = 13",
    "$1,200 / 3 = $400",
    "10 / 3 = 3.33",
    "10 / 3 = 3",
    "2 + 3 * 4 = 14, so 14 - 4 = 10",
    "3 * 4 = 12 = 6 * 2",
    "3*4 = 12 = 10 + 2",
    "(3 + 4) * 2 = 14",
    "20% of 50 = 10",
    "50 * 20% = 10",
    "1/2 * 10 = 5",
    "1/2 of 10 = 5",
    "3 apples * 4 = 12 apples",
    r"$3 \times 4 = 12$",
    r"\frac{1}{2} \times 10 = 5",
    r"\[ 12 \div 4 = 3 \]",
    r"2 \cdot 3 = 6",
    "- 3 * 4 = 12",
    "* 3 * 4 = 12",
    "1. 3 * 4 = 12",
    "1) 3*4 = 12",
    "Step 1 - 3 * 4 = 12",
    "Step 1: 3 * 4 = 12",
    "-3 + 5 = 2",
    "5 - 8 = -3",
    "5 * -3 = -15",
    "5 - (-3) = 8",
    "2(3 + 4) = 14",
    "(3+4)(2) = 14",
    "3 + 4 = 7 * 2 = 14",
    "16 - 3 - 4 = <<16-3-4=9>>9 duck eggs",
    "2 * 30 minutes + 5 = 65 minutes",
    "$10/family * 3 families = $30",
    "$18 per day * 7 days = $126",
    "100% - 20% = 80%",
    "50 - 20% = 40",
    "50 + 20% = 60",
    "10/50 = 20%",
    "10/50 * 100 = 20%",
    "2 dozen * 12 = 24 eggs",
    "1.5 million + 500 thousand = 2 million",
    "2/3 = 0.66",
    "2/3 = 0.667",
    "0.1 + 0.2 = 0.30000000000000004",
    "**3 * 4 = 12**",
    "3 * 4 = **12** apples",
    "2**3 = 8",
    "3^2 + 4^2 = 25",
    "2½ * 4 = 10",
    "1 1/2 * 10 = 15",
    "5 times 3 = 15",
    "10 divided by 2 = 5",
    "3 plus 4 = 7",
    "total = 3 * 4 = 12",
    "The total is 3 * 4\n= 12",
    "3.33 * 3 = 10",
    "3.33 * 3 = 10.00",
    "She makes 9 * 2 = $18 every day.",
    "$.50 * 4 = $2",
    "5 kg + 3 kg = 8 kg",
    "(3 apples + 2 apples) * 2 = 10 apples",
    "12 = 3 * 4",
    "10/4 = 5/2",
    "7/2 = 3 1/2",
    "$20 -$15 = $5",
    "x = 5 + 3 = 8",
    r"\boxed{3 * 4 = 12}",
    "&= 3 * 4 = 12",
    "3 * 4 == 12",
    "33.33% of 60 = 20",
]

WRONG = [
    "5 - 3 = 3",
    "8 - 3 - 1 = 5",
    "3 shirts * $5 + 2 hats * $4 = $24",
    "1,200 - 300 = 800",
    "16 - 3 - 4 = <<16-3-4=9>>8 eggs",
    "20 / 3 = 6",
    "1/2 of 10 = 6",
    "(3 * 4 = 13)",
    "10 divided by 2 = 6",
    "3 * 4 = 13",
    "10 / 3 = 3.4",
    "7 / 0 = 0",
    "2 + 3 * 4 = 20",
    "(3 + 4) * 2 = 15",
    "20% of 50 = 11",
    "50 * 20% = 11",
    "1/2 * 10 = 6",
    "3 apples * 4 = 13 apples",
    r"$3 \times 4 = 13$",
    "3*4 = 12 = 10 + 3",
    "for a total of 300*80,000=$24,000,001",
    "3 * 4 = 13 so 13 + 1 = 14",
    "- 3 * 4 = 13",
    "x = 3 * 4 = 13",
    "20% * 50 = 1000",
    "$2 * 9 eggs = $19",
    "12 = 3 * 5",
    "3 * 4 = 2 * 7",
    "5 * 8 = 41 hours",
]

LEFT_ALONE = [
    "* price * 3 + 1 = 16",
    "3 + 4 + x = 9",
    "a + b (3 + 4) = 20",
    "3x + 4 = 16",
    "x * 4 = 12",
    "2 apples + 3 oranges = $9",
    "x + 3 = 5",
    "10H + H = 88,000",
    "half of 10 + 3 = 8",
    "2 dozen * 2 = 48 eggs",
    "2 dozen * 2 = 48",
    "252/12 = 20 dozen",
    "12 - x = 5 and x + 2 = 9",
    "3 more than 3 * 2 = 9",
    "Day 3 = 4 + 5 = 9",
    "age in 2020 = 5 + 7 = 12",
    "Remaining 10 = 62,300/10 = $6230",
    "2 * 30 minutes = 1 hour",
    "4 * 25 cents = $1",
    "9 + 4 = 1 pm",
    "10:30 - 9:15 = 1:15",
    "19 / 5 = 3 remainder 4",
    "19/5 = 3 full boxes",
    "17/5 = 4 (rounded up)",
    "f(3) = 3 + 1 = 4",
    "sqrt(16) + 2 = 6",
    "1 hour 30 minutes * 2 = 180 minutes",
    "5! = 120",
    "3² + 4² = 25",
    "3,50 + 1,50 = 5,00",
    "400 000 - 250 000 = 150 000",
    "3 * 4 ≈ 13",
    "3 * 4 = 2 * x",
    "3 * 4 = about 13",
    "5 != 3 + 4",
    "a3 + 4 = 9",
    "C(5,2) = 10",
    "3 * 4 => 12",
    "price * 4 = 20",
    "|3 - 5| = 2",
    "3 * 4 <= 13",
    "2 * apple + 3 = 11",
    "1 hour + 30 minutes = 90 minutes",
    "3 * 4 = 3 less than 15",
    "2 adult + 50 child = $900",
    "28 + 3 = March 3",
    "17 mod 5 + 2 = 4",
    "3 shirts = 3 * $5 = $15",
    "1 1/2 / 1/2 = 3",
    "log 100 + 1 = 3",
    "20% of $50 + $10 = $12",
    r"\sqrt{16} + 2 = 6",
    "3_1 + 3 = 7",
    "10 - 3 = n",
    "the sum of 3 and 4 * 2 = 14",
]


@pytest.mark.parametrize("text", RIGHT)
def test_a_right_sum_is_read_and_accepted(text: str) -> None:
    """Chains, brackets, percents, fractions, units, currencies, LaTeX and bullets: each holds, and is seen to."""
    assert {one.verdict for one in find_sums(text)} == {"right"}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_sum_is_found(text: str) -> None:
    """The same notations, with a slip: exactly one sum is wrong, and the critique says what is right."""
    wrong = [one for one in find_sums(text) if one.verdict == "wrong"]
    assert len(wrong) == 1
    assert wrong[0].problem


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_what_may_mean_something_else_is_left_alone(text: str) -> None:
    """Algebra, conversions, clocks, remainders, labels and rounding in words are never counted wrong."""
    assert "wrong" not in {one.verdict for one in find_sums(text)}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("3 * 4 = 13", "3 * 4 = 13 is wrong: it is 12."),
        ("12 = 3 * 5", "12 = 3 * 5 is wrong: 3 * 5 is 15."),
        ("3 * 4 = 2 * 7", "3 * 4 = 2 * 7 is wrong: 3 * 4 is 12 and 2 * 7 is 14."),
        ("30/40 = 70%", "30/40 = 70% is wrong: it is 75%."),
        ("2 / 3 = 0.7 = 1.4 / 3", "0.7 = 1.4 / 3 is wrong: 1.4 / 3 is 0.4667."),
        ("7 / 0 = 0", "7 / 0 can not be computed."),
        (r"\frac{1}{3} \times 10 = 3.4", "(1/3) * 10 = 3.4 is wrong: it is 3.3333."),
        ("3 apples * 4 = 13 apples", "3 apples * 4 = 13 is wrong: it is 12."),
    ],
)
def test_a_critique_says_what_would_be_right(text: str, problem: str) -> None:
    """The refiner reads the sum as it was written, and its value."""
    assert arithmetic_holds()("", text).text == problem


def test_the_score_is_the_share_of_sums_that_hold() -> None:
    """Mending one of two wrong sums shows; many wrong ones are not all listed."""
    check = arithmetic_holds()
    assert check("", "1 + 1 = 3\n2 + 2 = 5\n3 + 3 = 6").score == pytest.approx(1 / 3)
    assert check("", "1 + 1 = 2\n2 + 2 = 5\n3 + 3 = 6").score == pytest.approx(2 / 3)
    many = check("", "\n".join(f"{n} + 1 = 100" for n in range(15)))
    assert (many.score, many.text.splitlines()[-1]) == (0, "And 5 more sums are wrong.")


def test_a_draft_without_sums_may_pass() -> None:
    """Where sums are optional a draft without any is fine; one with a wrong sum is not."""
    for check in (arithmetic_holds(required=False), verifier("arithmetic_holds:optional")):
        assert check("", "It is 12.").accepted
        assert not check("", "3 * 4 = 13").accepted
    assert not arithmetic_holds()("", "It is 12.").accepted


@pytest.mark.parametrize(
    "text", ["9**9**9 = 1", "9^9^9 + 1 = 2", "(((9^64)^64)^64)^64 = 1", "0^-1 = 0", "9" * 99 + " + 1 = 2"]
)
def test_numbers_too_large_to_be_meant_are_left_alone(text: str) -> None:
    """A power tower is not computed, and no memory is spent on it."""
    assert find_sums(text) == []


@pytest.mark.parametrize(
    ("draft", "accepted"),
    [
        ("so\n#### 42", True),
        ("#### $1,200.50.", True),
        ("####-5%", True),
        ("#### forty", False),
        ("42", False),
        ("", False),
    ],
)
def test_an_answer_line_is_asked_for(draft: str, accepted: bool) -> None:
    """The last line holds the answer, and nothing but a number."""
    found = ends_with_answer()("", draft)
    assert (found.accepted, bool(found.text)) == (accepted, not accepted)


HOSTILE = [
    "1+",
    "1=",
    "1 - 1 = 5\n",
    "(",
    "-",
    "<",
    " \n",
    "9^9=",
    "<<1",
    "\\frac{",
    "1 1/2 ",
    "(" * 79 + "=",
    "a-",
    "1.",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_long_hostile_texts_come_to_an_end(piece: str) -> None:
    """50 KB that repeat a piece of a sum are read in one go, and nothing is raised."""
    text = piece * (50_000 // len(piece))
    for hostile in (text, "1 + " + text + "1 = 2"):
        find_sums(hostile)
