"""Preset `travel`, as its entry point registers it. Internal."""

from __future__ import annotations

from typing import Any

from ..graphs.preset import HUMAN, THRESHOLD, Preset, Served

__all__ = ["PRESET"]


def _unrefined(model: Any, checkpointer: Any) -> Any:
    from .graph import build_travel_graph

    return build_travel_graph(model, enabled=False, checkpointer=checkpointer)


PRESET = Preset(
    "travel",
    "Plans trips.",
    "redraft.travel.graph:build_travel_graph",
    takes_checkpoints=True,
    options=(THRESHOLD, HUMAN),
    no_verifiers="its overall score decides",
    serves=(
        Served("travel"),
        Served(
            # For the demonstration, which compares the two. Only Python builds it, so it has no recipe.
            "travel-unrefined",
            "Plans trips, and judges and revises nothing.",
            build=_unrefined,
            listed=False,
        ),
    ),
)
