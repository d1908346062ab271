"""Steps of an agent as it makes them: recorded, streamed and counted. Internal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from threading import RLock
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from ...state.events import frozen
from ...state.stopping import spent_budget
from ..runtime.meter import COUNTS, METER, BudgetSpentError
from ..runtime.step import emitter
from .agent_answers import steps_of

if TYPE_CHECKING:
    from langchain_core.outputs import LLMResult

__all__ = ["FIRST", "StepWatch"]

FIRST: Mapping[str, Any] = {"role": "base", "round": 0}


class StepWatch(BaseCallbackHandler):
    """Sees what models and tools below it do, sends it to the `custom` stream, and keeps it in `steps`.

    Callbacks show what any chain or graph does the moment it is done. The states of a graph show the rest: messages
    that no LangChain model or tool made, and what happened before a pause.

    Args:
        state: The state of the run, for its budgets.
        given: How many messages the agent is given; they are no steps of it.
        asked: The last of them, where the agent has a memory of its own: what stands before it there was said, and
            counted, for an earlier task.
        about: What its steps are streamed with: `role` and `round`.
    """

    raise_error = True
    """A record with a hole in it must not look whole."""
    run_inline = True
    """In the order in which things happen, also in async runs."""

    def __init__(
        self, state: Mapping[str, Any], *, given: int, asked: str | None = None, about: Mapping[str, Any] = FIRST
    ) -> None:
        self.steps: list[dict[str, Any]] = []
        self.last_message: AIMessage | None = None
        self.state: Any = None
        self._given = given
        self._asked = asked
        self._about = about
        self._seen: Counter[tuple[str, str]] = Counter()
        self._counted: Counter[tuple[int, ...]] = Counter()
        """Usages that were counted, by their tokens: a graph may have changed the text of a reply."""
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
            message = message if isinstance(message, AIMessage) else AIMessage(generation.text)
            with self._lock:
                self._counted[_tokens(message)] += 1  # by the meter
            self._note(message)

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
        self._count([message for message in own if isinstance(message, AIMessage)])
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

    def take(self, streamed: tuple[str, Any]) -> None:
        """Take one item of a graph's stream: a state is settled, and before a task the budgets are looked at.

        Raises:
            BudgetSpentError: A budget of the run is spent by now.
        """
        mode, item = streamed
        if mode == "values":
            self.state = item
            self.settle(item)
            return
        budget = None
        if "result" not in item and self._meter is not None:
            budget = spent_budget(self._events, self._limits, besides=self._meter.total())
        if budget:
            raise BudgetSpentError(budget)

    def _resume(self, messages: list[AIMessage | ToolMessage]) -> None:
        """Take over what the agent did before a pause: it was streamed then, and counts now."""
        with self._lock:
            self.steps[:0] = [step for message in messages for step in steps_of(message)]
            for message in messages:
                self._seen[_key(message)] += 1
        self._count([message for message in messages if isinstance(message, AIMessage)])

    def _count(self, messages: list[AIMessage]) -> None:
        """Count what the replies in a state used, and no LangChain model has reported."""
        tally: Counter[tuple[int, ...]] = Counter()
        for message in messages:
            if self._meter is None or not message.usage_metadata:
                continue
            used = _tokens(message)
            tally[used] += 1
            with self._lock:
                fresh = tally[used] > self._counted[used]
                self._counted[used] += fresh
            if fresh:
                self._meter.count(message)

    def _note(self, message: AIMessage | ToolMessage) -> None:
        with self._lock:
            self._seen[_key(message)] += 1
            if isinstance(message, AIMessage):
                self.last_message = message
            for step in steps_of(message):
                self.steps.append(step)
                self._send(**{"kind": "step", **self._about, **step})


def _after_last(messages: list[Any], asked: str) -> int:
    """Return the index after the last message of a user that says this; 0 where none does."""
    places = [at for at, one in enumerate(messages, 1) if isinstance(one, HumanMessage) and str(one.text) == asked]
    return places[-1] if places else 0


def _key(message: AIMessage | ToolMessage) -> tuple[str, str]:
    """Tell messages apart by what they say: ids are rewritten by graphs, and repeated by some servers."""
    calls = [call["name"] for call in message.tool_calls] if isinstance(message, AIMessage) else []
    return f"{message.type} {calls}", str(message.text)


def _tokens(message: AIMessage) -> tuple[int, ...]:
    used: Any = message.usage_metadata or {}
    return tuple(used.get(name, 0) for name in COUNTS)
