"""The run of an agent as a draft: its answer, and its steps as plain data. Internal."""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from ...state.events import clean
from ..runtime.dual import Do, DualCallable
from ..runtime.meter import METER
from ..writing.gate import no_draft
from ..writing.replies import cut_off, read_text, reply_in, same_text
from .react import storable
from .structured_answers import as_json, schema_of

__all__ = [
    "ENDED",
    "OUT_OF_STEPS",
    "AgentRun",
    "AgentUnfinishedError",
    "HandedOver",
    "answer_in",
    "run_in",
    "steps_of",
    "unfinished",
]


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
        schema: JSON Schema of its answer, where that is data; the text is then JSON.
        reply: The message that its text is from, where it is known.
        notice: Whether no model wrote its text: what says that a limit is reached, say.
    """

    text: str
    steps: tuple[dict[str, Any], ...]
    unfinished: str = ""
    budget: str | None = None
    schema: Mapping[str, Any] | None = None
    reply: BaseMessage | None = None
    notice: bool = False


def run_in(
    messages: Sequence[BaseMessage], *, data: Any = None, stopped: str = "", budget: str | None = None
) -> AgentRun:
    """Return the run that an agent's messages show.

    Args:
        messages: What it said and called, and what came back.
        data: Its structured response, where it gave one.
        stopped: Why it was stopped, where it was.
        budget: The budget that is spent, where it was stopped for one.
    """
    steps = tuple(step for message in messages for step in steps_of(message))
    result = {"messages": list(messages)}
    reply = reply_in(result)
    if data is not None:
        return AgentRun(as_json(data), steps, stopped, budget, schema_of(data), reply)
    text = answer_in(result) if messages else ""
    return AgentRun(text, steps, stopped or budget or unfinished(text, result), budget, None, reply)


class HandedOver(DualCallable[["Mapping[str, Any]"], AgentRun]):
    """The writer of what an agent has written already, in other nodes; what its calls used is counted here.

    The state holds in `handed_over` the run, its usage and the last model that answered.
    """

    __name__ = "agent"
    asks_no_model = True

    def logic(self, state: Mapping[str, Any], /) -> Generator[Do, Any, AgentRun]:
        yield from ()  # it makes no call
        run: AgentRun
        run, used, model = state["handed_over"]
        if (meter := METER.get()) is not None:
            meter.take_over(used, model)
        return run


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
            written = f"{tool}({json.dumps(args, ensure_ascii=False)})"
            yield {
                "step": "tool_call",
                "by": by,
                "text": written,
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


def answer_in(result: Any) -> str:
    """Return the text of an answer: that of the last tool where its result ends the run (`return_direct`)."""
    messages = result.get("messages") if isinstance(result, Mapping) else None
    last = messages[-1] if isinstance(messages, list) and messages else None
    text = read_text(result)
    returned = isinstance(last, ToolMessage) and last.status == "success"
    return str(last.text) if last is not None and returned and not text.strip() else text


def unfinished(text: str, result: Any, last_message: AIMessage | None = None) -> str:
    """Return why an agent that ended by itself has not finished; empty when it has."""
    messages = result.get("messages") if isinstance(result, Mapping) else [result]
    messages = [message for message in messages or [] if isinstance(message, BaseMessage)]
    last = reply_in(result) or last_message
    if no_draft(text) == "notice":
        return OUT_OF_STEPS if text.strip() == NEEDS_MORE_STEPS else ENDED.format(notice=text.strip())
    if last is not None and last in messages and (waiting := _unanswered(last, messages)):
        return f"The agent ended while it waited for what it had called: {', '.join(waiting)}."
    # What a chain returns need not be what its last model said.
    if last is not None and cut_off(last) and (last in messages or same_text(read_text(last), text)):
        return "The last message of the agent was cut off at its limit of output tokens."
    return "" if text.strip() else "The agent ended without an answer."


def _unanswered(message: AIMessage, messages: Sequence[BaseMessage]) -> list[str]:
    """Return the names of the tools that a message calls and that never answered."""
    answered = {result.tool_call_id for result in messages if isinstance(result, ToolMessage)}
    return [call["name"] for call in message.tool_calls if call["id"] not in answered]


NEEDS_MORE_STEPS = "Sorry, need more steps to process this request."
"""The whole of what LangGraph's prebuilt agent says when its recursion limit leaves no room for its tool calls."""
ENDED = "The agent was ended, and no model wrote the answer: {notice}"
OUT_OF_STEPS = "The agent ran out of steps before it had finished; a higher recursion_limit gives it more."
