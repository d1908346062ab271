"""Verifiers: programs that check a draft."""

from __future__ import annotations

import pytest
from redraft.nodes.verifiers import arithmetic_holds, ends_with_answer, matches, uses_words, verifier


def test_uses_words_counts_whole_words_in_any_case() -> None:
    """A word inside another word does not count; the critique lists what is missing."""
    check = uses_words("river", "lamp", "C++")
    assert check("", "RIVER and lamp and C++.").accepted is True
    found = check("", "Rivers and lamps")
    assert (found.accepted, found.score, found.text) == (False, 0.0, "These words are missing: river, lamp, C++.")
    assert check("", "river").score == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("draft", "accepted"),
    [
        ("3 * 4 = 12", True),
        ("3 x 4 = 12 apples and 12 + 1 = 13", True),
        ("$1,200 / 3 = $400", True),
        ("10 / 3 = 3.33", True),
        ("10 / 3 = 3", True),
        ("0.5 + 0.25 = 0.75", True),
        ("5 - 8 = -3", True),
        ("3 * 4 = 13", False),
        ("10 / 3 = 3.4", False),
        ("7 / 0 = 0", False),
        ("12 apples", False),
        ("2 + 3 * 4 = 14, so 14 - 4 = 10", True),
        ("3 * 4 = 12 = 6 * 2", True),
    ],
)
def test_arithmetic_is_recomputed(draft: str, accepted: bool) -> None:
    """Every simple sum is checked, after rounding to the digits shown; a draft without any is rejected."""
    assert arithmetic_holds()("", draft).accepted is accepted


def test_a_wrong_sum_says_what_it_is() -> None:
    """The refiner is told the right result."""
    found = arithmetic_holds()("", "3 * 4 = 13\n12 + 1 = 13")
    assert (found.text, found.score) == ("3 * 4 = 13 is wrong: it is 12.", 0.5)


@pytest.mark.parametrize(
    ("draft", "accepted"), [("so\n#### 42", True), ("#### $1,200.50.", True), ("#### forty", False), ("42", False)]
)
def test_an_answer_line_is_asked_for(draft: str, accepted: bool) -> None:
    """The last line holds the answer, and nothing but a number."""
    assert ends_with_answer()("", draft).accepted is accepted


def test_verifiers_have_names_that_a_shell_can_give() -> None:
    """The shell names verifiers by text, and hears what is known where it errs."""
    assert verifier("uses_words:river, lamp")("", "lamp river").accepted
    assert verifier(r"matches:^\d+:\d+$")("", "12:30").accepted
    assert verifier("arithmetic_holds")("", "1 + 1 = 2").accepted
    for wrong in ("spelling", "uses_words:", "matches", "matches:(", "ends_with_answer:5"):
        with pytest.raises(ValueError, match=r"is not a verifier|needs at least one word|not a regular expression"):
            verifier(wrong)
    assert matches("x", says="Use an x.")("", "y").text == "Use an x."
