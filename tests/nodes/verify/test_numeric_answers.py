"""The number that a solution ends in, as a user of the math preset meets it."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redraft.nodes import ends_with_answer, extract_number, same_number
from redraft.nodes.verify.numeric_answers import lone_number

if TYPE_CHECKING:
    from collections.abc import Callable


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
        (r"1.5 \times 10^{3}", "1500"),
        ("1.5·10⁻³", "0.0015"),
        ("10^6", "1000000"),
        ("2^10", "1024"),
        (r"15,\!000", "15000"),
        ("1.000.000", "1000000"),
        ("1.000,50", "1000.5"),
        ("1'000", "1000"),
        ("1 000 000", "1000000"),
        ("1,00,000", "100000"),
        ("１，０００", "1000"),
        ("2k", "2000"),
        ("$5m", "5000000"),
        ("5m", "5"),
        ("2 hundred thousand", "200000"),
        ("1/2 million", "500000"),
        ("5/2.5", "2"),
        ("25 m²", "25"),
        (r"90^\circ", "90"),
        (r"\boxed{\text{42 apples}}", "42"),
        ("minus 5", "-5"),
        ("3 - 8 = - 5", "-5"),
        ("*42*", "42"),
        ("> 42", "42"),
        ("42...", "42"),
        ("COVID-19", "19"),
        (r"\boxed{x = 5} is 3 more than 2", "5"),
        ("A: 6 * 7 = 42 apples in 2 days", "42"),
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
    ],
)
def test_the_last_mark_with_a_number_decides(text: str, number: int) -> None:
    """A mark beats what is written after it; without one, the last number of the text is the answer."""
    assert extract_number(text) == number


@pytest.mark.parametrize("text", ["", "no idea", "#### ", "1/0", "the 3rd", "H2O"])
def test_a_text_may_hold_no_number(text: str) -> None:
    """Ordinals, names with digits and divisions by zero are no answers."""
    assert extract_number(text) is None


UNREADABLE = """5! · 1,5 · 0,500 · 1,000,50 · 1.5.2 · 1_00 · 12 345 · 100 200 300 · 3:30 · 1994-05-02 · 5/6/2020 · 3/4/5
3-4 · 3–4 · 10 - 3 · 3 to 4 · between 3 and 4 · 3, 4 · (3, 4) · 3 out of 4 · 20% of 50 · 3 * 4 · 6 x 7 · x + 5 · 3x
2π · 2\\pi · \\sqrt{16} · \\frac{\\pi}{4} · 5(3/4) · 101₂ · 10_2 · 0x1F · x1,000 · ≥ 5 · x > 5 · 5+ · 5 ± 1 · |-5|
0.333... · 5'11" · 5‰ · 300 K · - 5 · –5 · 2 and a half · 5 squared · 1 million 200 thousand · 1 hour 30 minutes
3 dollars and 50 cents · 10 apples - 3"""


@pytest.mark.parametrize("text", UNREADABLE.replace("\n", " · ").split(" · "))
def test_an_answer_is_read_whole_or_not_at_all(text: str) -> None:
    """A range, a time or a sum not worked out is never taken for one of its parts, nor is an earlier answer."""
    for form in ("{}", "#### {}", "A: {}", "#### 7\n#### {}", "The answer is {}", "\\boxed{{{}}}"):
        assert extract_number(form.format(text)) is None
    assert lone_number(text) is None


numbers = st.decimals(0, 10**12, places=3)
NOTATIONS: list[Callable[[Decimal], str]] = [
    lambda n: f"{n:,f}".replace(",", "'"),
    lambda n: f"{n:,f}".replace(",", "\u202f"),
    lambda n: f"{n:,f}".replace(",", r",\!"),
    lambda n: f"{n:,f}".replace(",", "{,}"),
    lambda n: f"{n:,f}".replace(",", "_"),
    lambda n: f"{n:,f}".replace(",", " "),
    lambda n: f"{n:f}".translate(str.maketrans("0123456789", "０１２３４５６７８９")),
    lambda n: f"{n.scaleb(-3):f}k",
    lambda n: f"{n.scaleb(-6):f} million",
    lambda n: f"{n:e}",
    lambda n: f"{n.scaleb(-3):f} \\times 10^{{3}}",
    lambda n: f"{n.scaleb(2):f} × 10⁻²",
    lambda n: f"\\frac{{{n.scaleb(3):.0f}}}{{1000}}",
]
SPACED = 5
"""`12 345` may be two numbers."""


@given(numbers, st.sampled_from(range(len(NOTATIONS))), st.sampled_from(["{}", "#### {}", "\\boxed{{{}}}", "A: -{}"]))
def test_every_notation_of_a_number_means_that_number(number: Decimal, notation: int, form: str) -> None:
    """Swiss, Indian, LaTeX and scientific numbers come back as they were written; what is ambiguous as none."""
    found = extract_number(form.format(NOTATIONS[notation](number)))
    value = -number if "-" in form else number
    assert found in ({value, None} if notation == SPACED else {value})


JOINS = ["-", "–", " to ", ", ", ":", " * ", " + ", " of ", "^", "/", "x", " ", "'", "e"]


@given(numbers, numbers, st.sampled_from(JOINS))
def test_two_numbers_are_never_read_as_one_of_them(one: Decimal, other: Decimal, between: str) -> None:
    """What joins them decides: a product, a ratio or a list is not its first or last number."""
    first, last = f"{one:f}", f"{other:f}"
    found = extract_number(f"#### {first}{between}{last}")
    if between == "/" and other:
        assert same_number(found, one / other)
    else:
        assert found is None


@pytest.mark.parametrize(
    ("draft", "accepted"),
    [
        ("so\n#### 42", True),
        ("#### $1,200.50.", True),
        ("####-5%", True),
        ("#### forty", False),
        ("So it is #### 42", False),
        ("42", False),
        ("", False),
    ],
)
def test_an_answer_line_is_asked_for(draft: str, accepted: bool) -> None:
    """The last line holds the answer, and nothing but a number."""
    found = ends_with_answer()("", draft)
    assert (found.accepted, bool(found.text)) == (accepted, not accepted)


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
    "1 000 ",
    "_a",
    "<a",
    "1 hours ",
    "1 hundred ",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_long_hostile_texts_come_to_an_end(piece: str) -> None:
    """50 KB that repeat a piece of a number are read in one go, and nothing is raised."""
    text = piece * (50_000 // len(piece))
    for hostile in (text, text + "x"):
        extract_number(hostile)
