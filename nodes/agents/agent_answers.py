"""The run of an agent as a draft: its answer, also a structured one, and its steps as plain data. Internal."""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from pydantic import BaseModel, TypeAdapter

from ...models.schema_requests import unfenced
from ...state.dual import Do, DualCallable
from ...state.events import clean
from ...state.typed_answer import schema_in
from ..runtime.meter import METER
from ..verify.json_schema import matches_json_schema
from ..writing.gate import no_draft
from ..writing.prompts import PromptedModel
from ..writing.replies import cut_off, read_text, reply_in, same_text
from .react import storable

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from ...state.critique import Verifier

__all__ = [
    "ENDED",
    "OUT_OF_STEPS",
    "AgentRun",
    "AgentUnfinishedError",
    "AnswerRefiner",
    "HandedOver",
    "answer_in",
    "as_json",
    "like",
    "misfit",
    "normalized",
    "run_in",
    "schema_of",
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
            yield {
                "step": "tool_call",
                "by": by,
                "text": f"{tool}({json.dumps(args, ensure_ascii=False)})",
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
    """Return the reason why an agent that ended by itself has not finished; empty when it has."""
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


NEEDS_MORE_STEPS = "Sorry, need more steps to process this request."
"""The whole of what LangGraph's prebuilt agent says when its recursion limit leaves no room for its tool calls."""
ENDED = "The agent was ended, and no model wrote the answer: {notice}"
OUT_OF_STEPS = "The agent ran out of steps before it had finished; a higher recursion_limit gives it more."


def _unanswered(message: AIMessage, messages: Sequence[BaseMessage]) -> list[str]:
    """Return the names of the tools that a message calls and that never answered."""
    answered = {result.tool_call_id for result in messages if isinstance(result, ToolMessage)}
    return [call["name"] for call in message.tool_calls if call["id"] not in answered]


def as_json(data: Any) -> str:
    """Return a structured response as JSON text."""
    plain = data if isinstance(data, dict) else TypeAdapter(type(data)).dump_python(data, mode="json")
    return json.dumps(plain, ensure_ascii=False, indent=2, default=str)


def schema_of(data: Any) -> dict[str, Any]:
    """Return the JSON Schema that a structured response fits; of a plain dict, that it has these keys."""
    if isinstance(data, BaseModel) or is_dataclass(data):
        return TypeAdapter(type(data)).json_schema()
    return {"type": "object", "required": sorted(data)} if isinstance(data, dict) else {}


def like(known: Any, text: str) -> Any:
    """Return the data in a text as an object of the same class as another structured response.

    Raises:
        ValueError: The text does not fit.
    """
    data = json.loads(unfenced(text))
    return data if known is None or isinstance(known, dict) else TypeAdapter(type(known)).validate_python(data)


def normalized(text: str) -> str:
    """Return JSON as `as_json` writes it, out of a fence too; another text as it is."""
    try:
        return json.dumps(json.loads(unfenced(text)), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text


def misfit(text: str, schema: Mapping[str, Any]) -> bool:
    """Return True if a text is not JSON that fits a schema.

    Without the package `jsonschema`, only the outermost type and keys are looked at.
    """
    try:
        return not _verifier(json.dumps(schema))("", text).accepted  # type: ignore[union-attr]
    except ImportError:
        pass
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return True
    return schema.get("type") == "object" and not (
        isinstance(data, dict) and set(schema.get("required", ())) <= data.keys()
    )


@lru_cache(maxsize=8)
def _verifier(schema: str) -> Verifier:
    return matches_json_schema(json.loads(schema))


class AnswerRefiner(PromptedModel):
    """A model that revises an agent's answer; data is revised as data."""

    def messages(self, state: Mapping[str, Any]) -> list[BaseMessage]:
        """Return the messages that the model is asked with."""
        messages, schema = super().messages(state), schema_in(state["events"])
        return messages if schema is None else [*messages, HumanMessage(AS_DATA.format(schema=json.dumps(schema)))]

    def logic(self, input: Mapping[str, Any], config: RunnableConfig | None) -> Generator[Do, Any, AIMessage]:  # noqa: A002
        reply = yield from super().logic(input, config)
        if schema_in(input["events"]) is None:
            return reply
        return reply.model_copy(update={"content": normalized(read_text(reply))})


AS_DATA = """\
The answer is data. Reply with one JSON object that fits this JSON Schema, and nothing else:
{schema}"""
