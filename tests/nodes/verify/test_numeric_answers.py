"""The number that a solution ends in, as a user of the math preset meets it."""

from __future__ import annotations

from decimal import Decimal

import pytest
from redraft.nodes import extract_number, same_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("#### 42", "42"),
        ("####42", "42"),
        ("A: 42", "42"),
        ("Answer: 42", "42"),
        ("Answer:\n42", "42"),
        ("**Final Answer:** 42 apples", "42"),
        ("The answer is 42", "42"),
        ("The answer is therefore **$1,234.50**.", "1234.50"),
        (r"so \boxed{42} apples", "42"),
        (r"\boxed{-\frac{3}{4}}", "-0.75"),
        (r"A: 1\frac{1}{2} cups", "1.5"),
        (r"$12{,}000$", "12000"),
        ("A: 150 000 people", "150000"),
        ("**42**", "42"),
        ("42 km", "42"),
        ("42€", "42"),
        ("$-5", "-5"),
        ("-$5", "-5"),
        ("−5", "-5"),
        (".5", "0.5"),
        ("25%", "25"),
        ("3/4.", "0.75"),
        ("-1 1/2", "-1.5"),
        ("2½ cups", "2.5"),
        ("$2.5 million", "2500000"),
        ("1e5", "100000"),
        ("1 + 1 = 2, so she has 2 left", "2"),
    ],
)
def test_a_number_is_read_in_every_style(text: str, number: str) -> None:
    """Marks, bold, units, currencies, separators, percents, fractions, signs and LaTeX are read."""
    assert extract_number(text) == Decimal(number)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("#### 41\nWait, that is wrong.\n#### 42", 42),
        ("#### 42\nI hope the answer is clear after these 3 steps.", 42),
        ("The answer is 42, since 6 * 7 = 42 and not 43.", 42),
        ("A: 42 apples in 2 days", 42),
        ("Answer: In 2 days she has 42 apples.", 42),
        ("A: 6 * 7 = 42", 42),
        ("A: 5/8 of 40 = 25", 25),
        ("Plan A: 3 dollars, plan B: 4 dollars", 4),
        ("A: none\nSo it is 7", 7),
        ("from 5-10", 10),
        ("10 - 3", 3),
    ],
)
def test_the_last_mark_with_a_number_decides(text: str, number: int) -> None:
    """A mark beats what is written after it; without one, the last number of the text is the answer."""
    assert extract_number(text) == number


@pytest.mark.parametrize("text", ["", "no idea", "#### ", "1/0", "the 3rd", "H2O"])
def test_a_text_may_hold_no_number(text: str) -> None:
    """Ordinals, names with digits and divisions by zero are no answers."""
    assert extract_number(text) is None


def test_numbers_are_the_same_however_they_are_written() -> None:
    """Formatting does not matter; a percent sign is a unit, so 50% is 50 and not a half."""
    assert same_number(42, 42.0)
    assert same_number("42.00", Decimal(42))
    assert same_number("$1,000", "1000 dollars")
    assert same_number("1/3", 1 / 3)
    assert same_number(0.1 + 0.2, "0.3")
    assert same_number("50%", 50)
    for other in ("1/2", 0.5, None, "none", float("nan"), float("inf"), 51, -50):
        assert not same_number("50%", other)
    assert not same_number(None, None)


def test_long_integers_are_exact() -> None:
    """No digit is lost, however long the number is."""
    number = 12345678901234567890123456789012345678901234567890
    assert extract_number(f"#### {number}") == number
    assert extract_number(f"#### {number:,}") == number


HOSTILE = [
    "1",
    "1,",
    "1 ",
    "1/",
    "- ",
    "$ ",
    "\n",
    "#### 1 = ",
    "A: \n",
    "1.",
    "\\frac{1}{",
    "\\boxed{",
    "answer is ",
    "1**",
    "½",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_long_hostile_texts_come_to_an_end(piece: str) -> None:
    """50 KB that repeat a piece of a number are read in one go, and nothing is raised."""
    text = piece * (50_000 // len(piece))
    for hostile in (text, text + "x"):
        extract_number(hostile)
