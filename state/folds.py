"""Everything that can be read off the record of a run. Folds start at the last `task` event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from .events import FrozenRecord, Record
from .reading import Attempt, reading_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .events import Event
    from .usage import Usage

__all__ = [
    "Attempt",
    "accepted_by",
    "attempts",
    "best_draft",
    "current_run",
    "latest_draft",
    "oracle_touched",
    "rounds",
    "run_options",
    "scores",
    "usage_total",
]


def current_run(events: Sequence[Event]) -> Sequence[Event]:
    """Return the events of the thread's current task, the `task` event first."""
    if isinstance(events, Record | FrozenRecord):
        return events[reading_of(events).start :]
    for index in range(len(events) - 1, -1, -1):
        if events[index]["kind"] == "task":
            return events[index:]
    return events


def attempts(events: Sequence[Event]) -> list[Attempt]:
    """Return the drafts of the current task in order, rejected revisions left out.

    A first draft that is written anew, by an agent that had not finished it, stands for the one before.
    """
    return list(reading_of(events).attempts)


def latest_draft(events: Sequence[Event]) -> Attempt | None:
    """Return the newest draft, or `None` before the first."""
    return found[-1] if (found := reading_of(events).attempts) else None


def best_draft(events: Sequence[Event], *, keep: Literal["best", "last"] = "best") -> Attempt | None:
    """Return the draft to answer with: accepted first, then the best score, then the latest.

    A draft that nobody judged counts as good as the one it revises, unless programs judge this run: then it can not
    displace a judged one. With `keep="last"` it is simply the latest draft.
    """
    return latest_draft(events) if keep == "last" else reading_of(events).best()


def rounds(events: Sequence[Event]) -> int:
    """Return how often the draft was revised, rejected revisions counted."""
    return reading_of(events).rounds


def scores(events: Sequence[Event]) -> list[tuple[int, float | None]]:
    """Return (round, score) of every draft, in order."""
    return [(attempt.round, attempt.score) for attempt in attempts(events)]


def usage_total(events: Sequence[Event]) -> Usage:
    """Return what the current task has cost so far."""
    return {**reading_of(events).usage}


def run_options(events: Sequence[Event]) -> dict[str, Any]:
    """Return the options that the graph recorded with the current task."""
    return events[reading_of(events).start].get("options", {}) if events else {}


def oracle_touched(events: Sequence[Event]) -> bool:
    """Return whether a critic that knows the gold answer had a say in the current task."""
    return reading_of(events).oracle


def accepted_by(attempt: Attempt | None) -> str | None:
    """Return who accepted this draft, joined by commas, or `None`. A critic that knows the gold answer is marked."""
    if attempt is None or not attempt.accepted:
        return None
    return ", ".join(
        f"{critique['by']} (oracle)" if critique.get("oracle") else critique["by"] for critique in attempt.deciding
    )
