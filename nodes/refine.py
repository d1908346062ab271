"""Node `refine`: write the next revision. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..state.events import failure, record
from ..state.stopping import spent_budget
from ..state.summary import attempts, condensed, rejected_since_draft, rounds
from .generate import writer_update
from .runtime.meter import spent_in
from .runtime.step import Step, Steps, call, emit
from .writing.prompts import Keep, attempt_at_hand
from .writing.replies import read_text, rejection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.runnables import RunnableConfig

    from .runtime.meter import Prices
    from .writing.writers import Writer

__all__ = ["REFINE_PROMPT", "refine"]


def refine(writer: Writer, *, keep: Keep = "best", prices: Prices | None = None) -> Step:
    """Return the node that revises the draft.

    A revision that is empty, refused, a repeat, or talk about the task is logged as rejected; it counts as a round and
    is no draft. An error is logged and ends the run in `check`, with the best draft so far. Once a budget is spent, as
    new limits may have it, nothing is asked and nothing written: `check` says which budget.

    Args:
        writer: Takes the state and returns the revision. One with a method `ways` of the state, which names its ways to
            write, the one it takes now first, ends the run by a repeat only after each of them has repeated.
        keep: Whether the best or the latest draft is revised.
        prices: Prices of the models that it calls.

    Reads: task, events, limits. Writes: events.
    """

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        events = state["events"]
        if spent_budget(events, state["limits"]):
            return {}
        number = rounds(events) + 1
        emit(kind="start", node="refine", round=number)
        outcome = yield from call(writer, state, config=config, prices=prices, state=state)
        error, text = outcome.error, ""
        if error is None:
            try:
                text = read_text(outcome.result)
            except TypeError as unreadable:
                error = unreadable
        base = attempt_at_hand(events, keep)
        by = outcome.model or "refine"
        if error is not None:
            update = record(state, failure("refine", number, error, usage=outcome.usage, **spent_in(error)))
            emit(**update["events"][0])
            return update
        # By their hashes, computed once a draft, so that only those alike are compared whole.
        key = condensed(text)
        alike = [attempt.text for attempt in attempts(events) if attempt.condensed == key]
        feedback, known = (base.feedback, [base.text, state["task"]]) if base else ("", [])
        reason = rejection(text, earlier=alike, result=outcome.result, critique=feedback, known=known)
        event = {
            "kind": "revision",
            "round": number,
            "by": by,
            "text": text,
            "usage": outcome.usage,
            "base": base.round if base else 0,
            "rejected": reason,
        }
        if reason and (ways := getattr(writer, "ways", None)):
            event["way"], *others = ways(state)
            repeated = {one.get("way") for one in rejected_since_draft(events) if one["rejected"] == "repeat"}
            if reason == "repeat" and {*others} - repeated:
                event["another_way"] = True
        return writer_update(state, writer, outcome.result, event)

    return Step("refine", logic)


REFINE_PROMPT = """\
Task:
{task}

Earlier attempts, for what not to repeat:
{history}

Current draft:
{draft}

Feedback on the current draft:
{feedback}

Rewrite the current draft so that every point of the feedback is met. Reply with the new draft only: no preface, no \
comment on the changes."""
