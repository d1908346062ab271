"""A critic that begins beside the writer of the first draft, with what it asks without reading that. Internal.

A program that is to confirm a solution is written from the problem alone, so neither need wait for the other. The
critic is given it in `feedback`, where it would ask for it otherwise, and counts what it cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langgraph.errors import GraphBubbleUp

from ..state.dual import Do, adrive, at_once, drive
from ..state.stopping import BUDGETS, rounds_allowed
from ..state.usage import NO_USAGE, add_usage
from .critics.critics import in_order
from .runtime.step import Outcome, Step, Steps, call, recorded
from .writing.replies import read_text

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig

    from .critics.critics import NamedCritic
    from .runtime.meter import Prices

__all__ = ["beginning_ahead"]


def beginning_ahead(writing: Step, critics: Sequence[NamedCritic], *, judge_last: bool, prices: Prices) -> Step:
    """Return the node that writes the first draft, where the critic who is asked first begins beside it.

    It does so in async runs without a budget, where it is asked in any case: no call is made that would not be made
    later. `writing` is returned as it is where the first critic has nothing to ask ahead.

    Args:
        writing: Writes the draft.
        critics: Those of `feedback`; one that can begin has `ahead(task)`, a callable that can be awaited.
        judge_last: As of `feedback`.
        prices: Prices of the models that it calls.
    """
    if not any(hasattr(one.call, "ahead") for one in critics):
        return writing
    critic = in_order(critics)[0]
    if not hasattr(critic.call, "ahead"):
        return writing

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        limits = state["limits"]
        judged = judge_last or rounds_allowed(limits) > 0
        if not judged or state.get("draft") or state.get("raised") or state.get("requirements") or any(
            limits.get(name) is not None for name in BUDGETS
        ):  # fmt: skip
            return (yield from writing.logic(state, config))
        about: dict[str, Any] = {"config": config, "prices": prices, "critic": critic.name, "round": 0}
        begun = call(critic.call.ahead, state["task"], **about)
        written, ahead = yield at_once(
            [Do(drive, adrive, (_drafted(writing, state, config),)), Do(_not_now, adrive, (begun,))], most_threads=1
        )
        update, error = written
        if error is not None:
            if ahead is not None:
                error.redraft_usage = add_usage([getattr(error, "redraft_usage", NO_USAGE), ahead.usage])
            raise error
        return update if ahead is None else _with_ahead(state, update, critic.name, ahead)

    return Step(writing.name, logic)


def _drafted(
    writing: Step, state: Mapping[str, Any], config: RunnableConfig
) -> Generator[Do, Any, tuple[dict[str, Any], Exception | None]]:
    try:
        return (yield from writing.logic(state, config)), None
    except GraphBubbleUp:
        raise
    except Exception as error:  # once the other has ended, too
        return {}, error


def _not_now(begun: object) -> None:
    """Leave it for `feedback`: in a sync run nothing is made side by side."""


def _with_ahead(state: Mapping[str, Any], update: dict[str, Any], name: str, ahead: Outcome) -> dict[str, Any]:
    """Return the update with what a critic has begun; where there is no draft to judge, with a note of what it cost."""
    if not ahead.usage["calls"]:
        return update
    reply = "" if ahead.error else read_text(ahead.result)
    events = update.get("events", [])
    if reply and any(event["kind"] == "draft" and not event.get("rejected") for event in events):
        begun = {"critic": name, "reply": reply, "usage": ahead.usage, "model": ahead.model}
        return {**update, "asked_ahead": begun}
    note = {"kind": "thought", "round": 0, "by": name, "text": reply, **ahead.fields}
    noted = recorded({**state, **update}, note)
    return {**update, **noted, "events": [*events, *noted["events"]]}
