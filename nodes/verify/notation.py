"""Mathematical notation as plain text: LaTeX, Markdown and typographic signs rewritten to `+ - * / ^ ( )`."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["plain_notation"]


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
        (r"\\[,;:! ()\[\]]|\\q?quad(?![a-zA-Z])", " "),
        (r"&\s?=", "="),
        (r"(?<=[0-9)])(\s?)\*\*\1(?=[0-9(])", "^"),  # a power; any other ** is Markdown's bold
        (r"\*\*", ""),
    )
)
