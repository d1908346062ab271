"""Arrows: Runnables from branch to branch that compose with `|`, one step at a time or as a loop, plain or safe."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import Runnable, RunnableConfig, RunnableSequence
from langgraph.errors import GraphBubbleUp

from ...state.branches import Branch
from ...state.events import failure, record
from ...state.folds import rounds
from ...state.limits import limits_in_force
from ...state.results import Result
from ...state.stopping import spent_budget
from ...state.usage import add_usage
from ..retrieve import retrieve
from .pipeline_steps import repeated
from .steps import ReasoningSteps, StepName, checked_count, nothing_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from os import PathLike

    from ..step import Step

__all__ = ["Arrow", "ArrowError", "InParallel", "LoadDocuments", "LoopArrow", "SafeArrow", "best_branch", "safe"]


class ArrowError(RuntimeError):
    """A step failed, or a budget is spent. `branch` holds all that was done before, and a failure in its record."""

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
        again: Whether a text that was criticised already is criticised once more.

    Raises:
        ValueError: At build: `k` is less than 1. At run: a draft is to be written and the branch has no topic.
        ArrowError: At run: the step failed after the first draft, or a budget of the branch is spent, which the message
            names first.
        Exception: At run: whatever the retriever or the drafting model raises before there is a draft.
    """

    def __init__(self, steps: ReasoningSteps, step: StepName, *, k: int = 4, again: bool = True) -> None:
        checked_count("k", k, least=1)
        self.steps = steps
        self.step = step
        self.k = k
        self.again = again
        self.name = step

    def missing(self, branch: Branch) -> str:
        """Return why there is nothing to work on, or an empty text."""
        return nothing_to(self.step, branch.events)

    def invoke(self, input: Branch, config: RunnableConfig | None = None, **_: Any) -> Branch:  # noqa: A002
        """Return the branch after the step."""
        branch = input
        for step in self._due(branch):
            state = _ready(branch)
            try:
                update = step.invoke(state, config)
            except GraphBubbleUp:
                raise
            except Exception as error:
                update = self._failed(branch, error)
            branch = _after(branch, update)
        return branch

    async def ainvoke(self, input: Branch, config: RunnableConfig | None = None, **_: Any) -> Branch:  # noqa: A002
        """Return the branch after the step, without blocking."""
        branch = input
        for step in self._due(branch):
            state = _ready(branch)
            try:
                update = await step.ainvoke(state, config)
            except GraphBubbleUp:
                raise
            except Exception as error:
                update = self._failed(branch, error)
            branch = _after(branch, update)
        return branch

    def _failed(self, branch: Branch, error: Exception) -> dict[str, Any]:
        """Return the failure for the record; before there is a draft there is nothing to keep, and it is raised."""
        if branch.latest is None:
            raise error
        return record({"head": branch.head}, failure(self.step, rounds(branch.events), error))

    def _due(self, branch: Branch) -> list[Step]:
        if self.missing(branch):
            return []
        if not branch.topic:
            raise ValueError(f"the branch {branch.name!r} has no topic: give it one with branch.with_topic(…)")
        looked_up = retrieve(branch.documents, k=self.k, prices=self.steps.prices)
        return [looked_up, self.steps.step(self.step, tools=branch.tools, again=self.again)]


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

    It stops as soon as a critique accepts the text, which takes a threshold, or an improvement repeats an earlier text.

    Args:
        draft: Writes the first draft.
        critique: Criticises the most recent text.
        improve: Improves it.
        iterations: N.

    Raises:
        ValueError: At build: `iterations` is no whole number from 0 up.
    """

    def __init__(
        self,
        draft: Runnable[Branch, Branch],
        critique: Runnable[Branch, Branch],
        improve: Runnable[Branch, Branch],
        *,
        iterations: int,
    ) -> None:
        checked_count("iterations", iterations, least=0)
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
        if last == "improve" and repeated({"events": branch.events}):
            return ""
        if last != "critique":
            return "critique" if laps < self.iterations else ""
        return "" if latest is not None and latest.accepted else "improve"


class SafeArrow(Runnable[Any, Result[Branch]]):
    """An arrow that never raises: from a branch, or the result of another safe arrow, to a result.

    A failure is passed on as it is, and the arrow is not run. An arrow that finds nothing to work on is a failure here.
    A failure keeps in `partial` the branch with what was done before.

    Raises:
        TypeError: At run: it is given neither a branch nor a result.
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
            return _failure(error, given)

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
            return _failure(error, given)

    def _ready(self, given: Branch | Result[Branch]) -> Result[Branch]:
        if not isinstance(given, Branch | Result):
            raise TypeError(f"a safe arrow takes a Branch, or the Result of another one, not {given!r}")
        result = Result.success(given) if isinstance(given, Branch) else given
        missing = getattr(self.arrow, "missing", None)
        if not result.ok or missing is None:
            return result
        reason = missing(result.value)
        return Result.failure(reason, partial=result.value) if reason else result


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

    A branch that fails is left out. What goes on keeps the costs of all: those of a failed branch with the failure, the
    others' with the verdict that says which was the best.

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
            kept = [result.partial for result in results if isinstance(result.partial, Branch)]
            best = best_branch(kept, by=self.by) if kept else branch
            numbered = enumerate(results, start=1)
            left = [_told(branch, number, one) for number, one in numbered if one.partial is not best]
            told = best.extended(record({"head": best.head}, *left).get("events", []))
            raise ArrowError("; ".join(result.message for result in results), told)
        best = best_branch(finished, by=self.by)
        news = [_told(branch, number, one) for number, one in enumerate(results, start=1) if not one.ok]
        if others := [one for one in finished if one is not best]:
            text = f"{best.name} goes on; the others are {', '.join(one.name for one in others)}."
            cost = add_usage(event["usage"] for one in others for event in one.events[len(branch.events) :])
            number = best.latest.round if best.latest else 0
            news.append({"kind": "verdict", "round": number, "by": self.name, "text": text, "usage": cost})
        return best.extended(record({"head": best.head}, *news).get("events", []))


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


def _told(branch: Branch, number: int, result: Result[Branch]) -> dict[str, Any]:
    """Return the event that says why one of several branches failed, and what it cost."""
    done = result.partial.events[len(branch.events) :] if isinstance(result.partial, Branch) else ()
    event = failure(
        "in_parallel", rounds(branch.events), ArrowError(f"{branch.name}/{number}: {result.message}", branch)
    )
    return {**event, "usage": add_usage(one["usage"] for one in done)}


def _worth(branch: Branch) -> tuple[bool, float]:
    best = branch.best
    return (False, -1.0) if best is None else (best.accepted, -1.0 if best.score is None else best.score)


def _ready(branch: Branch) -> dict[str, Any]:
    """Return the branch as a step reads it.

    What failed before is told there as something else: a failure would keep the step from being tried again.

    Raises:
        ArrowError: A budget is spent.
    """
    state = branch.state()
    if budget := spent_budget(branch.events, state["limits"]):
        raise ArrowError(f"{budget}: it is spent, so no further step is taken", branch)
    events = [{**event, "kind": "failed"} if event["kind"] == "failure" else event for event in state["events"]]
    return {**state, "events": events}


def _after(branch: Branch, update: Mapping[str, Any]) -> Branch:
    """Return the branch with what a step wrote.

    Raises:
        ArrowError: The step failed, or a budget was spent before it was done.
    """
    news = update.get("events", [])
    after = branch.extended(news)
    unfinished = any(event["kind"] == "failure" or event.get("incomplete") for event in news)
    if unfinished and (budget := spent_budget(after.events, limits_in_force(after.events))):
        raise ArrowError(f"{budget}: it was spent before the step was done", after)
    failed = next((event for event in news if event["kind"] == "failure"), None)
    if failed:
        raise ArrowError(f"{failed['node']} failed: {failed['error']}: {failed['text']}", after)
    return after


def _failure(error: Exception, given: Result[Branch]) -> Result[Branch]:
    if isinstance(error, ArrowError):
        return Result.failure(str(error), partial=error.branch)
    return Result.failure(f"{type(error).__name__}: {error}", partial=given.value)
