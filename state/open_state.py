"""States of a loop beyond the plain one: conversations, keys of the user's own, typed answers. Internal.

The turns of a conversation are folds over the record, as all else is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence  # langgraph resolves the annotations of states at run time
from typing import Annotated, Any, NotRequired, Self, get_type_hints

from langgraph.channels.last_value import LastValue
from typing_extensions import TypedDict, is_typeddict

from .checked_channels import ThreadMessages
from .events import Event, Required, digest
from .schema import RefineInput, RefineOutput, RefineState
from .summary import current_run

__all__ = [
    "FROM_RECORD",
    "AnswerChannel",
    "ConversationInput",
    "ConversationOutput",
    "ConversationState",
    "answer_id",
    "before_task",
    "conversation_of",
    "kept_conversation",
    "open_schemas",
    "own_keys",
    "own_values",
    "said_so_far",
    "schemas_with",
    "typed_schemas",
]


class ConversationInput(TypedDict, total=False):
    """The input of a run: a task, or a conversation. Limits stay with the thread until they are given again."""

    task: str
    messages: Any
    """New messages as LangChain takes them, oldest first, or one; the thread knows what was said before. The last user
    message is the task, also where one is given."""
    draft: str
    """A first answer of the caller's own: none is written, and the run begins with feedback on this one."""
    require: list[str | Required]
    """What the answer must meet beside the task, as texts, or with the names of programs that tell."""
    limits: dict[str, Any]


class ConversationState(RefineState, total=False):
    """The state of a loop that takes conversations."""

    messages: Annotated[Any, ThreadMessages()]
    """All turns of the thread that came as messages, with their answers."""
    conversation: list[dict[str, Any]]
    """The current task's messages, in threads of releases before they were in the record."""


class ConversationOutput(RefineOutput):
    """The output of a run."""

    messages: NotRequired[list[Any]]
    """The thread's conversation, the answer last; empty where no turn of it came as messages."""


def said_so_far(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return the conversation up to the thread's last task that came in one, as plain data, oldest first.

    A task event holds what was said since the one before it, the last answer included.
    """
    turns: list[dict[str, Any]] = []
    for event in events:
        if event["kind"] == "task" and "conversation" in event:
            turns = [*(turns if event.get("continues") else []), *event["conversation"]]
    return turns


def conversation_of(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return the messages of the current task as plain data, itself the last user's; empty where it came without."""
    run = current_run(events)
    if not run:
        return []
    if run[0]["kind"] == "task" and "conversation" in run[0]:
        return said_so_far(events)
    # Earlier releases kept what was said before on the draft.
    before = next((event["conversation"] for event in run if event.get("conversation")), None)
    return [] if before is None else [*before, {"role": "user", "content": run[0]["text"]}]


def kept_conversation(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the conversation that a middleware or an earlier release keeps in the state, where it is that of the
    current task."""
    turns = state.get("conversation") or []
    last = next((turn for turn in reversed(turns) if isinstance(turn, Mapping) and turn.get("role") == "user"), {})
    return list(turns) if last.get("content") == state["task"] else []


def before_task(conversation: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages before the last user message."""
    of_user = [index for index, message in enumerate(conversation) if message["role"] == "user"]
    return [dict(message) for message in conversation[: of_user[-1]]] if of_user else []


def answer_id(events: Sequence[Event]) -> str | None:
    """Return the id of the current task's answer among the thread's messages; `None` where it came without any."""
    run = current_run(events)
    return f"answer-{digest(run[0])}" if run and "conversation" in run[0] else None


FROM_RECORD = ("feedback", "history", "round", "context")
"""Variables of prompts that are read off the record, beside `task` and `draft`."""


def own_keys(state_schema: Any) -> dict[str, Any]:
    """Return the keys that a state adds to the loop's, with their types; none for `None`.

    Raises:
        TypeError: It is no TypedDict.
        ValueError: A key has the name of something else in prompts.
    """
    if state_schema is None:
        return {}
    if not is_typeddict(state_schema):
        raise TypeError(
            "state_schema is a TypedDict with keys of yours, or such a subclass of redraft.state.RefineState, "
            f"not {state_schema!r}"
        )
    keys = {key: kind for key, kind in _types(state_schema).items() if key not in LOOP_KEYS}
    if taken := [key for key in FROM_RECORD if key in keys]:
        raise ValueError(f"state_schema has a key {taken[0]!r}, which means something else in prompts: rename it")
    return keys


def open_schemas(state_schema: Any, input_schema: Any, *, chat: bool, answer: Any = None) -> tuple[Any, Any, Any]:
    """Return the schemas of a graph: of its state, its input and its output.

    Args:
        state_schema: Adds keys to the loop's state, or replaces some; or `None`.
        input_schema: Narrows the input; `None`: it takes what the loop takes, and every key of one's own.
        chat: Whether the input may be messages.
        answer: The type of the answer, where it has one; see `redraft.state.typed_answer`.

    Raises:
        TypeError: As of `own_keys`.
        ValueError: As of `own_keys`.
    """
    from langgraph.graph import StateGraph  # 1.5 s, which who only reads a thread does not wait for

    chat = chat if input_schema is None else "messages" in _types(input_schema)
    typed: Any = TypedDict  # type checkers know only those that are written down
    state: Any = ConversationState if chat else RefineState
    input_type: Any = ConversationInput if chat else RefineInput
    output: Any = ConversationOutput if chat else RefineOutput
    own, name = own_keys(state_schema), getattr(state_schema, "__name__", "")
    if state_schema is not None:
        state = typed(name, {**_types(state), **_types(state_schema)}, total=False)
        state.__module__ = state_schema.__module__  # not ours: its keys may hold what the user likes
    # Of LangGraph's managed values (how many steps remain) none may come in or go out.
    own_channels = {key: NotRequired[kind] for key, kind in own.items() if key in StateGraph(state).channels}
    if own_channels:
        input_type = typed(f"{name}Input", {**_types(input_type), **own_channels}, total=not chat)
        output = typed(f"{name}Output", {**_types(output), **own_channels})
        input_type.__module__ = output.__module__ = state_schema.__module__
    if answer is not None:
        state, output = typed_schemas(state, output, answer)
    return state, input_type if input_schema is None else input_schema, output


def typed_schemas(state: Any, output: Any, answer: Any) -> tuple[Any, Any]:
    """Return the schemas of a state and an output with the object of the answer; see `redraft.state.typed_answer`."""
    typed: Any = TypedDict
    channel = Annotated[Any, AnswerChannel(answer)]
    new_state = typed(state.__name__, {**_types(state), ANSWER: channel}, total=False)
    new_output = typed(output.__name__, {**_types(output), ANSWER: Any})
    new_state.__module__, new_output.__module__ = state.__module__, output.__module__
    return new_state, new_output


def schemas_with(keys: Iterable[str]) -> tuple[Any, Any, Any]:
    """Return the schemas of a graph with those of these keys that are neither the loop's nor LangGraph's."""
    typed: Any = TypedDict
    own = {key: Any for key in keys if key not in (*LOOP_KEYS, *FROM_RECORD) and key.isidentifier() and key[0] != "_"}
    return open_schemas(typed("OwnKeys", own) if own else None, None, chat=True)


def own_values(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values in a state that are not the loop's."""
    return {key: value for key, value in state.items() if key not in LOOP_KEYS}


def _types(schema: Any) -> dict[str, Any]:
    return get_type_hints(schema, include_extras=True)


ANSWER = "structured_response"
LOOP_KEYS = frozenset(_types(ConversationState))


class AnswerChannel(LastValue[Any]):
    """The object of an answer, of which checkpoints hold the JSON."""

    __slots__ = ("kind",)

    def __init__(self, kind: Any, typ: Any = Any, key: str = "") -> None:
        super().__init__(typ, key)
        self.kind = kind

    def copy(self) -> Self:
        new = type(self)(self.kind, self.typ, self.key)
        new.value = self.value
        return new

    def from_checkpoint(self, checkpoint: Any) -> Self:
        new = type(self)(self.kind, self.typ, self.key)
        new.value = checkpoint
        return new

    def get(self) -> Any:
        """Return the object; `None` where the answer does not fit."""
        text = super().get()
        try:
            return self.kind.parsed(text) if isinstance(text, str) else None
        except ValueError:
            return None
