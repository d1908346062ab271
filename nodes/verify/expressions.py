"""Arithmetic expressions, read from prose, LaTeX and Markdown, and computed exactly. Internal."""

from __future__ import annotations

import ast
import operator
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

__all__ = ["UnreadableExpressionError", "compute", "plain_notation"]


def plain_notation(text: str) -> str:
    r"""Return a text whose sums a program can read: `\frac{1}{2} \times 6` becomes `(1/2) * 6`.

    Bold and code marks are dropped, a fraction after a whole number becomes a mixed number (`1½` is `1 1/2`), and
    LaTeX commands without a plain sign stay as they are. Takes time linear in the length of the text.
    """
    for pattern, replacement in REWRITES:
        text = pattern.sub(replacement, text)
    for _ in range(DEEPEST_FRACTION):
        text, count = FRACTION.subn(_fraction, text)
        if not count:
            break
    return VULGAR.sub(
        lambda sign: _mixed(sign["whole"] or "", unicodedata.normalize("NFKC", sign["sign"]).replace("⁄", "/")),
        text.translate(SIGNS),
    )


def _fraction(match: re.Match[str]) -> str:
    whole, above, below = match["whole"] or "", match["a"] or match["c"], match["b"] or match["d"]
    if not (above.strip().isdecimal() and below.strip().isdecimal()):
        return f"{whole}(({above})/({below}))"
    return _mixed(whole, f"{above.strip()}/{below.strip()}")


def _mixed(whole: str, fraction: str) -> str:
    return f"{whole.rstrip()} {fraction}" if whole else f"({fraction})"


class UnreadableExpressionError(ValueError):
    """The text is no arithmetic expression, or one that can be read in two ways."""


def compute(text: str) -> Fraction:
    """Compute an arithmetic expression exactly; nothing in it is evaluated as code.

    It may hold `+ - * / ^`, brackets, percents (`20%` is 1/5, and `20% of 30` is 6), mixed numbers (`1 1/2`), currency
    signs, thousands separators and scales (`2 million`).

    Raises:
        UnreadableExpressionError: It is anything else.
        ZeroDivisionError: It divides by zero.
    """
    numbers: list[Fraction] = []
    signs = [""]
    source, end = "", 0
    text = plain_notation(text).strip()
    for token in TOKEN.finditer(text):
        sign = token[0].strip().lower()
        share = token.string[:end].rstrip().endswith(("%", "cent")) or signs[-1] == "/"
        if token.start() != end or (sign == "of" and not share):
            break
        end = token.end()
        if token["number"]:
            # Python's parser reads the structure: each number stands there as its place in the list.
            source += f" {len(numbers)} "
            numbers.append(_number(token))
        elif sign:
            signs.append(sign)
            source += OPERATORS.get(sign, sign)
    try:
        if end == len(text):
            return _value(ast.parse(source.strip(), mode="eval").body, numbers)
    except (SyntaxError, MemoryError, RecursionError):
        pass
    raise UnreadableExpressionError(f"{text!r} can't be read as one arithmetic expression")


def _number(token: re.Match[str]) -> Fraction:
    if token["mixed"]:
        whole, over, under = (int(part) for part in re.split(r"[ /]", token["mixed"]))
        return whole + Fraction(over, under)
    digits = Fraction(SEPARATOR.sub("", token["digits"]))
    return digits / 100 if token["percent"] else digits * SCALES[(token["scale"] or "").lower()]


def _value(node: ast.expr, numbers: Sequence[Fraction]) -> Fraction:
    if isinstance(node, ast.Constant):
        return numbers[node.value]  # type: ignore[index]  # all constants are places
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, numbers)
    if isinstance(node, ast.Call) and len(node.args) == 1:  # 2(3 + 4)
        return _value(node.func, numbers) * _value(node.args[0], numbers)
    if isinstance(node, ast.BinOp) and not (isinstance(node.op, ast.Div) and isinstance(node.right, ast.Call)):
        left, right = _value(node.left, numbers), _value(node.right, numbers)
        if type(node.op) in EXACT:
            return EXACT[type(node.op)](left, right)
        small = max(abs(left.numerator), left.denominator) <= LARGEST_BASE and 0 <= right <= LARGEST_POWER
        if isinstance(node.op, ast.Pow) and small and right.denominator == 1 and not isinstance(node.left, ast.Call):
            return left ** int(right)
    raise SyntaxError("no sum, product, quotient or power of moderate size that can be read in one way only")


LARGEST_POWER, LARGEST_BASE = 64, 2**64
EXACT: Mapping[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
SCALES = {"": 1, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
OPERATORS = {
    **{"times": "*", "multiplied by": "*", "x": "*", "of": "*", "plus": "+", "minus": "-", "divided by": "/"},
    **{"–": "-", "^": "**", "[": "(", "{": "(", "]": ")", "}": ")"},
}
SEPARATOR = re.compile(r"[,\u00a0\u2009\u202f]")
TOKEN = re.compile(
    r"""(?P<number>(?:(?:\bUS)?[$€£¥₹]\s?)?
        (?:(?P<mixed>[0-9]{1,9}[ ][0-9]{1,4}/[0-9]{1,4}(?![0-9.,/]))
          |(?P<digits>(?:[0-9]{1,3}(?:[,\u00a0\u2009\u202f][0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+))
        (?:\s?(?P<percent>%|per[ ]?cent\b)|[ ](?P<scale>hundred|thousand|million|billion)\b)?)
    |(?:times|plus|minus|of|(?:multiplied|divided)[ ]by)\b|x(?=\s?[$€£¥₹]?[0-9.(])
    |[-+*/^–()\[\]{}]
    |[^\S\n]+""",
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
