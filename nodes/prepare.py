"""The first step of every run: a clean slate for the task that was given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..state.events import clean, record
from ..state.limits import Limits
from ..state.usage import NO_USAGE
from .step import Step, Steps, ask
from .updates import extra_update

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from .meter import Prices

__all__ = ["prepare"]


def prepare(
    then: Any = None,
    *,
    limits: Mapping[str, Any] | None = None,
    options: Mapping[str, Any],
    prices: Prices | None = None,
) -> Step:
    """Return the node that validates what was given, clears what belongs to an earlier run and opens the record.

    Args:
        then: A Runnable or callable run after that, on the fresh state; its update is added (retrieval stands here).
        limits: Used where neither the caller nor the thread has any.
        options: What of the graph's options the record must hold for its folds.
        prices: Prices of the models that `then` may call.

    Reads: task, limits. Writes: everything.

    Raises:
        ValueError: At run: the task is empty, or a limit makes no sense.
    """
    defaults = Limits(**(limits or {}))

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        task = state.get("task")
        if not isinstance(task, str) or not task.strip():
            raise ValueError(f"task must be a text that asks for something, not {task!r}")
        task = clean(task)
        given = state.get("limits")
        if given is not None and not isinstance(given, Mapping):
            raise ValueError(f"limits must be Limits or a dict of limits, not {given!r}")
        valid = dict(Limits(**given) if given else defaults)
        update: dict[str, Any] = {
            "task": task,
            "limits": valid,
            "answer": "",
            "stop_reason": None,
            "rounds": 0,
            "score": None,
            "accepted_by": None,
            "oracle": False,
            "usage": NO_USAGE.copy(),
        }
        opening = record(
            state,
            {"kind": "task", "round": 0, "by": "caller", "text": task, "limits": valid, "options": dict(options)},
        )
        update.update(opening)
        if then is not None:
            fresh = {**state, **update, "events": [*state.get("events", []), *opening["events"]]}
            outcome = yield from ask(then, fresh, config=config, prices=prices)
            if outcome.error is not None:
                raise outcome.error
            added = extra_update(fresh, outcome.result, by="prepare")
            update.update(added, events=[*opening["events"], *added.get("events", [])])
        return update

    return Step("prepare", logic)
