"""Worked solutions: the sums of a text recomputed exactly. Internal."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from itertools import pairwise, product
from typing import TYPE_CHECKING, Literal

from ...state.critique import Critique
from .expressions import Expression, Percent, Sense, Token, Value, plain_notation, skip_units, tokenize
from .text_verifiers import named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...state.critique import Verifier

__all__ = ["Sum", "arithmetic_holds", "find_sums"]


@dataclass(frozen=True)
class Sum:
    """One equality that a text claims.

    Args:
        text: The sum as written: `3 * 4 = 13`.
        verdict: `right`, `wrong`, or `unclear` where it fails as read but may well mean something else.
        problem: What is wrong and what would be right; empty unless it is wrong.
    """

    text: str
    verdict: Literal["right", "wrong", "unclear"]
    problem: str = ""


def find_sums(text: str) -> list[Sum]:
    """Return the sums of a text in order, each once; what can't be read as a sum of numbers is left out.

    A sum holds where any usual reading makes it hold: rounded or cut to the digits shown, percents as shares, running
    totals (`3 + 4 = 7 * 2 = 14`). Takes time linear in the length of the text.
    """
    text = plain_notation(text)
    sources = (NOTE.sub("", text), *NOTE.findall(text))
    return list(dict.fromkeys(one for source in sources for one in _sums(source)))


def _sums(text: str) -> Iterator[Sum]:
    sides: list[list[Token]] = [[]]
    for token in (*tokenize(text), None):
        if token is not None and token.kind == "equals":
            sides.append([])
        elif token is not None and token.kind is not None:
            sides[-1].append(token)
        else:
            for at, (before, after) in enumerate(pairwise(sides), 2):
                found = _judge(text, before, after, goes_on=at < len(sides))
                if found is not None:
                    yield found
            sides = [[]]


def _judge(text: str, before: list[Token], after: list[Token], *, goes_on: bool) -> Sum | None:
    before, after, cut = before[-LONGEST_SIDE:], after[:LONGEST_SIDE], len(before) > LONGEST_SIDE
    lefts, right = _lefts(before, cut=cut), Expression(after, 0, Sense())
    if not lefts or right.value is None or right.at == LONGEST_SIDE:
        return None
    left = lefts[0]
    if not (left.signs or (right.signs and len(before) == 1)):
        return None  # `Day 3 = 4 + 5` names a day
    shown = " = ".join(" ".join(text[side.start : side.end].split()) for side in (left, right))
    holds = any(_holds(one, right, goes_on=goes_on) for one in lefts)
    if not holds and re.search(r"%|cent|\.", shown):
        holds = any(
            _holds(Expression(before, one.begin, sense), Expression(after, 0, sense), goes_on=goes_on)
            for sense, one in product(SENSES[1:], lefts)
        )
    if holds:
        return Sum(shown, "right")
    problem = "" if _may_mean_else(text, left, right) else _problem(shown, left, right)
    return Sum(shown, "wrong" if problem else "unclear", problem)


def _lefts(tokens: list[Token], *, cut: bool) -> list[Expression]:
    """Return the expression that these tokens end in, and what it is without a first bullet or number of a step."""
    at = opened = _behind_open_bracket(tokens)
    while at < len(tokens):
        last, token = tokens[at - 1], tokens[at]
        opens = token.kind in {"number", "open"} or (at == 0 and token.text == "-")
        begins = at == opened or (at == 1 and last.text == "*") or (last.kind == "close" and at < 4)  # `1) 3 * 4`
        behind_word = last.kind == "word" and (token.kind == "number" or token.gap)  # but not `sqrt(16)`
        if not opens or not (begins or behind_word) or (cut and at == 0):
            at += 1
            continue
        found = Expression(tokens, at, Sense())
        if found.value is not None and skip_units(tokens, found.at) == len(tokens):
            following = [one.text for one in tokens[at + 1 : at + 3] if one.gap]
            if token.text == "-" and following and tokens[at + 1].gap:  # `- 3 * 4` in a list
                return [Expression(tokens, at + 1, Sense()), found]
            numbered = (at == 0 or last.text in LABELS) and len(token.text) == 1 and found.at > at + 3
            if numbered and following[:1] == ["-"] and len(following) == 2:  # `1 - 3 * 4`
                return [found, Expression(tokens, at + 2, Sense())]
            return [found]
        at = max(at + 1, found.at)
    return []


def _behind_open_bracket(tokens: list[Token]) -> int:
    depth = 0
    for at in range(len(tokens) - 1, -1, -1):
        depth += {"close": 1, "open": -1}.get(tokens[at].kind or "", 0)
        if depth < 0:
            return at + 1
    return 0


def _holds(left: Expression, right: Expression, *, goes_on: bool) -> bool:
    a, b = left.value, right.value
    if a is None or b is None or right.first is None or left.by_zero or right.by_zero:
        return False
    if left.sense.percent == "plain" and left.signs & {"*", "/", "of"} and not b.percent:
        return False  # 20% * 50 is not 1000
    running = goes_on and bool(right.signs) and _close(a, right.first, claim=right.first)
    return running or _close(a, b, claim=b if not right.signs else a if not left.signs else None)


def _close(a: Value, b: Value, *, claim: Value | None) -> bool:
    """Return whether two values agree to the digits that the claimed one shows, rounded or cut."""
    off = abs(a.exact - b.exact)
    if claim is None:
        return off <= max(a.digit / 2, b.digit / 2, abs(a.exact) * FLOAT_NOISE)
    cut = claim.digit < 1 and off < claim.digit and abs(claim.exact) < max(abs(a.exact), abs(b.exact))
    return cut or off <= max(claim.digit / 2, abs(a.exact) * FLOAT_NOISE)


def _may_mean_else(text: str, left: Expression, right: Expression) -> bool:
    """Return whether a failing sum may mean something else: rejecting a right one is worse than missing a wrong one."""
    before = text[max(0, left.start - NEAR) : left.start].rpartition("\n")[2]
    after = text[right.end : right.end + NEAR].partition("\n")[0]
    a, b = left.value.units if left.value else frozenset(), right.value.units if right.value else frozenset()
    converts = bool(a and b and not a & b) or "dozen" in a | b  # `2 * 30 minutes = 1 hour`
    rest = "/" in left.signs and REMAINDER.search(after)
    others = (BELONGING.search(before), ROUNDED.search(before + " " + after), rest, OTHERWISE.match(after))
    return left.doubtful or right.doubtful or converts or any(others)


def _problem(shown: str, left: Expression, right: Expression) -> str:
    texts, values = shown.split(" = "), []
    for side, written in zip((left, right), texts, strict=True):
        if side.by_zero:
            return f"{written} can not be computed."
        if side.value is None or right.value is None or abs(side.value.exact) > LARGEST_SHOWN:
            return ""
        values.append(_plain(side.value.exact, percent=right.value.percent))
    if not right.signs:
        return f"{shown} is wrong: it is {values[0]}."
    others = [f"{written} is {value}" for written, value in zip(texts, values, strict=True)]
    return f"{shown} is wrong: {' and '.join(others if left.signs else others[1:])}."


def _plain(exact: Fraction, *, percent: bool) -> str:
    shown = f"{Decimal(round(exact * (100 if percent else 1) * 10_000)).scaleb(-4, PRECISE):f}"
    return shown.rstrip("0").rstrip(".") + "%" * percent


def arithmetic_holds(*, required: bool = True) -> Verifier:
    r"""Return a verifier that recomputes every `a op b = c` in a draft, exactly.

    It reads chains (`2 + 3 * 4 = 14`, `3 * 4 = 12 = 10 + 2`), brackets, powers, percents (`20% of 50`), fractions,
    currencies, thousands separators, units between the numbers and LaTeX. A sum that holds after rounding or cutting to
    the digits shown is right. What can't be read with certainty, such as algebra or a conversion of measures, is left
    alone, never counted wrong. The score is the share of the sums that are not wrong.

    Args:
        required: Whether a draft without any sum is rejected.
    """

    def check(task: str, draft: str, /) -> Critique:
        sums = find_sums(draft)
        if not sums:
            text = "Show each step as a sum, such as 3 * 4 = 12." if required else ""
            return Critique(text, accepted=not required, score=float(not required))
        wrong = [one.problem for one in sums if one.verdict == "wrong"]
        more = [f"And {len(wrong) - MOST_SHOWN} more sums are wrong."] if len(wrong) > MOST_SHOWN else []
        return Critique("\n".join(wrong[:MOST_SHOWN] + more), not wrong, (len(sums) - len(wrong)) / len(sums))

    return named(check, "arithmetic_holds", wants="It shows each step as a sum, such as 3 * 4 = 12.")


MOST_SHOWN = 10
NOTE = re.compile(r"<<([^<>\n]*)>>")
"""A calculator annotation of GSM8K: `3 * 4 = <<3*4=12>>12`."""

PERCENTS: tuple[Percent, ...] = ("share", "relative", "plain")
SENSES = (*(Sense(one) for one in PERCENTS), *(Sense(one, thirds=True) for one in PERCENTS))
LONGEST_SIDE = 80
"""Tokens; what stands further from the equals sign is not read."""

LABELS = frozenset({"step", "part", "case", "day", "week", "problem", "question", "option", "method"})
FLOAT_NOISE = Fraction(1, 10**9)
LARGEST_SHOWN = 10**30
PRECISE = Context(prec=40)
NEAR = 60
ROUNDED = re.compile(r"\b(?:round|approx|roughly|nearly|almost|estimat|floor|ceil)|[≈~]", re.IGNORECASE)
REMAINDER = re.compile(r"\b(?:remain|left|r ?\d|whole\b|full\b|complete|at (?:most|least)\b)", re.IGNORECASE)
OTHERWISE = re.compile(r"\s?(?:[ap]\.?m\b|o'clock|noon|midnight|dozen)|[\w' ]{0,30}\bthan\b", re.IGNORECASE)
BELONGING = re.compile(
    r"(?:\b(?:than|half|twice|double|triple|thrice|times|per|root|sqrt|cube|log|ln|sin|cos|tan|exp|mod|minus|plus"
    r"|between|less|more|from|by|average|mean|quarter|third|(?:half|twice|rest|square|percent|[a-z]+ths?|%) of)"
    r"|[0-9] ?[a-z]+(?: and)?|(?:^|[0-9] )of)\s*$",
    re.IGNORECASE,
)
"""Words before a sum that may belong to it: `half of 10 + 3`, `the sum of 3 and 4 * 2`."""
