"""The nodes of a pipeline. Internal.

Each does one step on the record, and leaves it as it is where there is nothing to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from langgraph.channels.ephemeral_value import EphemeralValue
from langgraph.errors import GraphBubbleUp
from typing_extensions import TypedDict

from ...state.events import Event, clean, failure, given_draft, record, task_event
from ...state.first_nodes import BEGIN
from ...state.limits import limits_in_force, merged_limits
from ...state.schema import Raised, RefineState
from ...state.stopping import REFUSED_OUTSIDE, StopReason, decide, since_verdict, spent_budget
from ...state.summary import current_run, latest_draft, rounds, usage_total
from ...state.threads.kind import ForkPoint, GraphKind, differences, fingerprint_in_force, made_by
from ...state.usage import NO_USAGE
from ..retrieve import retrieve
from ..runtime.step import Logic, Step, Steps, call, emit
from .steps import StepName, nothing_to

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.types import StateSnapshot

    from ..runtime.meter import Prices
    from ..writing.prompts import Keep

__all__ = [
    "PipelineInput",
    "PipelineKind",
    "PipelineState",
    "begin",
    "end_reason",
    "in_turn",
    "keeps_task",
    "lap",
    "noted",
    "out_of_room",
    "pipeline_options",
    "reason",
    "repeated",
    "set_query",
    "set_topic",
    "use_dir",
]


class PipelineInput(TypedDict):
    """The input of a pipeline: nothing, if the pipeline sets its topic."""

    task: NotRequired[Annotated[str, EphemeralValue]]
    """The topic, for a pipeline that sets none. Work on it begins anew, also where the thread had the same one."""
    draft: NotRequired[str]
    """A first draft of the caller's own, for a pipeline that sets no topic: what the first critique is about."""
    limits: NotRequired[dict[str, Any]]


class PipelineState(RefineState, total=False):
    """The state of a pipeline, beside the record."""

    task: Annotated[str, EphemeralValue]  # for one step, so that `begin` sees whether it was given
    at: str
    """The node that was finished last: where a thread goes on."""
    resuming: bool
    """True while a way on is looked for outside a run, where the steps that remain say nothing."""
    began: int
    """Length of the record when this run began: what is before it was spent by others."""
    query: str
    """The query that passages are looked up for; empty: the topic."""
    folder: str
    """Where they are looked up, of what the pipeline names; empty: where the graph was told to."""
    documents_since: int
    """Length of the record when the folder was set: earlier retrievals searched others."""
    laps: int
    """How often the loop at hand has improved the text."""


FRESH = {
    "answer": "",
    "stop_reason": None,
    "rounds": 0,
    "score": None,
    "accepted_by": None,
    "oracle": False,
    "usage": NO_USAGE,
    "error": None,
}


def begin(*, sets_topic: bool, limits: Mapping[str, Any] | None, keep: Keep, fingerprint: Mapping[str, Any]) -> Step:
    """Return the first node: it begins work on the caller's task, or goes on with the thread's where none is given.

    Args:
        sets_topic: Whether the pipeline sets a topic before it needs one.
        limits: In force where neither the caller nor the thread has any.
        keep: Whether the best or the last text of a topic is the answer.
        fingerprint: Of the graph.

    Raises:
        ValueError: At run: nobody gave a topic, what was given is no text, or a limit makes no sense.
    """
    defaults = merged_limits(None, limits)

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        # A node's logic is a generator, also where it makes no call.
        yield from ()
        events = state.get("events") or []
        earlier_topic = current_run(events)[0]["text"] if events else ""
        task = "" if state.get("task") is None else state["task"]
        if not isinstance(task, str):
            raise ValueError(f"task must be a text that says what is to be written about, not {task!r}")  # noqa: TRY004
        task = clean(task)
        valid = merged_limits(limits_in_force(events) or defaults, state.get("limits"))
        own = [] if state.get("draft") is None else [given_draft(state["draft"])]
        if own and sets_topic:
            raise ValueError("draft has no place in a pipeline that sets its topic: leave SetTopic out, give a task")
        fresh = bool(task.strip()) or sets_topic
        began = len(events) if fresh else len(events) - len(current_run(events))
        start = {"task": task or earlier_topic, "limits": valid, "began": began, "at": "begin", **FRESH}
        if task.strip():
            return {
                **start,
                "query": "",
                **_task({**state, "began": began}, task, valid, keep, own, fingerprint=fingerprint),
            }
        if not earlier_topic and not sets_topic:
            raise ValueError("the pipeline has no topic: begin it with SetTopic('…'), or give a task")
        if not fresh and (changes := differences(fingerprint_in_force(events), fingerprint)):
            change = {"kind": "change", "round": rounds(events), "by": "caller", "text": "; ".join(changes)}
            own = [{**change, **made_by(fingerprint, pipeline_options(keep), events)}, *own]
        return {**start, **record(state, *own)}

    return Step("begin", logic)


def set_topic(topic: str, *, keep: Keep, fingerprint: Mapping[str, Any]) -> Step:
    """Return the node that begins work on a topic. A query set for the one before is dropped."""
    topic = clean(topic)

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        yield from ()
        return {"task": topic, "query": "", **_task(state, topic, state["limits"], keep, fingerprint=fingerprint)}

    return Step("SetTopic", logic)


def set_query(query: str) -> Step:
    """Return the node that looks passages up for a query of its own, until another topic is set."""
    query = clean(query)

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        yield from ()
        return {"query": query}

    return Step("SetQuery", logic)


def use_dir(folder: str, *, opened: Callable[[str], Any], name: str = "UseDir") -> Step:
    """Return the node that looks passages up in a folder from here on.

    Args:
        folder: Its path, or what else `opened` knows it by.
        opened: Returns what looks a query up in the folder; raises where there is none.
        name: Of the step.
    """

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        emit(kind="start", node=name, round=0)
        outcome = yield from call(opened, folder, config=config, prices=None, state=_own(state))
        if outcome.error is not None:
            raise outcome.error
        return {"folder": folder, "documents_since": len(state.get("events") or [])}

    return Step(name, logic)


def reason(
    step: Step,
    name: StepName,
    *,
    label: str,
    opened: Callable[[str], Any],
    folders: Collection[str],
    documents: Any = None,
    k: int = 4,
    only_first: bool = False,
    prices: Prices | None = None,
) -> Step:
    """Return the node that thinks, drafts, criticises or improves, after looking up passages where there are documents.

    Args:
        step: Does it.
        name: Which of the four.
        label: The step's name in the pipeline, for what is said about it.
        opened: Returns what looks a query up in a folder.
        folders: Those that the pipeline names. The thread says which is in force, and its database may be anybody's.
        documents: Where passages are looked up while no folder is set.
        k: How many passages at most.
        only_first: Whether a draft is written only where there is none.
        prices: Of the models that a retriever may call.

    Raises:
        Exception: At run: whatever the drafting model or the retriever raises.
    """

    def look_up(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        folder = state.get("folder")
        if folder and folder not in folders:
            emit(
                kind="skipped",
                node=label,
                round=0,
                text=f"{folder!r} is not looked in: this pipeline names no such folder",
            )
            folder = None
        place = _Folder(folder, opened) if folder else documents
        return (yield from retrieve(place, k=k, prices=prices).logic(state, config))

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        events = state["events"]
        if only_first and nothing_to("critique", events) == "":
            return {}
        if missing := nothing_to(name, events):
            emit(kind="skipped", node=label, round=rounds(events), text=missing)
            return {}
        return (yield from in_turn(look_up, step.logic)(state, config))

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
        return update if _broke_off(update) else {**update, "laps": 0 if starts else state.get("laps", 0) + 1}

    return Step(step.get_name(), logic)


def noted(step: Step, node: str) -> Step:
    """Return a node of a pipeline that notes in `at` that it is done, and what broke it off in the record.

    Args:
        step: The node.
        node: Its name in the graph.

    Raises:
        Exception: At run: whatever the step raises before there is a draft; there is nothing to keep then, and the
            thread resumes here.
    """

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        raised, update = state.get("raised"), dict[str, Any]()
        error = raised.error if isinstance(raised, Raised) else None
        if error is None:
            try:
                update = yield from step.logic(state, config)
            except GraphBubbleUp:
                raise
            except Exception as failed:
                error = failed
        if error is not None:
            events = state.get("events") or []
            if latest_draft(events) is None:
                raise error
            update = {**record(state, failure(node, rounds(events), error)), "raised": None}
            emit(**update["events"][0])
        return update if _broke_off(update) else {**update, "at": node}

    return keeps_task(Step(step.get_name(), logic))


def keeps_task(step: Step) -> Step:
    """Return a node of a pipeline after which the task is still there: its channel holds it for one step only."""

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        update = yield from step.logic(state, config)
        return {**({"task": state["task"]} if state.get("task") else {}), "resuming": False, **update}

    return Step(step.get_name(), logic)


def _broke_off(update: Mapping[str, Any]) -> bool:
    """Return True if a step wrote something other than its result: it failed, or a budget was spent on the way."""
    news: Sequence[Event] = update.get("events") or []
    return any(event["kind"] == "failure" or event.get("incomplete") for event in news) or (
        bool(news) and all(event["kind"] == "retrieval" for event in news)
    )


def out_of_room(state: Mapping[str, Any]) -> bool:
    """Return True if a step failed, a budget is spent, or `recursion_limit` leaves room for the end only."""
    events = _events(state)
    failed = any(event["kind"] == "failure" for event in since_verdict(events))
    spent = spent_budget(events, state.get("limits") or {}) is not None
    cut_short = state.get("remaining_steps", 3) <= 2 and not state.get("resuming")
    return failed or spent or cut_short


def repeated(state: Mapping[str, Any]) -> bool:
    """Return True if the last improvement repeats an earlier text, so that another one would too."""
    news = [event for event in _events(state) if event["kind"] == "revision"]
    return bool(news) and news[-1].get("rejected") == "repeat"


def _events(state: Mapping[str, Any]) -> list[Event]:
    """Return the events of this run of the pipeline, and of the topic that it goes on with."""
    return list(state.get("events") or [])[state.get("began") or 0 :]


def _own(state: Mapping[str, Any]) -> dict[str, Any]:
    return {**state, "events": _events(state)}


def in_turn(*logics: Logic) -> Logic:
    """Return the logic of several nodes one after the other in one step."""

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        news: list[Any] = []
        whole: dict[str, Any] = {}
        for step_logic in logics:
            events = [*(state.get("events") or []), *news]
            update = yield from step_logic({**state, **whole, "events": events}, config)
            news += update.get("events", [])
            whole = {**whole, **update}
        return {**whole, "events": news} if news else whole

    return logic


def end_reason(state: Mapping[str, Any]) -> StopReason:
    """Return the reason why a pipeline ends after its last step: there are no more, unless something else ended it."""
    return decide(state["events"], state["limits"]) or "max_rounds"


def pipeline_options(keep: Keep) -> dict[str, Any]:
    """Return a pipeline's options as the record holds them."""
    return {"keep": keep, "custom_check": True}


def _task(
    state: Mapping[str, Any],
    topic: str,
    limits: Mapping[str, Any],
    keep: Keep,
    own: Sequence[Mapping[str, Any]] = (),
    *,
    fingerprint: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the update that begins work on a topic, with the caller's own draft where there is one."""
    event = task_event(topic, limits, pipeline_options(keep), fingerprint=fingerprint)
    if earlier := _events(state):
        # What this run spent on earlier topics is carried on, so that its budgets hold over all of them.
        event |= {"usage": usage_total(earlier), "carried": True}
    return {"limits": dict(limits), **record(state, event, *own)}


class PipelineKind(GraphKind):
    """The kind of a pipeline. Its thread goes on after the step that was finished last, the state key `at`."""

    first_node = BEGIN
    keeps_record = True

    def __init__(self, fingerprint: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        self.fingerprint = fingerprint
        self.options = options

    def check(self, what: str, *, thread_id: str, graph_name: str) -> None:
        """Raise ValueError for a fork or a rerun; other limits it can be resumed with."""
        if what == "fork()":
            raise ValueError(
                "a pipeline's thread is forked with another graph, which then drafts, criticises and improves in turn: "
                f"Thread(build_reasoning_graph(model, checkpointer=saver), {thread_id!r}).fork(…)"
            )
        if what == "rerun()":
            raise ValueError(f"{what} is not for pipelines: run the pipeline's graph again on a thread of its own")

    def next_step(self, snapshot: StateSnapshot, limits: Mapping[str, Any] | None) -> ForkPoint | None:
        """Return the update to write before the thread can run on, or `None` if it just runs on, or is at its end.

        It is written as the step that was finished last, whose way on leads to the one that failed, or that a budget or
        a caller's `recursion_limit` left no room for.

        Raises:
            ValueError: A limit makes no sense.
        """
        values: Mapping[str, Any] = snapshot.values
        if not self.begun(snapshot):
            return None
        changed = {"limits": merged_limits(values.get("limits"), limits)} if limits is not None else {}
        at, carried = values.get("at") or "begin", {"task": values.get("task"), "resuming": True, **changed}
        if snapshot.next:
            return ForkPoint(carried, at) if changed else None
        if values.get("stop_reason") is None:  # the next step is gone from the pipeline, or the run was cut off
            return ForkPoint(carried, at)
        reason = values["stop_reason"]
        out_of_steps = current_run(values["events"])[-1].get("out_of_steps", False)
        if reason in ("failed", *REFUSED_OUTSIDE) or out_of_steps or (changed and reason.endswith("_budget")):
            return ForkPoint({"stop_reason": None, "answer": "", **carried}, at)
        return None
