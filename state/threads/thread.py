"""A run that is kept: resumed, read, forked, replayed, compared, answered and stopped. Internal."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from ..dual import Do, adrive, do, do_all, drive
from ..events import DRAFT_KINDS
from ..summary import attempts, best_draft, rounds, run_options
from .answers import ASK, answer_of, pending_interrupts, read_answer
from .diffs import Diff, diff_words
from .fingerprint import ChangedGraphError, differences, fingerprint_in_force
from .history import HistoryStep, ThreadTree, family, grow_tree, read_history, rows_of
from .kind import kind_of
from .lease import BusyThreadError, LeaseHolder, leased, leases_of, request_stop
from .record_checks import change_update, changes, compared, made_by, refuse_edited
from .replay import Replay, replay_record
from .snapshots import check_stored, snapshot_at, snapshots_of

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.types import Command, Interrupt, StateSnapshot

    from ..events import Event
    from ..schema import RefineOutput
    from ..storage.index import RunRow
    from .kind import GraphKind
    from .lease import StopControl

    T = TypeVar("T")
    Logic: TypeAlias = Generator[Do, Any, T]
    """A method as it is written once, for both worlds; see `redraft.state.dual`."""

__all__ = ["BusyThreadError", "Thread", "UnknownThreadError"]


class UnknownThreadError(LookupError):
    """No checkpoint of this thread is stored where the graph's checkpointer looks."""


class Thread:
    """One thread of a compiled graph with a checkpointer.

    `history`, `tree` and `resume` work on any graph; `fork`, `replay`, `rerun`, `diff` and other limits need one of
    ours. A pipeline's thread is forked with `build_reasoning_graph`, on the same checkpointer. Each method that touches
    the store has an async twin: `aresume`, `aready`, `aanswer`, `aquestion`, `astop`, `ahistory`, `areplay`, `adiff`,
    `atree`, `afork`, `arerun`, `astoppable`.

    Args:
        graph: A compiled graph. Forking to another model means a Thread on a graph built with that model.
        thread_id: The `thread_id` that the runs of the thread are configured with.

    Raises:
        ValueError: The graph has no checkpointer.
    """

    def __init__(self, graph: CompiledStateGraph[Any, Any, Any, Any], thread_id: str) -> None:
        if not graph.checkpointer or isinstance(graph.checkpointer, bool):
            raise ValueError(
                "the graph has no checkpointer, so it keeps no threads; build it inside "
                "`with open_checkpointer(…) as saver:` with checkpointer=saver"
            )
        self.graph = graph
        # Savers store ids as text, so that an id given as a number finds the same thread.
        self.thread_id = str(thread_id)
        self.kind = kind_of(graph)

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

    def resume(self, limits: Mapping[str, Any] | None = None, *, allow_changes: bool = False) -> RefineOutput:
        """Run on from where the thread stands, and return the output.

        What is finished stays finished: no saved call is made again. A failed run goes on at the node that failed. A
        run that stopped for another reason returns its output as it is, unless new limits give it room. A pipeline
        goes on at the step that failed or that a budget stopped; one at its end returns its output.

        Args:
            limits: Changed limits; those not named stay. A `Limits` replaces them all.
            allow_changes: Go on also where the graph is another one than that which the run was begun with: its nodes,
                models, critics, prompts or options. The record says then what changed, in a `change` event.

        Raises:
            UnknownThreadError: There is no such thread.
            ChangedGraphError: The graph is another one; the message says in what. Nothing has changed then.
            ValueError: A limit makes no sense, or limits are given to a graph that is not ours.
            BusyThreadError: It is being run right now.
            GraphDrained: LangGraph's own: someone asked it to `stop`. Resumed again, it goes on.
        """
        with self.stoppable() as control:
            return drive(self._resume(limits, allow_changes, control))

    async def aresume(self, limits: Mapping[str, Any] | None = None, *, allow_changes: bool = False) -> RefineOutput:
        """Async twin of `resume`."""
        async with self.astoppable() as control:
            return await adrive(self._resume(limits, allow_changes, control))

    def _resume(
        self, limits: Mapping[str, Any] | None, allow_changes: bool, control: StopControl
    ) -> Logic[RefineOutput]:
        given = yield from self._ready(limits, allow_changes)
        return cast("RefineOutput", (yield self._run(given, control)))

    def ready(self, limits: Mapping[str, Any] | None = None, *, allow_changes: bool = False) -> dict[str, Any] | None:
        """Write what `resume` writes before it runs, and return what to invoke or stream the graph with.

        To watch the run, stream it: `graph.stream(thread.ready(), thread.config)`.

        Args:
            limits: As in `resume`.
            allow_changes: As in `resume`.

        Raises:
            UnknownThreadError: There is no such thread.
            ChangedGraphError: As in `resume`.
            ValueError: A limit makes no sense, or limits are given to a graph that is not ours.
        """
        return drive(self._ready(limits, allow_changes))

    async def aready(
        self, limits: Mapping[str, Any] | None = None, *, allow_changes: bool = False
    ) -> dict[str, Any] | None:
        """Async twin of `ready`."""
        return await adrive(self._ready(limits, allow_changes))

    def _ready(self, limits: Mapping[str, Any] | None, allow_changes: bool) -> Logic[dict[str, Any] | None]:
        if limits is not None:
            self._check("resuming with other limits")
        stored, snapshot = yield from self._read()
        found = self._changes(stored, snapshot, limits)
        if found and not allow_changes:
            raise self._changed(found)
        if _killed_in_mid_step(stored, snapshot):
            yield do(self.graph, "invoke", None, compared(self.config), interrupt_before="*", durability="sync")
            stored, snapshot = yield from self._read()
        # A change is written as changed limits are, with or without any.
        step = self.kind.next_step(snapshot, limits if limits is not None or not found else {})
        if step and found:
            step.values.update(change_update(self.kind, snapshot, found))
        # LangGraph goes on after the node that an update is written as, as if it had just run.
        if step:
            yield do(self.graph, "update_state", self.config, step.values, as_node=step.as_node)
        return self.kind.restart(stored, snapshot, limits)

    def _changed(self, found: Sequence[str]) -> ChangedGraphError:
        return ChangedGraphError(
            f"the thread {self.thread_id!r} was begun with another graph: {'; '.join(found)}",
            "To go on with this one, resume it with allow_changes=True (--allow-changes at the shell)",
        )

    def _changes(self, stored: CheckpointTuple, snapshot: StateSnapshot, limits: Mapping[str, Any] | None) -> list[str]:
        """Return in what this graph differs from that which began the run; nothing where nothing would run."""
        if not self.kind.keeps_record:
            # A run of ours has all of these, from its first node on.
            ours = {"head", "oracle", "accepted_by"} <= stored.checkpoint["channel_values"].keys()
            strange = ours and "head" not in self.graph.channels
            return [f"{self.graph.get_name()!r} is no graph of redraft"] if strange else []
        finished = not snapshot.next and snapshot.values.get("stop_reason") not in (None, "failed")
        return [] if finished and limits is None else changes(self.kind, self.graph.get_name(), snapshot)

    # read

    def history(self) -> list[HistoryStep]:
        """Return every step that led to where the thread stands, oldest first; branches that it left are left out.

        Raises:
            UnknownThreadError: There is no such thread.
        """
        return drive(self._history())

    async def ahistory(self) -> list[HistoryStep]:
        """Async twin of `history`."""
        return await adrive(self._history())

    def _history(self) -> Logic[list[HistoryStep]]:
        yield from self._stored()
        return read_history((yield snapshots_of(self.graph, self.config)), self.kind)

    def replay(self) -> Replay:
        """Return the output recomputed from the record, and whether it agrees with the result. Calls no model, ever.

        A new task that has not begun, for its limits were refused, say, is not looked at.

        Raises:
            UnknownThreadError: There is no such thread.
            ValueError: The thread holds no record of ours.
        """
        return drive(self._replay())

    async def areplay(self) -> Replay:
        """Async twin of `replay`."""
        return await adrive(self._replay())

    def _replay(self) -> Logic[Replay]:
        _, snapshot = yield from self._read()
        values = self.kind.values_of_last_run(snapshot) if self.kind.keeps_record else {}
        return replay_record(values, reopened=bool(snapshot.next))

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
        return drive(self._diff(other, before, after))

    async def adiff(self, other: Thread | None = None, *, before: int | None = None, after: int | None = None) -> Diff:
        """Async twin of `diff`."""
        return await adrive(self._diff(other, before, after))

    def _diff(self, other: Thread | None, before: int | None, after: int | None) -> Logic[Diff]:
        mine = yield from self._record()
        others = (yield from other._record()) if other else mine
        return diff_words(_draft(mine, before, first=other is None), _draft(others, after, first=False))

    def tree(self) -> ThreadTree:
        """Return the branch tree that this thread is part of, from its oldest known ancestor.

        Raises:
            UnknownThreadError: There is no such thread.
        """
        return drive(self._tree())

    async def atree(self) -> ThreadTree:
        """Async twin of `tree`."""
        return await adrive(self._tree())

    def _tree(self) -> Logic[ThreadTree]:
        yield from self._stored()
        if runs := getattr(self.saver, "runs", None):
            return grow_tree(self.thread_id, (yield from family(runs, self.thread_id)))
        # Without an index, every checkpoint of the saver is read.
        return grow_tree(self.thread_id, rows_of((yield do_all(self.saver, "list", None))))

    # branch

    def fork(
        self,
        *,
        at: int | str,
        feedback: str | None = None,
        draft: str | None = None,
        limits: Mapping[str, Any] | None = None,
        thread_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Thread:
        """Return a new thread that starts in the middle of this one. Only writes: `resume` runs it; this one stays.

        Args:
            at: A round (0 is the first draft) or a checkpoint id.
            feedback: Replaces the critiques of that draft, and with them its acceptance.
            draft: Replaces that draft; it is judged anew.
            limits: Changed limits; those not named stay.
            thread_id: Of the new thread; default: this one's with a random ending.
            metadata: Kept with the fork's first checkpoint, over what is kept of its parent; `None` drops a value.

        Raises:
            UnknownThreadError: There is no such thread or checkpoint.
            ValueError: There is no such draft, a text is blank, a limit makes no sense, `thread_id` is taken, `at` is
                neither a round nor an id, the graph is not ours, or the record was edited after it was written.
        """
        return drive(self._fork(at, thread_id, metadata, feedback=feedback, draft=draft, limits=limits))

    async def afork(
        self,
        *,
        at: int | str,
        feedback: str | None = None,
        draft: str | None = None,
        limits: Mapping[str, Any] | None = None,
        thread_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Thread:
        """Async twin of `fork`."""
        return await adrive(self._fork(at, thread_id, metadata, feedback=feedback, draft=draft, limits=limits))

    def _fork(
        self, at: int | str, thread_id: str | None, given: Mapping[str, Any] | None, **changes: Any
    ) -> Logic[Thread]:
        branch = yield from self._branch("fork()", thread_id)
        if not isinstance(at, int | str) or isinstance(at, bool) or at == "":
            raise ValueError(f"at must be a round (0 is the first draft) or a checkpoint id, not {at!r}")
        _, latest = yield from self._read()
        if isinstance(at, str):
            snapshot = yield from snapshot_at(self.graph, _at(self.config, at))
            if snapshot.created_at is None:
                raise UnknownThreadError(f"the thread {self.thread_id!r} has no checkpoint {at!r}")
        else:
            snapshot = yield from self._ending_with(at, latest)
        for values in (latest.values, snapshot.values):
            refuse_edited(self.kind, self.thread_id, values)
        point = self.kind.fork_point(snapshot, at, opening=self._fork_event(snapshot, latest, at), **changes)
        known: Mapping[str, Any] = {**(snapshot.metadata or {}), **(latest.metadata or {})}
        # A saver without an index keeps preset and recipe in the metadata only.
        runs = getattr(self.saver, "runs", None)
        row: RunRow | None = (yield do(runs, "get", self.thread_id)) if runs else None
        metadata = {
            "redraft_parent_thread": self.thread_id,
            "redraft_parent_checkpoint": snapshot.config["configurable"].get("checkpoint_id"),
            "redraft_fork_at": at,
            "redraft_recipe": row.recipe if row else known.get("redraft_recipe"),
            "redraft_preset": row.preset if row else known.get("redraft_preset"),
            **(given or {}),
        }
        kept = {key: value for key, value in metadata.items() if value is not None}
        config = {**branch.config, "metadata": kept}
        yield do(self.graph, "update_state", config, point.values, as_node=point.as_node)
        return branch

    def _fork_event(self, snapshot: StateSnapshot, latest: StateSnapshot, at: int | str) -> dict[str, Any]:
        """Return the event that a fork's own part begins with."""
        events, newest = self.kind.read(snapshot.values), self.kind.read(latest.values)
        # A graph that only reads forks for the one that runs the parent now, whose recipe the fork gets.
        present, options = self.kind.fingerprint, self.kind.options
        if not present:
            present, options = fingerprint_in_force(newest), run_options(newest)
        return {
            "kind": "fork",
            "round": rounds(events),
            "by": "caller",
            "text": "; ".join(differences(fingerprint_in_force(events), present)),
            "parent": self.thread_id,
            "parent_head": snapshot.values.get("head") or "",
            "fork_at": at,
            # Told in any case: a change that came later in the parent is not in what the fork keeps.
            **made_by(present, options, events),
        }

    def _ending_with(self, number: int, latest: StateSnapshot) -> Logic[StateSnapshot]:
        """Return the newest checkpoint that ends with the draft of that round, or the newest of all."""

        def ends_with_it(snapshot: StateSnapshot) -> bool:
            return self.kind.begun(snapshot) and _latest_round(self.kind.read(snapshot.values)) == number

        if any(attempt.round == number for attempt in attempts(self.kind.read(latest.values))):
            # Newest first, so that all that was said about the draft comes along.
            found = yield snapshots_of(self.graph, self.config, ends_with_it)
            if ends_with_it(found[-1]):
                return cast("StateSnapshot", found[-1])
        return latest

    def rerun(self, *, thread_id: str | None = None) -> Thread:
        """Run the same task with the same limits once more, in a thread of its own, and return that. Spends tokens.

        Raises:
            UnknownThreadError: There is no such thread.
            ValueError: `thread_id` is taken, no task of this thread has begun, or the graph is not ours.
        """
        branch, given = drive(self._rerun(thread_id))
        with branch.stoppable() as control:
            branch._run(given, control).make()
        return branch

    async def arerun(self, *, thread_id: str | None = None) -> Thread:
        """Async twin of `rerun`."""
        branch, given = await adrive(self._rerun(thread_id))
        async with branch.astoppable() as control:
            await branch._run(given, control).amake()
        return branch

    def _rerun(self, thread_id: str | None) -> Logic[tuple[Thread, dict[str, Any]]]:
        _, snapshot = yield from self._read()
        branch = yield from self._branch("rerun()", thread_id)
        return branch, self.kind.task_again(snapshot)

    # people

    def question(self) -> dict[str, Any] | None:
        """Return what a person is asked right now, or `None` where the thread waits for nobody.

        It holds `task`, `round`, `draft`, `score`, `critiques` and `replies`, and in `error` why the last was refused.

        Raises:
            UnknownThreadError: There is no such thread.
        """
        return drive(self._question())

    async def aquestion(self) -> dict[str, Any] | None:
        """Async twin of `question`."""
        return await adrive(self._question())

    def _question(self) -> Logic[dict[str, Any] | None]:
        asked = _our_questions(pending_interrupts((yield from self._stored())))
        return dict(asked[-1].value) if asked else None

    def answer(
        self,
        *,
        accept: bool = False,
        feedback: str | None = None,
        draft: str | None = None,
        stop: bool = False,
        score: float | None = None,
        at: int | None = None,
        by: str | None = None,
    ) -> RefineOutput:
        """Answer the question that the thread waits with, run on, and return the output.

        It runs until it ends, or until a person is asked again: `question()` then says about what.

        Args:
            accept: The draft is right.
            feedback: What to change; the draft is revised.
            draft: The whole text to put in its place; it counts as a revision, and is accepted.
            stop: The run ends here, as `human`.
            score: How good the draft is, 0–1, beside one of these.
            at: Round of the draft that is meant; an answer to a question about another one is refused.
            by: Name of the person who answers; where several are asked, an answer to another's question is refused.

        Raises:
            UnknownThreadError: There is no such thread: it never began.
            ValueError: The thread waits for nobody, since it is finished, stands in the middle of a run, or was
                answered already; or it asks about another draft than `at`, or another person than `by`; or not exactly
                one answer is given, or one that can't be read. Nothing has changed then.
            ChangedGraphError: As in `resume`, which is done first then; it asks the question again.
            BusyThreadError: As in `resume`.
            GraphDrained: As in `resume`.
        """
        reply = answer_of(accept=accept, feedback=feedback, draft=draft, stop=stop, score=score)
        with self.stoppable() as control:
            return drive(self._answer(reply, at, by, control))

    async def aanswer(
        self,
        *,
        accept: bool = False,
        feedback: str | None = None,
        draft: str | None = None,
        stop: bool = False,
        score: float | None = None,
        at: int | None = None,
        by: str | None = None,
    ) -> RefineOutput:
        """Async twin of `answer`."""
        reply = answer_of(accept=accept, feedback=feedback, draft=draft, stop=stop, score=score)
        async with self.astoppable() as control:
            return await adrive(self._answer(reply, at, by, control))

    def _answer(self, reply: Any, at: int | None, by: str | None, control: StopControl) -> Logic[RefineOutput]:
        given = yield from self._ready_answer(reply, at, by)
        return cast("RefineOutput", (yield self._run(given, control)))

    def ready_answer(self, reply: Any, *, at: int | None = None, by: str | None = None) -> Command[Any]:
        """Return what to invoke or stream the graph with to give a reply, having checked it. Writes nothing.

        To watch the run, stream it within `stoppable`; `answer` checks and runs.

        Args:
            reply: As `human_critic` takes it.
            at: As in `answer`.
            by: As in `answer`.

        Raises:
            UnknownThreadError: As in `answer`.
            ValueError: As in `answer`.
        """
        return drive(self._ready_answer(reply, at, by))

    async def aready_answer(self, reply: Any, *, at: int | None = None, by: str | None = None) -> Command[Any]:
        """Async twin of `ready_answer`."""
        return await adrive(self._ready_answer(reply, at, by))

    def _ready_answer(self, reply: Any, at: int | None, by: str | None) -> Logic[Command[Any]]:
        from langgraph.types import Command

        stored = yield from self._stored()
        pending = pending_interrupts(stored)
        asked = _our_questions(pending)
        if pending and not asked:
            raise ValueError(
                f"the thread {self.thread_id!r} waits at an interrupt of another node, which asks for something else: "
                "answer with graph.invoke(Command(resume=…), config)"
            )
        if not asked:
            raise ValueError(
                f"the thread {self.thread_id!r} {_standing(stored, self.kind)}: there is no question to answer"
            )
        meant = [one for one in asked if at in (None, one.value["round"]) and by in (None, one.value["by"])]
        if not meant:
            question = asked[-1].value
            whose = "" if by is None else f" to {by!r}"
            waits = f"the draft of round {question['round']}" + ("" if by is None else f" for {question['by']!r}")
            about = "" if at is None else f" about round {at!r}"
            raise ValueError(
                f"the question{whose}{about} of thread {self.thread_id!r} is answered or never was asked; "
                f"it waits with {waits}"
            )
        if found := self._changes(stored, (yield from snapshot_at(self.graph, self.config, found=stored)), None):
            raise self._changed(found)
        # Read here only to refuse a bad reply before anything changes; the node reads it again.
        read_answer(reply, draft=meant[-1].value["draft"])
        # Where graphs run side by side, LangGraph wants to know whose question this answers.
        return Command(resume={meant[-1].id: reply} if len(pending) > 1 else reply)

    # stop

    def stoppable(self) -> AbstractContextManager[StopControl]:
        """Give what a run of this thread is invoked with so that `stop` reaches it, also from another process.

        ```python
        with thread.stoppable() as control:
            graph.invoke({"task": …}, thread.config, control=control)
        ```

        `resume`, `answer` and the shell's commands do this by themselves. The run looks between two steps whether it
        was asked to stop, and then raises LangGraph's `GraphDrained`; what is finished is saved. Processes see each
        other where the checkpointer is a database of ours.

        Raises:
            BusyThreadError: The thread is being run right now.
        """
        return leased(self.saver, self.thread_id)

    def astoppable(self) -> AbstractAsyncContextManager[StopControl]:
        """Async twin of `stoppable`, for `async with`: it never blocks the event loop.

        Whether someone asked the run to stop is looked up beside it, twice a second; who asks within this process is
        heard before the next step.
        """
        return LeaseHolder(self.saver).leased(self.thread_id)

    def stop(self) -> str:
        """Ask whoever runs this thread to stop after the step it is in, and return who that is; `resume` goes on.

        Raises:
            UnknownThreadError: There is no such thread.
            ValueError: Nobody runs it: it is finished, waits for a person, or lies interrupted.
        """
        return drive(self._stop())

    async def astop(self) -> str:
        """Async twin of `stop`."""
        return await adrive(self._stop())

    def _stop(self) -> Logic[str]:
        # Before the thread is read: a run holds its lease before its first checkpoint is stored.
        if runner := (yield from request_stop(leases_of(self.saver), self.thread_id)):
            return runner.described
        stored = yield from self._stored()
        raise ValueError(f"the thread {self.thread_id!r} {_standing(stored, self.kind)}, so there is nothing to stop")

    # what these share

    def _run(self, given: Any, control: StopControl) -> Do:
        # "sync": each step is saved before the next begins, so that a process that dies loses no finished one.
        return do(self.graph, "invoke", given, compared(self.config), durability="sync", control=control)

    def _check(self, what: str) -> None:
        self.kind.check(what, thread_id=self.thread_id, graph_name=self.graph.get_name())

    def _branch(self, what: str, thread_id: str | None) -> Logic[Thread]:
        """Return a thread that is not there yet, for what makes one of this.

        Raises:
            ValueError: `thread_id` is taken, or the graph is of a kind that can't do that.
        """
        self._check(what)
        branch = Thread(self.graph, thread_id or f"{self.thread_id}-{secrets.token_hex(3)}")
        if (yield do(self.saver, "get_tuple", branch.config)) is not None:
            raise ValueError(f"the thread {branch.thread_id!r} exists already; choose another thread_id")
        return branch

    def _stored(self) -> Logic[CheckpointTuple]:
        stored: CheckpointTuple | None = yield do(self.saver, "get_tuple", self.config)
        if stored is None:
            raise UnknownThreadError(f"there is no thread {self.thread_id!r}")
        # Before anything is made of it: others may have written to the database.
        check_stored(self.graph, stored)
        return stored

    def _read(self) -> Logic[tuple[CheckpointTuple, StateSnapshot]]:
        """Read the newest checkpoint, once."""
        stored = yield from self._stored()
        return stored, (yield from snapshot_at(self.graph, self.config, found=stored))

    def _record(self) -> Logic[list[Event]]:
        _, snapshot = yield from self._read()
        return self.kind.read(snapshot.values)


def _at(config: RunnableConfig, checkpoint_id: str) -> RunnableConfig:
    return {"configurable": {**config["configurable"], "checkpoint_id": checkpoint_id}}


def _killed_in_mid_step(stored: CheckpointTuple, snapshot: StateSnapshot) -> bool:
    """Return whether a node's writes are saved but not the checkpoint that follows.

    `get_state` shows such a thread as finished, and `update_state` would drop the writes. Running it with an interrupt
    before every node applies them and runs nothing.
    """
    return not snapshot.next and bool(stored.pending_writes)


def _latest_round(events: Sequence[Event]) -> int | None:
    for event in reversed(events):
        if event["kind"] in DRAFT_KINDS and not event.get("rejected"):
            number: int = event["round"]
            return number
        # What is before belongs to an earlier task, whose rounds count from 0 as well.
        if event["kind"] == "task":
            break
    return None


def _draft(events: Sequence[Event], number: int | None, *, first: bool) -> str:
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


def _our_questions(pending: Sequence[Interrupt]) -> list[Interrupt]:
    return [one for one in pending if isinstance(one.value, dict) and one.value.get("ask") == ASK]


def _standing(stored: CheckpointTuple, kind: GraphKind) -> str:
    """Return where a thread stands that nobody runs, in words that follow its name."""
    if pending_interrupts(stored):
        return "waits for a person, whose answer may end it"
    values = kind.loop_values(stored.checkpoint["channel_values"])
    waits = kind.waiting(stored)
    if values.get("stop_reason") and not waits:
        return f"is finished ({values['stop_reason']})"
    if not waits and "head" not in values:  # which every task of ours sets
        return "waits for nobody"
    return "stands in the middle of a run and waits for nobody (resume runs it on)"
