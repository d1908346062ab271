"""Reasoning as three kinds of text: a draft, what is said against it, and what was made of that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ...state.events import CRITIQUE_KINDS
from ...state.summary import attempts, best_draft, current_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...state.events import Event

__all__ = ["Critique", "Draft", "Final", "ReasoningState", "SelfCritique", "reasoning_events", "self_critique"]


@dataclass(frozen=True)
class Draft:
    """The first text."""

    text: str
    kind: Literal["draft"] = "draft"


@dataclass(frozen=True)
class Critique:
    """A critique of the draft or final before it."""

    text: str
    kind: Literal["critique"] = "critique"


@dataclass(frozen=True)
class Final:
    """An improved text; the last one is the answer."""

    text: str
    kind: Literal["final"] = "final"


ReasoningState = Draft | Critique | Final


def reasoning_events(events: Sequence[Event]) -> list[ReasoningState]:
    """Return the current task's drafts, critiques and improved texts, in order.

    A revision reads as `Final`. Verdicts, retrievals, failures and revisions that are no drafts are left out.
    """
    found: list[ReasoningState] = []
    for event in current_run(events):
        if event["kind"] == "draft":
            found.append(Draft(event["text"]))
        elif event["kind"] in CRITIQUE_KINDS:
            found.append(Critique(event["text"]))
        elif event["kind"] == "revision" and not event.get("rejected"):
            found.append(Final(event["text"]))
    return found


@dataclass(frozen=True)
class SelfCritique:
    """The result of a self-critique loop: the text before and after."""

    draft: str
    """The first text."""
    critique: str
    """What was said about the text that the answer improves, or about the answer where that is the draft."""
    improved: str
    """The answer: the best text."""
    iterations: int
    """How often it was improved."""
    confidence: float | None
    """Score of the answer, 0–1, or `None` where nobody gave one that could be read."""

    @property
    def rating(self) -> str:
        """The confidence in a word: `high` from 0.8, `medium` from 0.5, `low`, or `unknown`."""
        if self.confidence is None:
            return "unknown"
        return "high" if self.confidence >= HIGH else "medium" if self.confidence >= MEDIUM else "low"


HIGH, MEDIUM = 0.8, 0.5


def self_critique(events: Sequence[Event]) -> SelfCritique:
    """Return what the current task's critiques made of its draft.

    Raises:
        ValueError: There is no draft.
    """
    found = attempts(events)
    if not found:
        raise ValueError("there is no draft, so nothing was criticised")
    answer = best_draft(events) or found[-1]
    before = found[max(0, found.index(answer) - 1)]
    of = next((attempt for attempt in found if attempt.round == answer.base), before)
    return SelfCritique(found[0].text, of.feedback, answer.text, len(found) - 1, answer.score)
