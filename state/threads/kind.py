"""The kind of a graph: how its threads begin, go on and are read, and which graph began a run. Internal.

Each builder attaches one to the graph that it compiles, and `Thread` and the faces ask it. Nothing is guessed from the
names of nodes or channels, so a user's own graph may use any.

A graph is known by its fingerprint, a flat dict of names and plain values. It stands on the `task` event, and on the
`change` or the `fork` from which another graph goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..events import AGENT_RECORD, AGENT_VALUES, CHANGE_KINDS, Event, broken_links, record, requirement
from ..langgraph_internals import BRANCH_TO, INPUT_CHANNEL
from ..limits import Limits, limits_in_force, merged_limits
from ..summary import current_run, rounds, run_options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple
    from langgraph.types import StateSnapshot

    from ..dual import Do


__all__ = [
    "AGENT_ANSWER",
    "ALLOW",
    "ATTRIBUTE",
    "CHECKED",
    "FORM",
    "HASHED",
    "RELEASE",
    "ChangedGraphError",
    "EditedRecordError",
    "Edits",
    "ForkPoint",
    "GraphKind",
    "SentPrompt",
    "change_update",
    "changes",
    "compared",
    "differences",
    "fingerprint_in_force",
    "kind_of",
    "made_by",
    "refuse_edited",
]

ATTRIBUTE = "redraft_kind"
"""Of a `StateGraph` of ours: its kind."""


@dataclass(frozen=True)
class ForkPoint:
    """The state update that a thread goes on with, as `update_state(config, values, as_node=…)` takes it."""

    values: dict[str, Any]
    as_node: str


class Edits(NamedTuple):
    """The changes that a fork makes."""

    feedback: str | None = None
    """Stands in for opinions of the draft there, beside what programs found, and is required of those after it."""
    draft: str | None = None
    """Replaces that draft; it is judged anew."""
    limits: Mapping[str, Any] | None = None
    """Changed limits; those not named stay."""
    opening: Mapping[str, Any] | None = None
    """The event that stands behind what is the parent's."""
    verifiers: Sequence[str] = ()
    """The names of programs that tell if a draft meets the feedback."""

    @property
    def texts(self) -> bool:
        """True if a text is changed, and not the limits alone."""
        return self.feedback is not None or self.draft is not None

    def asked(self, number: int) -> list[Mapping[str, Any]]:
        """Return the events of the feedback: what is required from then on, and that this draft does not meet it."""
        if self.feedback is None:
            return []
        verdict = {"round": number, "by": "human", "text": self.feedback, "accepted": False, "score": None}
        return [requirement(self.feedback, number, "human", verifiers=self.verifiers), {"kind": "human", **verdict}]

    def refuse_blank(self) -> None:
        """Raise ValueError for a text of nothing but blanks."""
        for name, text in (("feedback", self.feedback), ("draft", self.draft)):
            if text is not None and not text.strip():
                raise ValueError(f"{name} is blank; leave it out to keep what there is")


class SentPrompt(NamedTuple):
    """What a model was asked with."""

    round: int
    """Of the draft that it wrote, or judged."""
    kind: str
    """Of the event that came of it: `draft`, `revision` or `critique`."""
    by: str
    """Who wrote or judged; of several refiners its name."""
    messages: list[BaseMessage]


class GraphKind:
    """The kind of any graph; those of ours are subclasses of it."""

    first_node = INPUT_CHANNEL
    """The node that takes a task in; until it has run, the state and the record are those of the task before."""
    forkable = False
    """True if it has `fork_point` and `task_again`."""
    keeps_record = False
    """True if its state holds a record of ours."""
    metadata: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
    """What `RefiningAgent` tells of a run's output; default: `refinement_metadata`."""
    entries: tuple[str, ...] = ()
    """The nodes that somebody who does not own the graph may send a thread to, one at a time."""
    fingerprint: Mapping[str, Any] = {}
    """The graph's nodes, models, critics, prompts and options; empty where a graph is not told from others by them."""
    tells_its_fingerprint = True
    """True if a graph without one differs from each graph that a record names."""
    options: Mapping[str, Any] = {}
    """Its options that a record must hold."""
    own: Sequence[str] = ()
    """Keys of the state that its user added."""
    prompts: Callable[[Mapping[str, Any]], list[SentPrompt]] | None = None
    """Takes the last values of a thread, and returns what models were asked with; `None` where nobody can tell."""
    prompt_texts: Mapping[str, str] = {}
    """Templates that its models are asked with, by the arguments of its builder; those alone that are one text."""
    known_type: Callable[[Any, Any], Do] | None = None
    """Calls for the JSON of an own draft by the schema in a thread's record; see `redraft.state.typed_answer`."""
    known_verifier: Callable[[str], Any] | None = None
    """Takes the name of a verifier; raises ValueError where there is none, or it is not for a record."""

    def read(self, values: Any) -> list[Event]:
        """Return the record in a state's values; empty for graphs that keep none."""
        return self.loop_values(values).get("events") or [] if isinstance(values, dict) else []

    def loop_values(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the part of a state's values that is the loop's; empty for graphs that keep no record."""
        return values if self.keeps_record else {}

    def waiting(self, stored: CheckpointTuple) -> bool:
        """Tell if a task waits for the first node."""
        return bool({INPUT_CHANNEL, BRANCH_TO + self.first_node} & stored.checkpoint["channel_values"].keys())

    def begun(self, snapshot: StateSnapshot) -> bool:
        """Tell if the last task is past the first node, so that state and record are its."""
        return not {INPUT_CHANNEL, self.first_node} & set(snapshot.next)

    def values_of_last_run(self, snapshot: StateSnapshot) -> Mapping[str, Any]:
        """Return the state's values; of a task that has not begun, those of the one before, as the record has them."""
        values: Mapping[str, Any] = snapshot.values
        events = self.read(values)
        if self.begun(snapshot) or not events:
            return values
        return {**values, "task": current_run(events)[0]["text"], "limits": limits_in_force(events)}

    def check(self, what: str, *, thread_id: str, graph_name: str) -> None:
        """Raise ValueError unless threads of this kind can do what is asked.

        Args:
            what: `fork()`, `rerun()`, or `resuming with other limits`.
            thread_id: Named in the message.
            graph_name: Named in the message.
        """
        if not self.forkable:
            raise ValueError(f"{what} needs a graph of redraft, and {graph_name!r} is none")

    def next_step(self, snapshot: StateSnapshot, limits: Mapping[str, Any] | None) -> ForkPoint | None:
        """Return the update to write before the thread can run on, or `None` when it just runs on.

        Raises:
            ValueError: A limit makes no sense.
        """
        return None

    def restart(
        self, stored: CheckpointTuple, snapshot: StateSnapshot, limits: Mapping[str, Any] | None
    ) -> dict[str, Any] | None:
        """Return the input that gives a task which waits for the first node other limits; `None` runs on.

        Raises:
            ValueError: A limit makes no sense, among the new ones or among those that wait with the task.
        """
        if limits is None or self.begun(snapshot):
            return None
        waiting: Mapping[str, Any] = snapshot.values
        if INPUT_CHANNEL in snapshot.next:  # those values are still the last task's
            waiting = stored.checkpoint["channel_values"][INPUT_CHANNEL]
        # Only to refuse what makes no sense, before anything is written.
        merged_limits(waiting.get("limits"), limits)
        # What neither names is left out: the first node takes it from the thread or the graph.
        changed = limits if isinstance(limits, Limits) else {**(waiting.get("limits") or {}), **limits}
        own = {name: waiting[name] for name in (*OF_ONE_TASK, *self.own) if waiting.get(name) is not None}
        return {**self.task_in(waiting), **own, "limits": dict(changed)}

    def task_in(self, waiting: Mapping[str, Any]) -> dict[str, Any]:
        """Return the task of an input that waits, as an input again."""
        return {"task": waiting["task"]} if waiting.get("task") else {}

    def task_again(self, snapshot: StateSnapshot) -> dict[str, Any]:
        """Return the input that runs the thread's last begun task once more, with the limits in force.

        Raises:
            ValueError: No task has begun.
        """
        raise NotImplementedError

    def fork_point(self, snapshot: StateSnapshot, at: int | str, **edits: Any) -> ForkPoint:
        """Return the state update that a fork begins with.

        Args:
            snapshot: A checkpoint: the one with the id `at`, or one whose record reaches that round.
            at: A round (0 is the first draft, n the n-th revision) or a checkpoint id.
            edits: The fields of `Edits`.

        Raises:
            ValueError: There is no such draft, a text is blank, a limit makes no sense, or the run has not begun there.
        """
        raise NotImplementedError

    def withdrawal(self, snapshot: StateSnapshot, text: str) -> ForkPoint:
        """Return the update that withdraws a standing requirement; `check` decides anew then.

        Raises:
            ValueError: There is no such requirement, or it stands no longer.
        """
        raise NotImplementedError

    def meant_by(self, snapshot: StateSnapshot, values: Any) -> ForkPoint | None:
        """Return the update that stands for one with `feedback`, a `draft` or `withdraw`; `None` for any other.

        At their checkpoint the first two do what they do to a fork, within the thread; so do `limits` alone where the
        thread has ended. `withdraw` is the text of a requirement.

        Args:
            snapshot: Where it is written.
            values: As somebody gives them to `update_state`, without a node.

        Raises:
            ValueError: As `fork_point`; or something else is written along with them.
        """
        update = (
            {name: value for name, value in values.items() if value is not None} if isinstance(values, dict) else {}
        )
        at_end = update.keys() == {"limits"} and not snapshot.next and bool(self.read(snapshot.values))
        if not self.forkable or "task" in update or not (update.keys() & {"feedback", "draft", "withdraw"} or at_end):
            return None
        own = {"withdraw"} if "withdraw" in update else {"feedback", "verifiers", "draft", "limits"}
        if others := sorted(update.keys() - own):
            raise ValueError(f"{', '.join(sorted(own))} are written by themselves, and not with {others[0]!r:.80}")
        for name in ("feedback", "withdraw"):
            if not isinstance(update.get(name, ""), str):
                raise ValueError(f"{name} must be a text, not {update[name]!r:.80}")  # noqa: TRY004  (as a blank one)
        if "withdraw" in update:
            return self.withdrawal(snapshot, update["withdraw"])
        point = self.fork_point(snapshot, snapshot.config["configurable"].get("checkpoint_id", ""), **update)
        # Only what changes: a channel with a reducer of its own would take the rest in twice.
        changed = {name: value for name, value in point.values.items() if snapshot.values.get(name, point) != value}
        if "events" in changed:
            from langgraph.types import Overwrite

            changed["events"] = Overwrite(changed["events"])
        return ForkPoint(changed, point.as_node)


OF_ONE_TASK = ("draft", "require", "top_k", "confidence_threshold")
"""Fields of an input for its own task only."""


class OwnState(GraphKind):
    """The kind of a graph that a user wired over our typed state: it has a record, and rules of its own."""

    keeps_record = True


class AgentKind(OwnState):
    """The kind of an agent of LangChain's with our middleware, which keeps its record under keys of its own."""

    tells_its_fingerprint = False  # the middleware's, which no graph shows

    def loop_values(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**(values.get(AGENT_VALUES) or {}), "events": values.get(AGENT_RECORD) or []}

    def values_of_last_run(self, snapshot: StateSnapshot) -> Mapping[str, Any]:
        return self.loop_values(snapshot.values)

    def next_step(self, snapshot: StateSnapshot, limits: Mapping[str, Any] | None) -> ForkPoint | None:
        """Return the update that reopens a failed run: its agent goes on from the feedback, or its answer is judged."""
        values = snapshot.values.get(AGENT_VALUES) or {}
        if snapshot.next or values.get("stop_reason") != "failed":
            return None
        from langchain_core.messages import RemoveMessage

        failed = [one.get("node") for one in current_run(self.read(snapshot.values)) if one["kind"] == "failure"][-1:]
        reopened = {**values, "stop_reason": None, "judge_again": failed not in (["generate"], ["refine"])}
        last = str(snapshot.values["messages"][-1].id)
        # The answer that the failed run gave, where it is none that the agent said last.
        without_answer = {"messages": [RemoveMessage(last)]} if last.startswith(AGENT_ANSWER) else {}
        return ForkPoint({AGENT_VALUES: reopened, "jump_to": "model", **without_answer}, AGENT_END)


AGENT_ANSWER = "redraft-answer-"
"""How the id of a message begins that gives an agent's best answer again."""
AGENT_END = "RefineMiddleware.after_agent"
"""The node of an agent in which our middleware ends its run, or sends it back to its model."""
OTHER, OWN_STATE, AGENT = GraphKind(), OwnState(), AgentKind()


def kind_of(graph: Any) -> GraphKind:
    """Return the kind of a compiled graph, anybody's."""
    kind: GraphKind | None = getattr(getattr(graph, "builder", None), ATTRIBUTE, None)
    if kind is not None:
        return kind
    # Here, since the shell reads threads without LangGraph.
    from ..checked_channels import CheckedDelta

    # Told by the class of the channel: anybody's graph may have one of that name.
    kinds = {"events": OWN_STATE, AGENT_RECORD: AGENT}
    return next((one for name, one in kinds.items() if isinstance(graph.channels.get(name), CheckedDelta)), OTHER)


ALLOW = "redraft_allow_changes"
"""Key of `config["configurable"]`: go on also with another graph than that which the run was begun with."""
CHECKED = "__redraft_checked"
"""Key of a config whose thread was looked at already."""
RELEASE = "redraft"
"""The release that built the graph."""
FORM = "form"
"""A number that grows when a fingerprint tells more of the same graph."""
HASHED = "#"
"""Begins a hash, which stands for a text that is too long to be kept."""
PROMPT = "prompt of "
BEGUN_WITH = ("task", *CHANGE_KINDS)
"""Kinds of events that say which graph goes on from them."""
HEARD = ("prepare", "read_conversation", None)
"""Of agents, before every loop read conversations by itself."""


class ChangedGraphError(ValueError):
    """The graph is another one than that which the thread was begun with, and nobody agreed to that.

    Args:
        difference: In what it is another one.
        remedy: How the thread goes on all the same.
    """

    def __init__(self, difference: str, remedy: str = "") -> None:
        super().__init__(f"{difference}. {remedy}" if remedy else difference)
        self.difference = difference


class EditedRecordError(ValueError):
    """A record that was changed after it was written is not forked."""


def compared(config: RunnableConfig) -> RunnableConfig:
    """Mark the config of a run whose thread was compared with its graph already, and is not read for that again."""
    return {**config, "configurable": {**config.get("configurable", {}), CHECKED: True}}


def fingerprint_in_force(events: Sequence[Event]) -> Mapping[str, Any]:
    """Return the fingerprint of the graph that runs the current task; empty in a record of format 1."""
    for event in reversed(current_run(events)):
        # On an event of another kind, which somebody else may have written, the field could hold anything.
        if event["kind"] in BEGUN_WITH and "fingerprint" in event:
            fingerprint: Mapping[str, Any] = event["fingerprint"]
            return fingerprint
    return {}


def differences(recorded: Mapping[str, Any], present: Mapping[str, Any]) -> list[str]:
    """Describe each difference between two graphs by its name; none where one of the fingerprints is empty.

    Prompts of two releases are not compared: redraft's own change from one to the next. Nor is what an earlier form
    of fingerprint did not tell.
    """
    if not recorded or not present:
        return []
    reasons: list[str] = []
    other_release = recorded.get(RELEASE) != present.get(RELEASE)
    other_form = recorded.get(FORM) != present.get(FORM)
    for name in dict.fromkeys((*recorded, *present)):
        was, now = recorded.get(name), present.get(name)
        if was == now or name in (RELEASE, FORM) or (other_release and name.startswith(PROMPT)):
            continue
        if (other_form and name not in recorded) or (name, was, now) == HEARD:
            continue
        if name not in recorded:
            reasons.append(f"{name} is new ({now!r})")
        elif name not in present:
            reasons.append(f"{name} is gone (was {was!r})")
        elif HASHED in f"{was}{now}":
            reasons.append(f"another {name}")
        else:
            reasons.append(f"{name} was {was!r}, is {now!r}")
    return reasons


def changes(kind: GraphKind, graph_name: str, snapshot: StateSnapshot) -> list[str]:
    """Describe each difference between a graph and the one that began the run; none where no run has begun."""
    if not kind.begun(snapshot):
        return []
    recorded = fingerprint_in_force(kind.read(snapshot.values))
    if recorded and not kind.fingerprint and kind.tells_its_fingerprint:
        return [f"{graph_name!r} is a graph of another kind"]
    return differences(recorded, kind.fingerprint)


def change_update(kind: GraphKind, snapshot: StateSnapshot, reasons: Sequence[str]) -> dict[str, Any]:
    """Return the update that records a change; empty for a graph that is not told from others."""
    if not kind.fingerprint:
        return {}
    events = kind.read(snapshot.values)
    event = {"kind": "change", "round": rounds(events), "by": "caller", "text": "; ".join(reasons)}
    return record(snapshot.values, {**event, **made_by(kind.fingerprint, kind.options, events)})


def made_by(
    fingerprint: Mapping[str, Any], options: Mapping[str, Any], events: Sequence[Event]
) -> dict[str, dict[str, Any]]:
    """Return the fields that say which graph a record goes on with; the order of its drafts stays."""
    order = {name: value for name, value in run_options(events).items() if name == "order"}
    return {"fingerprint": dict(fingerprint), "options": {**options, **order}}


def refuse_edited(kind: GraphKind, thread_id: str, values: Any) -> None:
    """Raise EditedRecordError where the record in a state's values was edited after it was written."""
    events = kind.read(values)
    if broken := broken_links(events, values.get("head") or "" if events else ""):
        raise EditedRecordError(
            f"the thread {thread_id!r} is not forked: its record was changed after it was written, at event "
            f"{broken[0]} ({events[broken[0]]['kind']}); replay() names all that differs"
        )
