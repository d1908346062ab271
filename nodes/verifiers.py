"""Verifiers: programs that check a draft. Pure, and free to ask."""

from __future__ import annotations

import re
from decimal import Decimal, DivisionByZero, InvalidOperation
from typing import TYPE_CHECKING

from ..state.critique import Critique, Verifier

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["arithmetic_holds", "ends_with_answer", "matches", "uses_words", "verifier"]


def uses_words(*words: str) -> Verifier:
    """Return a verifier that accepts a draft in which every word occurs: as a whole word, in any case.

    Its score is the share of the words that occur.

    Raises:
        ValueError: No word is given, or one is blank. At build.
    """
    if not words or not all(word.strip() for word in words):
        raise ValueError(f"uses_words needs at least one word and no blank ones, not {words!r}")
    patterns = {word: re.compile(rf"(?<!\w){re.escape(word.strip())}(?!\w)", re.IGNORECASE) for word in words}

    def check(task: str, draft: str, /) -> Critique:
        missing = [word for word, pattern in patterns.items() if not pattern.search(draft)]
        score = 1 - len(missing) / len(patterns)
        return Critique(f"These words are missing: {', '.join(missing)}." if missing else "", not missing, score)

    return _named(check, "uses_words")


def matches(pattern: str, *, says: str | None = None) -> Verifier:
    """Return a verifier that accepts a draft in which a regular expression is found.

    Args:
        pattern: Searched anywhere in the draft; `^` and `$` match at lines.
        says: The critique when it is not found; default: the pattern is quoted.

    Raises:
        ValueError: The pattern is not a regular expression. At build.
    """
    try:
        compiled = re.compile(pattern, re.MULTILINE)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None

    def check(task: str, draft: str, /) -> Critique:
        found = bool(compiled.search(draft))
        return Critique("" if found else says or f"The draft must match {pattern!r}.", found)

    return _named(check, "matches")


def ends_with_answer() -> Verifier:
    """Return a verifier that accepts a worked solution whose last line is `#### ` and a number."""

    def check(task: str, draft: str, /) -> Critique:
        lines = draft.strip().splitlines() or [""]
        fine = bool(re.fullmatch(rf"\s*####\s*[$€£]?{NUMBER}\s*%?\.?\s*", lines[-1]))
        return Critique("" if fine else "The last line must be '#### ' and the answer as a number.", fine)

    return _named(check, "ends_with_answer")


def arithmetic_holds() -> Verifier:
    """Return a verifier that recomputes every `a op b = c` in a draft, and rejects a draft that shows none.

    Its score is the share of the sums that are right. A sum that holds after rounding to the digits shown is right.
    """

    def check(task: str, draft: str, /) -> Critique:
        sums = list(EQUATION.finditer(draft))
        if not sums:
            return Critique("Show each step as a sum, such as 3 * 4 = 12.", accepted=False, score=0.0)
        wrong = [problem for found in sums if (problem := _recompute(found))]
        return Critique("\n".join(wrong), not wrong, 1 - len(wrong) / len(sums))

    return _named(check, "arithmetic_holds")


def verifier(spec: str) -> Verifier:
    """Return the verifier that a text names, as the shell does: `uses_words:river,lamp`, `matches:^\\d+$`.

    Raises:
        ValueError: No such verifier, or what follows the colon makes no sense.
    """
    name, colon, argument = spec.partition(":")
    if name == "uses_words":
        return uses_words(*(word.strip() for word in argument.split(",")))
    if name == "matches" and colon:
        return matches(argument)
    if name in _WITHOUT_ARGUMENT and not colon:
        return _WITHOUT_ARGUMENT[name]()
    raise ValueError(
        f"{spec!r} is not a verifier; known are 'uses_words:WORD,WORD', 'matches:REGEX', 'ends_with_answer' "
        "and 'arithmetic_holds'"
    )


def _named(check: Verifier, name: str) -> Verifier:
    check.__name__ = name  # type: ignore[attr-defined]  # events show it
    return check


def _recompute(found: re.Match[str]) -> str:
    left, sign, right, given = (part.strip() for part in found.groups())
    a, b, claimed = (Decimal(part.replace(",", "")) for part in (left, right, given))
    try:
        exact = OPERATORS[sign](a, b)
    except (DivisionByZero, InvalidOperation):
        return f"{left} {sign} {right} can not be computed."
    exponent = claimed.as_tuple().exponent
    digits = -exponent if isinstance(exponent, int) else 0
    if abs(exact - claimed) <= Decimal(1).scaleb(-digits) / 2:
        return ""
    return f"{left} {sign} {right} = {given} is wrong: it is {_plain(exact)}."


def _plain(value: Decimal) -> str:
    return f"{value.quantize(Decimal('0.0001')).normalize():f}" if value != value.to_integral() else f"{int(value)}"


NUMBER = r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
EQUATION = re.compile(
    rf"(?<![\w.,*/+×÷x-])(?<![*/+×÷x=-] )[$€£]?({NUMBER})\s*([-+*/x×÷−])\s*[$€£]?({NUMBER})"
    rf"\s*=\s*[$€£]?({NUMBER})(?![\d%]|[.,]\d)"
)
"""A sum of two numbers: one that is part of a longer chain (`2 + 3 * 4 = 14`) is left alone."""

OPERATORS: Mapping[str, Callable[[Decimal, Decimal], Decimal]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "−": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "x": lambda a, b: a * b,
    "×": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "÷": lambda a, b: a / b,
}

_WITHOUT_ARGUMENT: Mapping[str, Callable[[], Verifier]] = {
    "ends_with_answer": ends_with_answer,
    "arithmetic_holds": arithmetic_holds,
}
