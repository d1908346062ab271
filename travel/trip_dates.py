"""Dates of a trip: days between, weekdays, a calendar; and the dates that a text names. Internal."""

from __future__ import annotations

import re
from datetime import date, timedelta

from langchain_core.tools import tool

__all__ = [
    "WEEKDAYS",
    "dates_in",
    "days_between",
    "days_wanted",
    "parse_date",
    "trip_calendar",
    "weekday",
    "with_years",
]


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
    parsed = parse_date(day)
    return f"{parsed} is a {WEEKDAYS[parsed.weekday()]}"


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

    Read are 2027-06-05, 5 June 2027, June 5, 2027 and both ends of 5–12 June 2027, June 5–12, 2027, May 30 to June 3,
    2027, 3rd to 7th of May 2027, between May 3 and May 7, 2027, 3.5.–7.5.2027, and 5/3 to 5/7/2027 where just one
    reading is a trip. What is no date of the calendar is left out.
    """
    dates: set[date] = set()
    for match in DATES.finditer(with_years(text)):
        parts = {name: value for name, value in match.groupdict().items() if value}
        year = int(next(value for name, value in parts.items() if name.startswith("year")))
        month_given = next(value for name, value in parts.items() if name.startswith("month"))
        month = int(month_given) if month_given.isdigit() else MONTHS.index(month_given[:3].casefold()) + 1
        for day in (int(value) for name, value in parts.items() if name.startswith(("day", "till"))):
            try:
                dates.add(date(year, month, day))
            except ValueError:
                continue
    return sorted(dates)


def with_years(text: str, assumed: int | None = None) -> str:
    """Return a text in which both ends of a span have the year that stands at its end: May 3 to May 7, 2027.

    Args:
        text: The text.
        assumed: The year where there is none; default: such a span stays as it is.
    """

    def dated(match: re.Match[str]) -> str:
        year = int(match["year"]) if match["year"] else assumed
        if year is None or match["short"]:
            return match[0] if year is None else f"{match[0]} {year}"
        first, last = (MONTHS.index(re.sub("[^a-z]", "", match[end].casefold())[:3]) for end in ("first", "last"))
        return f"{match['first']} {year - (first > last)} to {match['last']} {year}"

    return SPANS.sub(dated, NUMERIC.sub(_in_words, BETWEEN.sub(r"\1 to ", ORDINAL.sub(r"\1", text))))


def _in_words(match: re.Match[str]) -> str:
    """Return a span of numeric dates with the names of its months, where just one reading of it is a trip."""
    one, two, three, four = (int(match[name]) for name in ("one", "two", "three", "four"))
    spans = []
    for month, day, last_month, last in ((one, two, three, four), (two, one, four, three))[match["sign"] == "." :]:
        try:
            nights = (date(2001 + (last_month < month), last_month, last) - date(2001, month, day)).days
        except ValueError:
            continue
        if 0 <= nights < MOST_DAYS:
            spans.append(f"{MONTHS[month - 1]} {day} to {MONTHS[last_month - 1]} {last} {match['year'] or ''}".strip())
    return spans[0] if len(spans) == 1 else match[0]


def days_wanted(text: str) -> int | None:
    """Return how many days a text asks for: from its first date to its last, else "3 days", "a week", "a fortnight".

    Dates without a year count where the 29th of February is not among them.

    Nights count where no days are named: three nights are four days, as for `days_between`.

    `None` where it can't be told: no length at all, several different ones, a range, or a length of something else
    ("100 euros a day", "a day trip", "2 days each").
    """
    named = dates_in(text)
    readings = [named] if named else [dates_in(with_years(text, year)) for year in (2001, 2004)]
    spans = {(dates[-1] - dates[0]).days + 1 for dates in readings if len(dates) > 1}
    if len(spans) == 1:
        return spans.pop()
    lengths, by_night = set[int](), set[int]()
    for match in LENGTH.finditer(text):
        if not _of_something_else(match):
            (by_night if match["unit"].casefold().startswith("night") else lengths).add(_days(match))
    candidates = lengths or by_night
    return candidates.pop() if len(candidates) == 1 and not OPEN_LENGTH.search(text) else None


def _days(match: re.Match[str]) -> int:
    number, unit = match["number"].casefold(), match["unit"].casefold()
    if number.isdigit():
        count = int(number)
    else:
        tens, _, ones = re.sub(r"[\s-]+", " ", number).partition(" ")
        count = NUMBERS[tens] + (NUMBERS[ones] if ones else 0)
    if unit.startswith("night"):
        return count + 1
    return count * next((days for name, days in UNITS.items() if unit.startswith(name)), 1)


def _of_something_else(match: re.Match[str]) -> bool:
    """Return True if a length is a rate ("twice a week"), part of another word ("a day job"), or not of a trip."""
    start, end = match.span()
    before, after = match.string[max(0, start - 40) : start], match.string[end : end + 40]
    before = before if start <= 40 else f"… {before}"
    article = match["number"].casefold() in ("a", "an")
    if article and not BEFORE_A_TRIP.search(before):
        return True
    return bool(NO_TRIP_BEFORE.search(before) or (COMPOUND if article else NO_TRIP).match(after))


MOST_DAYS = 60
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
NUMBERS = {"a": 1, "an": 1} | {
    name: number
    for number, name in enumerate(
        "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "  # noqa: SIM905
        "eighteen nineteen twenty".split(),
        start=1,
    )
} | {"thirty": 30}  # fmt: skip
_MONTH = "|".join(f"{name}[a-z]*" for name in MONTHS)
DATES = re.compile(
    r"\b(?P<year1>\d{4})-(?P<month1>\d{2})-(?P<day1>\d{2})\b"
    rf"|\b(?P<day2>\d{{1,2}})(?:\s*(?:-|–|to)\s*(?P<till2>\d{{1,2}}))?\.?\s+(?P<month2>{_MONTH})\.?,?\s+(?P<year2>\d{{4}})\b"
    rf"|\b(?P<month3>{_MONTH})\.?\s+(?P<day3>\d{{1,2}})(?:\s*(?:-|–|to)\s*(?P<till3>\d{{1,2}}))?,?\s+(?P<year3>\d{{4}})\b",
    re.IGNORECASE,
)
_NAME = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)
_DAY = rf"(?:{_NAME}\.?\s+\d{{1,2}}|\d{{1,2}}\.?\s+{_NAME}\b)(?!\d)"
_TO = r"\s*(?:-|–|to|until|till|through)\s*"
SPANS = re.compile(
    rf"\b(?P<first>{_DAY}){_TO}(?P<last>{_DAY})(?:,?\s+(?P<year>\d{{4}})\b)?"
    rf"|\b(?P<short>{_NAME}\.?\s+\d{{1,2}}{_TO}\d{{1,2}}|\d{{1,2}}{_TO}\d{{1,2}}\.?\s+{_NAME})\b(?!-|,?\s+\d{{4}})",
    re.IGNORECASE,
)
"""Spans of dates whose year stands at the end, or nowhere."""
ORDINAL = re.compile(r"\b(?:the\s+)?(\d{1,2})(?:st|nd|rd|th)\b(?:\s+of\b)?", re.IGNORECASE)
BETWEEN = re.compile(rf"\bbetween\s+({_DAY}|\d{{1,2}})\s+and\s+(?={_DAY})", re.IGNORECASE)
NUMERIC = re.compile(
    r"(?<![\w./])(?P<one>\d{1,2})(?P<sign>[./])(?P<two>\d{1,2})(?:\.|(?P=sign)\d{4})?"
    rf"{_TO}(?P<three>\d{{1,2}})(?P=sign)(?P<four>\d{{1,2}})(?:(?P=sign)(?P<year>\d{{4}}))?(?![\w/])",
    re.IGNORECASE,
)
_COMPOUND = r"(?:twenty|thirty)[\s-](?:one|two|three|four|five|six|seven|eight|nine)\b"
_NUMBER = "|".join([_COMPOUND, *sorted(NUMBERS, key=len, reverse=True)])
LENGTH = re.compile(
    rf"(?<![\w.,–-])(?P<number>[0-9]{{1,3}}|{_NUMBER})[\s-]+(?:full\s+|whole\s+)?"
    r"(?P<unit>days?|nights?|weekend|weeks?|fortnights?)\b",
    re.IGNORECASE,
)
UNITS = {"weekend": 2, "week": 7, "fortnight": 14}
OPEN_LENGTH = re.compile(
    rf"\b(?!{_COMPOUND}[\s-]+(?:day|night|week))(?:\d{{1,3}}|{_NUMBER})(?:\s*[-–]\s*|\s+(?:to|or)\s+)(?:\d{{1,3}}|{_NUMBER})[\s-]+"
    r"(?:days|nights|weeks|fortnights)\b"
    r"|\b\d+[.,]\d+[\s-]+(?:days?|nights?|weeks?)\b|\ba long weekend\b",
    re.IGNORECASE,
)
"""Ranges and fractions."""
BEFORE_A_TRIP = re.compile(
    r"(?:^|[.!?:;\n(\"“]|\b(?:plan|for|spend|spending|want|need|planning|make|organi[sz]e|arrange|book|just|only|us|me))"
    r"\s*$",
    re.IGNORECASE,
)
"""After these "a day" is as long as the trip; elsewhere it may be a rate."""
NO_TRIP_BEFORE = re.compile(
    r"\b(?:least|most|than|up to|around|about|roughly|nearly|almost|over|under|max(?:imum)?|min(?:imum)?|every|each|per"
    r"|(?:leav|start|begin|depart)\w*\s+in|first|last|other|next|past|another)\s*$",
    re.IGNORECASE,
)
COMPOUND = re.compile(
    r"[\s-]+(?:trains?|bus(?:es)?|flights?|clubs?|out|trips?|jobs?|off|pass(?:es)?|tickets?|cards?|tours?|later|ago|before"
    r"|after|earlier|spa|care|bags?|packs?|excursions?|cruises?|hikes?|outings?|rates?|returns?|visas?|notice|each|per"
    r"|or two|now)\b",
    re.IGNORECASE,
)
"""After "a day": it is a length of this."""
NO_TRIP = re.compile(
    r"[\s-]+(?:(?:trains?|bus(?:es)?|flights?|pass(?:es)?|tickets?|cards?|off|later|ago|before|after|earlier|notice"
    r"|each|per|a|or more|or so|old)\b"
    r"|(?:in|for|at)\s+(?:each|every)\b|(?:of\s+)?rest\b)",
    re.IGNORECASE,
)
