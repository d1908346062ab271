"""The stop logic: a pure function of the record and the limits. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from .choices import arms_of, choose
from .limits import Limits
from .summary import current_run, summary_of
from .usage import add_usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .events import Event
    from .summary import Attempt, RunSummary
    from .usage import Usage

__all__ = [
    "BUDGETS",
    "REFUSED_OUTSIDE",
    "STOP_REASONS",
    "StopReason",
    "could_not_be_judged",
    "decide",
    "error_of",
    "is_checked",
    "nearly_spent",
    "refused_budget",
    "rounds_allowed",
    "since_verdict",
    "spent_budget",
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
    # An adaptive run has other ways to try; it ends when none is left.
    repeats = any(event.get("rejected") == "repeat" for event in fresh)
    no_way_on = choose(events) is None if arms_of(events) else repeats
    stuck = no_way_on or _unjudged(summary) or _patience_lost(summary, limits.get("patience"))
    spent = out_of_steps or summary.rounds >= rounds_allowed(limits)
    if _untold(drafts):
        return "undecided"
    # After the limits, so that a run with room left goes on while a revision could still be decided on.
    if drafts and all(draft.undecided for draft in drafts):
        may_go_on = not stuck and not spent and any(draft.decidable_later for draft in drafts)
        return None if may_go_on else "undecided"
    return "no_progress" if stuck else "max_rounds" if spent else None


def _untold(drafts: Sequence[Attempt]) -> bool:
    """Tell if nothing is left to mend in a draft, and nobody here can tell if what a person asked for is met."""
    spoken = any(critique["kind"] == "human" for draft in drafts for critique in draft.critiques)
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


def could_not_be_judged(events: Sequence[Event]) -> bool:
    """Tell if the critics who are asked about each draft had nothing to say about the newest ones.

    There is nothing then by which they could be revised.
    """
    return _unjudged(summary_of(events))


def _unjudged(summary: RunSummary) -> bool:
    drafts = summary.open
    return bool(summary.options.get("asks") and drafts) and not any(draft.judged for draft in drafts)


def error_of(events: Sequence[Event], reason: str | None, news: Sequence[Event] = ()) -> str | None:
    """Return who raised the error that ended a run as `failed`, its type and message; `None` for any other reason.

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
