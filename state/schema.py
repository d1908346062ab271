"""The typed state of a run: input, state and output. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NotRequired, Self

from langgraph.channels.ephemeral_value import EphemeralValue
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.managed import RemainingSteps
from pydantic import Field
from typing_extensions import TypeAliasType, TypedDict  # pydantic reads typing's own only from Python 3.12 on

from .checked_channels import NEVER, CheckedDelta, StoredOnce, append_events, last
from .events import Event, EventOfKind, Required, Requirement, RunValues
from .masking import masked
from .usage import Usage

if TYPE_CHECKING:
    # Type checkers would have every reader of a record narrow each event first; what is stored is told apart by kind.
    KnownEvent = Event
else:
    # An alias with a name, since `get_type_hints` drops what stands in a bare `Annotated`.
    KnownEvent = TypeAliasType("KnownEvent", Annotated[EventOfKind, Field(discriminator="kind")])

__all__ = ["KnownEvent", "Raised", "RefineInput", "RefineOutput", "RefineState", "RunValues"]


class Raised(str):
    """The message of an error that is to be raised once the step that it came from is stored; it holds the error."""

    error: Exception

    def __new__(cls, error: Exception) -> Self:
        new = super().__new__(cls, masked(str(error)))
        new.error = error
        return new


class RefineInput(TypedDict):
    """The input of a run. Limits stay with the thread until they are given again."""

    task: str
    draft: NotRequired[str]
    """A first draft of the caller's own: none is written, and the run begins with feedback on this one."""
    require: NotRequired[list[str | Required]]
    """What the answer must meet beside the task, as texts, or with the names of programs that tell."""
    limits: NotRequired[dict[str, Any]]


class RefineState(RefineInput, RunValues, total=False):
    """The state of a run: the record, and what was last computed from it."""

    task: Annotated[str, StoredOnce(last, snapshot_frequency=1)]  # type: ignore[misc]  # callers give it, and an unfinished state may lack it
    draft: Annotated[str, EphemeralValue]  # of this task, and gone once it is in the record
    require: Annotated[list[str | Required], EphemeralValue]
    events: Annotated[list[KnownEvent], CheckedDelta(append_events, snapshot_frequency=NEVER)]
    """The record. Only each step's new events are stored, so that a thread's bytes grow linearly with its rounds."""
    asked_ahead: Annotated[dict[str, Any], EphemeralValue]
    """What a critic has asked beside the writer of the first draft, in the step before it judges that."""
    raised: Annotated[str, UntrackedValue]
    """The error of the first draft, in the step before it is raised. It is never stored, so that a thread which goes on
    asks again."""
    remaining_steps: RemainingSteps


class RefineOutput(TypedDict):
    """The output of a run."""

    answer: str
    """The best draft; empty when a budget was spent before the first."""
    stop_reason: str | None
    """`accepted`, `max_rounds`, `no_progress`, `undecided`, `token_budget`, `cost_budget`, `time_budget`,
    `call_budget`, `quota`, `human` or `failed`."""
    rounds: int
    """How often the draft was revised."""
    score: float | None
    """Score of the answer, 0–1, or `None` when nobody scored it."""
    accepted_by: str | None
    """Names of those who accepted the answer, or `None`."""
    oracle: bool
    """True if a critic that knows the gold answer had a say."""
    requirements: list[Requirement]
    """What the caller, people and forks asked for beside the task, each `open`, `satisfied` or `withdrawn`."""
    usage: Usage
    error: str | None
    """Who raised it, the type and the message of the error that ended the run as `failed`; else `None`."""
    events: list[KnownEvent]
    """The record of the thread, oldest first."""
