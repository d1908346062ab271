"""Arithmetic expressions, read from prose, LaTeX and Markdown, and computed exactly. Internal."""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Expression", "plain_notation"]


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


class Value(NamedTuple):
    """An exact number, and whether it was written as a percentage: `20%` is 1/5."""

    exact: Fraction
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


class Expression:
    """The longest expression that a text in plain notation starts with.

    `value` is `None` where none can be read with certainty; `at` is the token where it, or what is legible, ends.
    """

    def __init__(self, text: str) -> None:
        self.tokens, self.at, self.by_zero = list(tokenize(text)), 0, False
        try:
            self.value: Fraction | None = self._sum().exact
        except _UnreadableError:
            self.value = None

    @property
    def whole(self) -> bool:
        """Whether nothing follows the expression."""
        return bool(self.tokens) and self.at == len(self.tokens)

    def _sum(self) -> Value:
        left = self._product()
        while sign := self._operator("+-"):
            right = self._product()
            left = Value(left.exact + (right.exact if sign == "+" else -right.exact))
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
            self.by_zero |= sign == "/" and not right.exact
            factor = right.exact if sign != "/" else 1 / right.exact if right.exact else Fraction(0)
            left, before = Value(left.exact * factor), sign

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
        return Value(base.exact ** int(power.exact))

    def _number(self) -> Value:
        if self._is("open"):
            self.at += 1
            value = self._sum()
            self.at = self._behind_units()
            if not self._is("close"):
                raise _UnreadableError
            self.at += 1
        elif self._is("number"):
            value = _value(self._take().found)
        else:
            raise _UnreadableError
        after = self._behind_units()
        next_kind = self.tokens[after].kind if after < len(self.tokens) else None
        if self._is("number") or self._is("odd") or (next_kind == "operator" and not self._operand(after + 1)):
            raise _UnreadableError  # `150 000`, `3 y`, `12 + tax`
        if self._is("word", "of"):
            return value
        if next_kind in {"close", "operator"}:
            self.at = after
        return value

    def _behind_units(self) -> int:
        """Return where the words after a number end: `apples`, `per day`, `/day`, at most six."""
        at, end = self.at, min(self.at + MOST_UNITS, len(self.tokens))
        while at < end and self.tokens[at].kind == "word" and self.tokens[at].text not in NO_UNITS:
            at += 1
        return at

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


def _value(found: re.Match[str]) -> Value:
    if found["mixed"]:
        whole, over, under = (int(part) for part in re.split(r"[ /]", found["mixed"]))
        if under:
            return Value(whole + Fraction(over, under))
    digits = re.sub(r"[,\u00a0\u2009\u202f]", "", found["digits"] or "")
    if not digits or len(digits) > LONGEST_NUMBER or not GROUPED.fullmatch(found["digits"]):
        raise _UnreadableError
    percent = bool(found["percent"])
    unit = Fraction(1, 100) if percent else SCALES[(found["scale"] or "").lower()]
    return Value(Fraction(digits) * unit, percent)


MOST_UNITS = 6
LONGEST_NUMBER = 40
LARGEST_POWER, LARGEST_BASE = 64, 2**64
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
