"""An agent run whole, for a first draft or a revision: its steps are recorded and streamed as they come. Internal."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

from langchain_core.messages import HumanMessage, convert_to_messages
from langchain_core.runnables.config import merge_configs
from langgraph.errors import GraphRecursionError
from langgraph.pregel import Pregel

from ...state.events import DRAFT_KINDS
from ...state.summary import attempts, rounds
from ..runtime.dual import Do, streaming
from ..runtime.meter import BudgetSpentError
from ..writing.conversation import with_context
from ..writing.prompts import Keep, Memory, Prompts, attempt_at_hand, prompt_values
from ..writing.writers import AdaptedRunnable, InputKind, Writer, input_kind
from .agent_answers import OUT_OF_STEPS, AgentRun, answer_in, unfinished
from .agent_feedback import AgentFeedback
from .other_agents import AgentStoppedError, OtherAgent, as_runnable
from .react import ANY_DURABILITY
from .step_watch import FIRST, StepWatch
from .structured_answers import as_json, schema_of

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable, RunnableConfig


__all__ = ["AgentWriter", "agent_reviser", "agent_writer"]


def agent_writer(base: Any) -> AgentWriter:
    """Return a writer that runs an agent, a graph or a chain whole, for `generate`.

    Its steps go to the `custom` stream as they happen, a graph's checkpoints are the parent's, and an `interrupt()`
    inside pauses the whole. A graph keeps the `recursion_limit` of its own `with_config`, and begins no step once
    a budget of the run is spent.

    Args:
        base: Given the conversation where its input has `messages`, else the task. One that is no Runnable is taken as
            `as_runnable` takes it.

    Raises:
        ValueError: At build: the input of a graph has neither `messages` nor `task`.
        TypeError: At build: it is nothing that can be run.
    """
    runnable = as_runnable(base)
    kind = "messages" if isinstance(runnable, OtherAgent) else input_kind(runnable)
    return AgentWriter(runnable, kind, "best", "all")


class AgentWriter(AdaptedRunnable):
    """See `agent_writer`."""

    @property
    def goes_on(self) -> bool:
        """True for a graph with checkpoints: resumed after an error it goes on, and its usage so far counts."""
        return isinstance(self.runnable, Pregel) and self.runnable.checkpointer is not False

    def logic(self, input: Mapping[str, Any], config: RunnableConfig | None) -> Generator[Do, Any, AgentRun]:  # noqa: A002
        given, watch = self.translated(input), self._watch(input)
        own = self._config(config, watch)
        try:
            if isinstance(self.runnable, Pregel):
                yield streaming(self.runnable, watch.take, given, own, stream_mode=MODES)
                result = watch.state
            else:
                result = yield Do(self.runnable.invoke, self.runnable.ainvoke, (given, own))
        except GraphRecursionError:
            return _stopped(watch, OUT_OF_STEPS)
        except AgentStoppedError as stopped:
            watch.settle_last({"messages": stopped.messages})
            return _stopped(watch, str(stopped))
        except BudgetSpentError as spent:
            budget = spent.budget.replace("_", " ")
            return _stopped(watch, OUT_OF_BUDGET.format(budget=budget), budget=spent.budget)
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
        given = self.translated(state)
        about = self._about(state)
        if self.given != "messages":
            return StepWatch(state, given=0, about=about)
        remembers = isinstance(self.runnable, Pregel) and self.runnable.checkpointer not in (None, False)
        last = convert_to_messages(given["messages"])[-1]
        asked = str(last.text) if remembers and isinstance(last, HumanMessage) else None
        return StepWatch(state, given=len(given["messages"]), asked=asked, about=about)

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
        task, events, given = state["task"], state["events"], super().translated(state)
        drafts = attempts(events)
        said = given if isinstance(given, list) else given.get("messages", [("user", task)])
        for draft in drafts[:-1] if self.memory == "all" else []:
            said = [*said, ("assistant", draft.text), ("user", self._feedback.on(draft, task, events))]
        told = self._feedback(task, events, keep=self.keep)
        said = convert_to_messages([*said, *(("assistant", draft.text) for draft in drafts[-1:]), ("user", told)])
        if isinstance(given, list):
            return said
        whole = {} if self.given == "messages" else {"task": with_context(told, said[:-1])}
        if self.given == "values":
            values = prompt_values(task, events, attempt_at_hand(events, self.keep), memory=self.memory)
            return {**values, **whole, "messages": said}
        return whole or {"messages": said}

    def _about(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"role": "refiner", "round": rounds(state["events"]) + 1}


def _stopped(watch: StepWatch, why: str, *, budget: str | None = None) -> AgentRun:
    return AgentRun(watch.last_text, tuple(watch.steps), why, budget)


MODES: Any = ["values", "tasks"]
"""The state after each step, and word of each task before it begins and after it has ended."""
OUT_OF_BUDGET = "The {budget} was spent before the agent had finished."
