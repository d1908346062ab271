"""A run that is kept: resumed, read, forked, replayed and compared."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from ..events import DRAFT_KINDS
from ..summary import attempts, best_draft, run_options
from .diffs import Diff, diff_words
from .history import HistoryStep, ThreadTree, family, grow_tree, read_history, rows_of
from .lease import BusyThreadError
from .replay import Replay, replay_record
from .snapshots import asnapshots, astate_of, snapshots, state_of
from .steering import SteeredThread, UnknownThreadError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple
    from langgraph.types import StateSnapshot

    from ..schema import RefineOutput
    from ..storage.index import RunRow
    from .kind import ForkPoint

__all__ = ["BusyThreadError", "Thread", "UnknownThreadError"]


class Thread(SteeredThread):
    """One thread of a compiled graph with a checkpointer.

    `history`, `tree` and `resume` work on any graph; `fork`, `replay`, `rerun`, `diff` and other limits need one of
    ours. A pipeline's thread is forked with `build_reasoning_graph`, on the same checkpointer. Each method that touches
    the store has an async twin: `aresume`, `aready`, `aanswer`, `aquestion`, `astop`, `ahistory`, `areplay`, `adiff`,
    `atree`, `afork`, `arerun`.

    Args:
        graph: A compiled graph. Forking to another model means a Thread on a graph built with that model.
        thread_id: The `thread_id` that the runs of the thread are configured with.

    Raises:
        ValueError: The graph has no checkpointer.
    """

    # resume

    def resume(self, limits: Mapping[str, Any] | None = None) -> RefineOutput:
        """Run on from where the thread stands, and return the output.

        What is finished stays finished: no saved call is made again. A failed run goes on at the node that failed. A
        run that stopped for another reason returns its output as it is, unless new limits give it room. A pipeline
        goes on at the step that failed or that a budget stopped; one at its end returns its output.

        Args:
            limits: Changed limits; those not named stay. A `Limits` replaces them all.

        Raises:
            UnknownThreadError: There is no such thread.
            ValueError: A limit makes no sense, or limits are given to a graph that is not ours.
            BusyThreadError: It is being run right now, by `redraft run`, `resume` or a Thread.
            GraphDrained: LangGraph's own: someone asked it to `stop`. Resumed again, it goes on.
        """
        with self.stoppable() as control:
            given = self.ready(limits)
            return self._invoke(given, control)

    async def aresume(self, limits: Mapping[str, Any] | None = None) -> RefineOutput:
        """Async twin of `resume`."""
        with self.stoppable() as control:
            given = await self.aready(limits)
            return await self._ainvoke(given, control)

    def ready(self, limits: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """Write what `resume` writes before it runs, and return what to invoke or stream the graph with.

        For who wants to watch: `graph.stream(thread.ready(), thread.config)`.

        Args:
            limits: As in `resume`.

        Raises:
            UnknownThreadError: There is no such thread.
            ValueError: A limit makes no sense, or limits are given to a graph that is not ours.
        """
        if limits is not None:
            self._check("resuming with other limits")
        stored, snapshot = self._stored(), state_of(self.graph, self.config)
        if _killed_in_mid_step(stored, snapshot):
            self.graph.invoke(None, self.config, interrupt_before="*", durability="sync")
            snapshot = state_of(self.graph, self.config)
        if step := self.kind.next_step(snapshot, limits):
            self.graph.update_state(self.config, step.values, as_node=step.as_node)
        return self.kind.restart(stored, snapshot, limits)

    async def aready(self, limits: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """Async twin of `ready`."""
        if limits is not None:
            self._check("resuming with other limits")
        stored, snapshot = await self._astored(), await astate_of(self.graph, self.config)
        if _killed_in_mid_step(stored, snapshot):
            await self.graph.ainvoke(None, self.config, interrupt_before="*", durability="sync")
            snapshot = await astate_of(self.graph, self.config)
        if step := self.kind.next_step(snapshot, limits):
            await self.graph.aupdate_state(self.config, step.values, as_node=step.as_node)
        return self.kind.restart(stored, snapshot, limits)

    # read

    def history(self) -> list[HistoryStep]:
        """Return every step of the thread, oldest first.

        Raises:
            UnknownThreadError: There is no such thread.
        """
        self._stored()
        return read_history(snapshots(self.graph, self.config), self.kind)

    async def ahistory(self) -> list[HistoryStep]:
        """Async twin of `history`."""
        await self._astored()
        return read_history(await asnapshots(self.graph, self.config), self.kind)

    def replay(self) -> Replay:
        """Return the output recomputed from the record, and whether it agrees with the result. Calls no model, ever.

        A new task that has not begun, for its limits were refused, say, is not looked at.

        Raises:
            UnknownThreadError: There is no such thread.
            ValueError: The thread holds no record of ours.
        """
        snapshot = self._snapshot()
        return replay_record(self._last_run(snapshot), reopened=bool(snapshot.next))

    async def areplay(self) -> Replay:
        """Async twin of `replay`."""
        snapshot = await self._asnapshot()
        return replay_record(self._last_run(snapshot), reopened=bool(snapshot.next))

    def diff(self, other: Thread | None = None, *, before: int | None = None, after: int | None = None) -> Diff:
        """Return what differs, word by word, between two drafts of this thread or of this and another.

        Args:
            other: The thread that `after` is taken from; default: this one.
            before: Round of the draft that is compared; default: the first, or the best where `other` is given.
            after: Round of the draft that it is compared with; default: the best.

        Raises:
            UnknownThreadError: There is no such thread.
            ValueError: There is no such draft.
        """
        mine = self._snapshot().values
        others = other._snapshot().values if other else mine
        return diff_words(_draft(mine, before, first=other is None), _draft(others, after, first=False))

    async def adiff(self, other: Thread | None = None, *, before: int | None = None, after: int | None = None) -> Diff:
        """Async twin of `diff`."""
        mine = (await self._asnapshot()).values
        others = (await other._asnapshot()).values if other else mine
        return diff_words(_draft(mine, before, first=other is None), _draft(others, after, first=False))

    def tree(self) -> ThreadTree:
        """Return the branch tree that this thread is part of, from its oldest known ancestor.

        Raises:
            UnknownThreadError: There is no such thread.
        """
        self._stored()
        runs = getattr(self.saver, "runs", None)
        rows = family(runs, self.thread_id) if runs else rows_of(self.saver.list(None))
        return grow_tree(self.thread_id, rows)

    async def atree(self) -> ThreadTree:
        """Async twin of `tree`."""
        await self._astored()
        runs = getattr(self.saver, "runs", None)
        if runs:
            from asyncio import to_thread

            return grow_tree(self.thread_id, await to_thread(family, runs, self.thread_id))
        return grow_tree(self.thread_id, rows_of([stored async for stored in self.saver.alist(None)]))

    # branch

    def fork(
        self,
        *,
        at: int | str,
        feedback: str | None = None,
        draft: str | None = None,
        limits: Mapping[str, Any] | None = None,
        thread_id: str | None = None,
    ) -> Thread:
        """Return a new thread that starts in the middle of this one. Only writes: `resume` runs it; this one stays.

        Args:
            at: A round (0 is the first draft) or a checkpoint id.
            feedback: Replaces the critiques of that draft, and with them its acceptance.
            draft: Replaces that draft; it is judged anew.
            limits: Changed limits; those not named stay.
            thread_id: Of the new thread; default: this one's with a random ending.

        Raises:
            UnknownThreadError: There is no such thread or checkpoint.
            ValueError: There is no such draft, a text is blank, a limit makes no sense, `thread_id` is taken, `at` is
                neither a round nor an id, or the graph is not ours.
        """
        branch = self._branch(thread_id)
        self._check_fork(at, branch, self.saver.get_tuple(branch.config))
        latest = self._snapshot()
        snapshot = self._before(at, latest)
        point = self._fork_point(snapshot, at, feedback=feedback, draft=draft, limits=limits)
        config = _forked_config(branch.config, self, snapshot, at, latest)
        self.graph.update_state(config, point.values, as_node=point.as_node)
        return branch

    async def afork(
        self,
        *,
        at: int | str,
        feedback: str | None = None,
        draft: str | None = None,
        limits: Mapping[str, Any] | None = None,
        thread_id: str | None = None,
    ) -> Thread:
        """Async twin of `fork`."""
        branch = self._branch(thread_id)
        self._check_fork(at, branch, await self.saver.aget_tuple(branch.config))
        latest = await self._asnapshot()
        snapshot = await self._abefore(at, latest)
        point = self._fork_point(snapshot, at, feedback=feedback, draft=draft, limits=limits)
        config = _forked_config(branch.config, self, snapshot, at, latest)
        await self.graph.aupdate_state(config, point.values, as_node=point.as_node)
        return branch

    def rerun(self, *, thread_id: str | None = None) -> Thread:
        """Run the same task with the same limits once more, in a thread of its own, and return that. Spends tokens.

        Raises:
            UnknownThreadError: There is no such thread.
            ValueError: `thread_id` is taken, no task of this thread has begun, or the graph is not ours.
        """
        snapshot, branch = self._snapshot(), self._branch(thread_id)
        self._check_new("rerun()", branch, self.saver.get_tuple(branch.config))
        with branch.stoppable() as control:
            branch._invoke(self.kind.task_again(snapshot), control)
        return branch

    async def arerun(self, *, thread_id: str | None = None) -> Thread:
        """Async twin of `rerun`."""
        snapshot, branch = await self._asnapshot(), self._branch(thread_id)
        self._check_new("rerun()", branch, await self.saver.aget_tuple(branch.config))
        with branch.stoppable() as control:
            await branch._ainvoke(self.kind.task_again(snapshot), control)
        return branch

    def _last_run(self, snapshot: StateSnapshot) -> Mapping[str, Any]:
        return self.kind.values_of_last_run(snapshot) if self.kind.keeps_record else {}

    def _branch(self, thread_id: str | None) -> Thread:
        return Thread(self.graph, thread_id or f"{self.thread_id}-{secrets.token_hex(3)}")

    def _before(self, at: int | str, latest: StateSnapshot) -> StateSnapshot:
        """Return the checkpoint that a fork starts from: that id's, or the newest that ends with that draft."""
        if isinstance(at, str):
            return state_of(self.graph, _at(self.config, at))
        for snapshot in snapshots(self.graph, self.config) if _has_draft(latest, at) else ():
            if self.kind.begun(snapshot) and _latest_round(snapshot) == at:
                return snapshot
        return latest

    async def _abefore(self, at: int | str, latest: StateSnapshot) -> StateSnapshot:
        if isinstance(at, str):
            return await astate_of(self.graph, _at(self.config, at))
        if _has_draft(latest, at):
            for snapshot in await asnapshots(self.graph, self.config):
                if self.kind.begun(snapshot) and _latest_round(snapshot) == at:
                    return snapshot
        return latest

    def _fork_point(self, snapshot: StateSnapshot, at: int | str, **changes: Any) -> ForkPoint:
        if isinstance(at, str) and snapshot.created_at is None:
            raise UnknownThreadError(f"the thread {self.thread_id!r} has no checkpoint {at!r}")
        return self.kind.fork_point(snapshot, at, **changes)

    def _check_fork(self, at: object, branch: Thread, taken: object) -> None:
        self._check_new("fork()", branch, taken)
        if not isinstance(at, int | str) or isinstance(at, bool) or at == "":
            raise ValueError(f"at must be a round (0 is the first draft) or a checkpoint id, not {at!r}")

    def _check_new(self, what: str, branch: Thread, taken: object) -> None:
        self._check(what)
        if taken is not None:
            raise ValueError(f"the thread {branch.thread_id!r} exists already; choose another thread_id")

    def _check(self, what: str) -> None:
        self.kind.check(what, thread_id=self.thread_id, graph_name=self.graph.get_name())

    def _snapshot(self) -> StateSnapshot:
        self._stored()
        return state_of(self.graph, self.config)

    async def _asnapshot(self) -> StateSnapshot:
        await self._astored()
        return await astate_of(self.graph, self.config)


def _at(config: RunnableConfig, checkpoint_id: str) -> RunnableConfig:
    return {"configurable": {**config["configurable"], "checkpoint_id": checkpoint_id}}


def _forked_config(
    config: RunnableConfig, parent: Thread, snapshot: StateSnapshot, at: int | str, latest: StateSnapshot
) -> RunnableConfig:
    known: Mapping[str, Any] = {**(snapshot.metadata or {}), **(latest.metadata or {})}
    runs = getattr(parent.saver, "runs", None)
    row: RunRow | None = runs.get(parent.thread_id) if runs else None
    recipe = row.recipe if row else known.get("redraft_recipe")
    preset = row.preset if row else known.get("redraft_preset")
    metadata = {
        "redraft_parent_thread": parent.thread_id,
        "redraft_parent_checkpoint": snapshot.config["configurable"].get("checkpoint_id"),
        "redraft_fork_at": at,
        "redraft_recipe": recipe,
        "redraft_preset": preset,
    }
    return {**config, "metadata": {key: value for key, value in metadata.items() if value is not None}}


def _killed_in_mid_step(stored: CheckpointTuple, snapshot: StateSnapshot) -> bool:
    """Return whether a node's writes are saved but not the checkpoint that follows.

    `get_state` shows such a thread as finished, and `update_state` would drop the writes. Running it with an interrupt
    before every node applies them and runs nothing.
    """
    return not snapshot.next and bool(stored.pending_writes)


def _has_draft(snapshot: StateSnapshot, number: int) -> bool:
    return any(attempt.round == number for attempt in attempts(snapshot.values.get("events") or []))


def _latest_round(snapshot: StateSnapshot) -> int | None:
    for event in reversed(snapshot.values.get("events") or []):
        if event["kind"] in DRAFT_KINDS and not event.get("rejected"):
            number: int = event["round"]
            return number
        if event["kind"] == "task":
            break
    return None


def _draft(values: Mapping[str, Any], number: int | None, *, first: bool) -> str:
    events = values.get("events") or []
    found = attempts(events)
    if not found:
        raise ValueError("the thread has no draft yet")
    if number is None:
        best = best_draft(events, keep=run_options(events).get("keep", "best"))
        return found[0].text if first or best is None else best.text
    for attempt in found:
        if attempt.round == number:
            return attempt.text
    raise ValueError(f"there is no draft of round {number}; there are {[attempt.round for attempt in found]}")
