"""The nodes of a pipeline: each does one step on the record, and leaves it as it is where there is nothing to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NotRequired

from typing_extensions import TypedDict

from ...state.events import record
from ...state.folds import current_run, rounds
from ...state.limits import limits_in_force, merged_limits
from ...state.schema import RefineState
from ...state.stopping import StopReason, decide
from ...state.usage import NO_USAGE
from ..retrieve import retrieve
from ..step import Logic, Step, Steps, ask, emit
from .steps import ReasoningSteps, StepName, nothing_to

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig

__all__ = [
    "PipelineInput",
    "PipelineState",
    "StepFailedError",
    "begin",
    "end_reason",
    "in_turn",
    "lap",
    "reason",
    "set_query",
    "set_topic",
    "use_dir",
]


class PipelineInput(TypedDict):
    """What a caller gives: nothing, where the pipeline sets its topic."""

    task: NotRequired[str]
    """The topic, for a pipeline that sets none."""
    limits: NotRequired[dict[str, Any]]


class PipelineState(RefineState, total=False):
    """What a pipeline knows beside the record."""

    query: str
    """What passages are looked up for; empty: the topic."""
    folder: str
    """Where they are looked up; empty: where the graph was told to."""
    documents_since: int
    """Length of the record when the folder was set: earlier retrievals searched others."""
    laps: int
    """How often the loop at hand has improved the text."""


class StepFailedError(RuntimeError):
    """A step of a pipeline failed. The thread stands before that step, and resuming it goes on there."""


FRESH = {
    "answer": "",
    "stop_reason": None,
    "rounds": 0,
    "score": None,
    "accepted_by": None,
    "oracle": False,
}


def begin(*, sets_topic: bool, limits: Mapping[str, Any] | None) -> Step:
    """Return the first node: it begins work on the caller's task, or goes on with the thread's.

    Args:
        sets_topic: Whether the pipeline sets a topic before it needs one.
        limits: In force where neither the caller nor the thread has any.

    Raises:
        ValueError: At run: nobody gave a topic, or a limit makes no sense.
    """
    defaults = merged_limits(None, limits)

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        yield from ()
        events = state.get("events") or []
        known = current_run(events)[0]["text"] if events else ""
        task = state.get("task") or ""
        valid = merged_limits(limits_in_force(events) or defaults, state.get("limits"))
        kept = {"task": task or known, "limits": valid, "usage": NO_USAGE.copy(), **FRESH}
        if task.strip() and task != known:
            return {**kept, "query": "", **_task(state, task, valid)}
        if not known and not sets_topic:
            raise ValueError("the pipeline has no topic: begin it with SetTopic('…'), or give a task")
        return kept

    return Step("begin", logic)


def set_topic(topic: str) -> Step:
    """Return the node that begins work on a topic."""

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        yield from ()
        return {"task": topic, "query": "", **_task(state, topic, state["limits"])}

    return Step("SetTopic", logic)


def set_query(query: str) -> Step:
    """Return the node that looks passages up for a query of its own from here on."""

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        yield from ()
        return {"query": query}

    return Step("SetQuery", logic)


def use_dir(folder: str, *, opened: Callable[[str], Any]) -> Step:
    """Return the node that looks passages up in a folder from here on.

    Args:
        folder: Its path.
        opened: Returns what looks a query up in the folder; raises where there is none.
    """

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        emit(kind="start", node="UseDir", round=0)
        outcome = yield from ask(opened, folder, config=config, prices=None)
        if outcome.error is not None:
            raise outcome.error
        return {"folder": folder, "documents_since": len(state.get("events") or [])}

    return Step("UseDir", logic)


def reason(
    steps: ReasoningSteps,
    name: StepName,
    *,
    label: str,
    opened: Callable[[str], Any],
    documents: Any = None,
    tools: Sequence[Any] = (),
    k: int = 4,
    only_first: bool = False,
) -> Step:
    """Return the node that drafts, criticises or improves, after looking up passages where there are documents.

    Args:
        steps: How it asks.
        name: Which of the three.
        label: The step's name in the pipeline, for what is said about it.
        opened: Returns what looks a query up in a folder.
        documents: Where passages are looked up while no folder is set.
        tools: Offered to the model.
        k: How many passages at most.
        only_first: Whether a draft is written only where there is none.

    Raises:
        StepFailedError: At run: the critique or the improvement failed.
        Exception: At run: whatever the drafting model or the retriever raises.
    """
    step = steps.step(name, tools=tools)

    def look_up(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        folder = state.get("folder")
        found = _Folder(folder, opened) if folder else documents
        return (yield from retrieve(found, k=k, prices=steps.prices).logic(state, config))

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        events = state["events"]
        if only_first and nothing_to("critique", events) == "":
            return {}
        if missing := nothing_to(name, events):
            emit(kind="skipped", node=label, round=rounds(events), text=missing)
            return {}
        update = yield from in_turn(look_up, step.logic)(state, config)
        failed = next((event for event in update.get("events", []) if event["kind"] == "failure"), None)
        if failed:
            raise StepFailedError(f"{label} failed: {failed['error']}: {failed['text']}")
        return update

    return Step(label, logic)


@dataclass(frozen=True)
class _Folder:
    """Looks up in a folder, which is opened where it is needed: after a resume this may be another process."""

    path: str
    opened: Callable[[str], Any]

    @property
    def name(self) -> str:
        return PurePath(self.path).name or self.path

    def __call__(self, query: str) -> Any:
        return self.opened(self.path).invoke(query)


def lap(step: Step, *, starts: bool = False) -> Step:
    """Return a node of a loop that counts: the one that starts it from 0, the one that ends a lap one more."""

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        update = yield from step.logic(state, config)
        return {**update, "laps": 0 if starts else state.get("laps", 0) + 1}

    return Step(step.get_name(), logic)


def in_turn(*logics: Logic) -> Logic:
    """Return the logic of several nodes one after the other in one step."""

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        news: list[Any] = []
        whole: dict[str, Any] = {}
        for one in logics:
            events = [*(state.get("events") or []), *news]
            update = yield from one({**state, **whole, "events": events}, config)
            news += update.get("events", [])
            whole = {**whole, **update}
        return {**whole, "events": news} if news else whole

    return logic


def end_reason(state: Mapping[str, Any]) -> StopReason:
    """Return why a pipeline ends after its last step: that there are no more, unless something else ended it."""
    return decide(state["events"], state["limits"]) or "max_rounds"


def _task(state: Mapping[str, Any], topic: str, limits: Mapping[str, Any]) -> dict[str, Any]:
    """Return the update that begins work on a topic."""
    event = {
        "kind": "task",
        "round": 0,
        "by": "caller",
        "text": topic,
        "limits": dict(limits),
        "options": {"keep": "last", "custom_check": True},
    }
    return {"limits": dict(limits), **record(state, event)}
