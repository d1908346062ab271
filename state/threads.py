"""A run that is kept: resumed, read, forked, replayed and compared."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, cast

from .diffs import Diff, diff_words
from .folds import attempts, best_draft, current_run, run_options
from .forks import ForkPoint, fork_at_checkpoint, fork_at_round, merged_limits
from .history import Branch, HistoryStep, grow_tree, read_history
from .replay import Replay, replay_record
from .runs import RunRow, row_from_checkpoint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.types import StateSnapshot

    from .schema import RefineOutput

__all__ = ["Thread", "UnknownThreadError"]


class UnknownThreadError(LookupError):
    """No checkpoint of this thread is stored where the graph's checkpointer looks."""


class Thread:
    """One thread of a compiled graph with a checkpointer.

    `history`, `tree` and `resume` work on any graph; `fork`, `replay`, `rerun` and `diff` need the state of ours. Each
    method that touches the store has an async twin: `aresume`, `ahistory`, `afork`, `areplay`, `arerun`, `atree`.

    Args:
        graph: A compiled graph. Forking to another model means a Thread on a graph built with that model.
        thread_id: The `thread_id` that the runs of the thread are configured with.

    Raises:
        ValueError: The graph has no checkpointer.
    """

    def __init__(self, graph: CompiledStateGraph[Any, Any, Any, Any], thread_id: str) -> None:
        if not graph.checkpointer or isinstance(graph.checkpointer, bool):
            raise ValueError("the graph has no checkpointer; build it with checkpointer=open_checkpointer(…)")
        self.graph = graph
        self.thread_id = str(thread_id)

    def __repr__(self) -> str:
        return f"Thread({self.graph.get_name()!r}, {self.thread_id!r})"

    @property
    def config(self) -> RunnableConfig:
        """The config that runs and reads this thread."""
        return {"configurable": {"thread_id": self.thread_id}}

    @property
    def saver(self) -> BaseCheckpointSaver[Any]:
        return cast("BaseCheckpointSaver[Any]", self.graph.checkpointer)

    # resume

    def resume(self, limits: Mapping[str, Any] | None = None) -> RefineOutput:
        """Run on from where the thread stands, and return the output.

        What is finished stays finished: no saved call is made again. A failed run goes on at the node that failed. A
        run that stopped for another reason returns its output as it is, unless new limits give it room.

        Args:
            limits: Changed limits; those not named stay. A `Limits` replaces them all.

        Raises:
            UnknownThreadError: There is no such thread.
            ValueError: A limit makes no sense.
        """
        given = self.ready(limits)
        return cast("RefineOutput", self.graph.invoke(given, self.config, durability="sync"))

    async def aresume(self, limits: Mapping[str, Any] | None = None) -> RefineOutput:
        """Async twin of `resume`."""
        given = await self.aready(limits)
        return cast("RefineOutput", await self.graph.ainvoke(given, self.config, durability="sync"))

    def ready(self, limits: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """Write what `resume` writes before it runs, and return what to invoke or stream the graph with.

        For who wants to watch: `graph.stream(thread.ready(), thread.config)`.

        Args:
            limits: As in `resume`.

        Raises:
            UnknownThreadError: There is no such thread.
            ValueError: A limit makes no sense.
        """
        stored, snapshot = self._stored(), self.graph.get_state(self.config)
        if _killed_in_mid_step(stored, snapshot):
            self.graph.invoke(None, self.config, interrupt_before="*", durability="sync")
            snapshot = self.graph.get_state(self.config)
        if step := _next_step(snapshot, limits):
            self.graph.update_state(self.config, step.values, as_node=step.as_node)
        return _restart(snapshot, limits)

    async def aready(self, limits: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """Async twin of `ready`."""
        stored, snapshot = await self._astored(), await self.graph.aget_state(self.config)
        if _killed_in_mid_step(stored, snapshot):
            await self.graph.ainvoke(None, self.config, interrupt_before="*", durability="sync")
            snapshot = await self.graph.aget_state(self.config)
        if step := _next_step(snapshot, limits):
            await self.graph.aupdate_state(self.config, step.values, as_node=step.as_node)
        return _restart(snapshot, limits)

    # read

    def history(self) -> list[HistoryStep]:
        """Return every step of the thread, oldest first.

        Raises:
            UnknownThreadError: There is no such thread.
        """
        self._stored()
        return read_history(self.graph.get_state_history(self.config))

    async def ahistory(self) -> list[HistoryStep]:
        """Async twin of `history`."""
        await self._astored()
        return read_history([snapshot async for snapshot in self.graph.aget_state_history(self.config)])

    def replay(self) -> Replay:
        """Return the output recomputed from the record, and whether it agrees with the result. Calls no model, ever.

        Raises:
            UnknownThreadError: There is no such thread.
            ValueError: The thread holds no record of ours.
        """
        return replay_record(self._snapshot().values)

    async def areplay(self) -> Replay:
        """Async twin of `replay`."""
        return replay_record((await self._asnapshot()).values)

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

    def tree(self) -> Branch:
        """Return the branch tree that this thread is part of, from its oldest known ancestor.

        Raises:
            UnknownThreadError: There is no such thread.
        """
        self._stored()
        runs = getattr(self.saver, "runs", None)
        rows = _family(runs, self.thread_id) if runs else _rows(self.saver.list(None))
        return grow_tree(self.thread_id, rows)

    async def atree(self) -> Branch:
        """Async twin of `tree`."""
        await self._astored()
        runs = getattr(self.saver, "runs", None)
        if runs:
            from asyncio import to_thread

            return grow_tree(self.thread_id, await to_thread(_family, runs, self.thread_id))
        return grow_tree(self.thread_id, await _arows(self.saver.alist(None)))

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
            ValueError: There is no such draft, a text is blank, a limit makes no sense, or `thread_id` is taken.
        """
        branch = self._branch(thread_id)
        if self.saver.get_tuple(branch.config) is not None:
            raise ValueError(f"the thread {branch.thread_id!r} exists already; choose another thread_id")
        latest = self._snapshot()
        if isinstance(at, str):
            snapshot = self.graph.get_state(_at(self.config, at))
            point = _checkpoint_fork(self, snapshot, at, feedback=feedback, draft=draft, limits=limits)
        else:
            snapshot = latest
            for one in self.graph.get_state_history(self.config) if _has_draft(latest, at) else ():
                if _latest_round(one) == at:
                    snapshot = one
                    break
            point = fork_at_round(snapshot.values, at, feedback=feedback, draft=draft, limits=limits)
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
        if await self.saver.aget_tuple(branch.config) is not None:
            raise ValueError(f"the thread {branch.thread_id!r} exists already; choose another thread_id")
        latest = await self._asnapshot()
        if isinstance(at, str):
            snapshot = await self.graph.aget_state(_at(self.config, at))
            point = _checkpoint_fork(self, snapshot, at, feedback=feedback, draft=draft, limits=limits)
        else:
            snapshot = latest
            if _has_draft(latest, at):
                async for one in self.graph.aget_state_history(self.config):
                    if _latest_round(one) == at:
                        snapshot = one
                        break
            point = fork_at_round(snapshot.values, at, feedback=feedback, draft=draft, limits=limits)
        config = _forked_config(branch.config, self, snapshot, at, latest)
        await self.graph.aupdate_state(config, point.values, as_node=point.as_node)
        return branch

    def rerun(self, *, thread_id: str | None = None) -> Thread:
        """Run the same task with the same limits once more, in a thread of its own, and return that. Spends tokens.

        Raises:
            UnknownThreadError: There is no such thread.
            ValueError: `thread_id` is taken.
        """
        values, branch = self._snapshot().values, self._branch(thread_id)
        if self.saver.get_tuple(branch.config) is not None:
            raise ValueError(f"the thread {branch.thread_id!r} exists already; choose another thread_id")
        self.graph.invoke({"task": values["task"], "limits": values["limits"]}, branch.config, durability="sync")
        return branch

    async def arerun(self, *, thread_id: str | None = None) -> Thread:
        """Async twin of `rerun`."""
        values, branch = (await self._asnapshot()).values, self._branch(thread_id)
        if await self.saver.aget_tuple(branch.config) is not None:
            raise ValueError(f"the thread {branch.thread_id!r} exists already; choose another thread_id")
        given = {"task": values["task"], "limits": values["limits"]}
        await self.graph.ainvoke(given, branch.config, durability="sync")
        return branch

    def _branch(self, thread_id: str | None) -> Thread:
        return Thread(self.graph, thread_id or f"{self.thread_id}-{secrets.token_hex(3)}")

    def _stored(self) -> CheckpointTuple:
        if (stored := self.saver.get_tuple(self.config)) is None:
            raise UnknownThreadError(f"there is no thread {self.thread_id!r}")
        return stored

    async def _astored(self) -> CheckpointTuple:
        if (stored := await self.saver.aget_tuple(self.config)) is None:
            raise UnknownThreadError(f"there is no thread {self.thread_id!r}")
        return stored

    def _snapshot(self) -> StateSnapshot:
        self._stored()
        return self.graph.get_state(self.config)

    async def _asnapshot(self) -> StateSnapshot:
        await self._astored()
        return await self.graph.aget_state(self.config)


def _killed_in_mid_step(stored: CheckpointTuple, snapshot: StateSnapshot) -> bool:
    """Return whether a node's writes are saved but not the checkpoint that follows.

    `get_state` shows such a thread as finished, and `update_state` would drop the writes. Running it with an interrupt
    before every node applies them and runs nothing.
    """
    return not snapshot.next and bool(stored.pending_writes)


def _begun(snapshot: StateSnapshot) -> bool:
    return not {"__start__", "prepare"} & set(snapshot.next)


def _restart(snapshot: StateSnapshot, limits: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the input that starts a run anew which was killed before it began; `None` runs on."""
    if limits is None or _begun(snapshot):
        return None
    return {"task": snapshot.values.get("task"), "limits": merged_limits(snapshot.values.get("limits"), limits)}


def _next_step(snapshot: StateSnapshot, limits: Mapping[str, Any] | None) -> ForkPoint | None:
    """Return what must be written before the thread can run on, or `None` when it just runs on."""
    values: Mapping[str, Any] = snapshot.values
    changed = {"limits": merged_limits(values.get("limits"), limits)} if limits is not None else {}
    if snapshot.next:
        if not changed or not _begun(snapshot):
            return None
        return ForkPoint(changed, fork_at_checkpoint(values, snapshot.next).as_node)
    if values.get("stop_reason") == "failed":
        return ForkPoint({"stop_reason": None, "answer": "", **changed}, _before_failure(values))
    if not changed or values.get("stop_reason") == "accepted":
        return None
    return ForkPoint({"stop_reason": None, "answer": "", **changed}, "feedback")  # `check` decides anew


def _before_failure(values: Mapping[str, Any]) -> str:
    """Return the node before the one that failed."""
    run = current_run(values["events"])
    failed = next(event for event in reversed(run) if event["kind"] == "failure")
    if failed.get("node") == "refine":
        return "check"
    return "generate" if all(event["kind"] != "revision" for event in run) else "refine"


def _checkpoint_fork(thread: Thread, snapshot: StateSnapshot, checkpoint_id: str, **changes: Any) -> ForkPoint:
    if snapshot.created_at is None:
        raise UnknownThreadError(f"the thread {thread.thread_id!r} has no checkpoint {checkpoint_id!r}")
    return fork_at_checkpoint(snapshot.values, snapshot.next, **changes)


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


def _has_draft(snapshot: StateSnapshot, number: int) -> bool:
    return any(attempt.round == number for attempt in attempts(snapshot.values.get("events") or []))


def _latest_round(snapshot: StateSnapshot) -> int | None:
    found = attempts(snapshot.values.get("events") or [])
    return found[-1].round if found else None


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


def _family(runs: Any, thread_id: str) -> list[RunRow]:
    """Return the index rows of a thread's ancestors and all their descendants."""
    rows: dict[str, RunRow] = {}
    root = thread_id
    while (row := runs.get(root)) is not None and row.thread_id not in rows:
        rows[row.thread_id] = row
        if row.parent_thread_id is None or runs.get(row.parent_thread_id) is None:
            break
        root = row.parent_thread_id
    waiting = [root]
    while waiting:
        for child in runs.children(waiting.pop()):
            if child.thread_id not in rows or child.thread_id == thread_id:
                waiting.append(child.thread_id)
            rows[child.thread_id] = child
    return list(rows.values())


def _rows(tuples: Iterator[CheckpointTuple]) -> list[RunRow]:
    """Return one row a thread, read from its newest checkpoint: for savers that keep no index."""
    rows: dict[str, RunRow] = {}
    for stored in tuples:
        _add_row(rows, stored)
    return list(rows.values())


async def _arows(tuples: AsyncIterator[CheckpointTuple]) -> list[RunRow]:
    rows: dict[str, RunRow] = {}
    async for stored in tuples:
        _add_row(rows, stored)
    return list(rows.values())


def _add_row(rows: dict[str, RunRow], stored: CheckpointTuple) -> None:
    row = row_from_checkpoint(stored.config, stored.checkpoint, stored.metadata)
    if row is not None:  # newest first: what an older checkpoint alone knows is its parent
        newer = rows.get(row.thread_id)
        rows[row.thread_id] = newer.after(row) if newer else row
