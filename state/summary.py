"""Summaries of a run, computed from its record: drafts, scores, usage, the best draft. Internal.

Every summary starts at the last `task` event."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from itertools import takewhile
from operator import attrgetter
from statistics import fmean
from typing import Any, Literal

from .events import CRITIQUE_KINDS, DRAFT_KINDS, ORDER, Event, FrozenRecord, Record, Required, Requirement
from .usage import NO_USAGE, Usage, add_usage

__all__ = [
    "CALLER",
    "Attempt",
    "RunSummary",
    "accepted_by",
    "attempts",
    "best_draft",
    "current_run",
    "draft_rank",
    "latest_draft",
    "open_drafts",
    "oracle_touched",
    "rejected_since_draft",
    "required_by_caller",
    "requirements",
    "rounds",
    "run_options",
    "summary_of",
    "usage_total",
    "wishes",
]


CALLER = "caller"
"""Who asks for what is given with a task."""


@dataclass(frozen=True)
class Attempt:
    """A draft together with its critiques; what follows from them is computed once, when it is first asked for."""

    round: int
    text: str
    by: str
    base: int | None
    """Round of the draft that it revises; `None` for the first."""
    critiques: tuple[Event, ...]
    requirements: tuple[str, ...] = ()
    """What it is to meet beside the task: all that the caller, people and forks asked for, and nobody withdrew."""

    @cached_property
    def judged(self) -> bool:
        return bool(self.critiques)

    @cached_property
    def seen_by_person(self) -> bool:
        """True if a person has judged it, after the other critics or, in a fork, instead of them."""
        return any(critique["kind"] == "human" for critique in self.critiques)

    @cached_property
    def misfit(self) -> bool:
        """True if it is not of the type that drafts must have."""
        return any(critique["by"] == ANSWER_TYPE and critique.get("accepted") is False for critique in self.critiques)

    @cached_property
    def verified(self) -> bool:
        """True if a program judged it by the task, and not by a requirement alone."""
        return any(critique.get("verifier") and not critique.get("requirements") for critique in self.critiques)

    @cached_property
    def accepted(self) -> bool:
        """True if everyone who judged it accepts it, or a person does, and it meets what it is required to."""
        return self.agreed and not self.unmet

    @cached_property
    def agreed(self) -> bool:
        """True if everyone who judged it accepts it, or a person does. An unreadable opinion accepts nothing."""
        deciding = self.deciding
        return bool(deciding) and all(critique.get("accepted") is True for critique in deciding)

    @cached_property
    def unmet(self) -> tuple[str, ...]:
        """The requirements of which nobody who can tell has said that it meets them; a person who accepts it can."""
        if self.agreed and self.deciding[-1]["kind"] == "human":
            return ()
        verdicts = {text: self.told_of(text) for text in self.requirements}
        return tuple(text for text, accepted in verdicts.items() if not accepted or set(accepted) != {True})

    def told_of(self, requirement: str) -> list[bool | None]:
        """Return the verdicts on whether it meets a requirement."""
        told: list[bool | None] = []
        for one in self.critiques:
            if "criteria" in one:  # of one by one, those that it does not name were not judged
                told += [one["criteria"][requirement]] if requirement in one["criteria"] else []
            elif requirement in one.get("requirements", ()):
                told.append(one.get("accepted"))
        return told

    @cached_property
    def deciding(self) -> tuple[Event, ...]:
        """The opinions that count: a person has seen the others, so the last word of one stands alone.

        A calibrated judge that may not say has none.
        """
        people = tuple(critique for critique in self.critiques if critique["kind"] == "human")
        return people[-1:] or tuple(critique for critique in self.critiques if not _abstains(critique))

    @cached_property
    def calibrated(self) -> bool:
        """True if a calibrated judge accepted it."""
        return any("calibration" in critique and critique.get("accepted") is True for critique in self.critiques)

    @cached_property
    def undecided(self) -> bool:
        """True if a calibrated judge abstained, and nobody else said yes or no."""
        verdicts = [critique.get("accepted") for critique in self.critiques]
        return any(map(_abstains, self.critiques)) and all(verdict is None for verdict in verdicts)

    @cached_property
    def decidable_later(self) -> bool:
        """True if a revision of it could still be decided on: a judge covers it, and said what to revise it by."""
        abstained = [critique for critique in self.critiques if _abstains(critique)]
        rounds_covered = [critique["calibration"].get("rounds", 0) for critique in abstained]
        return bool(self.feedback) and any(number > self.round for number in rounds_covered)

    @cached_property
    def score(self) -> float | None:
        """The mean score of the verifiers, or of the critics where no verifier scored it."""
        scored = [one for one in self.critiques if one.get("verifier") or not self.verified]
        values = [value for critique in scored if (value := critique.get("score")) is not None]
        return fmean(values) if values else None

    @cached_property
    def refuted(self) -> bool:
        """True if a verifier rejected it, or a person wants it changed, and no person accepts it."""
        firm = [critique for critique in self.critiques if critique.get("verifier") or critique["kind"] == "human"]
        rejected = any(critique.get("accepted") is False and not critique.get("stop") for critique in firm)
        return rejected and not self.agreed

    @cached_property
    def rank(self) -> tuple[int, float]:
        """Its place among the drafts of its run, the greatest is the best; see `draft_rank`.

        One that meets all requirements leads the others that are accepted.
        """
        place, score = draft_rank(accepted=self.agreed, refuted=self.refuted, score=self.score)
        return place + (self.accepted and bool(self.requirements)), score

    @cached_property
    def answers(self) -> list[Any]:
        """The answers that critics read in it."""
        answers = [critique.get("evidence", {}).get("answer") for critique in self.critiques]
        return [answer for answer in answers if answer is not None]

    @cached_property
    def feedback(self) -> str:
        """The texts of the critics who did not accept it, or of all where all accepted."""
        objections = [critique for critique in self.critiques if critique.get("accepted") is not True]
        return "\n\n".join(critique["text"] for critique in objections or self.critiques if critique["text"])

    @cached_property
    def opening(self) -> list[str]:
        """The first words, the same too for two drafts that are the same but for whitespace."""
        return self.text.split(None, 8)[:8]

    @cached_property
    def condensed(self) -> bytes:
        """A hash of the text, the same for two drafts that are the same but for whitespace."""
        # surrogatepass: half of a surrogate pair, which a model may send, is no UTF-8.
        return hashlib.blake2b(" ".join(self.text.split()).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _abstains(critique: Event) -> bool:
    """Tell if a calibrated judge left the decision to others."""
    return "calibration" in critique and critique.get("accepted") is None


def draft_rank(*, accepted: bool, refuted: bool, score: float | None) -> tuple[int, float]:
    """Return the sort key of drafts, the greatest first; of equal ones the earlier stays, as `max` has it.

    Four groups follow each other: accepted drafts; drafts with a score, which no verifier or person rejected; drafts
    without a score, because nobody judged them or opinions came without one; rejected drafts. In a group the higher
    score leads.

    Args:
        accepted: All who judged it accepted it.
        refuted: A verifier or a person rejected it.
        score: 0–1, or `None` where nobody scored it.
    """
    place = 3 if accepted else 0 if refuted else 1 if score is None else 2
    return place, -1.0 if score is None else score


class RunSummary:
    """The summary of a record's current task. One that the record outgrew stays as it is."""

    __slots__ = (
        "asked", "attempts", "base", "closed", "last", "length", "limits", "newest", "open", "options", "oracle",
        "ordered", "recalled", "retrieval", "rounds", "said", "standing", "start", "step", "usage", "verdict",
    )  # fmt: skip

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
        """Index of the first event after the current task's last verdict."""
        self.oracle = False
        """True if a critic that knows the gold answer had a say."""
        self.limits: Mapping[str, Any] = {}
        """Those in force; empty before the first task."""
        self.retrieval: int | None = None
        """Index of the last retrieval."""
        self.options: dict[str, Any] = {}
        """Those of the graph that runs the current task now."""
        self.ordered = False
        """True if the task was begun under the order of `draft_rank`."""
        self.asked: dict[str, Event] = {}
        """What was asked for beside the task, by its text."""
        self.standing: tuple[str, ...] = ()
        """The requirements in force: what was asked for, and not withdrawn."""
        self._begin_drafts()

    def _begin_drafts(self) -> None:
        self.attempts: list[Attempt] = []
        """Drafts in order, rejected revisions left out."""
        self.newest: list[Attempt] = []
        """The newest draft, with those that were written side by side with it."""
        self.open: list[Attempt] = []
        """The drafts written since the last verdict, or the newest where there is none; and those of which a person has
        spoken since."""
        self.recalled: tuple[int, ...] = ()
        """Indices of the drafts of which a person has spoken since the last verdict."""
        self.said = ""
        """The last refusal, talk about the task or notice: the answer while there is no draft, which nobody accepts."""
        self.closed = 0
        """How many of them the last verdict covered."""
        self.step = 0
        """Index of the first draft of the last step that wrote any: a step may write several side by side."""
        self.base = 0
        """Index of the draft that something was last asked of: those before it are no answer any more."""

    def grown(self, news: Iterable[Event]) -> RunSummary:
        """Return the summary of the record with these events appended."""
        new = RunSummary.__new__(RunSummary)
        for name in self.__slots__:  # `copy.copy` takes three times as long
            setattr(new, name, getattr(self, name))
        # A copy, since the earlier summary stays as it is.
        new.attempts = self.attempts.copy()
        new.take(news)
        return new

    def take(self, news: Iterable[Event]) -> None:
        """Fold events in, in place: for a summary that nobody else holds."""
        spent: list[Usage] = []
        for event in news:
            kind = event["kind"]
            if kind == "task":
                self._begin(self.length)
                self.ordered = event.get("options", {}).get("order") == ORDER
                spent.clear()
            self.options = event.get("options", self.options)
            before, self.last = self.last, event
            self.length += 1
            usage = event.get("usage")
            if usage and usage != NO_USAGE:
                spent.append(usage)
            self.oracle = self.oracle or bool(event.get("oracle"))
            if kind in ("task", "verdict") and "limits" in event:
                self.limits = event["limits"]
            if kind == "verdict":
                self.verdict, self.closed, self.recalled = self.length, len(self.attempts), ()
            elif kind == "retrieval":
                self.retrieval = self.length - 1
            elif kind in DRAFT_KINDS:
                self.rounds += kind == "revision"
                # What a person wrote stands beside nothing.
                if before is None or before["kind"] not in DRAFT_KINDS or event.get("given"):
                    self.step = len(self.attempts)
                rejected = event.get("rejected")
                self.said = event["text"] if rejected in SAID else self.said
                if not rejected:
                    # Written anew, by an agent that had not finished it, it replaces the one before.
                    if kind == "draft":
                        self._begin_drafts()
                    new = Attempt(event["round"], event["text"], event["by"], event.get("base"), (), self.standing)
                    self.attempts.append(new)
            elif kind in (*CRITIQUE_KINDS, "requirement"):
                self._hear(event)
        self._part_drafts()
        if spent:
            self.usage = add_usage((self.usage, *spent))

    def _part_drafts(self) -> None:
        self.newest = self.attempts[self.step :] or self.attempts[-1:]
        first = self.closed if self.closed < len(self.attempts) else len(self.attempts) - len(self.newest)
        self.open = [self.attempts[at] for at in sorted({*self.recalled, *range(first, len(self.attempts))})]

    def _hear(self, event: Event) -> None:
        """Let a requirement stand; attach a critique to the draft of its round, or to the newest where none has it."""
        if event["kind"] == "requirement":
            self._ask(event)
        elif self.attempts:
            at = self._place(event["round"])
            self.recalled += (at,) if event["kind"] == "human" else ()
            # Made anew, since its cached properties were computed without this critique.
            self.attempts[at] = replace(self.attempts[at], critiques=(*self.attempts[at].critiques, event))

    def _place(self, number: int) -> int:
        last = len(self.attempts) - 1
        return next((i for i in range(last, -1, -1) if self.attempts[i].round == number), last)

    def _ask(self, event: Event) -> None:
        """Let a requirement stand, or withdraw it; all drafts are then to meet those that stand."""
        text = event["text"]
        withdrawn = event.get("withdrawn", False)
        self.asked = {**self.asked, text: {**self.asked.get(text, event), "withdrawn": True} if withdrawn else event}
        self.standing = tuple(wish for wish, one in self.asked.items() if not one.get("withdrawn"))
        if not withdrawn:
            self.base = max(self._place(event["round"]), 0)
        self.attempts = [replace(draft, requirements=self.standing) for draft in self.attempts]

    @property
    def requirements(self) -> list[Requirement]:
        """All that was asked for beside the task, and whether the answer meets it."""
        unmet = self.standing if self.answer is None else self.answer.unmet
        return [
            {
                "text": text,
                "by": event["by"],
                "at": event.get("at", ""),
                "verifiers": [*event.get("verifiers", ())],
                "status": "withdrawn" if event.get("withdrawn") else "open" if text in unmet else "satisfied",
            }
            for text, event in self.asked.items()
        ]

    @property
    def best(self) -> Attempt | None:
        """The draft to answer with, by `draft_rank`; of equal ones the earlier."""
        rivals = self.attempts[self.base :]
        return max(rivals, key=attrgetter("rank"), default=None) if self.ordered else _best_unordered(rivals)

    @property
    def latest(self) -> Attempt | None:
        """The newest draft."""
        return self.attempts[-1] if self.attempts else None

    @property
    def answer(self) -> Attempt | None:
        """The draft to answer with, by the `keep` that the graph recorded."""
        return self.kept(self.options.get("keep", "best"))

    def kept(self, keep: str) -> Attempt | None:
        """Return the draft to answer with; see `best_draft`."""
        if keep == "last":
            return next((draft for draft in reversed(self.attempts) if not draft.misfit), self.latest)
        best = self.best
        return best if best is None or best.accepted or keep != "vote" else _voted(self.attempts[self.base :], best)


ANSWER_TYPE = "answer_type"
"""The name in the record of the program that looks at the type of drafts."""
SAID = ("refused", "meta", "notice")
"""Reasons why what was said is no draft."""


def _best_unordered(drafts: Sequence[Attempt]) -> Attempt | None:
    """Return the best draft of a task that was begun before `draft_rank` was the order.

    Ties went to the latest; a draft that nobody judged counted as the one it revises, and not at all where programs
    judged.
    """
    verified = any(draft.verified for draft in drafts)
    worth: dict[int | None, tuple[bool, float]] = {}
    for draft in drafts:
        if draft.judged:
            worth[draft.round] = (draft.accepted, -1.0 if draft.score is None else draft.score)
        elif not verified:
            worth[draft.round] = worth.get(draft.base, (False, -1.0))
    ranked = [draft for draft in drafts if draft.round in worth]
    return max(ranked, key=lambda draft: (*worth[draft.round], draft.round), default=None)


def summary_of(events: Sequence[Event]) -> RunSummary:
    """Return the summary of a record; where it is a graph's own, that of the last step is carried on."""
    if not isinstance(events, (Record, FrozenRecord)):  # a union would be made anew at every call
        return RunSummary().grown(events)
    earlier: RunSummary | None = events.summary
    if earlier is not None and earlier.length == len(events) and (not events or earlier.last is events[-1]):
        return earlier
    fits = earlier is not None and 0 < earlier.length < len(events) and earlier.last is events[earlier.length - 1]
    summary: RunSummary = earlier.grown(events[earlier.length :]) if earlier and fits else RunSummary().grown(events)
    events.summary = summary
    return summary


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

    A first draft that is written anew, by an agent that had not finished it, replaces the one before.
    """
    return list(summary_of(events).attempts)


def latest_draft(events: Sequence[Event]) -> Attempt | None:
    """Return the newest draft, or `None` before the first."""
    return summary_of(events).latest


def rejected_since_draft(events: Sequence[Event]) -> list[Event]:
    """Return the rejected revisions since the newest draft, the newest first."""
    drafts = [event for event in reversed(current_run(events)) if event["kind"] in DRAFT_KINDS]
    return list(takewhile(lambda event: event.get("rejected"), drafts))


def open_drafts(events: Sequence[Event]) -> list[Attempt]:
    """Return the drafts written since the last verdict, or the newest where there is none."""
    return summary_of(events).open


def best_draft(events: Sequence[Event], *, keep: Literal["best", "last", "vote"] = "best") -> Attempt | None:
    """Return the draft to answer with: the greatest by `draft_rank`, of equal ones the earlier.

    With `keep="last"` it is simply the latest draft, of typed ones the latest that fits. With `keep="vote"`, where none
    is accepted, it is one with the answer that most drafts and programs share, as far as critics read answers. A task
    that was begun under an earlier order keeps it.
    """
    return summary_of(events).kept(keep)


def _voted(drafts: Sequence[Attempt], best: Attempt) -> Attempt:
    """Return the draft whose answer has most votes; of equals the better, then the earlier."""
    evidence = [critique.get("evidence", {}) for draft in drafts for critique in draft.critiques]
    programs = [program.get("answer") for held in evidence for program in held.get("programs", ())]
    answers = [answer for draft in drafts for answer in draft.answers]
    votes = Counter(_vote(answer) for answer in (*answers, *programs) if answer is not None)
    # What a verifier rejected has no vote to win while there are others.
    rivals = [draft for draft in drafts if draft.rank[0] == best.rank[0]]
    return max(
        rivals, key=lambda draft: (max((votes[_vote(answer)] for answer in draft.answers), default=0), draft.rank)
    )


def _vote(answer: Any) -> Any:
    """Return an answer as votes are counted: 4, 4.0 and "4" are one."""
    try:
        number = Decimal(str(answer))
    except ArithmeticError:
        return str(answer)
    return number if number.is_finite() else str(answer)  # no NaN equals another


def rounds(events: Sequence[Event]) -> int:
    """Return the number of revisions, rejected ones counted."""
    return summary_of(events).rounds


def required_by_caller(events: Sequence[Event]) -> list[Required]:
    """Return what was given with the current task as `require`."""
    return [
        {"text": event["text"], "verifiers": [*event.get("verifiers", ())]}
        for event in current_run(events)
        if event["kind"] == "requirement" and event["by"] == CALLER
    ]


def requirements(events: Sequence[Event]) -> list[Requirement]:
    """Return the requirements beside the current task: open, satisfied by the answer, or withdrawn."""
    return summary_of(events).requirements


def wishes(events: Sequence[Event]) -> list[str]:
    """Return what the verifiers of the current task want of a draft, as far as the record says it."""
    texts = run_options(events).get("wishes")
    return [*map(str, texts)] if isinstance(texts, list) else []


def usage_total(events: Sequence[Event]) -> Usage:
    """Return the usage of the current task so far."""
    return {**summary_of(events).usage}


def run_options(events: Sequence[Event]) -> dict[str, Any]:
    """Return the options that the graph recorded with the current task, or another one that goes on with it."""
    return summary_of(events).options


def oracle_touched(events: Sequence[Event]) -> bool:
    """Tell if a critic that knows the gold answer had a say in the current task."""
    return summary_of(events).oracle


def accepted_by(attempt: Attempt | None) -> str | None:
    """Return the names of those who accepted this draft, joined by commas, or `None`.

    A critic that knows the gold answer is marked, so is a calibrated one, and the model that judged its own draft.
    """
    if attempt is None or not attempt.accepted:
        return None
    return ", ".join(map(_marked, attempt.deciding))


def _marked(critique: Event) -> str:
    holds = {"oracle": "oracle", "calibrated": "calibration", "uncalibrated": "uncalibrated"}
    marks = ", ".join(mark for mark, field in holds.items() if critique.get(field))
    return f"{critique['by']} ({marks})" if marks else critique["by"]
