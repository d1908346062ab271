"""Choices of an adaptive run: which arm writes the next drafts, and when none is worth another try. Internal.

An arm is a way to write further drafts: a fresh sample, say, or a revision. What has worked goes on: the arm that
brought the last gain comes first, then the others in their order. One whose tries brought nothing is set aside, until
another brings a gain.

Why fresh samples come before repairs of code: Olausson et al., "Is Self-Repair a Silver Bullet for Code Generation?"
(arXiv 2306.09896), find that at equal tokens repairs seldom beat samples; why a run stops as soon as its evidence
agrees: adaptive-consistency (arXiv 2305.11860); why harder tasks are given more: Snell et al. (arXiv 2408.03314).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .events import DRAFT_KINDS, Choice
from .summary import attempts, current_run, newest_drafts, open_drafts, run_options, summary_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .events import Event

__all__ = ["SAMPLE", "Arm", "arms_of", "choose", "latest_choice", "tried_in_vain"]

SAMPLE = "sample"
"""The arm that writes from the task alone."""


class Arm(NamedTuple):
    """A way to write further drafts."""

    name: str
    """The key of its writer: `sample`, say."""
    tries: int
    """So many steps of it without a gain set it aside."""
    drafts: int = 1
    """How many drafts a step asks for, side by side."""
    needs: str = ""
    """Evidence that it is only worth trying with: a key that a critique of the newest drafts must hold."""


def arms_of(events: Sequence[Event]) -> list[Arm]:
    """Return the arms that the run may choose from, in order; none where it is not adaptive, or before a draft."""
    return [Arm(*arm) for arm in run_options(events).get("arms", ())] if attempts(events) else []


def choose(events: Sequence[Event]) -> tuple[Choice, str] | None:
    """Return the next choice and the reason for it, or `None` where every arm was tried in vain.

    A gain is a draft that ranks higher than all before it, see `redraft.state.summary.draft_rank`. Where a person has
    just asked for a change, it is made, however often that arm was tried: a sample would not know of it.

    Args:
        events: The record of an adaptive run, whose options hold its arms.
    """
    in_vain, gained = _tried(events)
    arms = sorted(arms_of(events), key=lambda arm: arm.name != gained)
    person_spoke = any(critique["kind"] == "human" for draft in newest_drafts(events) for critique in draft.critiques)
    if person_spoke and (revising := next((arm for arm in arms_of(events) if arm.name != SAMPLE), None)):
        return Choice(arm=revising.name, drafts=revising.drafts), f"Next: {revising.name}, as a person asks."
    evidence = {
        key for draft in open_drafts(events) for critique in draft.critiques for key in critique.get("evidence", {})
    }
    left = [arm for arm in arms if in_vain.get(arm.name, 0) < arm.tries and (not arm.needs or arm.needs in evidence)]
    if not left:
        return None
    arm = left[0]
    spent = ", ".join(f"{name} ({count} in vain)" for name, count in in_vain.items())
    why = "it brought the last gain" if arm.name == gained else f"after {spent}" if spent else "the first way to try"
    return Choice(arm=arm.name, drafts=arm.drafts), f"Next: {arm.name}, {why}."


def tried_in_vain(events: Sequence[Event]) -> str:
    """Return how often each arm was tried in vain since the last gain: `mend (1), sample (2)`; empty for none."""
    return ", ".join(f"{name} ({count})" for name, count in _tried(events)[0].items())


def latest_choice(events: Sequence[Event]) -> Choice | None:
    """Return the choice that is still to be written, or `None`; an error in between does not undo it."""
    for event in reversed(current_run(events)):
        if event["kind"] in DRAFT_KINDS:
            return None
        chosen: Choice | None = event.get("choice")
        if chosen:
            return chosen
    return None


def _tried(events: Sequence[Event]) -> tuple[Mapping[str, int], str | None]:
    """Count the tries of each arm in vain since the last gain; return them with the arm that brought that gain."""
    ranks = {draft.round: draft.rank for draft in attempts(events)}
    best: tuple[int, float] | None = None
    in_vain: dict[str, int] = {}
    gained: str | None = None
    summary = summary_of(events)
    base = summary.attempts[summary.base].round if summary.attempts else 0
    for arm, written in _steps(current_run(events)):
        if written[-1] < base:  # before something else was asked for
            continue
        reached = max((ranks[number] for number in written if number in ranks), default=None)
        gain = reached is not None and (best is None or reached > best)
        if gain:
            best = reached
        if gain and arm is not None:
            in_vain.clear()
            gained = arm
        elif arm is not None:
            in_vain[arm] = in_vain.get(arm, 0) + 1
    return in_vain, gained


def _steps(run: Sequence[Event]) -> Iterator[tuple[str | None, list[int]]]:
    """Yield each step that wrote drafts: its arm, which nobody chose for the first, and the rounds of its drafts."""
    arm: str | None = None
    written: list[int] = []
    for event in run:
        if event["kind"] in DRAFT_KINDS:
            written.append(event["round"])
        elif event["kind"] == "verdict":
            # Where nothing was written, an error or a budget came before it, and the choice is still to be tried.
            if written:
                yield arm, written
                arm, written = None, []
            if event.get("choice"):
                arm = event["choice"]["arm"]
    if written:
        yield arm, written
