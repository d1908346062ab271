"""Travel facts about a task, for models that can't call tools."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from .cities import distance_between_cities, find_cities, told_distance
from .money import budget_in, cost_each
from .trip_dates import dates_in, days_between, days_wanted, trip_calendar, weekday

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

__all__ = ["TravelFacts"]


class TravelFacts:
    """The ground that computes what a task's own dates, places and budget mean; see `nodes.grounding`."""

    name = "the travel tools"

    def find(self, task: str) -> list[dict[str, Any]]:
        """Return the facts: distances from place to place, the trip's days with their weekdays, the budget a day."""
        facts = [(distance_between_cities.name, told_distance(*pair)) for pair in pairwise(find_cities(task))]

        def add(tool: BaseTool, prefix: str = "", **asked: Any) -> None:
            with suppress(ValueError, ArithmeticError):  # a date beyond the calendar: no fact
                facts.append((tool.name, prefix + tool.invoke(asked)))

        dates, days = dates_in(task), days_wanted(task)
        if len(dates) > 1:
            add(days_between, start=dates[0].isoformat(), end=dates[-1].isoformat())
        if dates and days and days <= MOST_SHOWN:
            add(trip_calendar, start=dates[0].isoformat(), days=days)
        else:
            for day in dates[:MOST_SHOWN]:
                add(weekday, day=day.isoformat())
        if days and (budget := budget_in(task)):
            add(cost_each, f"budget for a day, {budget[0]}: ", total=str(budget[1]), parts=days)
        return [{"id": f"fact-{number}", "text": text, "source": tool} for number, (tool, text) in enumerate(facts, 1)]

    async def afind(self, task: str) -> list[dict[str, Any]]:
        """Async twin; the data of the cities is read in a worker thread."""
        return await asyncio.to_thread(self.find, task)


MOST_SHOWN = 21
