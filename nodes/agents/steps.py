"""Agent steps: model messages, tool calls and tool results, recorded and streamed as they come."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from threading import RLock
from typing import Any
from uuid import uuid4

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from ...state.events import clean, frozen
from ...state.stopping import spent_budget
from ..runtime.meter import METER
from ..runtime.step import emitter

__all__ = ["StepWatch", "steps_of", "storable"]


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

    def spent_budget(self) -> str:
        """Return the budget that is spent by now; empty while every one lasts."""
        if self._meter is None:
            return ""
        so_far = self._meter.usage(seconds=self._meter.elapsed)
        return (spent_budget(self._events, self._limits, besides=so_far) or "").replace("_", " ")

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
        yield {"step": "model", "by": by, "text": clean(str(message.text))}
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


def storable(value: Any) -> Any:
    """Return a value with its whole numbers of more than 64 bits, which no checkpoint holds, as text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if -(2**63) <= value < 2**63 else str(value)
    if isinstance(value, dict):
        return {key: storable(one) for key, one in value.items()}
    return [storable(one) for one in value] if isinstance(value, list) else value


def _after_last(messages: list[Any], asked: str) -> int:
    """Return the index after the last message of a user that says this; 0 where none does."""
    found = [at for at, one in enumerate(messages, 1) if isinstance(one, HumanMessage) and str(one.text) == asked]
    return found[-1] if found else 0


def _key(message: AIMessage | ToolMessage) -> tuple[str, str]:
    """Tell messages apart by what they say: ids are rewritten by graphs, and repeated by some servers."""
    calls = [call["name"] for call in message.tool_calls] if isinstance(message, AIMessage) else []
    return f"{message.type} {calls}", str(message.text)
