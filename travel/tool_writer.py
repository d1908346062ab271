"""Travel facts for a writer. Internal.

Computed for models that can't call tools, looked up by tools for those that can.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage

from ..nodes.agents.react import ANY_DURABILITY, react_agent
from ..nodes.rubric.judges import Ground, GroundedModel, ground_event
from ..nodes.writing.replies import read_text, refused
from ..state.dual import Do, DualCallable, calling
from ..state.events import clean
from ..state.summary import rounds
from .cities import distance_between_cities, distance_line, find_cities
from .money import budget_in, cost_each
from .trip_dates import dates_in, days_between, days_wanted, trip_calendar, weekday, with_years

if TYPE_CHECKING:
    from langchain_core.messages import ToolCall
    from langchain_core.tools import BaseTool

    from ..nodes.writing.prompts import Prompts

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

        def add(tool: BaseTool, prefix: str = "", **arguments: Any) -> None:
            with suppress(ValueError, ArithmeticError):  # a date beyond the calendar: no fact
                facts.append((tool.name, prefix + tool.invoke(arguments)))

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
    """A writer whose model may call tools before it answers, as in `react_agent`.

    A tool that fails tells the model why, and its message is no fact.

    Args:
        model: The model; it can call tools.
        prompts: As in `PromptedModel`.
        tools: The tools.
        what: Name of the prompt, for messages.
        seen: What a refiner sees, as in `PromptedModel`.
    """

    def __init__(self, model: Any, prompts: Prompts, *, tools: Sequence[BaseTool], what: str, **seen: Any) -> None:
        self.__name__ = what
        self.model = model
        self._prompted = GroundedModel(model, prompts, what=what, **seen)
        self._agent = react_agent(
            model, tools, max_calls=MAX_CALLS, catch_tool_errors=lambda error: f"Error: {error}", checkpointer=False
        )

    def logic(self, state: Mapping[str, Any]) -> Generator[Do, Any, dict[str, Any] | AIMessage]:
        """Return the draft, and one event for each tool that was called; of a refusal the message, which shows it."""
        messages = self._prompted.messages(state)
        output = yield Do(self._agent.invoke, self._agent.ainvoke, ({"messages": messages}, ALL_CALLS))
        transcript = output["messages"][len(messages) :]
        reply = transcript[-1]
        text = read_text(reply)
        if refused(text, reply):
            return cast("AIMessage", reply)
        drafted = any(event["kind"] == "draft" for event in state["events"])
        number = rounds(state["events"]) + 1 if drafted else 0
        calls = {call["id"]: call for message in transcript for call in getattr(message, "tool_calls", ())}
        results = [message for message in transcript if isinstance(message, ToolMessage)]
        events = [_event(calls[one.tool_call_id], one, place, number) for place, one in enumerate(results, start=1)]
        return {"draft": text, "events": events}


def _event(call: ToolCall, result: ToolMessage, place: int, number: int) -> dict[str, Any]:
    """Return the event of a tool's result: a fact, or an error, which is for the model and no fact.

    Args:
        call: The call of the tool.
        result: Its result.
        place: Of the result among those of the draft, from 1.
        number: The draft that it is for.
    """
    tool, text = clean(call["name"]), clean(str(result.text))
    question = f"{tool}({json.dumps(call['args'], ensure_ascii=False, default=str)})"
    if result.status == "error":
        failed = {"step": tool, "error": "ToolError", "text": text}
        return {**ground_event(TravelFacts.name, question, [], number=number), "failed": failed}
    document = {"id": f"{tool}-{place}", "text": text, "source": tool}
    return ground_event(TravelFacts.name, question, [document], number=number)


MAX_CALLS = 20
"""Tool calls that a draft may take."""
ALL_CALLS: Any = {**ANY_DURABILITY, "recursion_limit": 2 * MAX_CALLS + 4}
MOST_SHOWN = 21
