"""Arrows: Runnables from branch to branch that compose with `|`, one step at a time or as a loop. Internal."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from os import PathLike
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import GraphBubbleUp

from ...state.dual import Do
from ...state.events import failure, record
from ...state.limits import limits_in_force
from ...state.stopping import spent_budget
from ...state.summary import rounds
from ..arguments import checked_count
from ..retrieve import retrieve
from ..runtime.step import DualRunnable, Step
from .branches import Branch
from .pipeline_steps import repeated
from .steps import ReasoningSteps, StepName, nothing_to

__all__ = ["Arrow", "ArrowError", "LoadDocuments", "LoopArrow"]


class ArrowError(RuntimeError):
    """A step failed, or a budget is spent. `branch` holds all that was done before, and a failure in its record."""

    def __init__(self, message: str, branch: Branch) -> None:
        super().__init__(message)
        self.branch = branch


class Arrow(DualRunnable[Branch, Branch]):
    """One step of reasoning as a Runnable: it takes a branch and returns the branch with what it wrote.

    Passages are looked up before the step where the branch has documents, once for each query. A branch that gives the
    step nothing to work on comes back as it is.

    Args:
        steps: How the step asks.
        step: One of `think`, `draft`, `critique`, `improve`.
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
        """Return the reason why there is nothing to work on, or an empty text."""
        return nothing_to(self.step, branch.events)

    def logic(self, input: Branch, config: RunnableConfig | None) -> Generator[Do, Any, Branch]:  # noqa: A002
        """Return the branch after the step."""
        branch = input
        for step in self._due(branch):
            state = _ready(branch)
            try:
                update = yield Do(step.invoke, step.ainvoke, (state, config))
            except GraphBubbleUp:
                raise
            except Exception as error:
                if branch.latest is None:  # there is nothing to keep yet
                    raise
                update = record({"head": branch.head}, failure(self.step, rounds(branch.events), error))
            branch = _after(branch, update)
        return branch

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
        """Return the reason why there is nothing to load, or an empty text."""
        return "" if self.folder or branch.source else "No folder found to load documents from"

    def invoke(self, input: Branch, config: RunnableConfig | None = None, **_: Any) -> Branch:  # noqa: A002
        """Return the branch over the folder's documents."""
        folder = self.folder or input.source
        if folder is None:
            return input
        return input.with_documents(self.opened(str(folder)), source=str(folder))


class LoopArrow(DualRunnable[Branch, Branch]):
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

    def logic(self, input: Branch, config: RunnableConfig | None) -> Generator[Do, Any, Branch]:  # noqa: A002
        """Return the branch after the loop."""
        branch, last, laps = input, "", 0
        while last := self._due(branch, last, laps):
            arrow = self.arrows[last]
            branch = yield Do(arrow.invoke, arrow.ainvoke, (branch, config))
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
