"""Arrows: Runnables from branch to branch that compose with `|`, one step at a time or as a loop, plain or safe."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import Runnable, RunnableConfig, RunnableSequence
from langgraph.errors import GraphBubbleUp

from ...state.branches import Branch
from ...state.results import Result
from ..retrieve import retrieve
from .steps import ReasoningSteps, StepName, nothing_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from os import PathLike

    from ..step import Step

__all__ = ["Arrow", "ArrowError", "InParallel", "LoadDocuments", "LoopArrow", "SafeArrow", "best_branch", "safe"]


class ArrowError(RuntimeError):
    """A step failed. `branch` holds all that was done before, and the failure in its record."""

    def __init__(self, message: str, branch: Branch) -> None:
        super().__init__(message)
        self.branch = branch


class Arrow(Runnable[Branch, Branch]):
    """One step of reasoning as a Runnable: it takes a branch and returns the branch with what it wrote.

    Passages are looked up before the step where the branch has documents, once for each query. A branch that gives the
    step nothing to work on comes back as it is.

    Args:
        steps: How the step asks.
        step: One of `draft`, `critique`, `improve`.
        k: How many passages at most.

    Raises:
        ArrowError: At run: a critique or an improvement failed.
        ValueError: At run: a draft is to be written and the branch has no topic.
        Exception: At run: whatever the retriever or the drafting model raises.
    """

    def __init__(self, steps: ReasoningSteps, step: StepName, *, k: int = 4) -> None:
        self.steps = steps
        self.step = step
        self.k = k
        self.name = step

    def missing(self, branch: Branch) -> str:
        """Return why there is nothing to work on, or an empty text."""
        return nothing_to(self.step, branch.events)

    def invoke(self, input: Branch, config: RunnableConfig | None = None, **_: Any) -> Branch:  # noqa: A002
        """Return the branch after the step."""
        branch = input
        for step in self._due(branch):
            branch = _after(branch, step.invoke(branch.state(), config))
        return branch

    async def ainvoke(self, input: Branch, config: RunnableConfig | None = None, **_: Any) -> Branch:  # noqa: A002
        """Return the branch after the step, without blocking."""
        branch = input
        for step in self._due(branch):
            branch = _after(branch, await step.ainvoke(branch.state(), config))
        return branch

    def _due(self, branch: Branch) -> list[Step]:
        if self.missing(branch):
            return []
        if not branch.topic:
            raise ValueError(f"the branch {branch.name!r} has no topic: give it one with branch.with_topic(…)")
        looked_up = retrieve(branch.documents, k=self.k, prices=self.steps.prices)
        return [looked_up, self.steps.step(self.step, tools=branch.tools)]


class LoadDocuments(Runnable[Branch, Branch]):
    """Reads a folder into the branch's documents, where later arrows look passages up.

    Args:
        opened: Returns what looks a query up in a folder.
        folder: Its path; default: the branch's own `source`. A branch without either comes back as it is.

    Raises:
        Exception: At run: whatever `opened` raises for a folder that is not there, say.
    """

    name = "load_documents"

    def __init__(self, opened: Callable[[str], Any], folder: str | PathLike[str] | None = None) -> None:
        self.opened = opened
        self.folder = folder

    def missing(self, branch: Branch) -> str:
        """Return why there is nothing to load, or an empty text."""
        return "" if self.folder or branch.source else "No folder found to load documents from"

    def invoke(self, input: Branch, config: RunnableConfig | None = None, **_: Any) -> Branch:  # noqa: A002
        """Return the branch over the folder's documents."""
        folder = self.folder or input.source
        if folder is None:
            return input
        return input.with_documents(self.opened(str(folder)), source=str(folder))


class LoopArrow(Runnable[Branch, Branch]):
    """A draft, where there is none yet, and N times a critique and an improvement: 1 + 2N calls of the model.

    It stops as soon as a critique accepts the text, which takes a threshold.

    Args:
        draft: Writes the first draft.
        critique: Criticises the most recent text.
        improve: Improves it.
        iterations: N.

    Raises:
        ValueError: At build: `iterations` is negative.
    """

    def __init__(
        self,
        draft: Runnable[Branch, Branch],
        critique: Runnable[Branch, Branch],
        improve: Runnable[Branch, Branch],
        *,
        iterations: int,
    ) -> None:
        if iterations < 0:
            raise ValueError(f"iterations={iterations!r}: it can't be negative")
        self.arrows = {"draft": draft, "critique": critique, "improve": improve}
        self.iterations = iterations
        self.name = "refinement_loop"

    def invoke(self, input: Branch, config: RunnableConfig | None = None, **_: Any) -> Branch:  # noqa: A002
        """Return the branch after the loop."""
        branch, last, laps = input, "", 0
        while last := self._due(branch, last, laps):
            branch = self.arrows[last].invoke(branch, config)
            laps += last == "improve"
        return branch

    async def ainvoke(self, input: Branch, config: RunnableConfig | None = None, **_: Any) -> Branch:  # noqa: A002
        """Return the branch after the loop, without blocking."""
        branch, last, laps = input, "", 0
        while last := self._due(branch, last, laps):
            branch = await self.arrows[last].ainvoke(branch, config)
            laps += last == "improve"
        return branch

    def _due(self, branch: Branch, last: StepName, laps: int) -> StepName:
        """Return the step that comes after the last one, or an empty text at the end."""
        latest = branch.latest
        if latest is None and not last:
            return "draft"
        if last != "critique":
            return "critique" if laps < self.iterations else ""
        return "" if latest is not None and latest.accepted else "improve"


class SafeArrow(Runnable[Any, Result[Branch]]):
    """An arrow that never raises: from a branch, or the result of another safe arrow, to a result.

    A failure is passed on as it is, and the arrow is not run. An arrow that finds nothing to work on is a failure here.
    """

    def __init__(self, arrow: Runnable[Branch, Branch]) -> None:
        self.arrow = arrow
        self.name = f"safe_{arrow.get_name()}"

    def invoke(self, input: Branch | Result[Branch], config: RunnableConfig | None = None, **_: Any) -> Result[Branch]:  # noqa: A002
        """Return the branch after the arrow as a success, or why there is none."""
        given = self._ready(input)
        try:
            return given.map(lambda branch: self.arrow.invoke(branch, config))
        except GraphBubbleUp:
            raise
        except Exception as error:
            return Result.failure(_said(error))

    async def ainvoke(
        self,
        input: Branch | Result[Branch],  # noqa: A002
        config: RunnableConfig | None = None,
        **_: Any,
    ) -> Result[Branch]:
        """Return the branch after the arrow as a success, or why there is none, without blocking."""
        given = self._ready(input)
        if not given.ok:
            return given
        try:
            return Result.success(await self.arrow.ainvoke(given.value, config))
        except GraphBubbleUp:
            raise
        except Exception as error:
            return Result.failure(_said(error))

    def _ready(self, given: Branch | Result[Branch]) -> Result[Branch]:
        result = Result.success(given) if isinstance(given, Branch) else given
        missing = getattr(self.arrow, "missing", None)
        if not result.ok or missing is None:
            return result
        reason = missing(result.value)
        return Result.failure(reason) if reason else result


def safe(arrow: Runnable[Any, Any]) -> Runnable[Any, Result[Branch]]:
    """Return the arrow in its safe form: it returns a `Result` instead of raising, and stops at the first failure.

    Safe arrows compose with `|`. A composed arrow is made safe step by step, a loop too.
    """
    if isinstance(arrow, SafeArrow):
        return arrow
    if isinstance(arrow, RunnableSequence):
        first, *others = [safe(step) for step in arrow.steps]
        composed = first
        for step in others:
            composed = composed | step
        return composed
    return SafeArrow(arrow)


class InParallel(Runnable[Branch, Branch]):
    """Several arrows on copies of one branch at the same time; the best of the branches goes on.

    A branch that fails is left out.

    Args:
        arrows: One a branch; the branches are named after the first, with `/1`, `/2` … behind.
        by: What a branch is worth; default: as `best_branch`.

    Raises:
        ValueError: At build: there is no arrow.
        ArrowError: At run: all failed.
    """

    def __init__(self, *arrows: Runnable[Branch, Branch], by: Callable[[Branch], Any] | None = None) -> None:
        if not arrows:
            raise ValueError("give the arrows that are to run side by side")
        self.arrows = [safe(arrow) for arrow in arrows]
        self.by = by
        self.name = "in_parallel"

    def invoke(self, input: Branch, config: RunnableConfig | None = None, **_: Any) -> Branch:  # noqa: A002
        """Return the best branch."""
        with ThreadPoolExecutor(len(self.arrows)) as pool:
            running = [
                pool.submit(copy_context().run, arrow.invoke, branch, config) for arrow, branch in self._apart(input)
            ]
            return self._best(input, [one.result() for one in running])

    async def ainvoke(self, input: Branch, config: RunnableConfig | None = None, **_: Any) -> Branch:  # noqa: A002
        """Return the best branch, without blocking."""
        running = [arrow.ainvoke(branch, config) for arrow, branch in self._apart(input)]
        return self._best(input, await asyncio.gather(*running))

    def _apart(self, branch: Branch) -> Iterator[tuple[Runnable[Any, Result[Branch]], Branch]]:
        for number, arrow in enumerate(self.arrows, start=1):
            yield arrow, branch.named(f"{branch.name}/{number}")

    def _best(self, branch: Branch, results: Sequence[Result[Branch]]) -> Branch:
        finished = [result.value for result in results if result.ok]
        if not finished:
            raise ArrowError("; ".join(result.message for result in results), branch)
        return best_branch(finished, by=self.by)


def best_branch(branches: Iterable[Branch], *, by: Callable[[Branch], Any] | None = None) -> Branch:
    """Return the best of several branches; of equals, the first.

    Args:
        branches: What to choose from.
        by: What a branch is worth, the greatest wins; default: whether its best text was accepted, then its score.

    Raises:
        ValueError: There is none.
    """
    found = list(branches)
    if not found:
        raise ValueError("there is no branch to choose from")
    return max(found, key=by or _worth)


def _worth(branch: Branch) -> tuple[bool, float]:
    best = branch.best
    return (False, -1.0) if best is None else (best.accepted, -1.0 if best.score is None else best.score)


def _after(branch: Branch, update: Mapping[str, Any]) -> Branch:
    """Return the branch with what a step wrote.

    Raises:
        ArrowError: The step failed.
    """
    news = update.get("events", [])
    after = branch.extended(news)
    failed = next((event for event in news if event["kind"] == "failure"), None)
    if failed:
        raise ArrowError(f"{failed['node']} failed: {failed['error']}: {failed['text']}", after)
    return after


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, ArrowError) else f"{type(error).__name__}: {error}"
