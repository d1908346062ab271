"""Refinement metadata of a travel plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...state.summary import best_draft, run_options
from ..rubric.assessments import refinement_metadata

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["travel_metadata"]


def travel_metadata(out: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a run's refinement, and `travel_refined`: whether the answer is a revision.

    Args:
        out: The output of a run, or its state.
    """
    events = out.get("events") or []
    best = best_draft(events, keep=run_options(events).get("keep", "best"))
    return {**refinement_metadata(out), "travel_refined": best is not None and best.round > 0}
