"""An agent run whole for the first draft: its steps are recorded and streamed as they come. Internal."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass
from threading import RLock
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage, convert_to_messages
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables.config import merge_configs
from langgraph.errors import GraphRecursionError
from langgraph.pregel import Pregel

from ...state.events import DRAFT_KINDS, clean, frozen
from ...state.stopping import spent_budget
from ..runtime.dual import Do, adrive, drive
from ..runtime.meter import METER, BudgetSpentError
from ..runtime.step import emitter
from ..writing.replies import cut_off, read_text, same_text
from ..writing.writers import AdaptedRunnable, input_kind
from .react import ANY_DURABILITY, storable

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable, RunnableConfig

__all__ = ["AgentRun", "AgentUnfinishedError", "AgentWriter", "StepWatch", "agent_writer", "steps_of"]


class StepWatch(BaseCallbackHandler):
    """Sees what models and tools below it do, sends it to the `custom` stream, and keeps it in `steps`.

    Callbacks show what any chain or graph does the moment it is done. The states of a graph show the rest: messages
    that no LangChain model or tool made, and what happened before a pause.

    Args:
        state: The state of the run, for its budgets.
        given: How many messages the agent is given; they are no steps of it.
        asked: The last of them, where the agent has a memory of its own: what stands before it there was said, and
            counted, for an earlier task.
    """

    raise_error = True
    """A record with a hole in it must not look whole."""
    run_inline = True
    """In the order in which things happen, also in async runs."""

    def __init__(self, state: Mapping[str, Any], *, given: int, asked: str | None = None) -> None:
        self.steps: list[dict[str, Any]] = []
        self.last_message: AIMessage | None = None
        self.state: Any = None
        self._given = given
        self._asked = asked
        self._seen: Counter[tuple[str, str]] = Counter()
        self._began = False
        self._events = frozen(state.get("events", []))
        self._limits = state.get("limits", {})
        self._meter = METER.get()
        self._send = emitter()
        self._lock = RLock()

    @property
    def last_text(self) -> str:
        """The text of the last message of a model; empty before the first."""
        return next((step["text"] for step in reversed(self.steps) if step["step"] == "model"), "")

    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        """Note what a model said."""
        for generation in (response.generations or [[]])[0][:1]:
            message = getattr(generation, "message", None)
            self._note(message if isinstance(message, AIMessage) else AIMessage(generation.text))

    def on_tool_end(self, output: Any, **about: Any) -> None:
        """Note what a tool returned; what is meant for a graph's state is seen there."""
        if isinstance(output, ToolMessage):
            self._note(output)
        elif isinstance(output, str):
            self._note(ToolMessage(output, tool_call_id="", name=about.get("name")))

    def settle(self, values: Any) -> None:
        """Note the messages in a graph's state that nobody has noted yet. The first state is what it began with."""
        messages = values.get("messages") if isinstance(values, Mapping) else None
        first, self._began = not self._began, True
        if not isinstance(messages, list):
            return
        if first and self._asked is not None:
            self._given = max(self._given, _after_last(messages, self._asked))
        own = [message for message in messages[self._given :] if isinstance(message, AIMessage | ToolMessage)]
        if first:
            self._resume(own)
            return
        tally: Counter[tuple[str, str]] = Counter()
        for message in own:
            tally[_key(message)] += 1
            if tally[_key(message)] > self._seen[_key(message)]:
                self._note(message)

    def settle_last(self, result: Any) -> None:
        """Note what a result holds that nobody has noted yet, where no state was seen."""
        if not self._began:
            self._began = True
            self.settle(result if isinstance(result, Mapping) else {"messages": [result]})

    def take(self, mode: str, item: Any) -> None:
        """Take one item of a graph's stream: a state is settled, and before a task the budgets are looked at.

        Raises:
            BudgetSpentError: A budget of the run is spent by now.
        """
        if mode == "values":
            self.state = item
            self.settle(item)
        elif "result" not in item and self._meter is not None:
            so_far = self._meter.usage(seconds=self._meter.elapsed)
            if budget := spent_budget(self._events, self._limits, besides=so_far):
                raise BudgetSpentError(budget)

    def _resume(self, messages: list[AIMessage | ToolMessage]) -> None:
        """Take over what the agent did before a pause: it was streamed then, and counts now."""
        with self._lock:
            self.steps[:0] = [step for message in messages for step in steps_of(message)]
            for message in messages:
                self._seen[_key(message)] += 1
                if self._meter is not None and isinstance(message, AIMessage) and message.usage_metadata:
                    result = LLMResult(generations=[[ChatGeneration(message=message)]])
                    self._meter.on_llm_end(result, run_id=uuid4())

    def _note(self, message: AIMessage | ToolMessage) -> None:
        with self._lock:
            self._seen[_key(message)] += 1
            if isinstance(message, AIMessage):
                self.last_message = message
            for step in steps_of(message):
                self.steps.append(step)
                self._send(**{"kind": "step", "role": "base", "round": 0, **step})


def steps_of(message: BaseMessage) -> Iterator[dict[str, Any]]:
    """Yield what a message shows as plain data: `step` is `model`, `tool_call` or `tool_result`.

    All have `by` (the model or tool) and `text`; calls and results have `tool` and `id`, calls their `args`, and
    results their `status`, `success` or `error`.
    """
    if isinstance(message, ToolMessage):
        tool = clean(message.name or "tool")
        result = {"step": "tool_result", "by": tool, "text": clean(str(message.text)), "tool": tool}
        yield result | {"id": clean(str(message.tool_call_id)), "status": message.status}
    elif isinstance(message, AIMessage):
        by = clean(str(message.response_metadata.get("model_name") or message.name or "model"))
        yield {"step": "model", "by": by, "text": clean(read_text(message))}
        for call in message.tool_calls:
            tool, args = clean(call["name"]), _plain(call["args"])
            shown = f"{tool}({json.dumps(args, ensure_ascii=False)})"
            yield {
                "step": "tool_call",
                "by": by,
                "text": shown,
                "tool": tool,
                "args": args,
                "id": clean(call["id"] or ""),
            }


def _plain(value: Any) -> Any:
    """Return a value as any checkpoint and any JSON can hold it."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(key)): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, bool) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return storable(value) if isinstance(value, int) else clean(str(value))


def _after_last(messages: list[Any], asked: str) -> int:
    """Return the index after the last message of a user that says this; 0 where none does."""
    found = [at for at, one in enumerate(messages, 1) if isinstance(one, HumanMessage) and str(one.text) == asked]
    return found[-1] if found else 0


def _key(message: AIMessage | ToolMessage) -> tuple[str, str]:
    """Tell messages apart by what they say: ids are rewritten by graphs, and repeated by some servers."""
    calls = [call["name"] for call in message.tool_calls] if isinstance(message, AIMessage) else []
    return f"{message.type} {calls}", str(message.text)


class AgentUnfinishedError(RuntimeError):
    """An agent stopped before it had finished. What it has is returned as it is, and never refined."""


@dataclass(frozen=True)
class AgentRun:
    """The outcome of an agent's run.

    Args:
        text: The text of its last message.
        steps: What it did, in order, as plain data; see `steps_of`.
        unfinished: Why it did not finish; empty when it did.
        budget: The budget that is spent, where it was stopped for one.
    """

    text: str
    steps: tuple[dict[str, Any], ...]
    unfinished: str = ""
    budget: str | None = None


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
        return drive(self._run(input, config))

    async def ainvoke(self, input: Mapping[str, Any], config: RunnableConfig | None = None, **_: Any) -> AgentRun:  # noqa: A002
        return await adrive(self._run(input, config))

    def _run(self, state: Mapping[str, Any], config: RunnableConfig | None) -> Generator[Do, Any, AgentRun]:
        given, watch = self.translated(state), self._watch(state)
        own = self._config(config, watch)
        try:
            if isinstance(self.runnable, Pregel):
                result = yield Do(self._streamed, self._astreamed, (given, own, watch))
            else:
                result = yield Do(self.runnable.invoke, self.runnable.ainvoke, (given, own))
        except GraphRecursionError:
            return _stopped(watch, OUT_OF_STEPS)
        except BudgetSpentError as spent:
            budget = spent.budget.replace("_", " ")
            return _stopped(watch, OUT_OF_BUDGET.format(budget=budget), budget=spent.budget)
        watch.settle_last(result)
        text = _answer(result)
        return AgentRun(text, tuple(watch.steps), _unfinished(text, result, watch))

    def _streamed(self, given: Any, config: RunnableConfig, watch: StepWatch) -> Any:
        """Run the graph, and return its last state."""
        states: Any = self.runnable.stream(given, config, stream_mode=MODES)
        with closing(states):
            for mode, item in states:
                watch.take(mode, item)
        return watch.state

    async def _astreamed(self, given: Any, config: RunnableConfig, watch: StepWatch) -> Any:
        """Async twin of `_streamed`."""
        states: Any = self.runnable.astream(given, config, stream_mode=MODES)
        async with aclosing(states):
            async for mode, item in states:
                watch.take(mode, item)
        return watch.state

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


def _stopped(watch: StepWatch, why: str, *, budget: str | None = None) -> AgentRun:
    return AgentRun(watch.last_text, tuple(watch.steps), why, budget)


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
    if last is not None and cut_off(last) and (last in messages or same_text(read_text(last), text)):
        return "The last message of the agent was cut off at its limit of output tokens."
    return "" if text.strip() else "The agent ended without an answer."


MODES: Any = ["values", "tasks"]
"""The state after each step, and word of each task before it begins and after it has ended."""
NEEDS_MORE_STEPS = "Sorry, need more steps to process this request."
"""The whole of what LangGraph's prebuilt agent says when its recursion limit leaves no room for its tool calls."""
OUT_OF_BUDGET = "The {budget} was spent before the agent had finished."
OUT_OF_STEPS = "The agent ran out of steps before it had finished; a higher recursion_limit gives it more."
