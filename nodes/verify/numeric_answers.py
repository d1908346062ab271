"""The number that a worked solution ends in, and whether two numbers are the same."""

from __future__ import annotations

import re
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import TYPE_CHECKING

from .notation import plain_notation

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NUMBER", "extract_number", "same_number"]

Number = Decimal | int | float | str


def extract_number(text: str) -> Decimal | None:
    r"""Return the final answer that a text gives, or `None` where it holds no number.

    A mark decides, and the last mark that a number follows wins: `#### 42`, `\boxed{42}`, a line that opens with `A:`
    or `Answer:`, or "the answer is 42". After such a mark the number that comes first is the answer (`A: 42 apples in
    2 days`), or behind words the last one of the sentence (`A: in 2 days she has 42 apples`), or what a sum there
    comes to (`A: 6 * 7 = 42`). Without a mark it is the last number of the text.

    Thousands separators, currencies, units, bold, signs, decimals and `million` are read. A percent sign is a unit:
    `25%` is 25, as in GSM8K. Fractions are divided, to 28 digits: `3/4` is 0.75 and `1 1/2` is 1.5. A decimal comma
    (`3,5`) is not read. Takes time linear in the length of the text, and never raises.
    """
    text = SIMPLE_FRACTION.sub(r"\1", plain_notation(text))
    end = len(text)
    for mark in reversed(list(MARK.finditer(text))):
        answer = _marked(text[mark.end() : min(end, mark.end() + LONGEST_ANSWER)], tight=mark.lastgroup == "phrase")
        if answer is not None:
            return answer
        end = mark.start()
    return max(_numbers(text), default=(0, None))[1]


def same_number(a: Number | None, b: Number | None) -> bool:
    """Return whether two numbers are equal to one part in a million, however they are written: `42 == "42.00"`.

    Texts are read by `extract_number`, so `"50%"` is the same as 50 and not as `"1/2"` or 0.5. What is no number
    (`None`, NaN, infinity, a text without one) is the same as nothing.
    """
    first, second = _decimal(a), _decimal(b)
    if first is None or second is None:
        return False
    room = EXACT.multiply(max(Decimal(1), first.copy_abs(), second.copy_abs()), TOLERANCE)
    return EXACT.subtract(first, second).copy_abs() <= room


def _marked(rest: str, *, tight: bool) -> Decimal | None:
    lines = rest.lstrip(BLANK).splitlines() or [""]
    sentence = SENTENCE_END.split(lines[0], maxsplit=1)[0]
    first = OPENING.match(sentence)
    if first and SUM_AFTER.match(sentence, first.end()):
        sentence = sentence.rpartition("=")[2]
    elif first or tight:
        return _value(first) if first else None
    return max(_numbers(sentence), default=(0, None))[1]


def _numbers(text: str) -> Iterator[tuple[int, Decimal]]:
    for found in ANYWHERE.finditer(text):
        value = _value(found)
        if value is not None:
            yield found.start(), value


def _value(found: re.Match[str]) -> Decimal | None:
    sign, whole, over, under, plain, power, scale = found.group(
        "sign", "whole", "over", "under", "plain", "power", "scale"
    )
    if under:
        if not Decimal(under):
            return None
        value = EXACT.add(Decimal(_bare(whole or "0")), EXACT.divide(Decimal(_bare(over)), Decimal(under)))
    else:
        value = Decimal(f"{_bare(plain)}E{int(power or 0) + SCALES[(scale or '').lower()]}")
    return value.copy_negate() if "-" in sign else value


def _bare(digits: str) -> str:
    return SEPARATORS.sub("", digits)


def _decimal(value: Number | None) -> Decimal | None:
    if isinstance(value, str):
        return extract_number(value)
    number = None if value is None else Decimal(value)
    return number if number is not None and number.is_finite() else None


LONGEST_ANSWER = 400
BLANK = " \t\r\n*_:$"
TOLERANCE = Decimal("1e-6")
EXACT = Context(prec=28, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
SCALES = {"": 0, "hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
SEPARATORS = re.compile(r"[, \u00a0\u2009\u202f]")
SIMPLE_FRACTION = re.compile(r"\(([0-9]{1,9}/[0-9]{1,9})\)")
SENTENCE_END = re.compile(r"[.!?;](?=\s|$)|\s(?:because|since)\s")

_DIGITS = r"[0-9]{1,3}(?:[, \u00a0\u2009\u202f][0-9]{3}(?![0-9]))+|[0-9]++"
NUMBER = rf"-?(?:(?:{_DIGITS})(?:\.[0-9]++)?|\.[0-9]++)"
"""A number as people write it, with thousands separators: the text of a regular expression without groups."""

_SIGNED = r"(?P<sign>(?:-[$€£¥₹]?|[$€£¥₹][ ]?-?)?)"
_READ = (
    rf"{_SIGNED}(?:(?:(?P<whole>(?:{_DIGITS}))[ ](?:and[ ])?)?"
    rf"(?P<over>(?:{_DIGITS}))[ ]?/[ ]?(?P<under>[0-9]++)(?!\.?[0-9]|/)"
    rf"|(?P<plain>(?:{_DIGITS})(?:\.[0-9]++)?|\.[0-9]++)(?:[eE](?P<power>[+-]?[0-9]{{1,3}})(?!\w))?"
    r"(?:[ ]?(?P<scale>hundred|thousand|million|billion|trillion)\b)?)"
)
ANYWHERE = re.compile(rf"(?<![\w.]){_READ}(?!(?:st|nd|rd|th)\b)", re.IGNORECASE)
OPENING = re.compile(rf"[\s*_:=~≈(\[{{\"']*(?:(?:about|approximately|exactly|only|just)\s)?{_READ}", re.IGNORECASE)
SUM_AFTER = re.compile(r"[^=;(]{0,200}(?:[-+*/x%]|\b(?:of|times|plus|minus|by)\b)[^=;(]{0,200}=", re.IGNORECASE)
MARK = re.compile(
    r"####|\\boxed\{|^[ \t>*_#]*+(?:(?:final )?answer|a)[ \t*_]*+:"
    r"|(?P<phrase>\banswer[ ]?(?:is|was|=|:|equals)(?:[ ](?:therefore|thus|then|simply|equal to))?)",
    re.IGNORECASE | re.MULTILINE,
)
