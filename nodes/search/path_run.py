"""Running one path. Internal.

The loop on a thread of the path's own, begun, or resumed where an earlier call left it.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tracers.context import register_configure_hook
from langgraph.errors import GraphBubbleUp, GraphDrained

from ...state.dual import Do, adrive, do, do_all, drive, streaming
from ...state.storage.sqlite import IndexedMemorySaver
from ...state.threads.kind import CHECKED, kind_of
from ...state.threads.lease import LeaseHolder, leased
from ..runtime.journal import SAVER, saver_of
from ..runtime.meter import Meter
from ..runtime.step import control_in, emitter
from .paths import forked_values

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.runtime import RunControl
    from langgraph.types import StateSnapshot

    from ...state.threads.loop_kind import LoopKind
    from ...state.usage import Usage
    from .shared_budget import SharedBudget

    Sent = tuple[Mapping[str, Any], SharedBudget, bool]
    """A plan, what it shares with its siblings, and whether it begins though another path was accepted."""
    Outcome: TypeAlias = "StateSnapshot | LostDraft | str"

__all__ = ["PATH_RECIPE", "SEARCH", "LostDraft", "PathRun", "own_thread"]

SEARCH = "redraft_search"
"""In the metadata of a path's checkpoints: the token of its search."""
PATH_RECIPE = "redraft_path_recipe"
"""In the metadata of a search: what rebuilds one of its paths, as `redraft_recipe` rebuilds the search."""
STEPS = 25
"""A path takes at most seven."""


def own_thread(
    saver: BaseCheckpointSaver[Any] | None, plan: Mapping[str, Any], search: str
) -> Generator[Do, Any, str | None]:
    """Return the thread id of a path: as planned, or with a number behind where that thread is somebody else's.

    Args:
        saver: Where threads are kept; `None` leaves the name as planned.
        plan: Of the path.
        search: Token of the search.
    """
    planned: str | None = plan["thread_id"]
    if saver is None or planned is None:
        return planned
    for number in count(1):
        name = planned if number == 1 else f"{planned}-{number}"
        config = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
        stored = yield do(saver, "get_tuple", config)
        if stored is None or stored.metadata.get(SEARCH) == search:
            return name
        # One of ours that was run on by hand since has the mark on its older checkpoints only.
        if (yield do_all(saver, "list", config, filter={SEARCH: search}, limit=1)):
            return name
    raise AssertionError("unreachable: names don't end")


@dataclass(frozen=True)
class LostDraft:
    """A first draft that could not be written."""

    thread_id: str | None
    error: Exception
    usage: Usage
    """Its cost; no event holds it."""


@dataclass(frozen=True)
class _Begun:
    """A path that begins: its plan, what it shares, the config of its thread, and the control of its search."""

    plan: Mapping[str, Any]
    shared: SharedBudget
    thread: Any
    control: RunControl | None

    @property
    def saver(self) -> Any:
        return self.thread["configurable"][SAVER]

    @property
    def thread_id(self) -> str:
        return str(self.thread["configurable"]["thread_id"])


class PathRun(Runnable[Any, "StateSnapshot | LostDraft | str"]):
    """Runs a plan with `task`, `limits` and the parent's `values` when it is its turn, and returns where its thread
    stands at the end; or why it did not begin, or why it has no draft.

    With a saver, the thread is a real one, its parent recorded, and what it has finished is not done again. Without
    one it lives as long as the run. Progress is passed on with the `branch` and its `thread_id`.

    Args:
        graph: The loop.
        variation: Its name in progress.
    """

    def __init__(self, graph: Any, variation: str) -> None:
        self.name = "path"
        self.graph = graph
        self.variation = variation
        self._kind = cast("LoopKind", kind_of(graph))

    def invoke(self, input: Sent, config: RunnableConfig | None = None, **_: Any) -> Outcome:  # noqa: A002
        plan, shared = input[:2]
        names = [one["name"] for one in plan["siblings"]]
        with shared.turns.turn(plan["name"], names, begun=shared.begun):
            begun = drive(self._begin(input, config or {}))
            if isinstance(begun, str):
                return begun
            with leased(begun.saver, begun.thread_id, outer=begun.control) as control:
                return drive(self._run(begun, control))

    async def ainvoke(self, input: Sent, config: RunnableConfig | None = None, **_: Any) -> Outcome:  # noqa: A002
        async with input[1].turns.aturn():
            begun = await adrive(self._begin(input, config or {}))
            if isinstance(begun, str):
                return begun
            async with LeaseHolder(begun.saver).leased(begun.thread_id, outer=begun.control) as control:
                return await adrive(self._run(begun, control))

    def _begin(self, sent: Sent, config: RunnableConfig) -> Generator[Do, Any, _Begun | str]:
        """Prepare the path's run; return its setup, or why it need not begin.

        Raises:
            GraphDrained: The search is to stop. It is resumed with this path.
        """
        plan, shared, accepting = sent
        control = control_in(config)
        if control is not None and control.drain_requested:
            raise GraphDrained(control.drain_reason or "shutdown")
        if stopped := shared.closed_to(plan["name"], accepting=accepting):
            return stopped
        plan = {**plan, "thread_id": (yield from own_thread(saver_of(config), plan, plan["search"]))}
        return _Begun(plan, shared, self._thread(plan, config), control)

    def _run(self, begun: _Begun, control: RunControl) -> Generator[Do, Any, Outcome]:
        """Run the path's thread to its end; a first draft that an error prevented is lost, all else is raised.

        Raises:
            RuntimeError: It stops before: a node of the caller's interrupts the run.
        """
        plan, shared = begun.plan, begun.shared
        # What it counts ends with this call, which has a context of its own.
        meter, start = Meter(shared.prices), perf_counter()
        PATH_METER.set(meter)
        try:
            snapshot = yield from self._to_end(plan, begun.thread, control)
        except Exception as error:
            if isinstance(error, GraphBubbleUp) or plan["parent"] is not None:
                raise
            return LostDraft(plan["thread_id"], error, meter.usage(seconds=perf_counter() - start))
        if snapshot.next:
            raise RuntimeError(
                f"the path {begun.thread_id!r} waits before {snapshot.next[0]!r}: "
                "a search can't be interrupted inside a path, so leave out what interrupts"
            )
        shared.accepted |= snapshot.values.get("stop_reason") == "accepted"
        return snapshot

    def _to_end(self, plan: Mapping[str, Any], thread: Any, control: RunControl) -> Generator[Do, Any, StateSnapshot]:
        """Run a path's thread to its end, from its beginning where it has none."""
        how = {"stream_mode": "custom", "durability": "sync", "control": control}
        tell, task_input = self._teller(plan), None
        if (yield do(thread["configurable"][SAVER], "get_tuple", thread)) is None:
            limits = {**plan["limits"], "max_rounds": plan["level"]}
            if plan["values"] is None:
                task_input = {"task": plan["task"], "require": plan["require"], "limits": limits}
            else:  # a revision begins in the middle of its parent's run
                values = forked_values(plan["values"], limits)
                yield do(self.graph, "update_state", thread, values, as_node=self._kind.before_check)
        yield streaming(self.graph, tell, task_input, thread, **how)
        snapshot: StateSnapshot = yield do(self.graph, "get_state", thread)
        # A search that was cancelled may have left the path without a next node; see `cut_off`.
        if not snapshot.next and (last := self._kind.cut_off(snapshot.values)):
            yield do(self.graph, "update_state", thread, {"stop_reason": None}, as_node=last)
            yield streaming(self.graph, tell, None, thread, **how)
            snapshot = yield do(self.graph, "get_state", thread)
        return snapshot

    def _thread(self, plan: Mapping[str, Any], config: RunnableConfig) -> Any:
        """Return the config of the path's own thread: what else the caller configured, and who its parent is."""
        configurable = config.get("configurable", {})
        # LangGraph's own keys are the search's: with them the path would run as its subgraph.
        own = {key: value for key, value in configurable.items() if not key.startswith("__") and key not in PLACE}
        recipe = config.get("metadata", {}).get(PATH_RECIPE)
        parent = {
            "redraft_parent_thread": plan["parent_thread"] or plan["root"],
            "redraft_parent_checkpoint": plan["parent_checkpoint"],
            "redraft_fork_at": plan["level"] - 1 if plan["parent"] else None,
            SEARCH: plan["search"],
            # Those of the search don't rebuild a path.
            "redraft_preset": "refine" if recipe else None,
            "redraft_recipe": recipe,
            PATH_RECIPE: None,
        }
        saver = saver_of(config) or IndexedMemorySaver(allow=None)
        return {
            # A revision goes on with its parent's record, which another variation may have begun.
            "configurable": {**own, "thread_id": plan["thread_id"] or plan["name"], SAVER: saver, CHECKED: True},
            "metadata": parent,
            "recursion_limit": max(STEPS, config.get("recursion_limit", STEPS)),
            # See `Turns`: a caller's bound of 1 is for paths.
            "max_concurrency": max(2, config.get("max_concurrency") or 2),
        }

    def _teller(self, plan: Mapping[str, Any]) -> Any:
        send, of = emitter(), {"branch": plan["name"], "thread_id": plan["thread_id"], "variation": self.variation}

        send(kind="start", node="branch", round=plan["level"], **of)

        def tell(item: Any) -> None:
            send(**{**(item if isinstance(item, dict) else {"value": item}), **of})

        return tell


PLACE = {"thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map"}

PATH_METER: ContextVar[Meter | None] = ContextVar("redraft_path_meter", default=None)
register_configure_hook(PATH_METER, inheritable=True)
