"""Budgets in exact decimals, and the amounts of money that a text names."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation

from langchain_core.tools import tool

__all__ = ["amounts_in", "budget_left", "cost_each", "parse_amount"]


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
        ValueError: It is not a plain number, or below 0.
    """
    try:
        amount = Decimal(text.replace(",", "").strip())
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or amount < 0:
        raise ValueError(f"{text!r} is not an amount; write a plain number such as '1500' or '99.50'")
    return amount


def amounts_in(text: str) -> list[tuple[str, Decimal]]:
    """Return the amounts that a text names with a currency (€1,500, 99.50 EUR, 80 pounds), as (ISO code, amount)."""
    found = []
    for match in AMOUNTS.finditer(text):
        sign = (match["sign"] or match["word"]).casefold()
        found.append((CURRENCIES[sign], parse_amount(match["before"] or match["after"])))
    return found


CURRENCIES = {
    "€": "EUR", "eur": "EUR", "euro": "EUR", "euros": "EUR",
    "$": "USD", "usd": "USD", "dollar": "USD", "dollars": "USD",
    "£": "GBP", "gbp": "GBP", "pound": "GBP", "pounds": "GBP",
    "¥": "JPY", "jpy": "JPY", "yen": "JPY",
    "chf": "CHF", "francs": "CHF",
}  # fmt: skip
_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d{1,2})?|\d+(?:\.\d{1,2})?"
AMOUNTS = re.compile(
    rf"(?P<sign>[€$£¥]|\b(?:EUR|USD|GBP|JPY|CHF))\s?(?P<before>{_NUMBER})"
    rf"|(?<![\w.,])(?P<after>{_NUMBER})\s?(?P<word>[€£¥]|(?:EUR|USD|GBP|JPY|CHF|euros?|dollars?|pounds?|yen|francs)\b)",
    re.IGNORECASE,
)
