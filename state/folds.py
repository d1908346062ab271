"""Everything that can be read off the record of a run. Folds start at the last `task` event."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from .events import CRITIQUE_KINDS, DRAFT_KINDS, Event
from .usage import Usage, add_usage

if TYPE_CHECKING:
    from collections.abc import Sequence

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


@dataclass(frozen=True)
class Attempt:
    """A draft together with what was said about it."""

    round: int
    text: str
    by: str
    base: int | None
    """Round of the draft that it revises; `None` for the first."""
    critiques: tuple[Event, ...]

    @property
    def judged(self) -> bool:
        return bool(self.critiques)

    @property
    def verified(self) -> bool:
        """Whether a program judged it."""
        return any(critique.get("verifier") for critique in self.critiques)

    @property
    def accepted(self) -> bool:
        """Whether everyone who judged it accepts it, or a person does. An unreadable opinion does not."""
        return self.judged and all(critique.get("accepted") is True for critique in self.deciding)

    @property
    def deciding(self) -> tuple[Event, ...]:
        """The opinions that count: a person has seen the others, so the last word of one stands alone."""
        people = tuple(critique for critique in self.critiques if critique["kind"] == "human")
        return people[-1:] or self.critiques

    @property
    def score(self) -> float | None:
        """The mean score of the verifiers, or of the critics where no verifier scored it."""
        verified = [critique for critique in self.critiques if critique.get("verifier")]
        values = [value for critique in verified or self.critiques if (value := critique.get("score")) is not None]
        return fmean(values) if values else None

    @property
    def feedback(self) -> str:
        """What the critics who did not accept it said, or all of them where all accepted."""
        objections = [critique for critique in self.critiques if critique.get("accepted") is not True]
        return "\n\n".join(critique["text"] for critique in objections or self.critiques if critique["text"])


def current_run(events: Sequence[Event]) -> Sequence[Event]:
    """Return the events of the thread's current task, the `task` event first."""
    for index in range(len(events) - 1, -1, -1):
        if events[index]["kind"] == "task":
            return events[index:]
    return events


def attempts(events: Sequence[Event]) -> list[Attempt]:
    """Return the drafts of the current task in order, rejected revisions left out.

    A first draft that is written anew, by an agent that had not finished it, stands for the one before.
    """
    found: list[tuple[Event, list[Event]]] = []
    for event in current_run(events):
        if event["kind"] == "draft" and not event.get("rejected"):
            found.clear()
        if event["kind"] in DRAFT_KINDS and not event.get("rejected"):
            found.append((event, []))
        elif event["kind"] in CRITIQUE_KINDS and found:
            found[-1][1].append(event)
    return [
        Attempt(draft["round"], draft["text"], draft["by"], draft.get("base"), tuple(critiques))
        for draft, critiques in found
    ]


def latest_draft(events: Sequence[Event]) -> Attempt | None:
    """Return the newest draft, or `None` before the first."""
    return found[-1] if (found := attempts(events)) else None


def best_draft(events: Sequence[Event], *, keep: Literal["best", "last"] = "best") -> Attempt | None:
    """Return the draft to answer with: accepted first, then the best score, then the latest.

    A draft that nobody judged counts as good as the one it revises, unless programs judge this run: then it can not
    displace a judged one. With `keep="last"` it is simply the latest draft.
    """
    found = attempts(events)
    if not found or keep == "last":
        return found[-1] if found else None
    if any(attempt.verified for attempt in found):
        found = [attempt for attempt in found if attempt.judged]
    worth: dict[int, tuple[bool, float]] = {}
    for attempt in found:
        inherited = worth.get(attempt.base, (False, -1.0)) if attempt.base is not None else (False, -1.0)
        own = (attempt.accepted, -1.0 if attempt.score is None else attempt.score)
        worth[attempt.round] = own if attempt.judged else inherited
    return max(found, key=lambda attempt: (*worth[attempt.round], attempt.round))


def rounds(events: Sequence[Event]) -> int:
    """Return how often the draft was revised, rejected revisions counted."""
    return sum(event["kind"] == "revision" for event in current_run(events))


def scores(events: Sequence[Event]) -> list[tuple[int, float | None]]:
    """Return (round, score) of every draft, in order."""
    return [(attempt.round, attempt.score) for attempt in attempts(events)]


def usage_total(events: Sequence[Event]) -> Usage:
    """Return what the current task has cost so far."""
    return add_usage(event["usage"] for event in current_run(events))


def run_options(events: Sequence[Event]) -> dict[str, Any]:
    """Return the options that the graph recorded with the current task."""
    run = current_run(events)
    return run[0].get("options", {}) if run else {}


def oracle_touched(events: Sequence[Event]) -> bool:
    """Return whether a critic that knows the gold answer had a say in the current task."""
    return any(event.get("oracle") for event in current_run(events))


def accepted_by(attempt: Attempt | None) -> str | None:
    """Return who accepted this draft, joined by commas, or `None`. A critic that knows the gold answer is marked."""
    if attempt is None or not attempt.accepted:
        return None
    return ", ".join(
        f"{critique['by']} (oracle)" if critique.get("oracle") else critique["by"] for critique in attempt.deciding
    )
