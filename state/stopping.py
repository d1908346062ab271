"""The stop logic: a pure function of the record and the limits. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from .choices import arms_of, choose
from .limits import Limits, limits_in_force
from .summary import (
    accepted_by,
    attempts,
    best_draft,
    current_run,
    open_drafts,
    rounds,
    run_options,
    summary_of,
    usage_total,
)
from .usage import add_usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .events import Event
    from .usage import Usage

__all__ = [
    "BUDGETS",
    "REFUSED_OUTSIDE",
    "STOP_REASONS",
    "StopReason",
    "check_record",
    "could_not_be_judged",
    "decide",
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
    """Return why the run stops now, or `None` when another round is due.

    Args:
        events: The record so far, without the verdict that this decides.
        limits: The limits in force.
        out_of_steps: The caller's `recursion_limit` leaves no room for another round; counts as `max_rounds`.
    """
    fresh = since_verdict(events)
    # A call that was refused for a budget is no failure; the budget is named below.
    if any(event["kind"] == "failure" and not event.get("budget") for event in fresh):
        return "failed"
    # Before the budgets: a draft that is accepted with the last token is accepted.
    if any(draft.accepted for draft in open_drafts(events)):
        return "accepted"
    if any(event.get("stop") for event in fresh):
        return "human"
    if budget := spent_budget(events, limits) or refused_budget(fresh):
        return budget
    adaptive = bool(arms_of(events))
    # An adaptive run has other ways to try; it ends when none is left.
    repeated = not adaptive and any(event.get("rejected") == "repeat" for event in fresh)
    stuck = (
        (adaptive and choose(events) is None)
        or repeated
        or could_not_be_judged(events)
        or _patience_lost(events, limits.get("patience"))
    )
    spent = out_of_steps or rounds(events) >= rounds_allowed(limits)
    # After the limits, so that a run with room left goes on while a revision could still be decided on.
    drafts = open_drafts(events)
    if drafts and all(draft.undecided for draft in drafts):
        if stuck or spent or not any(draft.decidable_later for draft in drafts):
            return "undecided"
        return None
    return "no_progress" if stuck else "max_rounds" if spent else None


def check_record(events: Sequence[Event]) -> None:
    """Return if a record of well-typed events can be summed up and decided on: what reads a thread does that.

    Raises:
        ValueError: It begins with something else than a task.
        Exception: It can't; any, since some fields of events hold plain data of any form.
    """
    if events and events[0]["kind"] != "task":
        raise ValueError(f"a record begins with a task, and not with a {events[0]['kind']}")
    decide(events, limits_in_force(events) or Limits())
    # It ends at the first reason; the others are asked for in a later run.
    if arms_of(events):
        choose(events)
    _patience_lost(events, 1)
    could_not_be_judged(events)
    accepted_by(best_draft(events, keep=run_options(events).get("keep", "best")))
    for draft in attempts(events):
        draft.feedback, draft.answers, draft.condensed, draft.decidable_later  # noqa: B018  (computed now)


def could_not_be_judged(events: Sequence[Event]) -> bool:
    """Return whether somebody is asked about each draft, and nobody could tell anything about the newest ones.

    There is nothing then by which it could be revised.
    """
    drafts = open_drafts(events)
    return bool(run_options(events).get("asks") and drafts) and not any(draft.judged for draft in drafts)


def refused_budget(events: Sequence[Event]) -> StopReason | None:
    """Return the budget for which a call was refused: of a server, or of a run outside where this is a node of it."""
    budgets = [event["budget"] for event in events if event["kind"] == "failure" and event.get("budget")]
    return cast("StopReason", budgets[-1]) if budgets else None


def rounds_allowed(limits: Mapping[str, Any]) -> int:
    """Return how often the draft may be revised, also where someone wrote only some limits into the state."""
    return int(limits["max_rounds"] if "max_rounds" in limits else Limits()["max_rounds"])


def spent_budget(
    events: Sequence[Event], limits: Mapping[str, Any], *, besides: Usage | None = None
) -> StopReason | None:
    """Return the budget that is used up, or `None`: asked before every model call.

    A budget whose use is not known counts as used up: tokens that no provider reported, a price that no table has.

    Args:
        events: The record so far.
        limits: The limits in force.
        besides: What was spent since, and is not in the record yet.
    """
    usage = usage_total(events)
    if besides is not None:
        usage = add_usage([usage, besides])
    tokens = limits.get("max_tokens")
    if tokens is not None and (usage["total_tokens"] >= tokens or usage.get("uncounted_calls")):
        return "token_budget"
    if (dollars := limits.get("max_cost_usd")) is not None:
        cost = usage["cost_usd"]
        if cost is None or cost >= dollars:
            return "cost_budget"
    if (seconds := limits.get("max_seconds")) is not None and usage["seconds"] >= seconds:
        return "time_budget"
    return None


def nearly_spent(
    events: Sequence[Event], limits: Mapping[str, Any], *, besides: Usage | None = None
) -> list[StopReason]:
    """Return the budgets of which 80% are used up, while none is spent and nobody was warned of them in this run."""
    bounds = {name: WARN_AT * limits[name] for name in BUDGETS if limits.get(name) is not None}
    if not bounds or spent_budget(events, limits, besides=besides):
        return []
    found = [spent_budget(events, {name: bound}, besides=besides) for name, bound in bounds.items()]
    known = {one for event in current_run(events) for one in event.get("warned", ())} if any(found) else set()
    return [budget for budget in found if budget and budget not in known]


def warning(budget: StopReason, number: int) -> dict[str, Any]:
    """Return the progress item that says so."""
    text = f"{WARN_AT:.0%} of the {budget.replace('_', ' ')} is used up."
    return {"kind": "warning", "by": "check", "round": number, "budget": budget, "text": text}


BUDGETS = ("max_tokens", "max_cost_usd", "max_seconds")
WARN_AT = 0.8


def since_verdict(events: Sequence[Event]) -> Sequence[Event]:
    """Return what happened in the current task after its last verdict."""
    return events[summary_of(events).verdict :]


def _patience_lost(events: Sequence[Event], patience: int | None) -> bool:
    if patience is None:
        return False
    scored = {attempt.round: attempt.score for attempt in attempts(events)}
    first = scored.get(0)
    # Less than any score, so that the first one is a gain.
    best = -1.0 if first is None else first
    without_gain = 0
    for number in range(1, rounds(events) + 1):
        # A rejected revision has none, and counts as a round without a gain.
        score = scored.get(number)
        if score is not None and score > best:
            best, without_gain = score, 0
        else:
            without_gain += 1
    return without_gain >= patience


def is_checked(state: Mapping[str, Any]) -> bool:
    """Return whether the last event of a state is a verdict that still holds: neither reopened, nor of other limits."""
    events = state.get("events")
    if not events or events[-1]["kind"] != "verdict" or events[-1]["stop_reason"] != state.get("stop_reason"):
        return False
    in_force: bool = limits_in_force(events) == state["limits"]
    return in_force
