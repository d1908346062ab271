"""What the travel tools know about a task, for models that can't call them."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

from .cities import distance_between_cities, find_cities
from .money import amounts_in, cost_each
from .trip_dates import dates_in, days_between, days_wanted, trip_calendar, weekday

__all__ = ["TravelFacts"]


class TravelFacts:
    """The ground that computes what a task's own dates, places and budget mean; see `nodes.grounding`."""

    name = "the travel tools"

    def find(self, task: str) -> list[dict[str, Any]]:
        """Return the facts: distances from place to place, the trip's days with their weekdays, the budget a day."""
        facts: list[tuple[str, str]] = []
        cities = find_cities(task)
        for start, end in pairwise(cities):
            asked = {"start": f"{start.name}, {start.country}", "end": f"{end.name}, {end.country}"}
            facts.append((distance_between_cities.name, distance_between_cities.invoke(asked)))
        dates, days = dates_in(task), days_wanted(task)
        if len(dates) > 1:
            asked = {"start": dates[0].isoformat(), "end": dates[-1].isoformat()}
            facts.append((days_between.name, days_between.invoke(asked)))
        if dates and days and days <= MOST_SHOWN:
            facts.append((trip_calendar.name, trip_calendar.invoke({"start": dates[0].isoformat(), "days": days})))
        else:
            facts += [(weekday.name, weekday.invoke({"day": day.isoformat()})) for day in dates[:MOST_SHOWN]]
        if days and len(amounts := amounts_in(task)) == 1:
            said = cost_each.invoke({"total": str(amounts[0][1]), "parts": days})
            facts.append((cost_each.name, f"budget for a day, {amounts[0][0]}: {said}"))
        return [{"id": f"fact-{number}", "text": text, "source": tool} for number, (tool, text) in enumerate(facts, 1)]

    async def afind(self, task: str) -> list[dict[str, Any]]:
        """Async twin; the data of the cities is read in a worker thread."""
        return await asyncio.to_thread(self.find, task)


MOST_SHOWN = 21
