"""Dates of a trip: days between, weekdays, a calendar; and the dates that a text names."""

from __future__ import annotations

import re
from datetime import date, timedelta

from langchain_core.tools import tool

__all__ = ["WEEKDAYS", "dates_in", "days_between", "days_wanted", "parse_date", "trip_calendar", "weekday"]


@tool
def days_between(start: str, end: str) -> str:
    """Nights and days from one date to another, both as YYYY-MM-DD. Arrival and departure both count as days."""
    first, last = parse_date(start), parse_date(end)
    if last < first:
        raise ValueError(f"end {end!r} lies before start {start!r}")
    nights = (last - first).days
    return f"{first} to {last}: {nights} nights, {nights + 1} days"


@tool
def weekday(day: str) -> str:
    """The weekday of a date, given as YYYY-MM-DD."""
    found = parse_date(day)
    return f"{found} is a {WEEKDAYS[found.weekday()]}"


@tool
def trip_calendar(start: str, days: int) -> str:
    """Each day of a trip with its number and weekday: the first day as YYYY-MM-DD, and how many days, 1 to 60."""
    first = parse_date(start)
    if not 1 <= days <= MOST_DAYS:
        raise ValueError(f"days must be from 1 to {MOST_DAYS}, not {days!r}")
    trip = [first + timedelta(days=number) for number in range(days)]
    return "; ".join(f"Day {number}: {WEEKDAYS[day.weekday()]} {day}" for number, day in enumerate(trip, start=1))


def parse_date(text: str) -> date:
    """Return the date.

    Raises:
        ValueError: It is not a date of the form YYYY-MM-DD.
    """
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text!r} is not a date; write it as YYYY-MM-DD") from None


def dates_in(text: str) -> list[date]:
    """Return the dates with a year that a text names, in order of the calendar, each once.

    Read are 2027-06-05, 5 June 2027, June 5, 2027 and both ends of 5–12 June 2027 and June 5–12, 2027. What is no
    date of the calendar is left out.
    """
    found: set[date] = set()
    for match in DATES.finditer(text):
        parts = {name: value for name, value in match.groupdict().items() if value}
        year = int(next(value for name, value in parts.items() if name.startswith("year")))
        month_given = next(value for name, value in parts.items() if name.startswith("month"))
        month = int(month_given) if month_given.isdigit() else MONTHS.index(month_given[:3].casefold()) + 1
        for day in (int(value) for name, value in parts.items() if name.startswith(("day", "till"))):
            try:
                found.add(date(year, month, day))
            except ValueError:
                continue
    return sorted(found)


def days_wanted(text: str) -> int | None:
    """Return how many days a text asks for: "3 days", "a week", "a weekend", or from its first date to its last."""
    if match := LENGTH.search(text):
        number = match["number"].casefold()
        count = int(number) if number.isdigit() else NUMBERS.get(number, 1)
        unit = match["unit"].casefold()
        return count * 7 if unit.startswith("week") and unit != "weekend" else count * (2 if unit == "weekend" else 1)
    named = dates_in(text)
    return (named[-1] - named[0]).days + 1 if len(named) > 1 else None


MOST_DAYS = 60
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "ten": 10}
_MONTH = "|".join(f"{name}[a-z]*" for name in MONTHS)
DATES = re.compile(
    r"\b(?P<year1>\d{4})-(?P<month1>\d{2})-(?P<day1>\d{2})\b"
    rf"|\b(?P<day2>\d{{1,2}})(?:\s*(?:-|–|to)\s*(?P<till2>\d{{1,2}}))?\.?\s+(?P<month2>{_MONTH})\.?,?\s+(?P<year2>\d{{4}})\b"
    rf"|\b(?P<month3>{_MONTH})\.?\s+(?P<day3>\d{{1,2}})(?:\s*(?:-|–|to)\s*(?P<till3>\d{{1,2}}))?,?\s+(?P<year3>\d{{4}})\b",
    re.IGNORECASE,
)
LENGTH = re.compile(
    rf"\b(?P<number>\d{{1,2}}|{'|'.join(NUMBERS)})[\s-]+(?:full\s+|whole\s+|long\s+)?(?P<unit>days?|weekend|weeks?)\b",
    re.IGNORECASE,
)
