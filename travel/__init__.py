"""Travel planning: the preset `travel`, and its tools for dates, budgets, distances and travellers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .graph import TRAVEL_RUBRIC, TRAVEL_TOOLS, build_travel_graph
    from .indicators import feasibility, personalization, travel_metadata
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "redraft.travel.graph": ["TRAVEL_RUBRIC", "TRAVEL_TOOLS", "build_travel_graph"],
            "redraft.travel.indicators": ["feasibility", "personalization", "travel_metadata"],
        },
    )

__all__ = [
    "TRAVEL_RUBRIC",
    "TRAVEL_TOOLS",
    "build_travel_graph",
    "feasibility",
    "personalization",
    "travel_metadata",
]
