"""Stop logic, and the choice of the next arm of an adaptive run: pure functions of the record. Internal.

An arm is a way to write further drafts: a fresh sample, say, or a revision. What has worked goes on: the arm that
brought the last gain comes first, then the others in their order. One whose tries brought nothing is set aside, until
another brings a gain.

Why fresh samples come before repairs of code: Olausson et al., "Is Self-Repair a Silver Bullet for Code Generation?"
(arXiv 2306.09896), find that at equal tokens repairs seldom beat samples; why a run stops as soon as its evidence
agrees: adaptive-consistency (arXiv 2305.11860); why harder tasks are given more: Snell et al. (arXiv 2408.03314).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast, get_args

from .events import DRAFT_KINDS, Choice, Event
from .limits import Limits
from .summary import Attempt, RunSummary, current_run, summary_of
from .usage import Usage, add_usage

__all__ = [
    "BUDGETS",
    "REFUSED_OUTSIDE",
    "SAMPLE",
    "STOP_REASONS",
    "Arm",
    "StopReason",
    "choose",
    "could_not_be_judged",
    "decide",
    "error_of",
    "is_checked",
    "latest_choice",
    "nearly_spent",
    "refused_budget",
    "rounds_allowed",
    "since_verdict",
    "spent_budget",
    "tried_in_vain",
    "warning",
]

StopReason = Literal[
    "failed",
    "accepted",
    "human",
    "token_budget",
    "cost_budget",
    "time_budget",
    "call_budget",
    "quota",
    "undecided",
    "no_progress",
    "max_rounds",
]
"""Why a run ended; where several hold, the first one counts."""

STOP_REASONS: tuple[StopReason, ...] = get_args(StopReason)
REFUSED_OUTSIDE = ("call_budget", "quota")
"""Reasons that only a server's ceilings give, and no limit of the run: resumed, it goes on."""


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


def decide(events: Sequence[Event], limits: Mapping[str, Any], *, out_of_steps: bool = False) -> StopReason | None:
    """Return the reason to stop the run now, or `None` when another round is due.

    Args:
        events: The record so far, without the verdict that this decides.
        limits: The limits in force.
        out_of_steps: The caller's `recursion_limit` leaves no room for another round; counts as `max_rounds`.
    """
    summary = summary_of(events)
    fresh, drafts = events[summary.verdict :], summary.open
    if reason := _reason_of(fresh, drafts) or _spent(summary.usage, limits) or refused_budget(fresh):
        return reason
    stuck = _stuck(events, summary, limits.get("patience"))
    spent = out_of_steps or summary.rounds >= rounds_allowed(limits)
    if _untold(drafts):
        return "undecided"
    # After the limits, so that a run with room left goes on while a revision could still be decided on.
    if drafts and all(draft.undecided for draft in drafts):
        return None if not stuck and not spent and any(one.decidable_later for one in drafts) else "undecided"
    return "no_progress" if stuck else "max_rounds" if spent else None


def _stuck(events: Sequence[Event], summary: RunSummary, patience: int | None) -> bool:
    """Tell if nothing is left that is worth a round; what a person has just asked for is."""
    fresh = events[summary.verdict :]
    if any(event["kind"] == "human" for event in fresh):
        return False
    # An adaptive run has other ways to try; it ends when none is left.
    repeats = any(event.get("rejected") == "repeat" for event in fresh)
    no_way_on = _choice(events, summary) is None if _arms(summary) else repeats
    return no_way_on or could_not_be_judged(summary) or _patience_lost(summary, patience)


def _untold(drafts: Sequence[Attempt]) -> bool:
    """Tell if nothing is left to mend in a draft, and nobody here can tell if what a person asked for is met."""
    spoken = any(draft.seen_by_person for draft in drafts)
    return not spoken and any(draft.agreed and draft.unmet for draft in drafts)


def _reason_of(fresh: Sequence[Event], drafts: Sequence[Attempt]) -> StopReason | None:
    """Return the reason that the events of this round give by themselves, whatever the limits are."""
    # A call that was refused for a budget is no failure; the budget is named instead.
    if any(event["kind"] == "failure" and not event.get("budget") for event in fresh):
        return "failed"
    # Before the budgets: a draft that is accepted with the last token is accepted.
    if any(draft.accepted for draft in drafts):
        return "accepted"
    return "human" if any(event.get("stop") for event in fresh) else None


def could_not_be_judged(summary: RunSummary) -> bool:
    """Tell if the critics who are asked about each draft had nothing to say about the newest ones.

    There is nothing then by which they could be revised.
    """
    drafts = summary.open
    return bool(summary.options.get("asks") and drafts) and not any(draft.critiques for draft in drafts)


def error_of(events: Sequence[Event], reason: str | None, news: Sequence[Event] = ()) -> str | None:
    """Return the node, type and message of the error that ended a run as `failed`; `None` for any other reason.

    Args:
        events: The record.
        reason: Why the run ended.
        news: Events that are not in the record yet.
    """
    for event in reversed([*events, *news] if reason == "failed" else []):
        if event["kind"] == "failure" and not event.get("budget"):
            return f"{event['by']}: {event.get('error', 'an error')}: {event['text']}"
    return None


def refused_budget(events: Sequence[Event]) -> StopReason | None:
    """Return the budget for which a call was refused: of a server, or of a run outside where this is a node of it."""
    budgets = [event["budget"] for event in events if event["kind"] == "failure" and event.get("budget")]
    return cast("StopReason", budgets[-1]) if budgets else None


def rounds_allowed(limits: Mapping[str, Any]) -> int:
    """Return the number of revisions allowed, also where someone wrote only some limits into the state."""
    return int(limits["max_rounds"] if "max_rounds" in limits else Limits()["max_rounds"])


def spent_budget(
    events: Sequence[Event], limits: Mapping[str, Any], *, besides: Usage | None = None
) -> StopReason | None:
    """Return the budget that is used up, or `None`: asked before every model call.

    A budget whose use is not known counts as used up: tokens that no provider reported, a price that no table has.

    Args:
        events: The record so far.
        limits: The limits in force.
        besides: Usage since then, not in the record yet.
    """
    if all(limits.get(name) is None for name in BUDGETS):
        return None
    usage = summary_of(events).usage
    return _spent(usage if besides is None else add_usage([usage, besides]), limits)


def _spent(usage: Usage, limits: Mapping[str, Any]) -> StopReason | None:
    tokens, dollars, seconds = (limits.get(name) for name in BUDGETS)
    if tokens is not None and (usage["total_tokens"] >= tokens or usage.get("uncounted_calls")):
        return "token_budget"
    cost = usage["cost_usd"]
    if dollars is not None and (cost is None or cost >= dollars):
        return "cost_budget"
    return "time_budget" if seconds is not None and usage["seconds"] >= seconds else None


def nearly_spent(
    events: Sequence[Event], limits: Mapping[str, Any], *, besides: Usage | None = None, another_round: bool = False
) -> list[StopReason]:
    """Return the budgets of which 80% are used up, while none is spent and nobody was warned of them in this run.

    Args:
        events: The record so far.
        limits: The limits in force.
        besides: Usage since then, not in the record yet.
        another_round: A round is due: one like the last may take all that is left, however much that is.
    """
    bounds = {name: WARN_AT * limits[name] for name in BUDGETS if limits.get(name) is not None}
    if not bounds or spent_budget(events, limits, besides=besides):
        return []
    nearly = [spent_budget(events, {name: bound}, besides=besides) for name, bound in bounds.items()]
    if another_round and not any(nearly):
        last_round = add_usage([event["usage"] for event in since_verdict(events) if "usage" in event])
        nearly = [spent_budget(events, limits, besides=last_round)]
    warned = {budget for event in current_run(events) for budget in event.get("warned", ())} if any(nearly) else set()
    return [budget for budget in nearly if budget and budget not in warned]


def warning(budget: StopReason, number: int) -> dict[str, Any]:
    """Return the progress item that warns of a budget."""
    text = f"{WARN_AT:.0%} of the {budget.replace('_', ' ')} is used up, or another round would take the rest."
    return {"kind": "warning", "by": "check", "round": number, "budget": budget, "text": text}


BUDGETS = ("max_tokens", "max_cost_usd", "max_seconds")
WARN_AT = 0.8


def since_verdict(events: Sequence[Event]) -> Sequence[Event]:
    """Return the events of the current task after its last verdict."""
    return events[summary_of(events).verdict :]


def _patience_lost(summary: RunSummary, patience: int | None) -> bool:
    if patience is None:
        return False
    scores = {draft.round: draft.score for draft in summary.attempts}
    base = summary.attempts[summary.base].round if summary.attempts else 0
    first = scores.get(base)
    # Less than any score, so that the first one is a gain.
    best = -1.0 if first is None else first
    without_gain = 0
    for number in range(base + 1, summary.rounds + 1):
        # A rejected revision has none, and counts as a round without a gain.
        score = scores.get(number)
        if score is not None and score > best:
            best, without_gain = score, 0
        else:
            without_gain += 1
    return without_gain >= patience


def is_checked(state: Mapping[str, Any]) -> bool:
    """Tell if the last event of a state is a verdict that still holds: neither reopened, nor of other limits."""
    events = state.get("events")
    if not events or events[-1]["kind"] != "verdict" or events[-1]["stop_reason"] != state.get("stop_reason"):
        return False
    return bool(summary_of(events).limits == state["limits"])


def choose(events: Sequence[Event]) -> tuple[Choice, str] | None:
    """Return the next choice and the reason for it, or `None` where every arm was tried in vain, or there is none.

    A gain is a draft that ranks higher than all before it, see `redraft.state.summary.draft_rank`. Where a person has
    just asked for a change, it is made, however often that arm was tried: a sample would not know of it.

    Args:
        events: The record; the options of an adaptive run hold its arms.
    """
    return _choice(events, summary_of(events))


def _choice(events: Sequence[Event], summary: RunSummary) -> tuple[Choice, str] | None:
    in_vain, gained = _tried(events, summary)
    arms = sorted(_arms(summary), key=lambda arm: arm.name != gained)
    person_spoke = any(draft.seen_by_person for draft in summary.open)
    if person_spoke and (revising := next((arm for arm in _arms(summary) if arm.name != SAMPLE), None)):
        return Choice(arm=revising.name, drafts=revising.drafts), f"Next: {revising.name}, as a person asks."
    evidence = {key for draft in summary.open for critique in draft.critiques for key in critique.get("evidence", {})}
    left = [arm for arm in arms if in_vain.get(arm.name, 0) < arm.tries and (not arm.needs or arm.needs in evidence)]
    if not left:
        return None
    arm = left[0]
    spent = ", ".join(f"{name} ({count} in vain)" for name, count in in_vain.items())
    why = "it brought the last gain" if arm.name == gained else f"after {spent}" if spent else "the first way to try"
    return Choice(arm=arm.name, drafts=arm.drafts), f"Next: {arm.name}, {why}."


def tried_in_vain(events: Sequence[Event]) -> str:
    """Return the tries of each arm, `mend (1), sample (2)`, where none is left; else an empty text."""
    summary = summary_of(events)
    if not _arms(summary) or _choice(events, summary):
        return ""
    return ", ".join(f"{name} ({count})" for name, count in _tried(events, summary)[0].items())


def _arms(summary: RunSummary) -> list[Arm]:
    """Return the arms that the run may choose from, in order; none where it is not adaptive, or before a draft."""
    return [Arm(*arm) for arm in summary.options.get("arms", ())] if summary.attempts else []


def latest_choice(events: Sequence[Event]) -> Choice | None:
    """Return the choice that is still to be written, or `None`; an error in between does not undo it."""
    for event in reversed(current_run(events)):
        if event["kind"] in DRAFT_KINDS:
            return None
        chosen: Choice | None = event.get("choice")
        if chosen:
            return chosen
    return None


def _tried(events: Sequence[Event], summary: RunSummary) -> tuple[Mapping[str, int], str | None]:
    """Count the tries of each arm in vain since the last gain; return them with the arm that brought that gain."""
    ranks = {draft.round: draft.rank for draft in summary.attempts}
    best: tuple[int, float] | None = None
    in_vain: dict[str, int] = {}
    gained: str | None = None
    base = summary.attempts[summary.base].round if summary.attempts else 0
    for arm, written in _steps(events[summary.start :]):
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
