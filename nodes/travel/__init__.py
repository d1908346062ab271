"""Travel planning without a model: dates, budgets, distances and travellers, looked up and checked. Internal."""

from .cities import City, distance_between_cities, find_cities, find_city, great_circle_km, require_cities
from .indicators import feasibility, personalization, travel_metadata
from .money import budget_left, cost_each
from .tool_writer import ToolWriter, TravelFacts, calls_tools
from .trip_dates import days_between, trip_calendar, weekday

__all__ = [
    "TRAVEL_TOOLS",
    "City",
    "ToolWriter",
    "TravelFacts",
    "budget_left",
    "calls_tools",
    "cost_each",
    "days_between",
    "distance_between_cities",
    "feasibility",
    "find_cities",
    "find_city",
    "great_circle_km",
    "personalization",
    "require_cities",
    "travel_metadata",
    "trip_calendar",
    "weekday",
]

TRAVEL_TOOLS = (days_between, weekday, trip_calendar, budget_left, cost_each, distance_between_cities)
"""LangChain tools; all work offline."""
