"""Writers of drafts made from a chain, an agent, a graph, or any callable over the state. Internal."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Literal

from langchain_core.runnables import Runnable, RunnableConfig, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase

from ...state.conversation import conversation_of, kept_conversation
from ...state.langgraph_internals import INPUT_CHANNEL
from ..runtime.dual import Do, DualRunnable
from .adaptive import AdaptiveWriter
from .prompts import Keep, Memory, PromptedModel, attempt_at_hand, prompt_values

__all__ = ["AdaptedRunnable", "InputKind", "Writer", "as_writer", "from_runnable", "input_kind"]

Writer = Runnable[Any, Any] | Callable[[Mapping[str, Any]], Any]
"""Takes the state and returns the draft: a string, a message, or a mapping with `draft`, `answer` or `messages`."""

InputKind = Literal["auto", "values", "messages", "state", "chat"]


class AdaptedRunnable(DualRunnable[Mapping[str, Any], Any]):
    """A writer that runs someone's Runnable on what it takes; see `from_runnable`."""

    def __init__(self, runnable: Runnable[Any, Any], given: InputKind, keep: Keep, memory: Memory) -> None:
        self.name = runnable.get_name()
        self.runnable = runnable
        self.given = given
        self.keep: Keep = keep
        self.memory: Memory = memory

    def translated(self, state: Mapping[str, Any]) -> Any:
        """Return the input of the Runnable."""
        events = state.get("events", [])
        values = prompt_values(state["task"], events, attempt_at_hand(events, self.keep), memory=self.memory)
        conversation = conversation_of(events) or kept_conversation(state)
        messages: list[Any] = [*conversation] if conversation else [("user", state["task"])]
        if self.given == "values":
            return {**values, "messages": messages}
        if self.given == "state":
            return {"task": state["task"]}
        if values["draft"]:
            messages += [("assistant", values["draft"]), ("user", values["feedback"] or "Improve your answer.")]
        return messages if self.given == "chat" else {"messages": messages}

    def logic(self, input: Mapping[str, Any], config: RunnableConfig | None) -> Generator[Do, Any, Any]:  # noqa: A002
        return (yield Do(self.runnable.invoke, self.runnable.ainvoke, (self.translated(input), config)))


def from_runnable(
    runnable: Runnable[Any, Any], *, given: InputKind = "auto", keep: Keep = "best", memory: Memory = "all"
) -> Runnable[Any, Any]:
    """Return a writer that runs a prompt chain, an agent whose state is `messages`, or a graph over a `task`.

    Args:
        runnable: The chain, agent or compiled graph. It may return a string, a message, or a mapping with `draft`,
            `answer` or `messages`.
        given: What it is invoked with: `values` (a mapping of task, draft, feedback, history, round and messages, for a
            prompt chain), `messages` (the conversation so far, for an agent), `chat` (its messages alone, for a chat
            model) or `state` (only the task, for a graph such as ours). `auto` knows a chat model, looks at the input
            schema of a compiled graph, and gives everything else `values`.
        keep: Which draft a refiner is shown.
        memory: Whether `history` holds earlier attempts.

    Raises:
        ValueError: `auto` finds neither `messages` nor `task` in the input of a compiled graph. At build.
    """
    return AdaptedRunnable(runnable, input_kind(runnable) if given == "auto" else given, keep, memory)


def as_writer(writer: Writer, *, keep: Keep, memory: Memory) -> Writer:
    """Return the writer, adapted where it is a Runnable of somebody else's.

    Raises:
        TypeError: It can't be called. At build.
    """
    if not isinstance(writer, Runnable) and not callable(writer):
        raise TypeError(f"a writer is a Runnable, or a callable over the state, not {writer!r}")
    if isinstance(writer, Runnable) and not isinstance(writer, AdaptedRunnable | AdaptiveWriter | PromptedModel):
        return from_runnable(writer, keep=keep, memory=memory)
    return writer


def _input_keys(graph: Any) -> set[str]:
    channels = graph.input_channels
    if channels != INPUT_CHANNEL:
        return {channels} if isinstance(channels, str) else set(channels)
    # The builder's schemas, not the JSON schema: pydantic can't make one of `typing.TypedDict` before Python 3.12.
    return set(graph.builder.schemas[graph.builder.input_schema])


def input_kind(runnable: Runnable[Any, Any]) -> InputKind:
    """Return the kind of input that a Runnable takes: `values` for a chain, for a graph what its schema has.

    A chat model takes messages alone.

    Raises:
        ValueError: A graph takes neither `messages` nor `task`.
    """
    from langchain_core.language_models import BaseChatModel
    from langgraph.pregel import Pregel

    while isinstance(runnable, RunnableBindingBase | RunnableWithFallbacks):  # what wraps an agent takes what it takes
        runnable = runnable.bound if isinstance(runnable, RunnableBindingBase) else runnable.runnable
    if isinstance(runnable, BaseChatModel):
        return "chat"
    if not isinstance(runnable, Pregel):
        return "values"
    keys = _input_keys(runnable)
    if "messages" in keys:
        return "messages"
    if "task" in keys:
        return "state"
    raise ValueError(
        f"the graph {runnable.get_name()!r} takes {sorted(keys)}: a writer takes 'messages' or 'task'; "
        "wrap it in a callable that takes the state and returns the draft"
    )
