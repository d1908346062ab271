"""The final answer of a worked solution as a number. Internal."""

from __future__ import annotations

import re
import unicodedata
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal

from ...state.critique import Critique, Verifier
from .expressions import plain_notation
from .text_verifiers import named

__all__ = ["ends_with_answer", "extract_number", "lone_number", "same_number"]

Number = Decimal | int | float | str


def extract_number(text: str) -> Decimal | None:
    r"""Return the final answer that a text gives, or `None` where it holds no number or one that can't be read.

    A mark decides, and the last mark that a number follows wins: `#### 42`, `\boxed{42}`, a line that opens with `A:`
    or `Answer:`, or "the answer is 42". After such a mark the number that comes first is the answer (`A: 42 apples in
    2 days`), or behind words the last one of the sentence (`A: in 2 days she has 42 apples`), or what a sum there
    comes to (`A: 6 * 7 = 42`). Without a mark it is the last number of the text.

    Thousands separators (`1,000`, `1'000`, `1 000`, `1.000.000`, `1,00,000`), currencies, units, bold, signs, decimals,
    powers (`1.5 \times 10^3`, `2^10`), `2k` and `million` are read; `1.000` is 1. A percent sign is a unit, as is a
    dozen: `25%` is 25, as in GSM8K. Fractions are divided, to 28 digits: `3/4` is 0.75 and `1 1/2` is 1.5.

    An answer is read whole or not at all. A decimal comma (`3,5`), a range, a list, a ratio, a time, a date, algebra, a
    sum not worked out (`3 * 4`), a factorial and a compound measure (`1 hour 30 minutes`) give `None`, never a part of
    them. Takes time linear in the length of the text, and never raises.
    """
    text = _plain(text)
    end = len(text)
    for mark in reversed(list(MARK.finditer(text))):
        numeral = _marked(text, mark, min(end, mark.end() + LONGEST_ANSWER))
        if numeral:
            return _value(numeral)
        end = mark.start()
    return _value(_last(text, 0, len(text)))


def lone_number(text: str) -> Decimal | None:
    """Return the number that a text is, or `None` where it is anything else or more.

    `1,080`, `$4.50`, `-3`, `25%` (which is 25), `3/4` and `1 1/2` are numbers; `4 apples` and `1994-05-02` are not.
    """
    text = _plain(text).strip().removesuffix(".")
    end = len(text) - text.endswith(("k", "K", "M", "B"))
    return _value(NUMERAL.match(text)) if NUMERAL.fullmatch(text, 0, end) else None


def same_number(a: Number | None, b: Number | None) -> bool:
    """Return True if two numbers are equal to one part in a million, however they are written: `42 == "42.00"`.

    Texts are read by `extract_number`, so `"50%"` is the same as 50 and not as `"1/2"` or 0.5. What is no number
    (`None`, NaN, infinity, a text without one) is the same as nothing.
    """
    first, second = _decimal(a), _decimal(b)
    if first is None or second is None:
        return False
    room = EXACT.multiply(max(Decimal(1), first.copy_abs(), second.copy_abs()), TOLERANCE)
    return EXACT.subtract(first, second).copy_abs() <= room


def ends_with_answer() -> Verifier:
    """Return a verifier that accepts a worked solution whose last line is `#### ` and a number."""

    def check(task: str, draft: str, /) -> Critique:
        mark, _, answer = (draft.strip().splitlines() or [""])[-1].partition("####")
        fine = not mark.strip() and lone_number(answer) is not None
        return Critique("" if fine else "The last line must be '#### ' and the answer as a number.", fine)

    return named(check, "ends_with_answer", wants="Its last line is '#### ' and the answer as a number.")


def _decimal(value: Number | None) -> Decimal | None:
    if isinstance(value, str):
        return extract_number(value)
    number = None if value is None else Decimal(value)
    return number if number is not None and number.is_finite() else None


def _plain(text: str) -> str:
    if not text.isascii():
        text = NATIVE_DIGIT.sub(lambda found: str(unicodedata.decimal(found[0])), text.translate(LIKE_ASCII))
        text = SUPERSCRIPT.sub(lambda found: "^" + unicodedata.normalize("NFKC", found[0]).replace("−", "-"), text)
    text = plain_notation(text)
    for pattern, replacement in REWRITES:
        text = pattern.sub(replacement, text)
    return text


def _marked(text: str, mark: re.Match[str], end: int) -> re.Match[str] | None:
    """Return the number that a mark points at, which ends before `end` or crosses it, or `None`."""
    at = mark.end() + len(text[mark.end() : end]) - len(text[mark.end() : end].lstrip(BLANK))
    line = text[at:end].split("\n", 1)[0]
    if mark[0].startswith("\\"):
        line = line[: _closing_brace(line)]
    sentence_end = SENTENCE_END.search(line)
    end = at + (sentence_end.start() if sentence_end else len(line))
    first = OPENING.match(text, at)
    if first and first.start("numeral") < max(end, at + 1):
        numeral = NUMERAL.match(text, first.start("numeral"))
        equals = text.rfind("=", numeral.end(), end) if numeral else -1
        whole = numeral and READABLE.fullmatch(numeral[0])
        if numeral and equals >= 0 and (not whole or SUM_AFTER.match(text, numeral.end(), end)):
            opening = OPENING.match(text, equals + 1)
            result = opening and NUMERAL.match(text, opening.start("numeral"))
            return result or _last(text, equals + 1, end)
        return numeral
    return None if mark.lastgroup == "phrase" else _last(text, at, end)


def _closing_brace(text: str) -> int:
    depth = 1
    for at, sign in enumerate(text):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if not depth:
            return at
    return len(text)


def _last(text: str, start: int, end: int) -> re.Match[str] | None:
    last = None
    for numeral in NUMERAL.finditer(text, start, end):
        # Matched again, since `end` may cut it.
        whole = NUMERAL.match(text, numeral.start())
        last = last if whole is None or ORDINAL.match(text, whole.end()) else whole
    return last


def _value(numeral: re.Match[str] | None) -> Decimal | None:
    """Return a number if the whole of a numeral can be read, and what stands around it doesn't change its value."""
    parts = READABLE.fullmatch(numeral[0]) if numeral else None
    if numeral is None or parts is None:
        return None
    text, negative = numeral.string, bool(parts["minus"]) or parts["sign"] not in ("", "+")
    before, after = text[max(0, numeral.start() - NEAR) : numeral.start()], text[numeral.end() : numeral.end() + NEAR]
    letters = ATTACHED.match(after)
    scale = _attached_scale(letters["letters"], paid=bool(parts["currency"])) if letters else 0
    if scale is None or (letters and letters["digit"]) or _changed(numeral[0], before, after, negative=negative):
        return None
    value = _absolute(parts)
    for word in (parts["scales"] or "").lower().split():
        scale += SCALES[word.removesuffix("s")]
    if value is None or not value.is_finite():
        return None
    value = value.scaleb(scale, EXACT_SCALE)
    if 0 < int(value.as_tuple().exponent) <= MOST_ZEROS:
        value = value.quantize(Decimal(1), context=EXACT_SCALE)
    return value.copy_negate() if negative else value


def _changed(numeral: str, before: str, after: str, *, negative: bool) -> bool:
    """Return True if what stands around a numeral changes its value."""
    if CHANGED_BEFORE.search(before) or CHANGED_AFTER.match(after):
        return True
    if negative and (before.endswith((")", "]", "}", ") ", "] ", "} ", "-")) or before[-1:] + after[:1] == "||"):
        return True
    if LOOSE_MINUS.search(before) and not (before.strip(" \t-–—") == "" and after.split("\n", maxsplit=1)[0].strip()):
        return True
    goes_on = "." in numeral and after.startswith(("..", "…"))
    return goes_on or bool(FACTORIAL.match(after) and SMALL.fullmatch(numeral))


def _absolute(found: re.Match[str]) -> Decimal | None:
    if found["under"]:
        over, under = _digits(found["over"]), _digits(found["under"])
        return EXACT.add(_digits(found["whole"] or "0"), EXACT.divide(over, under)) if under else None
    if found["base"]:
        power = int(found["exponent"])
        return EXACT.power(_digits(found["base"]), power) if abs(power) <= LARGEST_POWER else None
    return _digits(found["plain"]).scaleb(int(found["e"] or found["ten"] or 0), EXACT_SCALE)


def _digits(written: str) -> Decimal:
    if EUROPEAN.fullmatch(written):
        written = written.replace(".", "").replace(",", ".")
    return Decimal(SEPARATORS.sub("", written))


def _attached_scale(letters: str, *, paid: bool) -> int | None:
    """Return the power of ten that letters right behind a number stand for, 0 for a unit, or `None` for algebra."""
    if letters in ("k", "K"):
        return 3
    if letters in ("M", "B") or (paid and letters in ("m", "b")):
        return {"m": 6, "b": 9}[letters.lower()]
    return None if ALGEBRA.fullmatch(letters) else 0


LONGEST_ANSWER = 400
NEAR = 40
LARGEST_POWER = 400
MOST_ZEROS = 30
BLANK = " \t\r\n*_:"
TOLERANCE = Decimal("1e-6")
EXACT = Context(prec=28, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
EXACT_SCALE = Context(prec=100_000, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
SCALES = {"hundred": 2, "thousand": 3, "lakh": 5, "million": 6, "mn": 6, "crore": 7, "billion": 9, "bn": 9}
SCALES |= {"trillion": 12, "tn": 12}

LIKE_ASCII = str.maketrans("，．：％＄／－﹣‐‑＋＾’′٫٬", ",.:%$/----+^''.,")
NATIVE_DIGIT = re.compile(r"(?![0-9])\d")
SUPERSCRIPT = re.compile(r"(?<=[0-9)}\]])[⁺⁻]?[⁰¹²³⁴-⁹]+")
REWRITES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"<<[^<>\n]*>>(?=[ ]?[-$.]{0,2}[0-9])", ""),  # a calculator's note of GSM8K
        (r"</?[a-zA-Z][^<>\n]{0,60}>|\\(?:begin|end)\{[a-z*]+\}", " "),
        (r"\\(?:[Rr]ightarrow|implies|therefore|because|q?quad|to|displaystyle|[Hh]uge|[Ll]arge|item|bm|bf|underline"
         r"|fbox|blacksquare|square|checkmark|hline|hfill|newline|euro|pounds|degree|phantom)(?![a-zA-Z])", " "),
        (r"\^[ ]?\{?\\circ(?![a-zA-Z])\}?", "°"),
        (r"\^[ ]?[{(][ ]?([-+]?[0-9]+)[ ]?[)}]", r"^\1"),
        (r"(?<=[a-zA-Z])[ ]?\^-?[0-9]", ""),  # cm^2
        (r"(?<![\w*)%\]}])([*_])(?=[^\s*_])([^*_\n]{1,80})(?<=\S)\1(?![\w*])", r"\2"),  # emphasis
        (r"(?<![\w)\]}])\(([0-9]++/[0-9]++)\)", r"\1"),
        (r"(?<==)[ ]?-[ ](?=[$€£¥₹]?[0-9.])", " -"),
    )
)  # fmt: skip

_CURRENCY = "[$€£¥₹]"
_SCALE = rf"(?:{'|'.join(SCALES)})s?\b"
_UNIT = (
    r"(?:years?|months?|weeks?|days?|hours?|hrs?|h|minutes?|mins?|feet|foot|ft|yards?|pounds?|lbs?|gallons?|quarts?"
    r"|kilograms?|kg|kilomet(?:er|re)s?|km|met(?:er|re)s?|m|dollars?|euros?|degrees?)"
)
_PART = (
    r"(?:months?|weeks?|days?|hours?|hrs?|minutes?|mins?|m|seconds?|secs?|s|inch(?:es)?|in|feet|foot|ft|ounces?|oz|quarts?"
    r"|pints?|cups?|grams?|g|met(?:er|re)s?|centimet(?:er|re)s?|cm|cents?)\b"
)
_ATOM = rf"(?:{_CURRENCY}[ ]?)?(?:[0-9]++|\.[0-9]++)(?:\.[0-9]++)*+(?:[ ]?%)?(?:[ ]?{_SCALE})*+"
_JOIN = (
    r"(?:[ ]{0,3}[*/^+][ ]{0,3}[-+]?|[ ]?x[ ]?|[,;][ ]?(?:(?:and|or)[ ])?|['_\u00a0\u2009\u202f][ ]?|:|[ ]:[ ]"
    r"|[ ]?[-–—]{1,3}[ ]?-?|e[+-]?|[ ]{1,3}(?:(?:and|or|to|by|times|plus|minus|over|through|of|out[ ]of|point|mod"
    rf"|choose|divided[ ]by|multiplied[ ]by)[ ]+)?|[ ]?{_UNIT}(?:,?[ ]and|,)?[ ]?(?=[0-9]+[ ]?{_PART}))"
)
_NUMERAL = rf"(?:[-+]|(?:minus|negative)[ ])?(?:{_CURRENCY}[ ]?-)?{_ATOM}(?:{_JOIN}{_ATOM})*+"
NUMERAL = re.compile(rf"(?<![\w.]){_NUMERAL}", re.IGNORECASE)
"""All that hangs together with a number, readable or not, so that no part of it is taken for the whole."""

_GROUPED = "|".join(rf"[1-9][0-9]{{0,2}}(?:{sign}[0-9]{{3}})+(?:\.[0-9]+)?" for sign in ",'_\u00a0\u2009\u202f")
_EUROPEAN = r"[1-9][0-9]{0,2}(?:(?:\.[0-9]{3}){2,}(?:,[0-9]+)?|\.[0-9]{3},[0-9]+)"
_DIGITS = (
    rf"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+|{_GROUPED}|{_EUROPEAN}|[1-9][0-9]?(?:,[0-9]{{2}})+,[0-9]{{3}}(?:\.[0-9]+)?"
    # `12 345` may be two numbers; `12 045` is one.
    r"|[1-9][0-9]{0,2}(?=[ 0-9]*[ ]0)(?:[ ][0-9]{3})+(?:\.[0-9]+)?)"
)
READABLE = re.compile(
    rf"(?P<sign>(?:(?:[-+]|minus[ ]|negative[ ])(?!{_CURRENCY}?[ ]?-))?)(?P<currency>(?:{_CURRENCY}[ ]?)?)(?P<minus>-?)"
    rf"(?:(?:(?P<whole>[0-9]+)[ ](?:and[ ])?)?(?P<over>{_DIGITS})[ ]?/[ ]?(?P<under>{_DIGITS})"
    r"|(?P<base>[0-9]+)[ ]?\^[ ]?(?P<exponent>[-+]?[0-9]{1,4})"
    rf"|(?P<plain>{_DIGITS})(?:e(?P<e>[-+]?[0-9]{{1,4}})|[ ]?[*x][ ]?10[ ]?\^[ ]?(?P<ten>[-+]?[0-9]{{1,4}}))?)"
    rf"(?:[ ]?%)?(?P<scales>(?:[ ]?{_SCALE})*)",
    re.IGNORECASE,
)
EUROPEAN = re.compile(_EUROPEAN)
SEPARATORS = re.compile(r"[, '_\u00a0\u2009\u202f]")
SMALL = re.compile("[0-9]{1,2}")
FACTORIAL = re.compile(r"!(?!=)")
ORDINAL = re.compile(r"(?:st|nd|rd|th)\b", re.IGNORECASE)
ATTACHED = re.compile(r"(?P<letters>[^\W\d_]+)(?P<digit>[0-9]?)")
ALGEBRA = re.compile(r"(?![mgshlL]$).|[xyzabcn]{2}|pi|sin|cos|tan|log|ln|sqrt|mod", re.IGNORECASE)
CHANGED_BEFORE = re.compile(
    r"(?:[\w)\]}%$][ ]{0,3}[*/^+][ ]{0,3}[(\[{]*|[^\n\-=<>][ ]?[<>]=?[ ]?|(?:[≤≥≠±∓√∛π]|!=)[ ]?[({]?"
    r"|\\(?!boxed)[a-zA-Z]+[ ]*[{(\[]?[ ]*|\w\(|\b(?:sqrt|log|ln|sin|cos|tan|exp|root[ ]of)[ ]|[)\]}]\{?"
    r"|\b[xyzn][ ]?[-–—][ ]?|[)\]}%][ ]?[-–—][ ]|[0-9][^\n=.:;]{0,30}[ ][-–—][ ]|(?:^|[\s(=:{])[–—]|_\{|[0-9][.,:'/^]"
    r"|[-–—][ ]?[(\[{]+)$"
)
CHANGED_AFTER = re.compile(
    r"[)\]}]*[ ]{0,3}(?:\^|[*+][ ]{0,3}[\w(\\{$√]|/[ ]{0,3}(?:[(\\{$√0-9]|[xyzn]\b)|[-–—][ ]{0,3}(?:[(\\√]|[xyzn]\b))"
    r"|[)\]}]+[ ]?[-–—][ ]?[$0-9]|[ ]?\+|[(\[{]|[ ]?\\(?!boxed)[a-zA-Z]|[ ]?[π√‰±₀-₉]|_\{?\w|[ ][<>≤≥]=?[ ]"
    r"|[ ](?:pi|[xyzn]|[kKMB]|mod|choose|squared|cubed|factorial|halves|thirds|fourths|fifths|sixths|eighths|tenths)\b"
    r"|(?:[ ][a-z]+){1,3}[ ]?[-–*/+x][ ]?[$]?[0-9]"
    r"|[ -]and[ -](?:a|one|two|three|four|five|six|seven)[ -](?:half|quarter|third|fourth|fifth|sixth|eighth|tenth)"
)
"""Context that changes a number beside it: operators, roots, inequalities, algebra, fractions in words."""
LOOSE_MINUS = re.compile(r"(?:^|[\n:#={]|\b(?:is|was|equals))[ ]*[-–—][ ]$")
SENTENCE_END = re.compile(r"[.!?;](?=\s|$)|\s(?:because|since)\s")
OPENING = re.compile(
    rf"[\s*_:=~≈(\[{{\"']*(?:(?:about|approximately|exactly|only|just)\s)?(?=(?P<numeral>{_NUMERAL}))", re.IGNORECASE
)
SUM_AFTER = re.compile(r"[^=;(]{0,200}(?:[-+*/x%]|\b(?:of|times|plus|minus|by)\b)[^=;(]{0,200}=", re.IGNORECASE)
MARK = re.compile(
    r"####|\\boxed\{|^[ \t>*_#]*+(?:(?:final )?answer|a)[ \t*_]*+:"
    r"|(?P<phrase>\banswer[ ]?(?:is|was|=|:|equals)(?:[ ](?:therefore|thus|then|simply|equal to))?)",
    re.IGNORECASE | re.MULTILINE,
)
