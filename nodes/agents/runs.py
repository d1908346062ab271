"""Someone's agent, run whole for the first draft: relayed as it goes, and never refined where it did not finish."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage, convert_to_messages
from langchain_core.runnables.config import merge_configs
from langgraph.errors import GraphRecursionError
from langgraph.pregel import Pregel

from ...state.events import DRAFT_KINDS
from ..runtime.meter import BudgetSpentError
from ..writing.replies import read_text, same_text
from ..writing.writers import AdaptedRunnable, input_kind
from .react import ANY_DURABILITY
from .steps import StepWatch

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable, RunnableConfig

__all__ = ["AgentRun", "AgentUnfinishedError", "AgentWriter", "agent_writer"]


class AgentUnfinishedError(RuntimeError):
    """An agent stopped before it had finished. What it has is returned as it is, and never refined."""


@dataclass(frozen=True)
class AgentRun:
    """The outcome of an agent's run.

    Args:
        text: The text of its last message.
        steps: What it did, in order, as plain data; see `redraft.nodes.agents.steps`.
        unfinished: Why it did not finish; empty when it did.
        over_budget: It was stopped since a budget of the run is spent.
    """

    text: str
    steps: tuple[dict[str, Any], ...]
    unfinished: str = ""
    over_budget: bool = False


def agent_writer(base: Runnable[Any, Any]) -> AgentWriter:
    """Return a writer that runs an agent, a graph or a chain whole, for `generate`.

    Its steps go to the `custom` stream as they happen, a graph's checkpoints are the parent's, and an `interrupt()`
    inside pauses the whole. A graph keeps the `recursion_limit` of its own `with_config`, and begins no step once
    a budget of the run is spent.

    Args:
        base: Given the conversation where its input has `messages`, else the task.

    Raises:
        ValueError: At build: the input of a graph has neither `messages` nor `task`.
    """
    return AgentWriter(base, input_kind(base), "best", "all")


class AgentWriter(AdaptedRunnable):
    """See `agent_writer`."""

    def invoke(self, input: Mapping[str, Any], config: RunnableConfig | None = None, **_: Any) -> AgentRun:  # noqa: A002
        given, watch, result = self.translated(input), self._watch(input), None
        try:
            if not isinstance(self.runnable, Pregel):
                return _ended(self.runnable.invoke(given, self._config(config, watch)), watch)
            states: Any = self.runnable.stream(given, self._config(config, watch), stream_mode=MODES)
            with closing(states):
                for mode, item in states:
                    if mode == "values":
                        result = item
                        watch.settle(item)
                    elif "result" not in item and (budget := watch.spent_budget()):
                        return _over_budget(watch, budget)
        except GraphRecursionError:
            return _stopped(watch, OUT_OF_STEPS)
        except BudgetSpentError as spent:
            return _over_budget(watch, spent.budget.replace("_", " "))
        return _ended(result, watch)

    async def ainvoke(self, input: Mapping[str, Any], config: RunnableConfig | None = None, **_: Any) -> AgentRun:  # noqa: A002
        given, watch, result = self.translated(input), self._watch(input), None
        try:
            if not isinstance(self.runnable, Pregel):
                return _ended(await self.runnable.ainvoke(given, self._config(config, watch)), watch)
            states: Any = self.runnable.astream(given, self._config(config, watch), stream_mode=MODES)
            async with aclosing(states):
                async for mode, item in states:
                    if mode == "values":
                        result = item
                        watch.settle(item)
                    elif "result" not in item and (budget := watch.spent_budget()):
                        return _over_budget(watch, budget)
        except GraphRecursionError:
            return _stopped(watch, OUT_OF_STEPS)
        except BudgetSpentError as spent:
            return _over_budget(watch, spent.budget.replace("_", " "))
        return _ended(result, watch)

    def translated(self, state: Mapping[str, Any]) -> Any:
        """Return what the agent is given: it always begins anew, whatever draft it left unfinished before."""
        events = [event for event in state.get("events", []) if event["kind"] not in DRAFT_KINDS]
        return super().translated({**state, "events": events})

    def _watch(self, state: Mapping[str, Any]) -> StepWatch:
        given = self.translated(state)
        if self.given != "messages":
            return StepWatch(state, given=0)
        remembers = isinstance(self.runnable, Pregel) and self.runnable.checkpointer not in (None, False)
        last = convert_to_messages(given["messages"])[-1]
        asked = str(last.text) if remembers and isinstance(last, HumanMessage) else None
        return StepWatch(state, given=len(given["messages"]), asked=asked)

    def _config(self, config: RunnableConfig | None, watch: StepWatch) -> RunnableConfig:
        own = getattr(self.runnable, "config", None) or {}
        limit: RunnableConfig = {"recursion_limit": own["recursion_limit"]} if "recursion_limit" in own else {}
        # A graph that keeps its checkpoints keeps them as the caller asked.
        keeps = isinstance(self.runnable, Pregel) and self.runnable.checkpointer is not False
        return merge_configs(config, {"callbacks": [watch]}, limit, None if keeps else ANY_DURABILITY)


def _stopped(watch: StepWatch, why: str, *, over_budget: bool = False) -> AgentRun:
    return AgentRun(watch.last_text, tuple(watch.steps), why, over_budget)


def _over_budget(watch: StepWatch, budget: str) -> AgentRun:
    return _stopped(watch, OUT_OF_BUDGET.format(budget=budget), over_budget=True)


def _ended(result: Any, watch: StepWatch) -> AgentRun:
    watch.settle_last(result)
    text = _answer(result)
    return AgentRun(text, tuple(watch.steps), _unfinished(text, result, watch))


def _answer(result: Any) -> str:
    """Return the text of an answer: that of the last tool where its result ends the run (`return_direct`)."""
    messages = result.get("messages") if isinstance(result, Mapping) else None
    last = messages[-1] if isinstance(messages, list) and messages else None
    text = read_text(result)
    returned = isinstance(last, ToolMessage) and last.status == "success"
    return str(last.text) if last is not None and returned and not text.strip() else text


def _unfinished(text: str, result: Any, watch: StepWatch) -> str:
    """Return why an agent that ended by itself has not finished; empty when it has."""
    messages = result.get("messages") if isinstance(result, Mapping) else [result]
    messages = [message for message in messages or [] if isinstance(message, BaseMessage)]
    last = next((message for message in reversed(messages) if isinstance(message, AIMessage)), watch.last_message)
    if text.strip() == NEEDS_MORE_STEPS:
        return OUT_OF_STEPS
    if last is not None and last.tool_calls:
        answered = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
        waiting = [call["name"] for call in last.tool_calls if call["id"] not in answered]
        if waiting and last in messages:
            return f"The agent ended while it waited for what it had called: {', '.join(waiting)}."
    # What a chain returns need not be what its last model said.
    if last is not None and _cut_off(last) and (last in messages or same_text(str(last.text), text)):
        return "The last message of the agent was cut off at its limit of output tokens."
    return "" if text.strip() else "The agent ended without an answer."


def _cut_off(message: AIMessage) -> bool:
    """Return whether a provider says that a reply met its limit of output tokens, each in its own word."""
    said = message.response_metadata
    details = said.get("incomplete_details")
    reasons = [said.get("finish_reason"), said.get("stop_reason"), said.get("done_reason")]
    reasons += [details.get("reason")] if isinstance(details, Mapping) else []
    return any(isinstance(reason, str) and reason.casefold() in CUT_OFF for reason in reasons)


MODES: Any = ["values", "tasks"]
"""The state after each step, and word of each task before it begins and after it has ended."""
CUT_OFF = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
NEEDS_MORE_STEPS = "Sorry, need more steps to process this request."
"""The whole of what LangGraph's prebuilt agent says when its recursion limit leaves no room for its tool calls."""
OUT_OF_BUDGET = "The {budget} was spent before the agent had finished."
OUT_OF_STEPS = "The agent ran out of steps before it had finished; a higher recursion_limit gives it more."
