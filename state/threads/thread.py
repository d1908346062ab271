"""A run that is kept: resumed, read, forked, replayed, compared, answered and stopped. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..dual import adrive, drive
from . import operations
from .answers import answer_of
from .kind import kind_of
from .lease import BusyThreadError, LeaseHolder, StopControl, leased
from .operations import UnknownThreadError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.types import Command

    from ..schema import RefineOutput
    from .diffs import Diff
    from .history import HistoryStep, ThreadTree
    from .kind import SentPrompt
    from .replay import Replay

__all__ = ["BusyThreadError", "Thread", "UnknownThreadError"]


class Thread:
    """One thread of a compiled graph with a checkpointer.

    `history`, `tree` and `resume` work on any graph; `fork`, `replay`, `rerun`, `diff` and other limits need one of
    ours. A pipeline's thread is forked with `build_reasoning_graph`, on the same checkpointer. Each method that touches
    the store has an async twin: `aresume`, `aready`, `aanswer`, `aquestion`, `astop`, `ahistory`, `areplay`, `adiff`,
    `atree`, `afork`, `awithdraw`, `arerun`, `astoppable`.

    Args:
        graph: A compiled graph. Forking to another model means a Thread on a graph built with that model.
        thread_id: The `thread_id` that the runs of the thread are configured with.

    Raises:
        ValueError: The graph has no checkpointer, or the id is none.
        TypeError: It is no graph.

    Example:
        >>> from redraft import Thread, build_refine_graph, open_checkpointer
        >>> from redraft.models import ScriptedModel
        >>> with open_checkpointer("memory") as saver:
        ...     graph = build_refine_graph(ScriptedModel(["Rain on a roof.", "no issues"]), checkpointer=saver)
        ...     output = graph.invoke({"task": "Write about rain."}, {"configurable": {"thread_id": "one"}})
        ...     Thread(graph, "one").replay().matches
        True
    """

    def __init__(self, graph: CompiledStateGraph[Any, Any, Any, Any], thread_id: str) -> None:
        if not hasattr(graph, "checkpointer"):
            raise TypeError(f"a thread is one of a compiled graph, not of {graph!r:.200}")
        if thread_id in (None, ""):
            raise ValueError(f"a thread has an id, not {thread_id!r}")
        if not graph.checkpointer or isinstance(graph.checkpointer, bool):
            raise ValueError(
                "the graph has no checkpointer, so it keeps no threads; build it inside "
                "`with open_checkpointer(…) as saver:` with checkpointer=saver"
            )
        self.graph = graph
        self.saver: BaseCheckpointSaver[Any] = graph.checkpointer
        # Savers store ids as text, so that an id given as a number finds the same thread.
        self.thread_id = str(thread_id)
        self.kind = kind_of(graph)

    def __repr__(self) -> str:
        return f"Thread({self.graph.get_name()!r}, {self.thread_id!r})"

    @property
    def config(self) -> RunnableConfig:
        """The config that runs and reads this thread."""
        return {"configurable": {"thread_id": self.thread_id}}

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
            return drive(operations.resume(self, limits, allow_changes, control))

    async def aresume(self, limits: Mapping[str, Any] | None = None, *, allow_changes: bool = False) -> RefineOutput:
        """Async twin of `resume`."""
        async with self.astoppable() as control:
            return await adrive(operations.resume(self, limits, allow_changes, control))

    def ready(self, limits: Mapping[str, Any] | None = None, *, allow_changes: bool = False) -> dict[str, Any] | None:
        """Write the update that `resume` writes first, and return the input to invoke or stream the graph with.

        To watch the run, stream it: `graph.stream(thread.ready(), thread.config)`.

        Args:
            limits: As in `resume`.
            allow_changes: As in `resume`.

        Raises:
            UnknownThreadError: There is no such thread.
            ChangedGraphError: As in `resume`.
            ValueError: A limit makes no sense, or limits are given to a graph that is not ours.
        """
        return drive(operations.ready(self, limits, allow_changes))

    async def aready(
        self, limits: Mapping[str, Any] | None = None, *, allow_changes: bool = False
    ) -> dict[str, Any] | None:
        """Async twin of `ready`."""
        return await adrive(operations.ready(self, limits, allow_changes))

    # read

    def history(self) -> list[HistoryStep]:
        """Return every step that led to where the thread stands, oldest first; branches that it left are left out.

        Raises:
            UnknownThreadError: There is no such thread.
        """
        return drive(operations.history(self))

    async def ahistory(self) -> list[HistoryStep]:
        """Async twin of `history`."""
        return await adrive(operations.history(self))

    def replay(self) -> Replay:
        """Return the output recomputed from the record, and whether it agrees with the result. Calls no model, ever.

        A new task that has not begun, for its limits were refused, say, is not looked at.

        Raises:
            UnknownThreadError: There is no such thread.
            ValueError: The thread holds no record of ours.
        """
        return drive(operations.replay(self))

    async def areplay(self) -> Replay:
        """Async twin of `replay`."""
        return await adrive(operations.replay(self))

    def prompts(self) -> list[SentPrompt]:
        """Return the prompts of the last run, as its models were asked with them: made again from the record.

        Raises:
            UnknownThreadError: There is no such thread.
            ValueError: Another graph made the run, or this kind of graph can't tell.
        """
        return drive(operations.prompts(self))

    async def aprompts(self) -> list[SentPrompt]:
        """Async twin of `prompts`."""
        return await adrive(operations.prompts(self))

    def diff(self, other: Thread | str | None = None, *, before: int | None = None, after: int | None = None) -> Diff:
        """Compare two drafts of this thread, or of this and another, word by word.

        Args:
            other: The thread that `after` is taken from, or its id; default: this one.
            before: Round of the draft that is compared; default: the first, or the best where `other` is given.
            after: Round of the draft that it is compared with; default: the best.

        Raises:
            UnknownThreadError: There is no such thread.
            ValueError: There is no such draft.
            TypeError: `other` is neither a thread nor its id.
        """
        return drive(operations.diff(self, other, before, after))

    async def adiff(
        self, other: Thread | str | None = None, *, before: int | None = None, after: int | None = None
    ) -> Diff:
        """Async twin of `diff`."""
        return await adrive(operations.diff(self, other, before, after))

    def tree(self) -> ThreadTree:
        """Return the branch tree that this thread is part of, from its oldest known ancestor.

        Raises:
            UnknownThreadError: There is no such thread.
        """
        return drive(operations.tree(self))

    async def atree(self) -> ThreadTree:
        """Async twin of `tree`."""
        return await adrive(operations.tree(self))

    # branch

    def fork(
        self,
        *,
        at: int | str,
        feedback: str | None = None,
        verifiers: Sequence[str] = (),
        draft: str | None = None,
        limits: Mapping[str, Any] | None = None,
        thread_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Thread:
        """Return a new thread that starts in the middle of this one. Only writes: `resume` runs it; this one stays.

        Args:
            at: A round (0 is the first draft), `"best"` or `"last"` for that of such a draft, or a checkpoint id.
            feedback: What to change. It stands in for the opinions of that draft, beside what programs found, and is a
                requirement of all drafts from then on: writers and judges are told it with the task, and none is
                accepted until somebody who can tell says that it is met. The answer is that draft or a later one.
            verifiers: The names of programs that tell it, as `["uses_words:winter"]`; see `redraft.nodes.verifier`.
                Without any, a model that judges is asked about it, or a person tells.
            draft: Replaces that draft; it is judged anew.
            limits: Changed limits; those not named stay.
            thread_id: Of the new thread; default: this one's with a random ending.
            metadata: Kept with the fork's first checkpoint, over what is kept of its parent; `None` drops a value.

        Raises:
            UnknownThreadError: There is no such thread or checkpoint.
            ValueError: There is no such draft or verifier, a text is blank, a limit makes no sense, `thread_id` is
                taken, `at` is neither a round nor an id, a verifier opens a file or stands without feedback, the graph
                is not ours, or the record was edited after it was written.
        """
        changes: dict[str, Any] = {"feedback": feedback, "verifiers": verifiers, "draft": draft, "limits": limits}
        return Thread(self.graph, drive(operations.fork(self, at, thread_id, metadata, **changes)))

    async def afork(
        self,
        *,
        at: int | str,
        feedback: str | None = None,
        verifiers: Sequence[str] = (),
        draft: str | None = None,
        limits: Mapping[str, Any] | None = None,
        thread_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Thread:
        """Async twin of `fork`."""
        changes: dict[str, Any] = {"feedback": feedback, "verifiers": verifiers, "draft": draft, "limits": limits}
        return Thread(self.graph, await adrive(operations.fork(self, at, thread_id, metadata, **changes)))

    def withdraw(self, requirement: str) -> None:
        """Withdraw what was asked for by feedback. Only writes: `resume` then decides anew.

        Args:
            requirement: Its text, as the output lists it in `requirements`.

        Raises:
            UnknownThreadError: There is no such thread.
            ValueError: No such requirement stands, or the graph is not ours.
            BusyThreadError: As in `resume`.
        """
        with self.stoppable():
            drive(operations.withdraw(self, requirement))

    async def awithdraw(self, requirement: str) -> None:
        """Async twin of `withdraw`."""
        async with self.astoppable():
            await adrive(operations.withdraw(self, requirement))

    def rerun(self, *, thread_id: str | None = None) -> Thread:
        """Run the same task with the same limits once more, in a thread of its own, and return that. Spends tokens.

        Raises:
            UnknownThreadError: There is no such thread.
            ValueError: `thread_id` is taken, no task of this thread has begun, or the graph is not ours.
        """
        name, task_input = drive(operations.rerun(self, thread_id))
        branch = Thread(self.graph, name)
        with branch.stoppable() as control:
            operations.run(branch, task_input, control).make()
        return branch

    async def arerun(self, *, thread_id: str | None = None) -> Thread:
        """Async twin of `rerun`."""
        name, task_input = await adrive(operations.rerun(self, thread_id))
        branch = Thread(self.graph, name)
        async with branch.astoppable() as control:
            await operations.run(branch, task_input, control).amake()
        return branch

    # people

    def question(self) -> dict[str, Any] | None:
        """Return the question that a person is asked right now, or `None` where the thread waits for nobody.

        It holds `task`, `round`, `draft`, `score`, `critiques` and `replies`, and in `error` why the last was refused.

        Raises:
            UnknownThreadError: There is no such thread.
        """
        return drive(operations.question(self))

    async def aquestion(self) -> dict[str, Any] | None:
        """Async twin of `question`."""
        return await adrive(operations.question(self))

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
            return drive(operations.answer(self, reply, at, by, control))

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
            return await adrive(operations.answer(self, reply, at, by, control))

    def ready_answer(self, reply: Any, *, at: int | None = None, by: str | None = None) -> Command[Any]:
        """Check a reply, and return the command to invoke or stream the graph with. Writes nothing.

        To watch the run, stream it within `stoppable`; `answer` checks and runs.

        Args:
            reply: As `human_critic` takes it.
            at: As in `answer`.
            by: As in `answer`.

        Raises:
            UnknownThreadError: As in `answer`.
            ValueError: As in `answer`.
        """
        return drive(operations.ready_answer(self, reply, at, by))

    async def aready_answer(self, reply: Any, *, at: int | None = None, by: str | None = None) -> Command[Any]:
        """Async twin of `ready_answer`."""
        return await adrive(operations.ready_answer(self, reply, at, by))

    # stop

    def stoppable(self) -> AbstractContextManager[StopControl]:
        """Give the control that a run of this thread is invoked with so that `stop` reaches it, from any process.

        ```python
        with thread.stoppable() as control:
            graph.invoke({"task": …}, thread.config, control=control)
        ```

        `resume`, `answer` and the shell's commands do this by themselves. The run looks between two steps whether it
        was asked to stop, and then raises LangGraph's `GraphDrained`; what is finished is saved. Processes see each
        other where the checkpointer is a database of ours.

        Around a run of a graph that redraft did not build it is also how to say where the run begins and ends; without
        it, the saver guesses that.

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
        return drive(operations.stop(self))

    async def astop(self) -> str:
        """Async twin of `stop`."""
        return await adrive(operations.stop(self))
