"""Arithmetic expressions, read from prose, LaTeX and Markdown, and computed exactly. Internal."""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Expression", "Percent", "Sense", "Token", "Value", "plain_notation", "skip_units", "tokenize"]


def plain_notation(text: str) -> str:
    r"""Return a text whose sums a program can read: `\frac{1}{2} \times 6` becomes `(1/2) * 6`.

    Bold and code marks are dropped, a fraction after a whole number becomes a mixed number (`1½` is `1 1/2`), and
    LaTeX commands without a plain sign stay as they are. Takes time linear in the length of the text.
    """
    for pattern, replacement in REWRITES:
        text = pattern.sub(replacement, text)
    for _ in range(DEEPEST_FRACTION):
        text, found = FRACTION.subn(_fraction, text)
        if not found:
            break
    return VULGAR.sub(_vulgar, text.translate(SIGNS))


def _fraction(found: re.Match[str]) -> str:
    whole, above, below = found["whole"] or "", found["a"] or found["c"], found["b"] or found["d"]
    if not (above.strip().isdecimal() and below.strip().isdecimal()):
        return f"{whole}(({above})/({below}))"
    return _mixed(whole, f"{above.strip()}/{below.strip()}")


def _vulgar(found: re.Match[str]) -> str:
    return _mixed(found["whole"] or "", unicodedata.normalize("NFKC", found["sign"]).replace("⁄", "/"))


def _mixed(whole: str, fraction: str) -> str:
    return f"{whole.rstrip()} {fraction}" if whole else f"({fraction})"


Percent = Literal["share", "relative", "plain"]


class Sense(NamedTuple):
    """A reading of notation that has more than one sense."""

    percent: Percent = "share"
    """`20%` as 0.2; as that share of what it is added to or taken from; or as 20."""
    thirds: bool = False
    """`3.33` as 10/3: a number that was rounded on the way is the simple fraction that it stands for."""


class Value(NamedTuple):
    """An exact number, what a one in the last digit shown is worth, and the words behind the numbers it came from."""

    exact: Fraction
    digit: Fraction
    units: frozenset[str]
    percent: bool = False


class Token(NamedTuple):
    """A piece of a text; `odd` spoils the expression that it stands in, and the kind `None` ends a statement."""

    kind: str | None
    text: str
    found: re.Match[str]
    gap: bool
    """Whether white space stands before it."""


def tokenize(text: str) -> Iterator[Token]:
    """Yield the tokens of a text in plain notation. Takes time linear in its length."""
    gap = True
    for found in TOKEN.finditer(text):
        kind, written = KINDS.get(found.lastgroup or "", found.lastgroup), found[0].lower()
        if kind != "space":
            yield Token(kind, OPERATORS.get(written, written) if kind == "operator" else written, found, gap)
        gap = kind == "space"


def skip_units(tokens: Sequence[Token], at: int) -> int:
    """Return where the words after a number end: `apples`, `per day`, `/day`, at most six."""
    end = min(at + MOST_UNITS, len(tokens))
    while at < end and tokens[at].kind == "word" and tokens[at].text not in NO_UNITS:
        at += 1
    return at


class Expression:
    """The longest expression that starts at a token.

    `value` is `None` where none can be read with certainty; `at` is the token where it, or what is legible, ends.
    `doubtful` says that its precedence or units allow another meaning, `signs` are its operators, and `first` is the
    value of its first number. `begin` is its first token; `start` and `end` are its place in the text, in characters.
    """

    def __init__(self, tokens: Sequence[Token], at: int, sense: Sense) -> None:
        self.tokens, self.begin, self.at, self.sense = tokens, at, at, sense
        self.first: Value | None = None
        self.signs: set[str] = set()
        self.doubtful = self.by_zero = False
        self.start = self.end = tokens[at].found.start() if at < len(tokens) else 0
        try:
            self.value: Value | None = self._sum()
        except _UnreadableError:
            self.value = None
        self.doubtful |= "of" in self.signs and bool({"+", "-"} & self.signs)
        self.doubtful |= {"juxtaposed", "/"} <= self.signs

    def _sum(self) -> Value:
        left = self._product()
        while sign := self._operator("+-"):
            right = self._product()
            self.doubtful |= bool(left.units and right.units and not left.units & right.units)  # hours and minutes
            more = right.exact * left.exact if right.percent and self.sense.percent == "relative" else right.exact
            left = self._join(left, sign, right, left.exact + (more if sign == "+" else -more))
        return left

    def _product(self) -> Value:
        left, before = self._power(), ""
        while True:
            share = left.percent or before == "/"
            if sign := self._operator("*/"):
                pass
            elif share and self._is("word", "of") and self._operand(self.at + 1):
                sign = self._take().text
            elif self._is("open") and not self.tokens[self.at].gap:
                sign = "juxtaposed"
            else:
                return left
            right = self._power()
            self.doubtful |= sign == before == "/"  # `1 1/2 / 1/2` means a fraction twice
            self.by_zero |= sign == "/" and not right.exact
            factor = right.exact if sign != "/" else 1 / right.exact if right.exact else Fraction(0)
            left, before = self._join(left, sign, right, left.exact * factor), sign

    def _power(self) -> Value:
        if self._is("operator", "-"):
            self.at += 1
            negated = self._power()
            return negated._replace(exact=-negated.exact)
        base = self._number()
        if not self._operator("^"):
            return base
        power = self._power()
        large = max(abs(base.exact.numerator), base.exact.denominator) > LARGEST_BASE or power.exact > LARGEST_POWER
        if large or power.exact < 0 or power.exact.denominator != 1:
            raise _UnreadableError
        return self._join(base, "^", power, base.exact ** int(power.exact))

    def _number(self) -> Value:
        if self._is("open"):
            self.at += 1
            value = self._sum()
            self.at = skip_units(self.tokens, self.at)
            if not self._is("close"):
                raise _UnreadableError
            self.end = self._take().found.end()
        elif self._is("number"):
            self.end = self.tokens[self.at].found.end()
            value = _value(self._take().found, self.sense)
            self.first = self.first or value
        else:
            raise _UnreadableError
        after = skip_units(self.tokens, self.at)
        units = [token.text.lstrip("-/").removesuffix("s") for token in self.tokens[self.at : after]]
        next_kind = self.tokens[after].kind if after < len(self.tokens) else None
        if self._is("number") or self._is("odd") or (next_kind == "operator" and not self._may_end(after)):
            raise _UnreadableError  # `150 000`, `3 y`, `12 + tax`
        if units[:1] == ["of"]:
            return value
        if next_kind == "close" or (next_kind == "operator" and self._operand(after + 1)):
            self.at = after
        return value._replace(units=value.units | {"$" if unit == "dollar" else unit for unit in units[:1]})

    def _may_end(self, at: int) -> bool:
        """Return whether an operator joins numbers, or is a dash or an emphasis after one."""
        prose = self.tokens[at].text == "-" and self.tokens[at].gap and at + 1 < len(self.tokens)
        return (
            self._operand(at + 1)
            or (prose and self.tokens[at + 1].kind == "word" and self.tokens[at + 1].gap)
            or (at + 1 == len(self.tokens) and self.tokens[at].text in "*-")
        )

    def _join(self, left: Value, sign: str, right: Value, exact: Fraction) -> Value:
        self.signs.add(sign)
        digit = max((one.digit for one in (left, right) if one.digit < 1), default=Fraction(0))
        return Value(exact, digit, left.units | right.units)

    def _is(self, kind: str, text: str = "") -> bool:
        return (
            self.at < len(self.tokens) and self.tokens[self.at].kind == kind and text in {"", self.tokens[self.at].text}
        )

    def _operand(self, at: int) -> bool:
        at += at < len(self.tokens) and self.tokens[at].text == "-"
        return at < len(self.tokens) and self.tokens[at].kind in {"number", "open"}

    def _operator(self, signs: str) -> str:
        there = self._is("operator") and self.tokens[self.at].text in signs and self._operand(self.at + 1)
        return self._take().text if there else ""

    def _take(self) -> Token:
        self.at += 1
        return self.tokens[self.at - 1]


class _UnreadableError(Exception):
    pass


def _value(found: re.Match[str], sense: Sense) -> Value:
    units = frozenset({"$"} if found["currency"] else ())
    if found["mixed"]:
        whole, over, under = (int(part) for part in re.split(r"[ /]", found["mixed"]))
        if under:
            return Value(whole + Fraction(over, under), Fraction(0), units)
    digits = re.sub(r"[,\u00a0\u2009\u202f]", "", found["digits"] or "")
    if not digits or len(digits) > LONGEST_NUMBER or not GROUPED.fullmatch(found["digits"]):
        raise _UnreadableError
    places = len(digits.partition(".")[2])
    exact, digit = (Fraction(digits), Fraction(1, 10**places)) if places else (Fraction(int(digits)), ONE)
    if sense.thirds and digit < Fraction(1, 10):
        simple = exact.limit_denominator(SIMPLEST)
        exact = simple if abs(simple - exact) <= digit else exact
    percent = bool(found["percent"])
    unit = Fraction(1, 100) if percent and sense.percent != "plain" else SCALES[(found["scale"] or "").lower()]
    return Value(exact, digit, units, percent) if unit == 1 else Value(exact * unit, digit * unit, units, percent)


ONE = Fraction(1)
MOST_UNITS = 6
LONGEST_NUMBER = 40
LARGEST_POWER, LARGEST_BASE = 64, 2**64
SIMPLEST = 12
NO_UNITS = frozenset({"and", "so", "because", "then", "is", "are", "was", "has", "have", "had", "which", "that", "but"})
SCALES = {"": 1, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
KINDS = {"sign": "operator", "algebra": "odd"}
OPERATORS = {"times": "*", "multiplied by": "*", "x": "*", "plus": "+", "minus": "-", "divided by": "/", "–": "-"}
GROUPED = re.compile(r"(?:[0-9]{1,3}(?:[,\u00a0\u2009\u202f][0-9]{3})+|[0-9]*)(?:\.[0-9]+)?")
TOKEN = re.compile(
    r"""(?P<equals>\s*+==?(?![=>])\s*+)
    |(?P<space>[^\S\n]++(?!\n))|\s++
    |[=<>!~≠≤≥-]{1,3}>|[<>!~]=|===+|\.{2,}|\\boxed
    |(?P<number>(?P<currency>(?:\bUS)?[$€£¥₹]\s?)?
        (?:(?P<mixed>[0-9]{1,9}[ ][0-9]{1,4}/[0-9]{1,4}(?![0-9]|[.,/][0-9]))
          |(?P<digits>[0-9]++(?:[.,:\u00a0\u2009\u202f][0-9]++)*+|(?<![0-9])\.[0-9]++))
        (?:\s?(?P<percent>%|per[ ]?cent\b)|[ ](?P<scale>hundred|thousand|million|billion)\b)?)
    |(?P<operator>(?:times|plus|minus|(?:multiplied|divided)[ ]by)\b(?=\s[$€£¥₹]?[0-9.(-])|x(?=\s?[$€£¥₹]?[0-9.(]))
    |(?P<algebra>(?<=[0-9])(?!(?:[kcm]m|[km]g|ml|ft|in|lb|oz|hr|mi|[ap]m)\b)[^\W\d_]{1,2}(?![^\W_]))
    |(?P<word>(?:(?<=[\w)])[-/])?(?:[^\W\d_][^\W_]++(?:['’-][^\W\d_]++)*+|(?<=[/\s])a(?=[ ][^\W\d_]{2})))
    |(?P<sign>[-+*/^–])
    |(?P<open>[(\[{])
    |(?P<close>[)\]}])
    |(?P<odd>[^\W\d]|[²³√°|_\\]|!(?=\s?[-+*/^=)]))
    |.""",
    re.IGNORECASE | re.VERBOSE,
)
DEEPEST_FRACTION = 4
FRACTION = re.compile(
    r"(?P<whole>(?<![\w.,])[0-9]{1,9}[ ]?)?"
    r"\\[dt]?frac(?:\{(?P<a>[^{}]*)\}\{(?P<b>[^{}]*)\}|(?P<c>[0-9])(?P<d>[0-9]))"
)
VULGAR = re.compile(r"(?P<whole>(?<![\w.,])[0-9]{1,9}[ ]?)?(?P<sign>[¼½¾⅐-⅞])")
SIGNS = str.maketrans({"−": "-", "×": "*", "✕": "*", "✖": "*", "·": "*", "⋅": "*", "∙": "*", "∗": "*", "÷": "/"}
                      | {"∕": "/", "⁄": "/", "＝": "=", "`": " "})  # fmt: skip
REWRITES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\\\", "\n"),
        (r"\\(?:times|cdot|ast)(?![a-zA-Z])", "*"),
        (r"\\div(?![a-zA-Z])", "/"),
        (r"\\approx(?![a-zA-Z])", "≈"),
        (r"\\(?:left|right)(?![a-zA-Z])", ""),
        (r"\\(?:text|mathrm|textbf|mathbf|textit)\{([^{}]*)\}", r" \1 "),
        (r"(?<=[0-9])(?:\{,\}|\\,)(?=[0-9]{3})", ","),
        (r"\\([$%#&])", r"\1"),
        (r"\\!", ""),
        (r"\\[,;: ()\[\]]|\\q?quad(?![a-zA-Z])", " "),
        (r"&\s?=", "="),
        (r"(?<=[0-9)])(\s?)\*\*\1(?=[0-9(])", "^"),  # a power; any other ** is Markdown's bold
        (r"\*\*", ""),
    )
)
