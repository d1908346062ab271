"""The record of refinement in the state of somebody else's agent, and what its conversation is told of it. Internal.

The keys are private and typed. Files of a deep agent are parts of its answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, Protocol
from uuid import uuid4

from langchain.agents.middleware.types import AgentState, OmitFromOutput, PrivateStateAttr
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.channels import BinaryOperatorAggregate
from langgraph.managed.is_last_step import RemainingStepsManager
from typing_extensions import TypedDict

from ...state.checked_channels import NEVER, CheckedDelta, append_events
from ...state.events import AGENT_RECORD, AGENT_VALUES, Event, Required, clean
from ...state.schema import KnownEvent, RunValues
from ...state.summary import Attempt, best_draft, latest_draft, rejected_since_draft, rounds
from ...state.threads.kind import AGENT_ANSWER
from ...state.typed_answer import schema_in
from ...state.usage import NO_USAGE, Usage, add_usage
from ..writing.gate import opened
from ..writing.prompt_injection import fence, opens_part
from ..writing.replies import read_text, reply_in
from .agent_answers import like

if TYPE_CHECKING:
    from ..writing.prompts import Keep
    from .agent_judge import AgentFeedback

__all__ = [
    "JudgedFolder",
    "KeptData",
    "RefineAgentState",
    "RefineValues",
    "Spent",
    "begun",
    "feedback_message",
    "files_in",
    "loop_state",
    "notice_in",
    "restored",
    "said_in_conversation",
    "since_asked",
    "spent_so_far",
    "task_in",
    "with_files",
]


SOURCE = "redraft"
"""Source of a message in the conversation, under the key that LangChain's own middleware uses for that."""


class RefineValues(RunValues, total=False):
    """The last values of a run, as `RefineState` has them."""

    task: str
    conversation: list[dict[str, Any]]
    """The messages before the task, as plain data."""
    limits: dict[str, Any]
    judge_again: bool
    """The run failed while its last answer was judged, and goes on with that."""
    base_tree: str
    """The folder that it works in, as it was found."""


class JudgedFolder(Protocol):
    """A folder that an agent works in, whose files are part of its answers."""

    def judges(self, critics: Sequence[Any], /) -> list[Any]:
        """Return who judges it: its own checks, then these critics."""

    def read(self, state: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Return its `base_tree`, as it is found."""

    def draft(self, answer: str, base: str, /) -> str:
        """Return its files and an answer as a draft."""

    def bring_back(self, draft: str, base: str, /) -> str:
        """Bring its files back to a draft's, and return the answer in it."""


class Spent(TypedDict, total=False):
    """Usage of the agent's own calls since its last draft, and why it was stopped, if it was."""

    usage: Usage
    model: str
    """The last model that answered."""
    said: str | None
    """The id of what it said last; `None` where that has none."""
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

    require: NotRequired[Annotated[list[str | Required] | None, OmitFromOutput]]
    """What the answer to the last message must meet beside it, as `RefineInput` has it; taken when a run begins."""
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
    """Return True if the record is that of this run: another middleware may have gone to the end before it began."""
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
        if not text.strip() or (message.additional_kwargs.get("lc_source") == SOURCE and message is not messages[-1]):
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


MOST_SAID = 20
"""Messages of a conversation that are kept with a draft, for who judges it."""
WORDLESS = "(a request without words)"


def notice_in(messages: Sequence[BaseMessage], spent: Spent) -> str:
    """Return the text of the last message where no model wrote it, and none had finished an answer; else nothing.

    Args:
        messages: Of the agent since somebody spoke to it last.
        spent: By the agent's calls since then.
    """
    last = reply_in({"messages": list(messages)})
    # Threads from before it was noted know only how many calls there were.
    notice = spent.get("said", None if spent["usage"]["calls"] else "")
    if (
        last is None
        or notice is None
        or any(one.id == notice and not getattr(one, "tool_calls", ()) for one in messages)
    ):
        return ""
    return "" if last.id == notice else str(last.text)


def said_in_conversation(
    state: Mapping[str, Any], loop: Mapping[str, Any], *, feedback: AgentFeedback, keep: Keep, files: Sequence[str]
) -> dict[str, Any]:
    """Return the update of an agent's conversation: the feedback, or the best draft as the last message.

    Args:
        state: Of the agent.
        loop: Of the refinement, after its answer was judged.
        feedback: Makes the text of the feedback.
        keep: Whether the best or the latest draft is the answer.
        files: Patterns of the files that belong to it.
    """
    events = loop["events"]
    best = best_draft(events, keep=keep)
    own = _said_last(best, state, events)
    best_data, update = state.get("_refine_kept"), dict[str, Any]()
    data, written = state.get("structured_response"), files_in(state, files)
    if own is not None and best is not None and (data is not None or files):
        best_data = {"round": best.round, "data": data, "files": written, "answer": str(own.text)}
        update["_refine_kept"] = best_data
    of_best = best_data if best_data and best and best_data["round"] == best.round else None
    if of_best and (changed := restored(written, of_best.get("files", written))):
        update["files"] = changed
    if loop["stop_reason"] is None:
        told = feedback(loop["task"], events, keep=keep)
        return {**update, "messages": [feedback_message(told, rounds(events))], "jump_to": "model"}
    about = {"redraft": {name: loop[name] for name in OUTCOME}}
    if own is not None:
        metadata = {**own.response_metadata, **about}
        return {**update, "messages": [own.model_copy(update={"response_metadata": metadata})]}
    if best is None:
        return update
    text = of_best.get("answer", best.text) if of_best and files and not _edited(best) else best.text
    update["messages"] = [AIMessage(text, id=f"{AGENT_ANSWER}{uuid4()}", response_metadata=about)]
    if schema_in(events) is not None:
        update["structured_response"] = of_best["data"] if of_best else _data_in(best.text, best_data, data)
    return update


def _said_last(best: Attempt | None, state: Mapping[str, Any], events: Sequence[Event]) -> BaseMessage | None:
    """Return the message that is the best draft, where the agent said that last; without a draft, what it said last."""
    own = reply_in({"messages": since_asked(state["messages"])})
    if own is None or best is None:
        return own
    if best is not latest_draft(events) or rejected_since_draft(events) or _edited(best):
        return None
    return _opened(own)


def _opened(message: BaseMessage) -> BaseMessage:
    """Return a message without what stands around the draft in it."""
    draft = opened(read_text(message))
    if not draft.stripped:
        return message
    blocks = (
        []
        if isinstance(message.content, str)
        else [one for one in message.content if not isinstance(one, str) and one.get("type") != "text"]
    )
    content = [*blocks, {"type": "text", "text": draft.text}] if blocks else draft.text
    return message.model_copy(update={"content": content})


def _edited(attempt: Attempt) -> bool:
    """Return True if a person wrote a draft."""
    return any(critique["kind"] == "human" and critique["by"] == attempt.by for critique in attempt.critiques)


def _data_in(text: str, best_data: Mapping[str, Any] | None, data: Any) -> Any:
    """Return the data of a draft; `None` where a person wrote what does not fit."""
    try:
        return like(data if best_data is None else best_data["data"], text)
    except ValueError:
        return None


def files_in(state: Mapping[str, Any], patterns: Sequence[str]) -> dict[str, Any]:
    """Return the files in an agent's state whose paths fit a pattern, by path."""
    files: Mapping[str, Any] = state.get("files") or {}
    return {path: files[path] for path in sorted(files) if any(fnmatchcase(path, one) for one in patterns)}


def with_files(answer: str, files: Mapping[str, Any]) -> str:
    """Return an answer with files after it, each under its path."""
    return "\n\n".join([answer, *(f"{FILE.format(path=path)}\n{_content(file)}" for path, file in files.items())])


def restored(now: Mapping[str, Any], then: Mapping[str, Any]) -> dict[str, Any]:
    """Return the update of an agent's files that brings back those of an earlier draft; `None` takes one away."""
    return {path: then.get(path) for path in {**now, **then} if now.get(path) != then.get(path)}


def _content(file: Any) -> str:
    """Return the text of a file, which deepagents keeps as lines or whole."""
    content = file.get("content", "") if isinstance(file, Mapping) else file
    text = "\n".join(map(str, content)) if isinstance(content, list) else str(content)
    return fence(text) if opens_part(text, [FILE.partition("{")[0].strip()]) else text


FILE = "(The file {path}:)"
OUTCOME = ("stop_reason", "rounds", "score", "accepted_by", "oracle", "requirements", "usage")
