"""Budgets in exact decimals, and the amounts of money that a text names. Internal."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation

from langchain_core.tools import tool

__all__ = ["amounts_in", "budget_in", "budget_left", "cost_each", "is_rate", "parse_amount"]


@tool
def budget_left(budget: str, costs: list[str]) -> str:
    """What is left of a budget after costs, plain numbers in one currency: budget "1500", costs ["320.50", "99"]."""
    total = sum((parse_amount(cost) for cost in costs), Decimal(0))
    left = parse_amount(budget) - total
    verdict = f"{left} left" if left >= 0 else f"{-left} over the budget"
    return f"costs {total} of {parse_amount(budget)}: {verdict}"


@tool
def cost_each(total: str, parts: int) -> str:
    """A sum of money in equal parts, for each person, day or night: total as a plain number, parts 1 or more."""
    if parts < 1:
        raise ValueError(f"parts must be 1 or more, not {parts!r}")
    each = (parse_amount(total) / parts).quantize(Decimal("0.01"), rounding=ROUND_HALF_EVEN)
    return f"{parse_amount(total)} in {parts} parts: {each} each"


def parse_amount(text: str) -> Decimal:
    """Return an amount of money of 0 or more; commas part thousands.

    Raises:
        ValueError: It is not a plain number, below 0, or beyond all money there is.
    """
    try:
        amount = Decimal(text.replace(",", "").strip())
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or not 0 <= amount <= MOST:
        raise ValueError(f"{text!r} is not an amount; write a plain number such as '1500' or '99.50'")
    return amount


def amounts_in(text: str) -> list[tuple[str, Decimal]]:
    """Return the amounts that a text names with a currency, as (ISO code, amount).

    Read are €1,500, EUR 1.234,56, 1'500 CHF, € 1 500, 50,50 €, $2k, 80 pounds. What can't be read is left out.
    """
    return [(code, amount) for code, amount, _ in _read(text) if amount is not None]


def budget_in(task: str) -> tuple[str, Decimal] | None:
    """Return the one amount that a task names for the whole trip, or `None` where that can't be told.

    An amount for a day, a night or a person is none, and of several, or a range, nobody knows which it is. What is
    called the budget needs no currency ("a budget of 3k"), nor do thousands ("for 3k", "3 grand"); its code is empty
    then.
    """
    amounts = {(code, amount) for code, amount, match in _read(task) if not is_rate(task, match)}
    bare = None if amounts else BARE_BUDGET.search(task) or THOUSANDS.search(task)
    if bare is not None and not is_rate(task, bare):
        amount = _number(bare["before"] or bare["after"])
        times = 1000 if bare["thousands"] or bare["thousands_after"] else 1
        return None if amount is None else ("", amount * times)
    (only,) = amounts if len(amounts) == 1 else [("", None)]
    return (only[0], only[1]) if only[1] is not None else None


def is_rate(text: str, match: re.Match[str]) -> bool:
    """Return True if an amount is meant for each day, night or person."""
    before, after = text[max(0, match.start() - 40) : match.start()], text[match.end() : match.end() + 40]
    return bool(RATE_AFTER.match(after) or RATE_BEFORE.search(before))


def _read(text: str) -> list[tuple[str, Decimal | None, re.Match[str]]]:
    """Return each amount with its match; `None` for one that is a range, or of a form that nobody can be sure of."""
    readings = []
    for match in AMOUNTS.finditer(text):
        sign = (match["sign"] or match["word"]).casefold()
        start, end = match.span()
        in_range = RANGE_BEFORE.search(text[max(0, start - 20) : start]) or RANGE_AFTER.match(text[end : end + 10])
        amount = None if in_range else _number(match["before"] or match["after"])
        if amount is not None and (match["thousands"] or match["thousands_after"]):
            amount *= 1000
        readings.append((CURRENCIES.get(sign, sign), amount if sign in CURRENCIES else None, match))
    return readings


def _number(written: str) -> Decimal | None:
    """Return a number written with points, commas, spaces or apostrophes; `None` where it could be two numbers."""
    bare = re.sub(r"[\s’]", "'", written.strip())
    whole, cents = bare, ""
    if tail := re.search(r"[.,](\d{1,2})$", bare):
        whole, cents = bare[: tail.start()], tail[1]
        if cents and bare[tail.start()] in whole:
            return None
    groups = re.split(r"[.,']", whole)
    separators = set(re.findall(r"[.,']", whole))
    grouped = len(groups) > 1 and 1 <= len(groups[0]) <= 3 and all(len(one) == 3 for one in groups[1:])
    if len(groups) > 1 and (not grouped or len(separators) > 1 or groups[0] == "0"):
        return None
    try:
        return parse_amount(f"{''.join(groups) or '0'}.{cents or '0'}" if cents else "".join(groups))
    except ValueError:
        return None


MOST = 10**15
CURRENCIES = {
    "€": "EUR", "eur": "EUR", "euro": "EUR", "euros": "EUR",
    "$": "USD", "us$": "USD", "usd": "USD", "dollar": "USD", "dollars": "USD",
    "£": "GBP", "gbp": "GBP", "pound": "GBP", "pounds": "GBP",
    "¥": "JPY", "jpy": "JPY", "yen": "JPY",
    "chf": "CHF", "francs": "CHF",
}  # fmt: skip
_NUMBER = r"\d+(?:[.,'’   ]\d{3}(?!\d)){1,5}(?:[.,]\d{1,2}(?!\d))?|\d+(?:[.,]\d+)*|\.\d{1,2}"
AMOUNTS = re.compile(
    rf"(?P<sign>(?:\b[A-Z]{{1,2}})?\$|[€£¥]|\b(?:EUR|USD|GBP|JPY|CHF)\b)\s?(?P<before>{_NUMBER})(?P<thousands>\s?k\b)?"
    rf"|(?<![\w.,'’$€£¥])(?P<after>{_NUMBER})(?P<thousands_after>\s?k)?(?:,-)?[\s-]?"
    r"(?P<word>[€£¥]|\$(?!\s?\.?\d)|(?:EUR|USD|GBP|JPY|CHF|euros?|dollars?|pounds?|yen|francs)\b)",
    re.IGNORECASE,
)
BARE_BUDGET = re.compile(
    rf"\bbudget(?:\s+(?:is|of|about|around|up to|at most|max(?:imum)?)\b)*\s*[:=]?\s*(?P<after>{_NUMBER})"
    r"(?P<thousands_after>\s?k)?"
    rf"(?![\w-]|\s+(?:days?|nights?|people|persons?|adults?|travell?ers?|to\s+\d)\b|\s?[-–%])"
    rf"|(?<![\w.,–-])(?P<before>{_NUMBER})(?P<thousands>\s?k)?\s+budget\b",
    re.IGNORECASE,
)
"""An amount that is called the budget, without a currency."""
THOUSANDS = re.compile(
    rf"(?:^|[,:;(]|\b(?:for|with|under|below|up to|at most|max(?:imum)?|about|around|have|spend|of|is|only))\s*"
    rf"(?P<before>{_NUMBER})(?P<thousands>\s?k|\s+grand)(?P<after>)(?P<thousands_after>)"
    r"(?=\s*(?:$|[,.;!?)]|(?:for|in|total|budget|and|to|max|all|a|per|each)\b))",
    re.IGNORECASE,
)
RANGE_BEFORE = re.compile(r"\d\s?(?:-|–|to)\s?$|\bbetween\s(?:\S+\sand\s)?$", re.IGNORECASE)
RANGE_AFTER = re.compile(r"\s?(?:-|–|to\s)\s?[€$£¥]?\d", re.IGNORECASE)
_EACH = r"(?:day|night|person|head|traveller|traveler|adult|child|couple|week|hour|meal|room|ticket)"
RATE_AFTER = re.compile(
    rf"\s*(?:/\s*{_EACH}\b|(?:a|per|each|every|for each|for every)\s+{_EACH}\b|each\b|apiece\b|daily\b|nightly\b|pp\b"
    rf"|(?:for|on)\s+[a-z]+\s+(?:a|per|each|every)\s+{_EACH}\b)",
    re.IGNORECASE,
)
RATE_BEFORE = re.compile(
    rf"\b(?:daily|nightly|(?:per|each|every)[\s-]+{_EACH})\b[^.;!?\n\d]*$|\b{_EACH}s?[- ]rate\b[^.;!?\n\d]*$",
    re.IGNORECASE,
)
