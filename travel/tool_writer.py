"""Travel facts for a writer. Internal.

Computed for models that can't call tools, looked up by tools for those that can.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import ToolException

from ..nodes.agents.react import read_text_calls
from ..nodes.rubric.grounding import Ground, GroundedModel, ground_event
from ..nodes.runtime.dual import Do, DualCallable, calling
from ..nodes.writing.replies import read_text, refused
from ..nodes.writing.sampling import revising_model
from ..state.events import clean
from ..state.summary import rounds
from .cities import distance_between_cities, distance_line, find_cities
from .money import budget_in, cost_each
from .trip_dates import dates_in, days_between, days_wanted, trip_calendar, weekday, with_years

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Sequence

    from langchain_core.messages import ToolCall
    from langchain_core.tools import BaseTool

    from ..nodes.writing.prompts import Keep, Memory, Prompts

__all__ = ["OfferTools", "ToolWriter", "TravelFacts", "calls_tools"]


class TravelFacts(Ground):
    """The ground that computes what a task's own dates, places and budget mean; see `Ground`."""

    name = "the travel tools"

    def logic(self, task: str) -> Generator[Do, Any, list[dict[str, Any]]]:
        """Return the facts; in async runs a worker thread reads the data of the cities."""
        facts: list[dict[str, Any]] = yield calling(self._facts, task)
        return facts

    def _facts(self, task: str) -> list[dict[str, Any]]:
        """Return the facts: distances from place to place, the trip's days with their weekdays, the budget a day."""
        facts = [(distance_between_cities.name, distance_line(*pair)) for pair in pairwise(find_cities(task))]

        def add(tool: BaseTool, prefix: str = "", **asked: Any) -> None:
            with suppress(ValueError, ArithmeticError):  # a date beyond the calendar: no fact
                facts.append((tool.name, prefix + tool.invoke(asked)))

        dates, days = dates_in(task), days_wanted(task)
        if not dates and days and dates_in(with_years(task, 2001)):
            facts.append((weekday.name, f"The dates name no year: they are {days} days, whose weekdays can't be told."))
        if len(dates) > 1:
            add(days_between, start=dates[0].isoformat(), end=dates[-1].isoformat())
        if dates and days and days <= MOST_SHOWN:
            add(trip_calendar, start=dates[0].isoformat(), days=days)
        else:
            for day in dates[:MOST_SHOWN]:
                add(weekday, day=day.isoformat())
        if days and (budget := budget_in(task)):
            add(
                cost_each,
                f"budget for a day, {budget[0] or 'of a currency that nobody named'}: ",
                total=str(budget[1]),
                parts=days,
            )
        return [{"id": f"fact-{number}", "text": text, "source": tool} for number, (tool, text) in enumerate(facts, 1)]


OfferTools = bool | Literal["auto"]


def calls_tools(model: BaseChatModel, offer: OfferTools) -> bool:
    """Return True if tools are offered to the model.

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


class ToolWriter(DualCallable[[Mapping[str, Any]], dict[str, Any] | AIMessage]):
    """A writer that offers tools to its model for a few turns, then asks for the text without them.

    A tool that fails tells the model why, and what it said is no fact. A reply that is a tool call as text counts as
    that call.

    Args:
        model: The model; it can call tools.
        prompts: As in `PromptedModel`.
        tools: The tools.
        what: Name of the prompt, for messages.
        turns: How many replies may call tools.
        temperature: As in `revising_model`; `None`: as the model was built.
        keep: Which draft is revised.
        memory: What of earlier attempts is shown.
        own: Keys of the state that the prompts may name.
    """

    def __init__(
        self,
        model: BaseChatModel,
        prompts: Prompts,
        *,
        tools: Sequence[BaseTool],
        what: str,
        turns: int = 4,
        temperature: float | None = None,
        keep: Keep = "best",
        memory: Memory = "all",
        own: Collection[str] = (),
    ) -> None:
        self.__name__ = what
        self.turns = turns
        self._prompted = GroundedModel(model, prompts, what=what, keep=keep, memory=memory, own=own)
        settings = getattr(revising_model(model, temperature), "kwargs", {}) if temperature is not None else {}
        self.model = model.bind(**settings) if settings else model
        self._bound = model.bind_tools(list(tools)).bind(**settings)
        self._tools = {tool.name: tool for tool in tools}

    def logic(self, state: Mapping[str, Any]) -> Generator[Do, Any, dict[str, Any] | AIMessage]:
        """Return the draft, and one event for each tool that was called; of a refusal the message, which shows it."""
        messages, events = self._prompted.messages(state), list[dict[str, Any]]()
        drafted = any(event["kind"] == "draft" for event in state["events"])
        number = rounds(state["events"]) + 1 if drafted else 0
        for turn in range(self.turns + 1):
            model = self._bound if turn < self.turns else self.model
            reply = read_text_calls((yield Do(model.invoke, model.ainvoke, (messages,))), self._tools)
            if not reply.tool_calls or turn == self.turns:
                break
            messages.append(reply)
            for call in reply.tool_calls:
                message = yield from self._result(call)
                messages.append(message)
                text, tool = clean(str(message.text)), clean(call["name"])
                asked = f"{tool}({json.dumps(call['args'], ensure_ascii=False, default=str)})"
                if message.status == "error":  # what it says is for the model, and no fact
                    failed = {"step": tool, "error": "ToolError", "text": text}
                    event = {**ground_event(TravelFacts.name, asked, [], number=number), "failed": failed}
                else:
                    document = {"id": f"{tool}-{len(events) + 1}", "text": text, "source": tool}
                    event = ground_event(TravelFacts.name, asked, [document], number=number)
                events.append(event)
        text = read_text(reply)
        return reply if refused(text, reply) else {"draft": text, "events": events}

    def _result(self, call: ToolCall) -> Generator[Do, Any, ToolMessage]:
        try:
            if call["name"] not in self._tools:
                raise ToolException(f"there is no tool {call['name']!r}; there are {', '.join(self._tools)}")
            tool = self._tools[call["name"]]
            message: ToolMessage = yield Do(tool.invoke, tool.ainvoke, ({**call, "type": "tool_call"},))
        except TOLD as error:
            return ToolMessage(f"Error: {error}", tool_call_id=call["id"], name=call["name"], status="error")
        return message


TOLD = (ToolException, ValueError, ArithmeticError)
"""Errors of a tool that its caller can do something about: they are told to the model."""
MOST_SHOWN = 21
