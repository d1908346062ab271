"""Signs, free to check, that a plan is made for these travellers and can be done. Internal."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import pairwise
from typing import Any

from ..nodes.rubric.rubrics import refinement_metadata
from ..state.summary import summary_of
from .money import amounts_in, budget_in
from .trip_dates import WEEKDAYS, dates_in, days_wanted

__all__ = ["feasibility", "personalization", "travel_metadata"]

Sign = tuple[bool, str]
"""True if the sign is there, and what to do if it is not."""


def personalization(task: str, draft: str) -> tuple[float, str]:
    """Return the share of the task's wishes that the plan takes up, 0–1, and a suggestion for the others.

    Wishes are found by indicator words: who travels, what they eat, like and can't do. What the task says no to is no
    wish ("no museums", "not vegetarian"). A task without any is met.
    """
    refused = [match.span("what") for match in REFUSED.finditer(task)]
    starts, ends = [start for start, _ in refused], [0, *(end for _, end in refused)]
    wishes = [
        (name, met)
        for name, wish, met in WISHES
        if any(
            name in NEEDED_BY_NAME or ends[bisect_right(starts, match.start())] <= match.start()
            for match in wish.finditer(task)
        )
    ]
    missed = [name for name, met in wishes if not met.search(draft)]
    if not wishes:
        return 1.0, ""
    suggestion = f"Take up what the travellers asked for: {', '.join(missed)}." if missed else ""
    return 1 - len(missed) / len(wishes), suggestion


def feasibility(task: str, draft: str) -> tuple[float, str]:
    """Return the share of the applicable signs that the plan shows, 0–1, and what to mend.

    The signs: something concrete at all (a time, a cost, a means of transport); as many days as asked for; costs
    within the budget; weekdays that are those of their dates; no day with more than it can hold. Without the right
    number of days, or over the budget, a plan gets no more than a half. Where a task does not say clearly how many
    days or how much money there are, that sign is left out.
    """
    hard = [*_days(task, draft), *_budget(task, draft)]
    concrete = bool(CONCRETE.search(draft)), "Name times, costs and means of transport."
    signs = [concrete, *hard, *_weekdays(draft), *_load(draft)]
    mend = [what for holds, what in signs if not holds]
    share = (len(signs) - len(mend)) / len(signs)
    return share if all(holds for holds, _ in hard) else min(share, 0.5), " ".join(mend)


def _days(task: str, draft: str) -> Iterator[Sign]:
    wanted = days_wanted(task)
    if wanted is not None:
        planned = max((int(match["till"] or match["day"]) for match in DAY.finditer(draft)), default=0)
        yield (
            planned == wanted,
            f"Plan exactly {wanted} days, each under its heading (Day 1 …); now there are {planned}.",
        )


def _budget(task: str, draft: str) -> Iterator[Sign]:
    limit = budget_in(task)
    if limit is None:
        return
    currency, budget = limit
    lines = [line for line in draft.splitlines() if TOTAL.search(line) or not BUDGET.search(line)]
    named = [pair for line in lines for pair in amounts_in(line)]
    if not currency:  # then it is that of the plan, where that has one only
        codes = {code for code, _ in named}
        if len(codes) != 1:
            return
        currency = codes.pop()
    amounts = [amount for code, amount in named if code == currency]
    if not amounts:
        yield False, f"Say in {currency} what things cost, with a total: {budget} is the budget."
        return
    totals = _totals(draft, currency)
    if totals is None:
        return
    spent = max(totals, default=sum(amounts))
    yield spent <= budget, f"The costs come to {spent} {currency}, and the budget is {budget}."


def _totals(draft: str, currency: str) -> list[Decimal] | None:
    """Return the last total that a plan names, and what the totals of its days add up to; none where it names none.

    `None`: the total is for one person, and nobody says for how many.
    """
    last: Decimal | None = None
    for_each, day, of_days = False, "", dict[str, Decimal]()
    for line in draft.splitlines():
        if heading := DAY.search(line):
            day = heading["day"]
        if not (total := TOTAL.search(line)):
            continue
        # After the last "=" or the word; beside a budget the first amount there is the total, else the last.
        rest = line[max(total.end(), line.rfind("=") + 1) :]
        named = [amount for code, amount in amounts_in(rest) or amounts_in(line) if code == currency]
        if not named:
            continue
        last = named[0 if BUDGET.search(line) else -1]
        for_each = bool(EACH.search(line))
        if day and not RUNNING.search(line):
            of_days.setdefault(day, last)
    if last is None:
        return []
    return None if for_each else [last, *([sum(of_days.values(), Decimal(0))] if len(of_days) > 1 else [])]


def _weekdays(draft: str) -> Iterator[Sign]:
    wrong = []
    dated = [(match["weekday"], dates_in(match["date"])) for match in WEEKDAY_AND_DATE.finditer(draft)]
    for name, days in dated:
        right = WEEKDAYS[days[0].weekday()] if days else ""
        if not right.casefold().startswith(name[:3].casefold()) or not right:
            missing = f"One {name} stands beside a date that does not exist."
            wrong.append(f"{days[0]} is a {right}, not a {name}." if days else missing)
    if dated:
        yield not wrong, " ".join(wrong)


def _load(draft: str) -> Iterator[Sign]:
    starts = [match.start() for match in DAY.finditer(draft)]
    if starts:
        days = [draft[start:end] for start, end in pairwise([*starts, len(draft)])]
        most = max(len(BULLET.findall(day)) for day in days)
        yield most <= MOST_A_DAY, f"One day holds {most} things; {MOST_A_DAY} are the most that can be done."


def _wish(name: str, wish: str, met: str = "") -> tuple[str, re.Pattern[str], re.Pattern[str]]:
    wished, taken_up = (re.compile(rf"\b(?:{pattern})", re.IGNORECASE) for pattern in (wish, met or wish))
    return name, wished, taken_up


def travel_metadata(out: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a run's refinement, and `travel_refined`: whether the answer is a revision.

    Args:
        out: The output of a run, or its state.
    """
    best = summary_of(out.get("events") or []).answer
    return {**refinement_metadata(out), "travel_refined": best is not None and best.round > 0}


MOST_A_DAY = 8
DAY = re.compile(r"\bdays?\s+(?P<day>\d{1,2})\b(?:\s*(?:-|–|to)\s*(?P<till>\d{1,2})\b)?", re.IGNORECASE)
BULLET = re.compile(r"^[^\S\n]*+(?:[-*•]|\d++[.)])\s", re.MULTILINE)
BUDGET = re.compile(r"\bbudget\b", re.IGNORECASE)
TOTAL = re.compile(r"\b(?:in )?(?:(?:sub)?totals?|sum|altogether)\b", re.IGNORECASE)
RUNNING = re.compile(r"\b(?:so far|running|cumulative|grand|overall|trip|all days|whole)\b", re.IGNORECASE)
EACH = re.compile(r"\b(?:per (?:person|head|traveller|traveler|adult)|each|apiece|pp)\b", re.IGNORECASE)
REFUSED = re.compile(
    r"\b(?:no|not(?!\s+(?:only|just|too far))|without|avoid\w*|skip\w*|hat(?:e|es|ing)|dislik\w+|never|nothing|neither"
    r"|nor|(?:do|does|did|would|is|are|was|wo|need)n['’]?t|can['’]?t stand|(?:sick|tired|bored) (?:of|by|with)|except"
    r"|instead of|rather than|less|fewer)\b"
    r"(?P<what>(?:(?!\b(?:but|and (?:we|i|she|he|they)|with|only)\b)[^.,;:!?\n])*"
    r"(?:(?:,[^.,;:!?\n]{0,40}){0,6}?\s(?:or|nor)\s[^.,;:!?\n]*)?)",
    re.IGNORECASE,
)
NEEDED_BY_NAME = frozenset({"gluten-free food", "dairy-free food"})
"""Named by what is refused: "no gluten" wishes for it."""
CONCRETE = re.compile(
    r"\d{1,2}[:.]\d{2}\b|\b\d{1,2}\s?(?:am|pm|h|hours?|minutes?|min|km)\b|[€$£¥]\s?\d"
    r"|\b(?:train|bus|tram|metro|ferry|flight|fly|taxi|drive|walk|bike|cycle)\b",
    re.IGNORECASE,
)
WEEKDAY_AND_DATE = re.compile(
    rf"\b(?P<weekday>{'|'.join(WEEKDAYS)})[,\s(]+(?:the\s+)?"
    r"(?P<date>\d{4}-\d{2}-\d{2}|\d{1,2}\.?\s+[A-Z][a-z]+\.?,?\s+\d{4}|[A-Z][a-z]+\.?\s+\d{1,2},?\s+\d{4})",
    re.IGNORECASE,
)
WISHES = (
    _wish("children", r"kids?\b|child|toddler|baby|son\b|daughter|family", r"kids?\b|child|famil|toddler|baby|play"),
    _wish("vegetarian food", r"vegetarian"),
    _wish("vegan food", r"vegan"),
    _wish("halal food", r"halal"),
    _wish("kosher food", r"kosher"),
    _wish("gluten-free food", r"gluten|coeliac|celiac", r"gluten"),
    _wish("dairy-free food", r"dairy|lactose", r"dairy|lactose|vegan"),
    _wish(
        "food for the allergy",
        r"allerg|(?:no|without)\s(?:pea)?nuts\b|nut-free",
        r"allerg|(?:pea)?nut[- ]free|(?:no|without|free of)\s(?:any\s)?(?:pea|tree\s)?nuts?\b",
    ),
    _wish(
        "step-free access", r"wheelchair|step-free|disab|can(?:'t|not) walk", r"wheelchair|step-free|accessib|lifts?\b"
    ),
    _wish(
        "an easy pace",
        r"relax|slow|easy pace|quiet|elderly|grandparents?",
        r"relax|slow|rest\b|break|quiet|leisure|easy",
    ),
    _wish(
        "little money",
        r"cheap|low[- ]budget|on a (?:tight )?budget|backpack",
        r"cheap|free\b|budget|hostel|low[- ]cost",
    ),
    _wish(
        "luxury",
        r"luxur|(?:five|5)[- ]star|upscale|high[- ]end",
        r"luxur|(?:five|5)[- ]star|upscale|high[- ]end|suite|fine dining|private (?:driver|guide|tour)|spa\b",
    ),
    _wish(
        "adventure",
        r"adventur|adrenaline|thrill",
        r"adventur|raft|climb|zip-?lin|kayak|paraglid|bungee|canyon|div(?:e|ing)\b|surf|hik|trek|safari",
    ),
    _wish(
        "a romantic trip",
        r"romantic|honeymoon|(?:wedding )?anniversary",
        r"romantic|honeymoon|candle|sunset|for two\b|couple",
    ),
    _wish("museums and art", r"museum|art\b|galler|painting", r"museum|art\b|galler|exhibit"),
    _wish("history", r"histor|ancient|medieval|castle", r"histor|ancient|medieval|castle|old town|ruin|roman"),
    _wish("nature", r"nature|hik|mountain|outdoor|forest|trek", r"hik|trail|park|mountain|nature|forest|lake|trek"),
    _wish("the sea", r"beach|sea\b|swim|snorkel|surf", r"beach|coast|sea\b|swim|snorkel|surf"),
    _wish(
        "good food",
        r"(?<!vegetarian )(?<!vegan )(?<!halal )(?<!kosher )(?<!free )food\b|cuisine|restaurants?\b|gastronom|wine",
        r"food|restaurant|market|cuisine|tast|dinner|wine|caf",
    ),
    _wish(
        "music and nights out", r"nightlife|concert|music|club|bars?\b", r"bars?\b|concert|music|club|opera|nightlife"
    ),
    _wish("travel by train", r"by train|by rail|no fl(?:y|ight)|without flying", r"train|rail"),
)
