"""The record of a run: an append-only list of events, each carrying the hash of the one before it. Internal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict

from .masking import masked
from .usage import NO_USAGE, Score, Usage

__all__ = [
    "AGENT_RECORD",
    "AGENT_VALUES",
    "CHANGE_KINDS",
    "CRITIQUE_KINDS",
    "DRAFT_KINDS",
    "FORMAT",
    "ORDER",
    "ChangeEvent",
    "Choice",
    "CritiqueEvent",
    "DraftEvent",
    "Event",
    "EventKind",
    "EventOfKind",
    "FailureEvent",
    "ForkEvent",
    "FrozenRecord",
    "HumanEvent",
    "Record",
    "Required",
    "Requirement",
    "RequirementEvent",
    "RetrievalEvent",
    "RevisionEvent",
    "RunValues",
    "Sample",
    "TaskEvent",
    "ThoughtEvent",
    "VerdictEvent",
    "broken_links",
    "digest",
    "failure",
    "frozen",
    "given_draft",
    "record",
    "requirement",
    "task_event",
]


class Choice(TypedDict):
    """The next step of an adaptive run; the verdict that holds it says why."""

    arm: str
    drafts: int


FORMAT = 2
"""The form of a record's events, on the `task` event that begins a run. Threads from before it was noted have 1, whose
usage may lack `uncounted_calls` and whose drafts keep the order of their day (`ORDER`). All of them are read."""

EventKind: TypeAlias = Literal[
    "task", "draft", "critique", "verdict", "revision", "retrieval", "thought", "human", "requirement", "failure",
    "change", "fork",
]  # fmt: skip

DRAFT_KINDS = ("draft", "revision")
ORDER = 2
"""The order of drafts that a task is begun under, on its event; those from before it was noted keep the first one."""
CRITIQUE_KINDS = ("critique", "human")
AGENT_RECORD, AGENT_VALUES = "_refine_events", "_refine"
"""Where an agent of LangChain's keeps the record and what was last computed from it."""
CHANGE_KINDS = ("change", "fork", "requirement")
"""From them on the record goes on by another graph, in another thread, or with something else required; to no step of
the run do they belong."""


class _Common(TypedDict):
    round: int
    """The draft that it concerns: 0 is the first draft, n the n-th revision."""
    by: str
    """Which model, critic, verifier, node or person."""
    text: str
    usage: Usage
    prev: str
    """Hash of the event before this one in the thread; empty on the first."""
    at: NotRequired[str]
    """When it was written, ISO 8601 in UTC, by the clock of who ran it; records of format 1 do not say."""
    warned: NotRequired[list[str]]
    """The budgets of which 80% were used up by then, and whoever streams the run was warned of."""
    model: NotRequired[str]
    """The model that wrote or judged it, where one did and said its name."""


class _Limited(TypedDict):
    limits: NotRequired[dict[str, Any]]
    """task: the limits that the run started with; verdict: those in force, where they changed since."""


class _Judged(TypedDict):
    accepted: NotRequired[bool | None]
    """critique, human, verdict: `None` is an opinion that could not be read, and accepts nothing."""
    score: NotRequired[Score | None]
    """critique, human, verdict: 0–1."""


class _Oracle(TypedDict):
    oracle: NotRequired[bool]
    """critique, verdict: made with knowledge of the gold answer."""


class _Task(TypedDict):
    format: NotRequired[int]
    """`FORMAT` of the release that wrote it."""
    conversation: NotRequired[list[dict[str, Any]]]
    """The messages that it came in, itself the last user's: of a thread that goes on, those since its last task."""
    continues: NotRequired[bool]
    """True if the conversation in the tasks before it came before this one."""
    carried: NotRequired[bool]
    """Its usage is what earlier topics of the same run of a pipeline cost."""


class _Graph(TypedDict):
    options: NotRequired[dict[str, Any]]
    """The graph's options that a fold needs (`keep`, `judge_last`, the `arms` of an adaptive run), and the
    `order` of drafts."""
    fingerprint: NotRequired[dict[str, Any]]
    """The graph's nodes, models, critics and options by name, prompts as hashes, and the release that built it."""


class Sample(TypedDict):
    """One of several replies to one prompt, of which a draft was chosen."""

    text: str
    vote: str | None
    """The answer that it was counted for; `None` where none could be read."""
    input_tokens: int | None
    """`None` where the provider reports none, as the two below."""
    output_tokens: int | None
    total_tokens: int | None
    cut_off: bool
    """It met the limit of output tokens."""


class _Draft(TypedDict):
    rejected: NotRequired[str]
    """Why it is not a draft: `refused`, `meta` where it talks about the task, `notice` where no model wrote it, `empty`
    (of a first draft, `incomplete` then says why), and of a revision `repeat`, `invalid` where data does not fit its
    schema, `unfinished` where an agent was stopped; empty when it is one."""
    stripped: NotRequired[dict[str, str]]
    """What stood around the draft in the reply: a preamble `before` it, a closing offer `after` it."""
    incomplete: NotRequired[str]
    """draft, revision: why an agent did not finish it; such a draft is never refined."""
    cut_off: NotRequired[bool]
    """The reply met the limit of output tokens."""
    samples: NotRequired[list[Sample]]
    """The replies that it was chosen from, itself among them."""
    steps: NotRequired[list[dict[str, Any]]]
    """An agent's steps for it, in order: model messages, tool calls and tool results."""
    schema: NotRequired[dict[str, Any]]
    """JSON Schema of a draft that is data, in its text as JSON."""
    given: NotRequired[bool]
    """draft: the caller's own, which the run began with."""
    conversation: NotRequired[list[dict[str, Any]]]
    """The messages before the task, in records of releases that kept them here."""


class _Critique(TypedDict):
    critic: NotRequired[str]
    """The critic's name, where the critique is signed by someone else."""
    verifier: NotRequired[bool]
    """Made by a program that checks, not by an opinion."""
    evidence: NotRequired[dict[str, Any]]
    """Its grounds: a program and its result, say."""
    calibration: NotRequired[dict[str, Any]]
    """Of a calibrated judge: `judge`, the hash of its file, `threshold`, `alpha`, `delta`, and the `rounds` that it was
    calibrated on. With `accepted` of `None` it leaves the decision to others."""
    requirements: NotRequired[list[str]]
    """The standing requirements that it tells about: it accepts the draft only if they are met."""
    criteria: NotRequired[dict[str, bool]]
    """Of a critic that judged requirements one by one: whether the draft meets each."""
    uncalibrated: NotRequired[bool]
    """The model judged its own draft, and nobody measured how often it is wrong."""


class _Verdict(TypedDict):
    stop_reason: NotRequired[str | None]
    """Why the run stops here, or `None` when it goes on."""
    best: NotRequired[int | None]
    """The round of the best draft so far."""
    choice: NotRequired[Choice]
    """The next step of an adaptive run; `text` says why."""
    out_of_steps: NotRequired[bool]
    """The caller's `recursion_limit` left no room for another round."""


class _Refiner(TypedDict):
    refiner: NotRequired[str]
    """revision, failure: the name of the one of several refiners, or ways to write on, that was chosen to write it."""


class _Revision(_Refiner):
    base: NotRequired[int]
    """The round of the draft that was revised."""
    edited: NotRequired[bool]
    """A program edited what the model wrote, as all verifiers accept it."""


class _Human(TypedDict):
    stop: NotRequired[bool]
    """The person ended the run."""


class _Requirement(TypedDict):
    verifiers: NotRequired[list[str]]
    """requirement: the names of programs that tell if a draft meets it, as `uses_words:winter`."""
    withdrawn: NotRequired[bool]
    """requirement: it stands no longer."""


class _Retrieval(TypedDict):
    documents: NotRequired[list[dict[str, Any]]]
    """The passages found for the query in `text`, best first, each with `id`, `text`, `source`, and `score` where the
    search gives one."""
    withheld: NotRequired[list[dict[str, Any]]]
    """Found in place of `documents`, and so improbable to answer the query that no writer is shown them."""
    why: NotRequired[str]
    """The origin of the query: `plan`, `pattern`, `model`, `feedback`, or the name of a rule."""
    plan: NotRequired[dict[str, Any]]
    """How a query is searched for."""
    search: NotRequired[dict[str, Any]]
    """What a search of ours tells besides its passages; see `redraft.retrieval.RetrievalResult`."""
    gaps: NotRequired[list[str]]
    """Gaps that a model named, or the parts of the question that nothing answers."""
    failed: NotRequired[dict[str, str]]
    """The step, type and message of an error that did not end the run."""


class _Failure(_Refiner):
    node: NotRequired[str]
    """The node that failed."""
    error: NotRequired[str]
    """The type of the error."""
    budget: NotRequired[str]
    """The budget that was spent in the middle of the node; such a failure is none of the run."""
    kept: NotRequired[bool]
    """The journal keeps what was answered until then: this usage counts it, and the next try doesn't."""


class _Path(TypedDict):
    branch: NotRequired[str]
    """verdict, failure: the path of a search that it is about."""


class _Fork(TypedDict):
    parent: NotRequired[str]
    """The thread that it was forked from."""
    parent_head: NotRequired[str]
    """The hash of the last event that the parent had there; its record was verified to lead to it."""
    fork_at: NotRequired[int | str]
    """The round or the checkpoint."""


class TaskEvent(_Common, _Limited, _Task, _Graph):
    """The start of a run."""

    kind: Literal["task"]


class DraftEvent(_Common, _Draft):
    """A first draft."""

    kind: Literal["draft"]


class CritiqueEvent(_Common, _Judged, _Oracle, _Critique):
    """A critique of a draft, by a critic or a verifier."""

    kind: Literal["critique"]


class VerdictEvent(_Common, _Limited, _Judged, _Oracle, _Verdict, _Path):
    """The decision to go on or to stop."""

    kind: Literal["verdict"]


class RevisionEvent(_Common, _Draft, _Revision):
    """A draft that revises another."""

    kind: Literal["revision"]


class HumanEvent(_Common, _Judged, _Human):
    """A person's answer about a draft."""

    kind: Literal["human"]


class RetrievalEvent(_Common, _Retrieval):
    """A retrieval: a query, and the passages found for it."""

    kind: Literal["retrieval"]


class ThoughtEvent(_Common):
    """A writer's thoughts before it wrote."""

    kind: Literal["thought"]


class RequirementEvent(_Common, _Requirement):
    """A wish of the caller, a person or a fork, in `text`: it stands beside the task from then on."""

    kind: Literal["requirement"]


class FailureEvent(_Common, _Failure, _Path):
    """An error, which the run outlives."""

    kind: Literal["failure"]


class ChangeEvent(_Common, _Graph):
    """The moment from which another graph goes on; `text` says what differs."""

    kind: Literal["change"]


class ForkEvent(_Common, _Graph, _Fork):
    """Where a fork begins to go its own way: what is before it is its parent's, unchanged."""

    kind: Literal["fork"]


class Event(
    _Common, _Limited, _Judged, _Oracle, _Task, _Draft, _Critique, _Verdict, _Revision, _Human,
    _Requirement, _Retrieval, _Failure, _Path, _Graph, _Fork
):  # fmt: skip
    """One thing that happened, of any kind: what reads a record asks each event for what it may hold.

    Plain data, so that any checkpointer, serializer or HTTP server can hold it.

    Example:
        >>> from redraft import Event, build_refine_graph
        >>> from redraft.models import ScriptedModel
        >>> graph = build_refine_graph(ScriptedModel(["Rain on a roof.", "no issues"]))
        >>> events: list[Event] = graph.invoke({"task": "Write about rain."})["events"]
        >>> [event["kind"] for event in events]
        ['task', 'draft', 'critique', 'verdict']
    """

    kind: EventKind


EventOfKind: TypeAlias = (
    TaskEvent
    | DraftEvent
    | CritiqueEvent
    | VerdictEvent
    | RevisionEvent
    | HumanEvent
    | RequirementEvent
    | RetrievalEvent
    | ThoughtEvent
    | FailureEvent
    | ChangeEvent
    | ForkEvent
)
"""The same, told apart by `kind`: what a stored event is checked by, and what its JSON schema says."""


class Requirement(TypedDict):
    """A wish of the caller, a person or a fork, and its status."""

    text: str
    by: str
    at: str
    """When it was asked for."""
    verifiers: list[str]
    """Its own, by name; empty where a model or a person must tell."""
    status: Literal["open", "satisfied", "withdrawn"]
    """Satisfied: somebody who can tell said that the answer meets it."""


class Required(TypedDict):
    """A wish that is given with a task."""

    text: str
    verifiers: NotRequired[list[str]]
    """Programs that tell if a draft meets it, by name, as `length:-40`."""


class RunValues(TypedDict, total=False):
    """Values that were last computed from the record of a run."""

    head: str
    """Hash of the last event."""
    answer: str
    stop_reason: str | None
    rounds: int
    score: Score | None
    accepted_by: str | None
    oracle: bool
    requirements: list[Requirement]
    usage: Usage
    error: str | None


def digest(event: Event) -> str:
    """Return the hash of an event, 32 hex digits. It covers every field, so it covers all that came before."""
    return hashlib.blake2b(_CANONICAL.encode(event).encode(), digest_size=16).hexdigest()


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
"""Made once: `json.dumps` makes a new one for every event."""


class Record(list[Event]):
    """The record in a graph's state: a list that remembers what was read off it, and is not changed in place.

    A copy of it, a slice and what is saved are plain lists.
    """

    summary: Any = None
    """A `RunSummary` of these events or of the first of them, or `None`."""

    def __reduce_ex__(self, _: Any) -> Any:
        return (list, (), None, iter(self))


class FrozenRecord(tuple[Event, ...]):
    """The record as others are shown it: a tuple that remembers the same."""

    summary: Any = None

    def __reduce__(self) -> Any:
        return (tuple, (list(self),))


def frozen(events: Sequence[Event]) -> tuple[Event, ...]:
    """Return the record as a tuple, for who must not append to it."""
    copy = FrozenRecord(events)
    copy.summary = events.summary if isinstance(events, Record | FrozenRecord) else None
    return copy


def record(state: Mapping[str, Any], *news: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state update that appends events, each linked to the one before it.

    Args:
        state: The current state; only `head` is read.
        news: Events without `prev`; `usage`, `text` and `at` may be left out.
    """
    head: str = state.get("head") or ""
    sealed: list[Event] = []
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    for new in news:
        # What is taken over from another record keeps its time.
        event: Any = {"text": "", "usage": NO_USAGE, "at": now, **new, "prev": head}
        event["text"] = clean(event["text"])
        sealed.append(event)
        head = digest(event)
    return {"events": sealed, "head": head} if sealed else {}


def given_draft(text: object) -> dict[str, Any]:
    """Return the event of a first draft that the caller wrote, and no step of the run; it costs nothing.

    Raises:
        ValueError: It is no text, or blank.
    """
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"draft must be the text to begin with, not {text!r:.200}; without it one is written")
    return {"kind": "draft", "round": 0, "by": "human", "text": clean(text), "given": True}


def task_event(
    task: str,
    limits: Mapping[str, Any],
    options: Mapping[str, Any],
    *,
    fingerprint: Mapping[str, Any] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Return the event that begins a run: what is asked for, the limits in force, and the graph that runs it."""
    return {
        "kind": "task",
        "round": 0,
        "by": "caller",
        "format": FORMAT,
        "text": task,
        "limits": dict(limits),
        "options": {**options, "order": ORDER},
        **({"fingerprint": dict(fingerprint)} if fingerprint else {}),
        **fields,
    }


def requirement(text: str, number: int, by: str, *, verifiers: Sequence[str] = (), **fields: Any) -> dict[str, Any]:
    """Return the event by which something is asked for, beside the task, of all later drafts; or withdrawn."""
    own = {"verifiers": [*verifiers]} if verifiers else {}
    return {"kind": "requirement", "round": number, "by": by, "text": text, **own, **fields}


def failure(node: str, number: int, error: Exception, **fields: Any) -> dict[str, Any]:
    """Return the event that says a node failed: the error's type and its message, never its traceback."""
    return {
        "kind": "failure",
        "round": number,
        "by": node,
        "node": node,
        "error": type(error).__name__,
        "text": masked(str(error))[:2000],
        **fields,
    }


def clean(text: str) -> str:
    """Return text that every database can hold: without NUL and without lone surrogates."""
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        encoded = text.encode("utf-8", "replace")
        text = encoded.decode()
    # Among bytes it is found in no time.
    return text.replace("\x00", "") if b"\x00" in encoded else text


def broken_links(events: Sequence[Event], head: str) -> list[int]:
    """Return the index of every event that was edited, removed or moved after it was written.

    Args:
        events: The whole record of a thread, from its first event.
        head: The hash of the last event, as the state holds it.
    """
    following = [event["prev"] for event in events[1:]] + [head]
    broken = [index for index, event in enumerate(events) if digest(event) != following[index]]
    if events and events[0]["prev"]:
        broken.insert(0, 0)
    return sorted(set(broken))
