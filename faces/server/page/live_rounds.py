"""Rounds of a run that is under way, each drawn anew when something is said in it. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ....state.events import ORDER
from ....state.usage import NO_USAGE
from ...views.documents import macros
from ...views.rounds import curve_of, place_of, round_card, round_cards
from ..api.wire import plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ....state.events import Event

__all__ = ["LiveRounds", "is_event"]


def is_event(item: object) -> bool:
    """Return whether an item of the stream mode `custom` is an event; a node of the user's own may send any."""
    if not isinstance(item, dict) or item.get("kind") in ("start", "step", "task"):
        return False
    texts = all(isinstance(item.get(name, ""), str) for name in ("text", "by", "branch"))
    usage = item.get("usage", NO_USAGE)
    return (
        isinstance(item.get("kind"), str)
        and isinstance(item.get("round"), int)
        and texts
        and isinstance(usage, dict)
        and NO_USAGE.keys() <= {"uncounted_calls", *usage}
    )


class LiveRounds:
    """The record of a run's task so far: what was kept before it, and what it has sent since.

    Args:
        stored: The thread's record; where it holds events that the run sends again, those are taken once.
    """

    def __init__(self, stored: Sequence[Mapping[str, Any]]) -> None:
        begun = [{"kind": "task", "round": 0, "by": "", "text": "", "options": {"order": ORDER}}]
        self._events: list[dict[str, Any]] = plain(stored) or begun

    def take(self, item: Mapping[str, Any]) -> None:
        """Add an event."""
        event = {"text": "", "by": "", **plain(item)}
        link = None if event.get("branch") else event.get("prev")
        for at, known in enumerate(self._events):
            if link is not None and known.get("prev") == link and not known.get("branch"):
                del self._events[at:]
                break
        self._events.append(event)

    def drawn(self, item: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the round of an event as it is shown when it has ended, and the curve of all; `None` for nothing."""
        run = cast("list[Event]", self._events)
        card = round_card(run, place_of(item))
        if card is None:
            return None
        curve = curve_of(round_cards(run))
        return {
            "html": str(macros().round({**card, "open": True}, False, "fork")),  # of the macro
            "curve": str(macros().curve(curve)) if curve else "",
            "name": card["name"],
            "kind": item["kind"],
            "round": item["round"],
        }
