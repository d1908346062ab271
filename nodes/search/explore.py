"""The nodes `prepare` and `branch` of a search: plan its first drafts, and explore one path each. Internal."""

from __future__ import annotations

import uuid
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

from ...state.events import failure
from ...state.usage import NO_USAGE, add_usage
from ..prepare import prepare
from ..runtime.journal import SAVER, saver_of
from ..runtime.meter import Meter
from ..runtime.step import Call, Step, Steps, emit
from .path_run import LostDraft
from .path_threads import OwnThread
from .paths import drafts, explored, lost, own_usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig

    from ..writing.prompts import Keep
    from .path_run import PathRun
    from .shared_budget import Ledgers

__all__ = ["StopWhen", "branch", "prepare_search"]


def prepare_search(
    ledgers: Ledgers, *, limits: Mapping[str, Any], keep: Keep, branching_factor: int, variations: int
) -> Step:
    """Return the node that opens the record of a search and plans its drafts.

    Args:
        ledgers: What siblings share.
        limits: In force where the thread has none yet.
        keep: Noted in the record.
        branching_factor: How many drafts there are.
        variations: How many variations are taken in turn.

    Reads: task, limits. Writes: everything.

    Raises:
        ValueError: At run: the task is empty, or a limit makes no sense.
    """
    # The reason to stop is not one that the record of a single path shows.
    begin = prepare(limits=limits, options={"keep": keep, "judge_last": True, "custom_check": True})

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        update = yield from begin.logic(state, config)
        base = yield Call(_FreeName(config, branching_factor), (), config, Meter(None))
        search = uuid.uuid4().hex
        ledgers.begin(search, 0, NO_USAGE, update["limits"])
        return {
            **update,
            "search": search,
            "base": base,
            "root": str(config["configurable"]["thread_id"]) if base else None,
            "plans": drafts(base, branching_factor, variations),
            "going": [],
            "compared": [],
            "judging": NO_USAGE.copy(),
            "branches": [],
        }

    return Step("prepare", logic)


class _FreeName:
    """Returns what the thread ids of a search begin with: that of its own thread, and a number from its second task on.

    A name is free where none of the drafts' threads exists. A search inside another graph has its node's name and a
    part of the task's id behind, since several may run at once.
    """

    def __init__(self, config: RunnableConfig, drafts: int) -> None:
        known = config.get("configurable", {})
        outside = str(known.get("checkpoint_ns") or "").split("|")[:-1]
        node, _, task = outside[-1].partition(":") if outside else ("", "", "")
        self._base = f"{known.get('thread_id')}/{node}-{task[:8]}" if node else str(known.get("thread_id"))
        self._saver = saver_of(config)
        self._drafts = drafts

    def __call__(self) -> str:
        for name in self._names():
            if self._saver is None or not any(self._saver.get_tuple(one) for one in self._threads(name)):
                return name
        raise AssertionError("unreachable: names don't end")

    async def acall(self) -> str:
        for name in self._names():
            if self._saver is None or not [one for one in self._threads(name) if await self._saver.aget_tuple(one)]:
                return name
        raise AssertionError("unreachable: names don't end")

    def _names(self) -> Iterator[str]:
        if self._saver is None:
            return iter([""])
        return (self._base if number == 1 else f"{self._base}/{number}" for number in count(1))

    def _threads(self, name: str) -> Iterator[Any]:
        for number in range(1, self._drafts + 1):
            yield {"configurable": {"thread_id": f"{name}/b0.{number}", "checkpoint_ns": "", SAVER: self._saver}}


StopWhen = Literal["accepted", "exhausted"]


def branch(runs: Sequence[PathRun], ledgers: Ledgers, *, keep: Keep, stop_when: StopWhen) -> Step:
    """Return the node that explores the plan it is sent.

    A path that has not begun stays out once a budget of the search is spent, or, with `stop_when="accepted"`, another
    path was accepted. An error ends this path as `failed`.

    Args:
        runs: One a variation.
        ledgers: What siblings share.
        keep: Whether the best or the last draft of a path counts.
        stop_when: As in `build_branching_graph`.

    Reads: what `Send` gives it: a plan with `task`, `limits`, `spent`, `siblings`, `search`, `root` and the parent's
    `values`. Writes: paths.
    """

    def logic(plan: Mapping[str, Any], config: RunnableConfig) -> Steps:
        search, level = plan["search"], plan["level"]
        ledger = ledgers.find(search, level)
        if ledger is None:  # after a crash: what siblings did and paid for before is in their threads
            states = yield Call(_Siblings(runs, saver_of(config), search), (plan["siblings"],), config, Meter(None))
            spent = add_usage(
                [plan["spent"], *(own_usage(one, values["events"]) for one, values in states if values.get("events"))]
            )
            ledger = ledgers.begin(search, level, spent, plan["limits"])
            ledger.begun |= {one["name"] for one, values in states if values}
            ledger.accepted |= any(values.get("stop_reason") == "accepted" for _, values in states)
        accepting = stop_when == "exhausted"
        outcome = yield Call(runs[plan["variation"]], ((plan, ledger, accepting),), config, ledger)
        if isinstance(outcome, str):
            emit(kind="skipped", node="branch", branch=plan["name"], round=level, text=outcome)
            return {"paths": [{**_plan(plan), "search": search, "skipped": outcome, "usage": NO_USAGE.copy()}]}
        if isinstance(outcome, LostDraft):
            ledger.error = outcome.error
            told = failure("branch", level, outcome.error, branch=plan["name"], usage=outcome.usage)
            emit(**told)
            begun = {**_plan(plan), "thread_id": outcome.thread_id}
            return {"paths": [lost(begun, told, search=search)]}
        place = outcome.config["configurable"]
        begun = {**_plan(plan), "thread_id": place["thread_id"] if plan["thread_id"] else None}
        path = explored(begun, outcome.values, search=search, checkpoint_id=place["checkpoint_id"], keep=keep)
        if path["best"] < 0 and (budget := ledger.spent_budget()):  # its first call was refused while others ran
            path["stop_reason"] = budget
        return {"paths": [path]}

    return Step("branch", logic)


def _plan(sent: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan without what is sent with it."""
    return {key: value for key, value in sent.items() if key not in SENT}


SENT = ("task", "limits", "spent", "siblings", "search", "root", "values")
"""What every plan of a level is sent with."""


class _Siblings:
    """Reads where the threads of a level stand; those that have not begun, or are not kept, have no values."""

    def __init__(self, runs: Sequence[PathRun], saver: Any, search: str) -> None:
        self._runs = runs
        self._saver = saver
        self._own = OwnThread(saver, search)

    def __call__(self, plans: Sequence[Mapping[str, Any]]) -> list[tuple[Any, Mapping[str, Any]]]:
        if self._saver is None:
            return []
        return [(plan, self._graph(plan).get_state(self._config(self._own(plan))).values) for plan in plans]

    async def acall(self, plans: Sequence[Mapping[str, Any]]) -> list[tuple[Any, Mapping[str, Any]]]:
        if self._saver is None:
            return []
        names = [await self._own.acall(plan) for plan in plans]
        states = [
            await self._graph(plan).aget_state(self._config(name)) for plan, name in zip(plans, names, strict=True)
        ]
        return [(plan, state.values) for plan, state in zip(plans, states, strict=True)]

    def _graph(self, plan: Mapping[str, Any]) -> Any:
        return self._runs[plan["variation"]].graph

    def _config(self, thread_id: str | None) -> Any:
        return {"configurable": {"thread_id": thread_id, SAVER: self._saver}}
