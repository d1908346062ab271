"""Explore one path: a draft, or a revision of one, with what the critics say about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from ...state.usage import NO_USAGE, add_usage
from ..meter import Meter
from ..step import Call, Step, Steps, emit
from .path_run import SAVER, saver_of
from .paths import explored, own_usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.runnables import RunnableConfig

    from ..prompts import Keep
    from .ledger import Ledgers
    from .path_run import PathRun

__all__ = ["StopWhen", "branch"]

StopWhen = Literal["accepted", "exhausted"]


def branch(runs: Sequence[PathRun], ledgers: Ledgers, *, keep: Keep, stop_when: StopWhen) -> Step:
    """Return the node that explores the plan it is sent.

    A path that has not begun stays out once a budget of the search is spent, or, with `stop_when="accepted"`, another
    path was accepted. An error before a first draft is raised, and the search resumes from there; a later one ends this
    path as `failed`.

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
            states = yield Call(_Siblings(runs, saver_of(config)), (plan["siblings"],), config, Meter(None))
            spent = add_usage(
                [plan["spent"], *(own_usage(one, values["events"]) for one, values in states if values.get("events"))]
            )
            ledger = ledgers.begin(search, level, spent, plan["limits"])
            ledger.begun |= {one["name"] for one, values in states if values}
            ledger.accepted |= any(values.get("stop_reason") == "accepted" for _, values in states)
        accepting = stop_when == "exhausted"
        snapshot = yield Call(runs[plan["variation"]], ((plan, ledger, accepting),), config, ledger)
        if isinstance(snapshot, str):
            emit(kind="skipped", node="branch", branch=plan["name"], round=level, text=snapshot)
            return {"paths": [{**_plan(plan), "search": search, "skipped": snapshot, "usage": NO_USAGE.copy()}]}
        place = snapshot.config["configurable"]["checkpoint_id"]
        path = explored(_plan(plan), snapshot.values, search=search, checkpoint_id=place, keep=keep)
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

    def __init__(self, runs: Sequence[PathRun], saver: Any) -> None:
        self._runs = runs
        self._saver = saver

    def __call__(self, plans: Sequence[Mapping[str, Any]]) -> list[tuple[Any, Mapping[str, Any]]]:
        if self._saver is None:
            return []
        return [(plan, self._graph(plan).get_state(self._config(plan)).values) for plan in plans]

    async def acall(self, plans: Sequence[Mapping[str, Any]]) -> list[tuple[Any, Mapping[str, Any]]]:
        if self._saver is None:
            return []
        return [(plan, (await self._graph(plan).aget_state(self._config(plan))).values) for plan in plans]

    def _graph(self, plan: Mapping[str, Any]) -> Any:
        return self._runs[plan["variation"]].graph

    def _config(self, plan: Mapping[str, Any]) -> Any:
        return {"configurable": {"thread_id": plan["thread_id"], SAVER: self._saver}}
