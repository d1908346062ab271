"""The stop logic of a search: as any run; a query that is searched for once stops after its first search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...state.stopping import StopReason, decide
from ...state.summary import latest_draft
from .findings import plan_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["search_is_over"]


def search_is_over(state: Mapping[str, Any]) -> StopReason | None:
    """Return why the search ends now, or `None` when follow-up queries are due.

    A query that is searched for once, for it is simple or `iterative` is off, ends as `max_rounds`, unless a person
    objected to what was found: that is searched for, while rounds are left.
    """
    events = state["events"]
    reason = decide(events, state["limits"])
    if reason is None and not plan_of(events).get("searched_on", True):
        latest = latest_draft(events)
        objected = latest is not None and any(
            one["kind"] == "human" and one.get("accepted") is not True for one in latest.deciding
        )
        return None if objected else "max_rounds"
    return reason
