"""Running one path. Internal.

The loop on a thread of the path's own, begun, or resumed where an earlier call left it.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tracers.context import register_configure_hook
from langgraph.errors import GraphBubbleUp, GraphDrained

from ...state.storage.memory import IndexedMemorySaver
from ...state.threads.kind import kind_of
from ...state.threads.lease import LeaseHolder, leased
from ..runtime.journal import SAVER, saver_of
from ..runtime.meter import Meter
from ..runtime.step import emitter
from .path_threads import PATH_RECIPE, SEARCH, OwnThread
from .paths import forked_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langgraph.runtime import RunControl
    from langgraph.types import StateSnapshot

    from ...state.threads.loop_kind import LoopKind
    from ...state.usage import Usage
    from ..runtime.meter import Prices
    from .shared_budget import Ledger

    Sent = tuple[Mapping[str, Any], Ledger, bool]
    """A plan, what it shares with its siblings, and whether it begins though another path was accepted."""
    Outcome: TypeAlias = "StateSnapshot | LostDraft | str"

__all__ = ["LostDraft", "PathRun"]

STEPS = 25
"""A path takes at most seven."""


@dataclass(frozen=True)
class LostDraft:
    """A first draft that could not be written."""

    thread_id: str | None
    error: Exception
    usage: Usage
    """What was paid for it; no event says so."""


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
        plan, ledger, accepting = input
        control = _control_of(config or {})
        names = [one["name"] for one in plan["siblings"]]
        with ledger.turns.turn(plan["name"], names, begun=ledger.begun):
            _check_stop(control)
            if stopped := ledger.closed_to(plan["name"], accepting=accepting):
                return stopped
            own = OwnThread(saver_of(config or {}), plan["search"])
            plan = {**plan, "thread_id": own(plan)}
            thread, meter = self._thread(plan, config or {}), _metered(ledger)
            saver, name = thread["configurable"][SAVER], thread["configurable"]["thread_id"]
            with leased(saver, name, outer=control) as mine:
                try:
                    snapshot = self._run(plan, thread, mine)
                except Exception as error:
                    return _lost(plan, error, meter)
            _check_ended(snapshot)
            ledger.accepted |= snapshot.values.get("stop_reason") == "accepted"
            return snapshot

    async def ainvoke(self, input: Sent, config: RunnableConfig | None = None, **_: Any) -> Outcome:  # noqa: A002
        plan, ledger, accepting = input
        control = _control_of(config or {})
        async with ledger.turns.aturn():
            _check_stop(control)
            if stopped := ledger.closed_to(plan["name"], accepting=accepting):
                return stopped
            own = OwnThread(saver_of(config or {}), plan["search"])
            plan = {**plan, "thread_id": await own.acall(plan)}
            thread, meter = self._thread(plan, config or {}), _metered(ledger)
            saver, name = thread["configurable"][SAVER], thread["configurable"]["thread_id"]
            async with LeaseHolder(saver).leased(name, outer=control) as mine:
                try:
                    snapshot = await self._arun(plan, thread, mine)
                except Exception as error:
                    return _lost(plan, error, meter)
            _check_ended(snapshot)
            ledger.accepted |= snapshot.values.get("stop_reason") == "accepted"
            return snapshot

    def _run(self, plan: Mapping[str, Any], thread: Any, control: RunControl) -> StateSnapshot:
        """Run a path's thread to its end, from its beginning where it has none."""
        tell, given = self._teller(plan), None
        how: Any = {"stream_mode": "custom", "durability": "sync", "control": control}
        if thread["configurable"][SAVER].get_tuple(thread) is None:
            given = self._given(plan)
            if given is None:
                values, node = self._forked(plan)
                self.graph.update_state(thread, values, as_node=node)
        for item in self.graph.stream(given, thread, **how):
            tell(item)
        snapshot: StateSnapshot = self.graph.get_state(thread)
        if last := self._cut_off_after(snapshot):
            self.graph.update_state(thread, {"stop_reason": None}, as_node=last)
            for item in self.graph.stream(None, thread, **how):
                tell(item)
            snapshot = self.graph.get_state(thread)
        return snapshot

    async def _arun(self, plan: Mapping[str, Any], thread: Any, control: RunControl) -> StateSnapshot:
        """Async twin of `_run`."""
        tell, given = self._teller(plan), None
        how: Any = {"stream_mode": "custom", "durability": "sync", "control": control}
        if await thread["configurable"][SAVER].aget_tuple(thread) is None:
            given = self._given(plan)
            if given is None:
                values, node = self._forked(plan)
                await self.graph.aupdate_state(thread, values, as_node=node)
        async for item in self.graph.astream(given, thread, **how):
            tell(item)
        snapshot: StateSnapshot = await self.graph.aget_state(thread)
        if last := self._cut_off_after(snapshot):
            await self.graph.aupdate_state(thread, {"stop_reason": None}, as_node=last)
            async for item in self.graph.astream(None, thread, **how):
                tell(item)
            snapshot = await self.graph.aget_state(thread)
        return snapshot

    def _cut_off_after(self, snapshot: StateSnapshot) -> str | None:
        """Return the node after which a thread has no next one and yet no reason to stop, or `None`."""
        return None if snapshot.next else self._kind.cut_off(snapshot.values)

    def _given(self, plan: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the input of a first draft; a revision begins in the middle of its parent's run."""
        return {"task": plan["task"], "limits": self._limits(plan)} if plan["values"] is None else None

    def _forked(self, plan: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        return forked_values(plan["values"], self._limits(plan)), self._kind.before_check

    def _limits(self, plan: Mapping[str, Any]) -> dict[str, Any]:
        return {**plan["limits"], "max_rounds": plan["level"]}

    def _thread(self, plan: Mapping[str, Any], config: RunnableConfig) -> Any:
        """Return the config of the path's own thread: what else the caller configured, and who its parent is."""
        known = config.get("configurable", {})
        own = {key: value for key, value in known.items() if not key.startswith("__") and key not in PLACE}
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
        saver = saver_of(config) or IndexedMemorySaver()
        return {
            "configurable": {**own, "thread_id": plan["thread_id"] or plan["name"], SAVER: saver},
            "metadata": parent,
            "recursion_limit": max(STEPS, config.get("recursion_limit", STEPS)),
            # See `Turns`: a caller's bound of 1 is for paths.
            "max_concurrency": max(2, config.get("max_concurrency") or 2),
        }

    def _teller(self, plan: Mapping[str, Any]) -> Any:
        send, of = emitter(), {"branch": plan["name"], "thread_id": plan["thread_id"], "variation": self.variation}

        send(kind="start", node="branch", round=plan["level"], **of)

        def tell(item: Any) -> None:
            told = item if isinstance(item, dict) else {"value": item}
            send(**{**told, **of})

        return tell


class _PathMeter(Meter):
    """Counts the calls of one path, beside the ledger that counts those of all."""

    def __init__(self, prices: Prices | None) -> None:
        super().__init__(prices)
        self.began = perf_counter()


def _metered(ledger: Ledger) -> _PathMeter:
    """Return what counts from here on. Each call of a node has a context of its own, so it ends with that."""
    meter = _PathMeter(ledger.prices)
    PATH_METER.set(meter)
    return meter


def _lost(plan: Mapping[str, Any], error: Exception, meter: _PathMeter) -> LostDraft:
    """Return what is told of a first draft that an error prevented; all else is raised on."""
    if isinstance(error, GraphBubbleUp) or plan["parent"] is not None:
        raise error
    return LostDraft(plan["thread_id"], error, meter.usage(seconds=perf_counter() - meter.began))


def _check_ended(snapshot: StateSnapshot) -> None:
    """Return where a thread has run to its end.

    Raises:
        RuntimeError: It stops before: a node of the caller's interrupts the run.
    """
    if snapshot.next:
        raise RuntimeError(
            f"the path {snapshot.config['configurable']['thread_id']!r} waits before {snapshot.next[0]!r}: "
            "a search can't be interrupted inside a path, so leave out what interrupts"
        )


def _control_of(config: RunnableConfig) -> RunControl | None:
    """Return what says whether the running graph is to stop."""
    runtime = config.get("configurable", {}).get(RUNTIME)
    found: RunControl | None = getattr(runtime, "control", None)
    return found


def _check_stop(control: RunControl | None) -> None:
    """Raise where the search is to stop.

    Raises:
        GraphDrained: The search is to stop. It is resumed with this path.
    """
    if control is not None and control.drain_requested:
        raise GraphDrained(control.drain_reason or "shutdown")


RUNTIME = "__pregel_runtime"
"""Where LangGraph's config holds what a run has of its own, its control among it."""
PLACE = {"thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map"}

PATH_METER: ContextVar[Meter | None] = ContextVar("redraft_path_meter", default=None)
register_configure_hook(PATH_METER, inheritable=True)
