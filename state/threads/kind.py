"""The kind of a graph: how its threads begin, go on, restart, fork and are read. Internal.

Each builder attaches one to the graph that it compiles, and `Thread` and the faces ask it. Nothing is guessed from the
names of nodes or channels, so a user's own graph may use any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..events import AGENT_RECORD, AGENT_VALUES
from ..langgraph_internals import BRANCH_TO, INPUT_CHANNEL
from ..limits import Limits, limits_in_force, merged_limits
from ..summary import current_run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from langgraph.checkpoint.base import CheckpointTuple
    from langgraph.types import StateSnapshot

    from ..events import Event

__all__ = ["Edits", "ForkPoint", "GraphKind", "attach_kind", "kind_of"]

ATTRIBUTE = "redraft_kind"


@dataclass(frozen=True)
class ForkPoint:
    """The state update that a thread goes on with, as `update_state(config, values, as_node=…)` takes it."""

    values: dict[str, Any]
    as_node: str


class Edits(NamedTuple):
    """The changes that a fork makes."""

    feedback: str | None = None
    """Replaces the critiques of the draft there, and with them its acceptance."""
    draft: str | None = None
    """Replaces that draft; it is judged anew."""
    limits: Mapping[str, Any] | None = None
    """Changed limits; those not named stay."""
    opening: Mapping[str, Any] | None = None
    """The event that stands behind what is the parent's."""

    @property
    def texts(self) -> bool:
        """True if a text is changed, and not the limits alone."""
        return self.feedback is not None or self.draft is not None

    def refuse_blank(self) -> None:
        """Raise ValueError for a text of nothing but blanks."""
        for name, text in (("feedback", self.feedback), ("draft", self.draft)):
            if text is not None and not text.strip():
                raise ValueError(f"{name} is blank; leave it out to keep what there is")


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

    def read(self, values: Any) -> list[Event]:
        """Return the record in a state's values; empty for graphs that keep none."""
        return list(self.loop_values(values).get("events") or []) if isinstance(values, dict) else []

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
        own = {name: waiting[name] for name in OF_ONE_TASK if waiting.get(name) is not None}
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

    def meant_by(self, snapshot: StateSnapshot, values: Any) -> ForkPoint | None:
        """Return the update that stands for one with `feedback` or a `draft`; `None` for any other.

        At their checkpoint they do what they do to a fork, within the thread; so do `limits` alone where the thread has
        ended.

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
        if not self.forkable or "task" in update or not (update.keys() & {"feedback", "draft"} or at_end):
            return None
        if others := sorted(update.keys() - {"feedback", "draft", "limits"}):
            raise ValueError(f"feedback, draft and limits are written by themselves, and not with {others[0]!r:.80}")
        for name in ("feedback", "draft"):
            if not isinstance(update.get(name, ""), str):
                raise ValueError(f"{name} must be a text, not {update[name]!r:.80}")  # noqa: TRY004  (as a blank one)
        point = self.fork_point(snapshot, snapshot.config["configurable"].get("checkpoint_id", ""), **update)
        # Only what changes: a channel with a reducer of its own would take the rest in twice.
        changed = {name: value for name, value in point.values.items() if snapshot.values.get(name, point) != value}
        if "events" in changed:
            from langgraph.types import Overwrite

            changed["events"] = Overwrite(changed["events"])
        return ForkPoint(changed, point.as_node)


OF_ONE_TASK = ("draft", "top_k", "confidence_threshold")
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


OTHER, OWN_STATE, AGENT = GraphKind(), OwnState(), AgentKind()


def attach_kind(builder: Any, kind: GraphKind) -> None:
    """Attach its kind to a `StateGraph` that is about to be compiled.

    It stays with the builder, which every copy of the compiled graph shares; LangGraph makes copies by calling the
    class anew with the attributes it knows.
    """
    setattr(builder, ATTRIBUTE, kind)


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
