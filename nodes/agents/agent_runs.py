"""An agent run whole, for a first draft or a revision: its steps are recorded and streamed as they come. Internal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping
from threading import RLock
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, convert_to_messages
from langchain_core.runnables.config import merge_configs
from langgraph.errors import GraphRecursionError
from langgraph.pregel import Pregel

from ...state.dual import Do, streaming
from ...state.events import DRAFT_KINDS, frozen
from ...state.stopping import spent_budget
from ...state.summary import attempts, rounds
from ..runtime.meter import COUNTS, METER, BudgetSpentError
from ..runtime.step import emitter
from ..writing.prompts import Keep, Memory, Prompts, attempt_at_hand, prompt_values, with_context
from ..writing.writers import AdaptedRunnable, InputKind, Writer, input_kind
from .agent_answers import OUT_OF_STEPS, AgentRun, answer_in, as_json, schema_of, steps_of, unfinished
from .agent_judge import AgentFeedback
from .other_agents import AgentStoppedError, OtherAgent, as_runnable
from .react import ANY_DURABILITY

if TYPE_CHECKING:
    from langchain_core.outputs import LLMResult
    from langchain_core.runnables import Runnable, RunnableConfig


__all__ = ["AgentWriter", "StepWatch", "agent_reviser", "agent_writer"]


FIRST: Mapping[str, Any] = {"role": "base", "round": 0}


def agent_writer(base: Any, *, told: str = "") -> AgentWriter:
    """Return a writer that runs an agent, a graph or a chain whole, for `generate`.

    Its steps go to the `custom` stream as they happen, a graph's checkpoints are the parent's, and an `interrupt()`
    inside pauses the whole. A graph keeps the `recursion_limit` of its own `with_config`, and begins no step once
    a budget of the run is spent.

    Args:
        base: Given the conversation where its input has `messages`, else the task. One that is no Runnable is taken as
            `as_runnable` takes it.
        told: Put behind the task, or behind the conversation: what the verifiers want.

    Raises:
        ValueError: At build: the input of a graph has neither `messages` nor `task`.
        TypeError: At build: it is nothing that can be run.
    """
    runnable = as_runnable(base)
    kind = "messages" if isinstance(runnable, OtherAgent) else input_kind(runnable)
    writer = AgentWriter(runnable, kind, "best", "all")
    writer.told = told
    return writer


class AgentWriter(AdaptedRunnable):
    """See `agent_writer`."""

    @property
    def goes_on(self) -> bool:
        """True for a graph with checkpoints: resumed after an error it goes on, and its usage so far counts."""
        return isinstance(self.runnable, Pregel) and self.runnable.checkpointer is not False

    def logic(self, input: Mapping[str, Any], config: RunnableConfig | None) -> Generator[Do, Any, AgentRun]:  # noqa: A002
        task_input, watch = self.translated(input), self._watch(input)
        own = self._config(config, watch)
        try:
            if isinstance(self.runnable, Pregel):
                yield streaming(self.runnable, watch.take, task_input, own, stream_mode=MODES)
                result = watch.state
            else:
                result = yield Do(self.runnable.invoke, self.runnable.ainvoke, (task_input, own))
        except GraphRecursionError:
            return _stopped(watch, OUT_OF_STEPS)
        except AgentStoppedError as stopped:
            watch.settle_last({"messages": stopped.messages})
            return _stopped(watch, str(stopped))
        except BudgetSpentError as spent:
            return _stopped(watch, OUT_OF_BUDGET.format(budget=spent.budget.replace("_", " ")), budget=spent.budget)
        watch.settle_last(result)
        data = result.get("structured_response") if isinstance(result, Mapping) else None
        text = answer_in(result) if data is None else as_json(data)
        schema = None if data is None else schema_of(data)
        return AgentRun(text, tuple(watch.steps), unfinished(text, result, watch.last_message), schema=schema)

    def translated(self, state: Mapping[str, Any]) -> Any:
        """Return the input of the agent: it always begins anew, whatever draft it left unfinished before."""
        events = [event for event in state.get("events", []) if event["kind"] not in DRAFT_KINDS]
        return super().translated({**state, "events": events})

    def _watch(self, state: Mapping[str, Any]) -> StepWatch:
        task_input = self.translated(state)
        about = self._about(state)
        if self.given != "messages":
            return StepWatch(state, given=0, about=about)
        remembers = isinstance(self.runnable, Pregel) and self.runnable.checkpointer not in (None, False)
        last = convert_to_messages(task_input["messages"])[-1]
        last_question = str(last.text) if remembers and isinstance(last, HumanMessage) else None
        return StepWatch(state, given=len(task_input["messages"]), asked=last_question, about=about)

    def _about(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        return FIRST

    def _config(self, config: RunnableConfig | None, watch: StepWatch) -> RunnableConfig:
        own = getattr(self.runnable, "config", None) or {}
        limit: RunnableConfig = {"recursion_limit": own["recursion_limit"]} if "recursion_limit" in own else {}
        # A graph that keeps its checkpoints keeps them as the caller asked.
        return merge_configs(config, {"callbacks": [watch]}, limit, None if self.goes_on else ANY_DURABILITY)


def agent_reviser(base: Any, prompt: Prompts | None = None, *, keep: Keep = "best", memory: Memory = "all") -> Writer:
    """Return a writer that has an agent revise its answer itself, with its tools.

    It is given the conversation as for the first draft, then its answers with what was found in each. Steps, pauses and
    budgets are as in `agent_writer`.

    Args:
        base: As in `agent_writer`. One that takes only a task is told it all as one text.
        prompt: What it is told of its answer, see `AgentFeedback`.
        keep: Which draft is revised.
        memory: Whether it is given its earlier answers too.

    Raises:
        ValueError: At build: as in `agent_writer`, or the prompt lacks `{feedback}`.
        TypeError: At build: as in `agent_writer`.
    """
    begins = agent_writer(base)
    return AgentReviser(begins.runnable, begins.given, keep, memory, AgentFeedback(prompt, name="refiner_prompt"))


class AgentReviser(AgentWriter):
    """See `agent_reviser`."""

    def __init__(
        self, runnable: Runnable[Any, Any], given: InputKind, keep: Keep, memory: Memory, feedback: AgentFeedback
    ) -> None:
        super().__init__(runnable, given, keep, memory)
        self.templates = feedback.templates
        self._feedback = feedback

    def translated(self, state: Mapping[str, Any]) -> Any:
        """Return the input of the agent: the request, then its answers so far, each with its critique."""
        task, events, task_input = state["task"], state["events"], super().translated(state)
        drafts = attempts(events)
        conversation = task_input if isinstance(task_input, list) else task_input.get("messages", [("user", task)])
        for draft in drafts[:-1] if self.memory == "all" else []:
            conversation = [*conversation, ("assistant", draft.text), ("user", self._feedback.on(draft, task, events))]
        feedback = self._feedback(task, events, keep=self.keep)
        conversation = convert_to_messages(
            [*conversation, *(("assistant", draft.text) for draft in drafts[-1:]), ("user", feedback)]
        )
        if isinstance(task_input, list):
            return conversation
        whole = {} if self.given == "messages" else {"task": with_context(feedback, conversation[:-1])}
        if self.given == "values":
            values = prompt_values(task, events, attempt_at_hand(events, self.keep), memory=self.memory)
            return {**values, **whole, "messages": conversation}
        return whole or {"messages": conversation}

    def _about(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"role": "refiner", "round": rounds(state["events"]) + 1}


def _stopped(watch: StepWatch, why: str, *, budget: str | None = None) -> AgentRun:
    return AgentRun(watch.last_text, tuple(watch.steps), why, budget)


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
            questions = [str(one.text) if isinstance(one, HumanMessage) else None for one in messages]
            self._given = max(self._given, *(at for at, text in enumerate(questions, 1) if text == self._asked), 0)
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


def _key(message: AIMessage | ToolMessage) -> tuple[str, str]:
    """Tell messages apart by what they say: ids are rewritten by graphs, and repeated by some servers."""
    calls = [call["name"] for call in message.tool_calls] if isinstance(message, AIMessage) else []
    return f"{message.type} {calls}", str(message.text)


def _tokens(message: AIMessage) -> tuple[int, ...]:
    used: Any = message.usage_metadata or {}
    return tuple(used.get(name, 0) for name in COUNTS)


MODES: Any = ["values", "tasks"]
"""The state after each step, and word of each task before it begins and after it has ended."""
OUT_OF_BUDGET = "The {budget} was spent before the agent had finished."
