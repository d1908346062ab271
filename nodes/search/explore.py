"""The nodes `prepare` and `branch` of a search: plan its first drafts, and explore one path each. Internal."""

from __future__ import annotations

import json
import uuid
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

from ...state.dual import Do, do
from ...state.events import failure
from ...state.storage.journal import KeptReply
from ...state.usage import NO_USAGE, add_usage
from ..prepare import prepare
from ..runtime.journal import SAVER, journal_in_force, place_in, saver_of
from ..runtime.meter import metered
from ..runtime.step import Step, Steps, emit
from .path_run import LostDraft, PathRun, own_thread
from .paths import drafts, explored, lost, own_usage

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig

    from ..writing.prompts import Keep
    from .shared_budget import SharedBudgets

__all__ = ["StopWhen", "explore_path", "prepare_search"]


def prepare_search(
    budgets: SharedBudgets,
    *,
    limits: Mapping[str, Any],
    options: Mapping[str, Any],
    fingerprint: Mapping[str, Any],
    branching_factor: int,
    variations: int,
) -> Step:
    """Return the node that opens the record of a search and plans its drafts.

    Args:
        budgets: What siblings share.
        limits: In force where the thread has none yet.
        options: As `search_options` has them.
        fingerprint: Of the graph.
        branching_factor: How many drafts there are.
        variations: How many variations are taken in turn.

    Reads: task, limits. Writes: everything.

    Raises:
        ValueError: At run: the task is empty, or a limit makes no sense.
    """
    begin = prepare(limits=limits, options=options, fingerprint=fingerprint, no_draft=NO_DRAFT)

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        update = yield from begin.logic(state, config)
        search, base = yield from _named(state, config, branching_factor)
        budgets.begin(search, 0, NO_USAGE, update["limits"])
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


NO_DRAFT = "a search over several drafts writes them itself"


def _named(state: Mapping[str, Any], config: RunnableConfig, drafts: int) -> Generator[Do, Any, tuple[str, str]]:
    """Return the token of a search and what the thread ids of its paths begin with, the same when it is begun again.

    With `durability="exit"` a search that was killed is begun again; its paths are there, and are its own.
    """
    journal = journal_in_force()
    key = f"{journal.key(place_in(state), str(state.get('task')), str(drafts))}.search" if journal else ""
    if journal and (row := (yield do(journal, "read", key))) is not None:
        search, base = map(str, json.loads(row.reply))
        return search, base
    search, base = uuid.uuid4().hex, (yield from _free_name(config, drafts))
    if journal:
        yield do(journal, "write", key, KeptReply(json.dumps([search, base]), 0.0), "the name of a search")
    return search, base


def _free_name(config: RunnableConfig, drafts: int) -> Generator[Do, Any, str]:
    """Return the prefix of a search's thread ids: the id of its own thread, and a number from its second task on.

    A name is free where none of the drafts' threads exists; where nothing is kept it is empty. A search inside another
    graph has its node's name and a part of the task's id behind, since several may run at once.
    """
    saver = saver_of(config)
    if saver is None:
        return ""
    place = config.get("configurable", {})
    outside = str(place.get("checkpoint_ns") or "").split("|")[:-1]
    node, _, task = outside[-1].partition(":") if outside else ("", "", "")
    base = f"{place.get('thread_id')}/{node}-{task[:8]}" if node else str(place.get("thread_id"))
    for number in count(1):
        name, taken = base if number == 1 else f"{base}/{number}", False
        for draft in range(1, drafts + 1):
            thread = {"thread_id": f"{name}/b0.{draft}", "checkpoint_ns": "", SAVER: saver}
            taken = taken or (yield do(saver, "get_tuple", {"configurable": thread})) is not None
        if not taken:
            return name
    raise AssertionError("unreachable: names don't end")


StopWhen = Literal["accepted", "exhausted"]


def explore_path(runs: Sequence[PathRun], budgets: SharedBudgets, *, keep: Keep, stop_when: StopWhen) -> Step:
    """Return the node that explores the plan it is sent.

    A path that has not begun stays out once a budget of the search is spent, or, with `stop_when="accepted"`, another
    path was accepted. An error ends this path as `failed`.

    Args:
        runs: One a variation.
        budgets: What siblings share.
        keep: Whether the best or the last draft of a path counts.
        stop_when: As in `build_branching_graph`.

    Reads: what `Send` gives it: a plan with `task`, `limits`, `spent`, `siblings`, `search`, `root` and the parent's
    `values`. Writes: paths.
    """

    def logic(plan: Mapping[str, Any], config: RunnableConfig) -> Steps:
        search, level = plan["search"], plan["level"]
        shared = budgets.find(search, level)
        if shared is None:  # after a crash: what siblings did and paid for before is in their threads
            states = yield from _sibling_states(runs, plan, saver_of(config))
            spent = add_usage(
                [plan["spent"], *(own_usage(one, values["events"]) for one, values in states if values.get("events"))]
            )
            shared = budgets.begin(search, level, spent, plan["limits"])
            shared.begun |= {one["name"] for one, values in states if values}
            shared.accepted |= any(values.get("stop_reason") == "accepted" for _, values in states)
        accepting = stop_when == "exhausted"
        run = runs[plan["variation"]]
        with metered(shared):
            outcome = yield Do(run.invoke, run.ainvoke, ((plan, shared, accepting), config))
        if isinstance(outcome, str):
            emit(kind="skipped", node="branch", branch=plan["name"], round=level, text=outcome)
            return {"paths": [{**_plan(plan), "search": search, "skipped": outcome, "usage": NO_USAGE.copy()}]}
        if isinstance(outcome, LostDraft):
            shared.error = outcome.error
            event = failure("branch", level, outcome.error, branch=plan["name"], usage=outcome.usage)
            emit(**event)
            begun = {**_plan(plan), "thread_id": outcome.thread_id}
            return {"paths": [lost(begun, event, search=search)]}
        place = outcome.config["configurable"]
        begun = {**_plan(plan), "thread_id": place["thread_id"] if plan["thread_id"] else None}
        path = explored(begun, outcome.values, search=search, checkpoint_id=place["checkpoint_id"], keep=keep)
        if path["best"] < 0 and (budget := shared.spent_budget()):  # its first call was refused while others ran
            path["stop_reason"] = budget
        return {"paths": [path]}

    return Step("branch", logic)


def _plan(sent: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan without what is sent with it."""
    return {key: value for key, value in sent.items() if key not in SENT}


def _sibling_states(
    runs: Sequence[PathRun], plan: Mapping[str, Any], saver: Any
) -> Generator[Do, Any, list[tuple[Any, Mapping[str, Any]]]]:
    """Return the snapshots of the threads of a level; those that have not begun, or are not kept, have no values."""
    states = []
    for one in plan["siblings"] if saver is not None else ():
        name = yield from own_thread(saver, one, plan["search"])
        thread = {"configurable": {"thread_id": name, SAVER: saver}}
        snapshot = yield do(runs[one["variation"]].graph, "get_state", thread)
        states.append((one, snapshot.values))
    return states


SENT = ("task", "limits", "spent", "siblings", "search", "root", "values")
"""Keys that every plan of a level is sent with."""
