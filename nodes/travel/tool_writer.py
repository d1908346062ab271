"""A writer that may call tools before it writes; what the tools said goes into the record."""

from __future__ import annotations

import json
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import ToolMessage
from langchain_core.tools import ToolException

from ...state.folds import rounds
from ...state.stopping import spent_budget
from ..meter import METER
from ..rubric.grounding import GroundedModel, ground_event

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.messages import BaseMessage, ToolCall
    from langchain_core.tools import BaseTool

    from ...state.events import Event
    from ..prompts import Keep, Memory, Prompts

__all__ = ["OfferTools", "ToolWriter", "calls_tools"]

OfferTools = bool | Literal["auto"]


def calls_tools(model: BaseChatModel, offer: OfferTools) -> bool:
    """Return whether tools are offered to the model.

    Args:
        model: The model.
        offer: `"auto"` offers them where the model's profile says that it can call them: many servers take a request
            with tools, and then fail or ignore them.

    Raises:
        ValueError: At build: `offer` is `True` and the model has no `bind_tools`, or it is none of the three.
    """
    if offer not in (True, False, "auto"):
        raise ValueError(f"offer_tools must be True, False or 'auto', not {offer!r}")
    able = type(model).bind_tools is not BaseChatModel.bind_tools
    if offer is True and not able:
        raise ValueError(f"offer_tools=True, but {type(model).__name__} has no bind_tools; 'auto' tells it the facts")
    return able and (offer is True or (offer == "auto" and bool((model.profile or {}).get("tool_calling"))))


class ToolWriter:
    """A writer that offers tools to its model for a few turns, then asks for the text without them.

    A tool that fails tells the model why. Once a budget is spent no further turn begins.

    Args:
        model: The model; it can call tools.
        prompts: As in `PromptedModel`.
        tools: The tools.
        what: Name of the prompt, for messages.
        turns: How many replies may call tools.
        keep: Which draft is revised.
        memory: What of earlier attempts is shown.
    """

    def __init__(
        self,
        model: BaseChatModel,
        prompts: Prompts,
        *,
        tools: Sequence[BaseTool],
        what: str,
        turns: int = 4,
        keep: Keep = "best",
        memory: Memory = "all",
    ) -> None:
        self.__name__ = what
        self.model = model
        self.turns = turns
        self._prompted = GroundedModel(model, prompts, what=what, keep=keep, memory=memory)
        self._bound = model.bind_tools(list(tools))
        self._tools = {tool.name: tool for tool in tools}

    def __call__(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return the draft, and one event for each tool that was called."""
        messages, record, start = self._prompted.messages(state), _Record(state), perf_counter()
        for turn in range(self.turns + 1):
            reply = (self._bound if turn < self.turns else self.model).invoke(messages)
            if not reply.tool_calls or record.spent(start):
                break
            messages += [reply, *(record.noted(call, _result(self._tools, call)) for call in reply.tool_calls)]
        return {"draft": str(reply.text), "events": record.events}

    async def acall(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Async twin."""
        messages, record, start = self._prompted.messages(state), _Record(state), perf_counter()
        for turn in range(self.turns + 1):
            reply = await (self._bound if turn < self.turns else self.model).ainvoke(messages)
            if not reply.tool_calls or record.spent(start):
                break
            answers = [record.noted(call, await _aresult(self._tools, call)) for call in reply.tool_calls]
            messages += [reply, *answers]
        return {"draft": str(reply.text), "events": record.events}


class _Record:
    """The tool calls of one draft, as events."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._state = state
        self._number = 0 if not any(one["kind"] == "draft" for one in state["events"]) else rounds(state["events"]) + 1
        self.events: list[dict[str, Any]] = []

    def noted(self, call: ToolCall, message: ToolMessage) -> BaseMessage:
        document = {"id": f"{call['name']}-{len(self.events) + 1}", "text": str(message.text), "source": call["name"]}
        asked = f"{call['name']}({json.dumps(call['args'], ensure_ascii=False, default=str)})"
        self.events.append(ground_event("the travel tools", asked, [document], number=self._number))
        return message

    def spent(self, start: float) -> bool:
        meter = METER.get()
        if meter is None:
            return False
        so_far = {"kind": "retrieval", "usage": meter.usage(seconds=perf_counter() - start)}
        return bool(spent_budget([*self._state["events"], cast("Event", so_far)], self._state["limits"]))


def _result(tools: Mapping[str, BaseTool], call: ToolCall) -> ToolMessage:
    try:
        return cast("ToolMessage", _tool(tools, call).invoke({**call, "type": "tool_call"}))
    except (ToolException, ValueError) as error:
        return _failed(call, error)


async def _aresult(tools: Mapping[str, BaseTool], call: ToolCall) -> ToolMessage:
    try:
        return cast("ToolMessage", await _tool(tools, call).ainvoke({**call, "type": "tool_call"}))
    except (ToolException, ValueError) as error:
        return _failed(call, error)


def _tool(tools: Mapping[str, BaseTool], call: ToolCall) -> BaseTool:
    if call["name"] not in tools:
        raise ToolException(f"there is no tool {call['name']!r}; there are {', '.join(tools)}")
    return tools[call["name"]]


def _failed(call: ToolCall, error: Exception) -> ToolMessage:
    return ToolMessage(f"Error: {error}", tool_call_id=call["id"], name=call["name"], status="error")
