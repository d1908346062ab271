"""A thread that is steered while it runs or waits: a person answers it, and anyone stops it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from .answers import ASK, answer_of, pending_interrupts, read_answer
from .kind import kind_of
from .lease import alive, begin, under_way
from .snapshots import check_stored

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.types import Command, Interrupt

    from ..schema import RefineOutput
    from .kind import GraphKind
    from .lease import StopControl

__all__ = ["SteeredThread", "UnknownThreadError"]


class UnknownThreadError(LookupError):
    """No checkpoint of this thread is stored where the graph's checkpointer looks."""


class SteeredThread:
    """What every `Thread` can do with a run that waits or is under way; see there."""

    def __init__(self, graph: CompiledStateGraph[Any, Any, Any, Any], thread_id: str) -> None:
        if not graph.checkpointer or isinstance(graph.checkpointer, bool):
            raise ValueError(
                "the graph has no checkpointer, so it keeps no threads; build it inside "
                "`with open_checkpointer(…) as saver:` with checkpointer=saver"
            )
        self.graph = graph
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

    # people

    def question(self) -> dict[str, Any] | None:
        """Return what a person is asked right now, or `None` where the thread waits for nobody.

        It holds `task`, `round`, `draft`, `score`, `critiques` and `replies`, and in `error` why the last was refused.

        Raises:
            UnknownThreadError: There is no such thread.
        """
        return _question(self._stored())

    async def aquestion(self) -> dict[str, Any] | None:
        """Async twin of `question`."""
        return _question(await self._astored())

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
            BusyThreadError: As in `resume`.
            GraphDrained: As in `resume`.
        """
        reply = answer_of(accept=accept, feedback=feedback, draft=draft, stop=stop, score=score)
        with self.stoppable() as control:
            return self._invoke(self.ready_answer(reply, at=at, by=by), control)

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
        with self.stoppable() as control:
            return await self._ainvoke(await self.aready_answer(reply, at=at, by=by), control)

    def ready_answer(self, reply: Any, *, at: int | None = None, by: str | None = None) -> Command[Any]:
        """Return what to invoke or stream the graph with to give a reply, having checked it. Writes nothing.

        For who wants to watch, within `stoppable`; `answer` does both.

        Args:
            reply: As `human_critic` takes it.
            at: As in `answer`.
            by: As in `answer`.

        Raises:
            UnknownThreadError: As in `answer`.
            ValueError: As in `answer`.
        """
        return self._answered(self._stored(), reply, at, by)

    async def aready_answer(self, reply: Any, *, at: int | None = None, by: str | None = None) -> Command[Any]:
        """Async twin of `ready_answer`."""
        return self._answered(await self._astored(), reply, at, by)

    # stop

    @contextmanager
    def stoppable(self) -> Iterator[StopControl]:
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
        from .lease import StopControl

        runs = under_way(self.saver)
        runner = begin(runs, self.thread_id)
        try:
            yield StopControl(runs, self.thread_id, runner)
        finally:
            runs.remove(self.thread_id, runner.token)

    def stop(self) -> str:
        """Ask whoever runs this thread to stop after the step it is in, and return who that is; `resume` goes on.

        Raises:
            UnknownThreadError: There is no such thread.
            ValueError: Nobody runs it: it is finished, waits for a person, or lies interrupted.
        """
        runs = under_way(self.saver)
        runner = runs.get(self.thread_id)
        dead = runner is not None and alive(runner.process) is False
        if runner is not None and not dead and runs.ask(self.thread_id, runner.token):
            return runner.told
        stored = self._stored()
        raise ValueError(f"the thread {self.thread_id!r} {_standing(stored, self.kind)}, so there is nothing to stop")

    async def astop(self) -> str:
        """Async twin of `stop`."""
        from asyncio import to_thread

        return await to_thread(self.stop)

    def _invoke(self, given: Any, control: StopControl) -> RefineOutput:
        return cast("RefineOutput", self.graph.invoke(given, self.config, durability="sync", control=control))

    async def _ainvoke(self, given: Any, control: StopControl) -> RefineOutput:
        return cast("RefineOutput", await self.graph.ainvoke(given, self.config, durability="sync", control=control))

    def _answered(self, stored: CheckpointTuple, reply: Any, at: int | None, by: str | None) -> Command[Any]:
        from langgraph.types import Command

        pending = pending_interrupts(stored)
        asked = _ours(pending)
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
        read_answer(reply, draft=meant[-1].value["draft"])
        # Where graphs run side by side, LangGraph wants to know whose question this answers.
        return Command(resume={meant[-1].id: reply} if len(pending) > 1 else reply)

    def _stored(self) -> CheckpointTuple:
        if (stored := self.saver.get_tuple(self.config)) is None:
            raise UnknownThreadError(f"there is no thread {self.thread_id!r}")
        check_stored(self.graph, stored)
        return stored

    async def _astored(self) -> CheckpointTuple:
        if (stored := await self.saver.aget_tuple(self.config)) is None:
            raise UnknownThreadError(f"there is no thread {self.thread_id!r}")
        check_stored(self.graph, stored)
        return stored


def _question(stored: CheckpointTuple) -> dict[str, Any] | None:
    asked = _ours(pending_interrupts(stored))
    return dict(asked[-1].value) if asked else None


def _ours(pending: Sequence[Interrupt]) -> list[Interrupt]:
    return [one for one in pending if isinstance(one.value, dict) and one.value.get("ask") == ASK]


def _standing(stored: CheckpointTuple, kind: GraphKind) -> str:
    """Return where a thread stands that nobody runs, in words that follow its name."""
    values = stored.checkpoint["channel_values"]
    if pending_interrupts(stored):
        return "waits for a person, whose answer may end it"
    waits = kind.waiting(stored)
    if kind.keeps_record and values.get("stop_reason") and not waits:
        return f"is finished ({values['stop_reason']})"
    if not waits and not (kind.keeps_record and "head" in values):  # which every task of ours sets
        return "waits for nobody"
    return "stands in the middle of a run and waits for nobody (resume runs it on)"
