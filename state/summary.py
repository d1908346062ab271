"""Summaries of a run, computed from its record: drafts, scores, usage, the best draft. Internal.

Every summary starts at the last `task` event."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from .events import CRITIQUE_KINDS, DRAFT_KINDS, FrozenRecord, Record
from .usage import NO_USAGE, add_usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .events import Event
    from .usage import Usage

__all__ = [
    "Attempt",
    "RunSummary",
    "accepted_by",
    "attempts",
    "best_draft",
    "condensed",
    "current_run",
    "latest_draft",
    "oracle_touched",
    "rounds",
    "run_options",
    "scores",
    "summary_of",
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

    @cached_property
    def verified(self) -> bool:
        """True if a program judged it."""
        return any(critique.get("verifier") for critique in self.critiques)

    @cached_property
    def accepted(self) -> bool:
        """True if everyone who judged it accepts it, or a person does. An unreadable opinion accepts nothing."""
        return self.judged and all(critique.get("accepted") is True for critique in self.deciding)

    @property
    def deciding(self) -> tuple[Event, ...]:
        """The opinions that count: a person has seen the others, so the last word of one stands alone."""
        people = tuple(critique for critique in self.critiques if critique["kind"] == "human")
        return people[-1:] or self.critiques

    @cached_property
    def score(self) -> float | None:
        """The mean score of the verifiers, or of the critics where no verifier scored it."""
        verified = [critique for critique in self.critiques if critique.get("verifier")]
        values = [value for critique in verified or self.critiques if (value := critique.get("score")) is not None]
        return fmean(values) if values else None

    @property
    def feedback(self) -> str:
        """The texts of the critics who did not accept it, or of all where all accepted."""
        objections = [critique for critique in self.critiques if critique.get("accepted") is not True]
        return "\n\n".join(critique["text"] for critique in objections or self.critiques if critique["text"])

    @cached_property
    def condensed(self) -> bytes:
        """The same for two drafts that are the same but for whitespace."""
        return condensed(self.text)


def condensed(text: str) -> bytes:
    """Return a hash of a text that white space does not change."""
    # surrogatepass: half of a surrogate pair, which a model may send, is no UTF-8.
    return hashlib.blake2b(" ".join(text.split()).encode("utf-8", "surrogatepass"), digest_size=16).digest()


class RunSummary:
    """The summary of a record's current task. One that the record outgrew stays as it is."""

    __slots__ = (
        *("length", "last", "start", "verdict", "retrieval", "limits", "oracle", "rounds", "usage"),
        *("attempts", "verified", "best_before", "worth"),
    )

    def __init__(self) -> None:
        self.length = 0
        self.last: Event | None = None
        self._begin(0)

    def _begin(self, start: int) -> None:
        self.start = start
        """Index of the current task's first event."""
        self.rounds = 0
        """How often the draft was revised, rejected revisions counted."""
        self.usage: Usage = NO_USAGE
        self.verdict = start
        """Where what happened after the current task's last verdict begins."""
        self.oracle = False
        """Whether a critic that knows the gold answer had a say."""
        self.limits: Mapping[str, Any] = {}
        """Those in force; empty before the first task."""
        self.retrieval: int | None = None
        """Index of the last retrieval."""
        self._begin_drafts()

    def _begin_drafts(self) -> None:
        self.attempts: list[Attempt] = []
        """Drafts in order, rejected revisions left out."""
        self.verified = False
        """Whether a program judged one of them."""
        self.best_before: Attempt | None = None
        """The best of all but the last, about which more may be said."""
        self.worth: dict[int, tuple[bool, float]] = {}
        """Of the same, by their rounds."""

    def grown(self, news: Iterable[Event]) -> RunSummary:
        """Return the summary of the record with these events appended."""
        new = RunSummary.__new__(RunSummary)
        for name in self.__slots__:  # `copy.copy` takes three times as long
            setattr(new, name, getattr(self, name))
        # Copies, since the earlier summary stays as it is.
        new.attempts, new.worth = self.attempts.copy(), self.worth.copy()
        for event in news:
            new._take(event)
        return new

    def best(self) -> Attempt | None:
        """Return the draft to answer with: accepted first, then the best score, then the latest.

        A draft that nobody judged counts as good as the one it revises, unless programs judge this run: then it can
        not displace a judged one.
        """
        if not self.attempts:
            return None
        last, before = self.attempts[-1], self.best_before
        if before is None:
            return last if last.judged or not self.verified else None
        if self.verified and not last.judged:
            return before
        return last if (*self._worth_of(last), last.round) > (*self.worth[before.round], before.round) else before

    def _take(self, event: Event) -> None:
        kind = event["kind"]
        if kind == "task":
            self._begin(self.length)
        self.length += 1
        self.last = event
        used = event.get("usage")
        if used and used != NO_USAGE:
            self.usage = add_usage((self.usage, used))
        self.oracle = self.oracle or bool(event.get("oracle"))
        if kind == "revision":
            self.rounds += 1
        if kind == "verdict":
            self.verdict = self.length
        if kind == "retrieval":
            self.retrieval = self.length - 1
        if kind in ("task", "verdict") and "limits" in event:
            self.limits = event["limits"]
        if kind in DRAFT_KINDS and not event.get("rejected"):
            if kind == "draft":  # one written anew, by an agent that had not finished it, stands for the one before
                self._begin_drafts()
            self._rank_last()
            self.attempts.append(Attempt(event["round"], event["text"], event["by"], event.get("base"), ()))
        elif kind in CRITIQUE_KINDS and self.attempts:
            last = self.attempts[-1]
            # Made anew, since its cached properties were computed without this critique.
            self.attempts[-1] = Attempt(last.round, last.text, last.by, last.base, (*last.critiques, event))
            # From the first verdict of a program on, drafts that nobody judged rank otherwise; see `best`.
            if event.get("verifier") and not self.verified:
                self._rank_judged()

    def _rank_last(self) -> None:
        if not self.attempts:
            return
        last, best = self.attempts[-1], self.best()
        if last.judged or not self.verified:
            self.worth[last.round] = self._worth_of(last)
        self.best_before = best

    def _rank_judged(self) -> None:
        """Rank anew without the drafts that nobody judged."""
        found = self.attempts
        self._begin_drafts()
        self.verified = True
        for attempt in found:
            self._rank_last()
            self.attempts.append(attempt)

    def _worth_of(self, attempt: Attempt) -> tuple[bool, float]:
        if attempt.judged:
            return (attempt.accepted, -1.0 if attempt.score is None else attempt.score)
        return self.worth.get(attempt.base, NO_WORTH) if attempt.base is not None else NO_WORTH


NO_WORTH = (False, -1.0)


def summary_of(events: Sequence[Event]) -> RunSummary:
    """Return the summary of a record; where it is a graph's own, that of the last step is carried on."""
    if not isinstance(events, (Record, FrozenRecord)):  # a union would be made anew at every call
        return RunSummary().grown(events)
    known: RunSummary | None = events.summary
    if known is not None and known.length == len(events) and (not events or known.last is events[-1]):
        return known
    fits = known is not None and 0 < known.length < len(events) and known.last is events[known.length - 1]
    read = known.grown(events[known.length :]) if known and fits else RunSummary().grown(events)
    events.summary = read
    return read


def current_run(events: Sequence[Event]) -> Sequence[Event]:
    """Return the events of the thread's current task, the `task` event first."""
    if isinstance(events, Record | FrozenRecord):
        return events[summary_of(events).start :]
    for index in range(len(events) - 1, -1, -1):
        if events[index]["kind"] == "task":
            return events[index:]
    return events


def attempts(events: Sequence[Event]) -> list[Attempt]:
    """Return the drafts of the current task in order, rejected revisions left out.

    A first draft that is written anew, by an agent that had not finished it, stands for the one before.
    """
    return list(summary_of(events).attempts)


def latest_draft(events: Sequence[Event]) -> Attempt | None:
    """Return the newest draft, or `None` before the first."""
    return found[-1] if (found := summary_of(events).attempts) else None


def best_draft(events: Sequence[Event], *, keep: Literal["best", "last"] = "best") -> Attempt | None:
    """Return the draft to answer with: accepted first, then the best score, then the latest.

    A draft that nobody judged counts as good as the one it revises, unless programs judge this run: then it can not
    displace a judged one. With `keep="last"` it is simply the latest draft.
    """
    return latest_draft(events) if keep == "last" else summary_of(events).best()


def rounds(events: Sequence[Event]) -> int:
    """Return how often the draft was revised, rejected revisions counted."""
    return summary_of(events).rounds


def scores(events: Sequence[Event]) -> list[tuple[int, float | None]]:
    """Return (round, score) of every draft, in order."""
    return [(attempt.round, attempt.score) for attempt in attempts(events)]


def usage_total(events: Sequence[Event]) -> Usage:
    """Return what the current task has cost so far."""
    return {**summary_of(events).usage}


def run_options(events: Sequence[Event]) -> dict[str, Any]:
    """Return the options that the graph recorded with the current task."""
    return events[summary_of(events).start].get("options", {}) if events else {}


def oracle_touched(events: Sequence[Event]) -> bool:
    """Return whether a critic that knows the gold answer had a say in the current task."""
    return summary_of(events).oracle


def accepted_by(attempt: Attempt | None) -> str | None:
    """Return who accepted this draft, joined by commas, or `None`. A critic that knows the gold answer is marked."""
    if attempt is None or not attempt.accepted:
        return None
    return ", ".join(
        f"{critique['by']} (oracle)" if critique.get("oracle") else critique["by"] for critique in attempt.deciding
    )
