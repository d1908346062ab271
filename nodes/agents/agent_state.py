"""The record of refinement in the state of somebody else's agent: private keys, typed. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from langchain.agents.middleware.types import AgentState, PrivateStateAttr
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.channels import BinaryOperatorAggregate
from langgraph.managed.is_last_step import RemainingStepsManager
from typing_extensions import TypedDict

from ...state.checked_channels import NEVER, CheckedDelta
from ...state.events import AGENT_RECORD, AGENT_VALUES, append_events, clean
from ...state.schema import KnownEvent, RunValues
from ...state.usage import NO_USAGE, Usage, add_usage
from ..writing.replies import read_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "KeptData",
    "RefineAgentState",
    "RefineValues",
    "Spent",
    "begun",
    "feedback_message",
    "loop_state",
    "since_asked",
    "spent_so_far",
    "task_in",
]

SOURCE = "redraft"
"""Source of a message in the conversation, under the key that LangChain's own middleware uses for that."""


class RefineValues(RunValues, total=False):
    """The last values of a run, as `RefineState` has them."""

    task: str
    conversation: list[dict[str, Any]]
    """The messages before the task, as plain data."""
    limits: dict[str, Any]


class Spent(TypedDict, total=False):
    """Usage of the agent's own calls since its last draft, and why it was stopped, if it was."""

    usage: Usage
    model: str
    """The last model that answered."""
    budget: str
    """The budget that is spent."""
    error: str
    """Why it can't finish."""


def add_spent(so_far: Spent, more: Spent | None) -> Spent:
    """Return the sum; `None` begins anew."""
    if more is None:
        return {}
    both = [one["usage"] for one in (so_far, more) if "usage" in one]
    return {**so_far, **more, **({"usage": add_usage(both)} if both else {})}


class KeptData(TypedDict):
    """The structured response, and the files, of the best draft so far, which a worse one may follow."""

    round: int
    data: Any
    files: NotRequired[dict[str, Any]]
    """Those that belong to it, and in `answer` what was said beside them."""
    answer: NotRequired[str]


class RefineAgentState(AgentState[Any]):
    """The agent's state. What is private is neither given by callers nor shown to them, nor to subagents."""

    _refine_events: NotRequired[
        Annotated[list[KnownEvent], CheckedDelta(append_events, snapshot_frequency=NEVER), PrivateStateAttr]
    ]
    _refine: NotRequired[Annotated[RefineValues, PrivateStateAttr]]
    _refine_spent: NotRequired[Annotated[Spent, BinaryOperatorAggregate(dict, add_spent), PrivateStateAttr]]
    _refine_kept: NotRequired[Annotated[KeptData | None, PrivateStateAttr]]
    _refine_steps: NotRequired[Annotated[int, PrivateStateAttr, RemainingStepsManager]]


def loop_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of an agent's state that is the loop's, as the loop's nodes read it."""
    return {**(state.get(AGENT_VALUES) or {}), "events": state.get(AGENT_RECORD) or []}


def begun(state: Mapping[str, Any]) -> bool:
    """Return whether the record is that of this run: another middleware may have gone to the end before it began."""
    values = state.get(AGENT_VALUES)
    if not values:
        return False
    for message in reversed(state["messages"] if values.get("stop_reason") else ()):
        if "redraft" in message.response_metadata:
            break
        if isinstance(message, HumanMessage) and "lc_source" not in message.additional_kwargs:
            return False
    return True


def spent_so_far(state: Mapping[str, Any]) -> Spent:
    """Return the usage of the agent since its last draft."""
    spent: Spent = state.get("_refine_spent") or Spent()
    return {"usage": NO_USAGE.copy(), **spent}


def feedback_message(text: str, number: int) -> HumanMessage:
    """Return feedback as a message of the conversation, marked as none of the user's."""
    return HumanMessage(text, additional_kwargs={"lc_source": SOURCE, "redraft_round": number})


def since_asked(messages: Sequence[AnyMessage]) -> list[BaseMessage]:
    """Return the agent's messages since somebody spoke to it last, a user or a critic."""
    turns = [at for at, one in enumerate(messages) if isinstance(one, HumanMessage)]
    later = messages[turns[-1] + 1 :] if turns else messages
    return [one for one in later if isinstance(one, AIMessage | ToolMessage)]


def task_in(messages: Sequence[AnyMessage]) -> tuple[str, list[dict[str, Any]]]:
    """Return the user's request and the conversation before it: one answer a turn, without drafts and feedback."""
    conversation: list[dict[str, Any]] = []
    for message in messages:
        text = clean(read_text(message))
        # The last message is the caller's, whatever it is marked as: ours are answered.
        if not text.strip() or (is_feedback(message) and message is not messages[-1]):
            continue
        if isinstance(message, HumanMessage):
            conversation.append({"role": "user", "content": text})
        elif isinstance(message, AIMessage):
            if conversation and conversation[-1]["role"] == "assistant":
                conversation.pop()
            conversation.append({"role": "assistant", "content": text})
    while conversation and conversation[-1]["role"] != "user":
        conversation.pop()
    return (conversation[-1]["content"], conversation[-MOST_SAID:]) if conversation else (WORDLESS, [])


def is_feedback(message: BaseMessage) -> bool:
    """Return whether a message is feedback of ours."""
    return isinstance(message, HumanMessage) and message.additional_kwargs.get("lc_source") == SOURCE


MOST_SAID = 20
"""Messages of a conversation that are kept with a draft, for who judges it."""
WORDLESS = "(a request without words)"
