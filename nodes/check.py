"""Node `check`: keep the best draft, and stop or go on. Pure: it calls no model. Internal."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from langchain_core.messages import AIMessage

from ..state.events import Event, failure
from ..state.open_state import answer_id
from ..state.stopping import (
    STOP_REASONS,
    StopReason,
    choose,
    could_not_be_judged,
    decide,
    error_of,
    nearly_spent,
    refused_budget,
    since_verdict,
    spent_budget,
    tried_in_vain,
    warning,
)
from ..state.summary import Attempt, RunSummary, accepted_by, summary_of
from ..state.typed_answer import ANSWER_SCHEMA, fitting
from .runtime.step import Step, Steps, call, emit, extra_update, recorded

if TYPE_CHECKING:
    from collections.abc import Generator

    from langchain_core.runnables import RunnableConfig

    from ..state.dual import Do
    from .writing.prompts import Keep

__all__ = ["EXPLANATIONS", "check", "outcome_values"]

LOG = logging.getLogger("redraft")

EXPLANATIONS: Mapping[StopReason | None, str] = {
    "failed": "An error ended the run; the answer is the best draft so far.",
    "accepted": "The draft was accepted.",
    "human": "A person ended the run.",
    "token_budget": "The token budget is spent.",
    "cost_budget": "The cost budget is spent, or a model's price is not known.",
    "time_budget": "The time budget is spent.",
    "call_budget": "The server's ceiling of model calls a run is reached.",
    "quota": "The caller's quota for today is used up.",
    "undecided": "The calibrated judge may not accept the draft, and nobody else decided.",
    "no_progress": "The last revisions brought nothing better.",
    "max_rounds": "No rounds are left.",
    None: "Not accepted yet; another round.",
}


UNTOLD = (
    "All else is right, and nobody here can tell whether the draft meets what is asked for: {open}. A verifier of its "
    "own (fork with verifiers, --verify), a model that judges, or a person decides it; or withdraw it."
)
NOTHING_TO_TRY = "Nothing is worth a try after what was said about the draft, so the best one stands."
NO_OPINION = "No critic could tell anything about the draft, so it stands as it is."


def check(
    custom: Any = None,
    *,
    finish: Any = None,
    keep: Keep = "best",
    steps_a_round: int = 3,
    explained: Mapping[StopReason | None, str] = EXPLANATIONS,
) -> Step:
    """Return the node that reads the critiques and sets `stop_reason`, or leaves it empty.

    Args:
        custom: A Runnable or callable that takes the state and returns a stop reason or `None`, in place of the stop
            logic. Whatever it says, a failure, a spent budget and an exhausted recursion limit end the run, and if it
            raises, that is logged and the run ends as `failed`, with the best draft so far.
        finish: Asked on the state with its `answer` when the run ends with one, unless as `failed`; returns a state
            update. It decides nothing; if it raises, the run ends as `failed`, as where `custom` does.
        keep: Whether the answer is the best or the latest draft.
        steps_a_round: How many nodes another round takes: refine, feedback and check, and `human` where there is one.
        explained: Texts of the verdict by stop reason, where they are not the usual ones.

    Reads: events, limits, remaining_steps. Writes: events, and of all that comes back what changed.

    Raises:
        ValueError: At run: `custom` returns something that is not a stop reason.
    """

    explained = {**EXPLANATIONS, **explained, **getattr(custom, "explained", {})}

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        # This step counts as remaining; a round needs that many more after it.
        out_of_steps = state.get("remaining_steps", steps_a_round + 1) <= steps_a_round
        reason = decide(state["events"], state["limits"], out_of_steps=out_of_steps)
        extra: dict[str, Any] = {}
        news: list[dict[str, Any]] = []
        summary = summary_of(state["events"])
        # The verdict is about the accepted draft of this step's, else about the newest.
        agreed = (draft for draft in summary.open if draft.agreed)
        latest = next(agreed, None) or next(reversed(summary.attempts), None)
        if custom is not None and reason != "failed":
            outcome = yield from call(custom, state, config=config, prices=None)
            if outcome.error is not None:
                reason = "failed"
                news.append(failure("check", latest.round if latest else 0, outcome.error))
            else:
                reason = _bounded(_reason(outcome.result), state, out_of_steps=out_of_steps)
                extra = extra_update(state, outcome.result, by="check")
        # The record's own word goes before the graph's, as it does in a replay.
        best = summary.kept(summary.options.get("keep", keep))
        if reason == "accepted" and best is not None and best.unmet:  # a check of somebody's own
            reason = "undecided"
        added = extra.pop("events", [])
        if finish is not None:
            reason, update, failed = yield from _finished(finish, reason, best, {**state, **extra}, config)
            news += failed
            added = [*added, *update.pop("events", [])]
            extra |= update
        verdict = _verdict(state, summary, reason, latest, best, out_of_steps=out_of_steps)
        if not verdict["text"]:
            verdict["text"] = _explain(reason, explained, out_of_steps=out_of_steps)
        for budget in verdict.get("warned", ()):
            emit(**warning(budget, verdict["round"]))
        sealed = recorded({**state, **extra}, *news, verdict)
        values = outcome_values(state["events"], reason, best, sealed["events"])
        if values["error"] is not None:
            LOG.error("a run ended as failed: %s", values["error"])
        # What stays as it was is not written again: a saver would keep a row of it each round.
        changed = {key: value for key, value in values.items() if key not in state or state[key] != value}
        return {**extra, "events": [*added, *sealed["events"]], "head": sealed["head"], **changed}

    return Step("check", logic)


def _finished(
    finish: Any,
    reason: StopReason | None,
    answer: Attempt | None,
    state: Mapping[str, Any],
    config: RunnableConfig,
) -> Generator[Do, Any, tuple[StopReason | None, dict[str, Any], list[dict[str, Any]]]]:
    """Ask who finishes a run that ends with an answer; return the stop reason, the state update, and what failed."""
    if answer is None or reason in (None, "failed"):
        return reason, {}, []
    outcome = yield from call(finish, {**state, "answer": answer.text}, config=config, prices=None)
    if outcome.error is None:
        return reason, extra_update(state, outcome.result, by="finish"), []
    return "failed", {}, [failure("check", answer.round, outcome.error)]


def _bounded(own: StopReason | None, state: Mapping[str, Any], *, out_of_steps: bool) -> StopReason | None:
    """Return a custom check's reason, or the budget or recursion limit that ends the run where it has none."""
    refused = refused_budget(since_verdict(state["events"]))
    if refused and own in (None, "max_rounds"):  # of several samples, some were made
        return refused
    return own or spent_budget(state["events"], state["limits"]) or ("max_rounds" if out_of_steps else None)


def _verdict(
    state: Mapping[str, Any],
    summary: RunSummary,
    reason: StopReason | None,
    latest: Attempt | None,
    best: Attempt | None,
    *,
    out_of_steps: bool,
) -> dict[str, Any]:
    """Return the event of a verdict; its text is empty where the stop reason alone explains it."""
    events, limits = state["events"], state["limits"]
    verdict: dict[str, Any] = {
        "kind": "verdict",
        "round": latest.round if latest else 0,
        "by": "check",
        "text": _why_stuck(events, summary) if reason == "no_progress" else "",
        "accepted": latest.accepted if latest else False,
        "score": latest.score if latest else None,
        "best": best.round if best else None,
        "stop_reason": reason,
    }
    if reason == "undecided" and latest and latest.agreed and latest.unmet:
        verdict["text"] = UNTOLD.format(open=", ".join(f"“{text}”" for text in latest.unmet))
    if reason is None and (choice := choose(events)):
        verdict["choice"], verdict["text"] = choice
    if out_of_steps:
        verdict["out_of_steps"] = True
    if near := nearly_spent(events, limits, another_round=reason is None):
        verdict["warned"] = near
    if summary.oracle:
        verdict["oracle"] = True
    # A replay reads the limits off the record, so it must hold those that changed on the way.
    if limits != summary.limits:
        verdict["limits"] = dict(limits)
    return verdict


def _why_stuck(events: Sequence[Event], summary: RunSummary) -> str:
    """Return the cause of a run that ended without progress; empty where the stop reason says all."""
    if could_not_be_judged(summary):
        return NO_OPINION
    tried = tried_in_vain(events)
    if not tried and not summary.rounds:
        return NOTHING_TO_TRY
    return f"No way to go on is left: {tried} brought nothing better." if tried else ""


def outcome_values(
    events: Sequence[Event], reason: StopReason | None, best: Attempt | None, news: Sequence[Event] = ()
) -> dict[str, Any]:
    """Return the output of a run: the values of the best draft, what the run cost, and the error that ended it.

    Args:
        events: The record.
        reason: Why it ends.
        best: The answer.
        news: Events that are not in the record yet.
    """
    summary = summary_of(events)
    values: dict[str, Any] = {
        "stop_reason": reason,
        "answer": (best.text if best else summary.said) if reason else "",
        "rounds": summary.rounds,
        "score": best.score if best else None,
        "accepted_by": accepted_by(best),
        "oracle": summary.oracle,
        "requirements": summary.requirements,
        "usage": {**summary.usage},
        "error": error_of(events, reason, news),
    }
    if ANSWER_SCHEMA in summary.options:
        values["structured_response"] = fitting(summary) if reason else None
    if values["answer"] and (name := answer_id(events)):
        values["messages"] = [AIMessage(values["answer"], id=name)]
    return values


def _reason(result: Any) -> StopReason | None:
    value = result.get("stop_reason") if isinstance(result, Mapping) else result
    if value is not None and value not in get_args(StopReason):
        raise ValueError(f"check returned {value!r}; a stop reason is None or one of {', '.join(STOP_REASONS)}")
    return value


def _explain(reason: StopReason | None, explained: Mapping[StopReason | None, str], *, out_of_steps: bool) -> str:
    if out_of_steps and reason == "max_rounds":
        return "The recursion_limit of the call leaves no room for another round; raise it in the config."
    return explained[reason]
