"""Refinement as middleware of LangChain's agents. Internal.

Where the agent would finish, the loop's own nodes record its answer, ask the critics and decide; a rejected answer goes
back into the agent's own loop, with its tools, as a message. See `redraft.graphs.loop` for the loop.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, SystemMessage, ToolMessage
from langgraph.config import get_config
from langgraph.func import task
from langgraph.types import Command

from ..models.schema_requests import bound_to_schema, refuses_schema, structured_text
from ..nodes.agents.agent_answers import ENDED, OUT_OF_STEPS, HandedOver, run_in
from ..nodes.agents.agent_judge import AGENT_FEEDBACK_PROMPT, AgentFeedback, WitnessCritic, agent_judge
from ..nodes.arguments import check_choices, check_lists
from ..nodes.check import check as check_step
from ..nodes.critics.critics import name_critics, name_of, typed_judges
from ..nodes.feedback import CriticsAfter
from ..nodes.feedback import feedback as feedback_step
from ..nodes.fingerprint import fingerprint
from ..nodes.generate import generate as generate_step
from ..nodes.mending.ladder import wishes
from ..nodes.prepare import prepare as prepare_step
from ..nodes.refine import refine as refine_step
from ..nodes.runtime.meter import BudgetSpentError, Prices
from ..nodes.runtime.step import Step, Steps, call
from ..nodes.verify.answer_type import answer_type_of, schema_option
from ..nodes.writing.prompts import Keep, Prompts, seen_by_refiner, told_with
from ..nodes.writing.replies import reply_in
from ..state.checked_channels import append_events
from ..state.dual import Do, calling
from ..state.langgraph_internals import CHECKPOINTER
from ..state.limits import Limits, merged_limits
from ..state.stopping import spent_budget
from ..state.summary import CALLER, attempts, best_draft, summary_of
from ..state.typed_answer import ANSWER_TYPE, structured_response
from .loop import price_table

try:
    from langchain.agents.middleware import AgentMiddleware, hook_config
    from langchain.agents.middleware.types import ExtendedModelResponse, ModelResponse

    from ..nodes.agents.agent_state import (
        RefineAgentState,
        begun,
        files_in,
        loop_state,
        notice_in,
        said_in_conversation,
        since_asked,
        spent_so_far,
        task_in,
        with_files,
    )
except ImportError as error:
    raise ImportError(f'RefineMiddleware needs an extra: pip install ".[agents]" in a checkout ({error})') from None

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence

    from langchain.agents.middleware.types import ModelRequest, ToolCallRequest
    from langchain_core.messages import AnyMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.runtime import Runtime

    from ..nodes.agents.agent_state import JudgedFolder, Spent
    from ..state.critique import Critic
    from ..state.events import Event

    Update = dict[str, Any]

__all__ = ["AGENT_FEEDBACK_PROMPT", "RefineMiddleware"]


class RefineMiddleware(AgentMiddleware[RefineAgentState, Any, Any]):
    """Middleware for `create_agent` and `create_deep_agent` that refines an agent's answers before they are given.

    Where the agent would finish, its answer is a draft: verifiers and critics judge it as in `build_refine_graph`, and
    what they find goes back into the agent's own loop, with its tools. It ends when an answer is accepted or a limit
    says stop, and then the best draft is the last message, not the last one written. Its `response_metadata["redraft"]`
    says `stop_reason`, `rounds`, `score`, `accepted_by`, `oracle` and `usage`. A structured response is judged and
    refined as JSON, and the best one is `structured_response`.

    The record is kept in the agent's state under private keys, and each event goes to the `custom` stream. With a
    checkpointer, `Thread(agent, thread_id)` reads and replays it, and resumes a run that ended as `failed`.

    List it first: then retries and fallbacks of other middleware are tried before a call counts as failed. An agent
    takes one.

    Args:
        critics: Asked about each answer, cheapest first, as in `build_refine_graph`; a chat model among them judges,
            and is shown which tools were called and what came back.
        max_rounds: How often the answer may be revised; it stands over the one in `limits`. Default: what `limits`
            says, or 3.
        limits: Budgets of one run: of the agent's calls, those of its tools and subagents, and those of the critics.
            `max_seconds` counts tools too.
        feedback_prompt: What the agent is told: over `feedback`, `draft`, `task`, `history` and `round`, or several,
            one a round. Default: `AGENT_FEEDBACK_PROMPT`, with the draft where another than the last is to be revised.
        keep: The answer is the `"best"` draft, of equal ones the earlier, or simply the `"last"`. Default: `"best"`,
            but `"last"` where only people judge.
        critics_after: When critics other than verifiers are asked: while no verifier decided, or `"always"`.
        files: Patterns of paths, such as `"/report.md"` or `"/out/*"`: files in a deep agent's state that belong to its
            answer. They are judged after it, and in the end are those of the best draft. Not with structured responses.
        folder: A folder on the disk that the agent works in, `redraft.folders.AgentFolder`: its commands are asked
            first, and in the end it holds the files of the best draft. Not with structured responses.
        tell_checks: Whether the agent is told in its system prompt what the verifiers among the critics want.
        answer_type: The type of the answers, as in `build_refine_graph`; then no critic is needed. The object of the
            best one is `structured_response`.
        prices: As in `build_refine_graph`.

    Raises:
        ImportError: LangChain's agents are not installed (the extra `agents`).
        ValueError: There is no critic, or a limit or the prompt makes no sense.
        TypeError: A critic is neither a model nor callable.

    Example:
        >>> from langchain.agents import create_agent
        >>> from redraft import RefineMiddleware, uses_words, verifier_critic
        >>> from redraft.models import ScriptedModel
        >>> refining = RefineMiddleware([verifier_critic(uses_words("rain", "roof"))])
        >>> agent = create_agent(ScriptedModel(["Rain.", "Rain on a roof."]), middleware=[refining])
        >>> agent.invoke({"messages": [("user", "Write about rain.")]})["messages"][-1].content
        'Rain on a roof.'
    """

    state_schema = RefineAgentState

    def __init__(
        self,
        critics: Sequence[Critic | BaseChatModel] = (),
        *,
        max_rounds: int | None = None,
        limits: Mapping[str, Any] | None = None,
        feedback_prompt: Prompts | None = None,
        keep: Keep | None = None,
        critics_after: CriticsAfter = "undecided",
        files: Sequence[str] = (),
        folder: JudgedFolder | None = None,
        tell_checks: bool = True,
        answer_type: Any = None,
        prices: Prices | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        check_choices(keep=(keep or "best", Keep), critics_after=(critics_after, CriticsAfter))
        self._answer = answer = answer_type_of(answer_type)
        self._files = (files,) if isinstance(files, str) else tuple(files)
        self._folder = folder
        judges = _judges(critics, folder, typed=answer is not None)
        named = name_critics(judges if answer is None else typed_judges(answer, judges), model=None)
        people = [critic for critic in named if critic.human]
        others = [critic for critic in named if not critic.human]
        prices = price_table(prices)
        self._keep: Keep = seen_by_refiner({"keep": keep, "judge_last": bool(others)})["keep"]
        self._prices = prices
        self._told = wishes([one for one in judges if tell_checks or name_of(one) == ANSWER_TYPE]).strip()
        self._feedback_text = AgentFeedback(feedback_prompt)
        self._limits = Limits(**merged_limits(limits, None if max_rounds is None else {"max_rounds": max_rounds}))
        options: dict[str, Any] = {"keep": self._keep, "judge_last": True, "asks": True, "custom_check": False}
        options |= schema_option(answer)
        prints = fingerprint(
            ["prepare", "agent", "feedback", *(["human"] if people else []), "check"],
            writers={"agent": self._feedback_text},
            critics=named,
            options={"keep": self._keep, "critics_after": critics_after, **({"files": files} if files else {})},
        )
        agent = HandedOver()
        self._prepare = prepare_step(getattr(folder, "read", None), options=options, fingerprint=prints, prices=prices)
        self._generate = generate_step(agent, answer=answer, prices=prices)
        self._refine = refine_step(agent, keep=self._keep, answer=answer, prices=prices)
        self._feedback = feedback_step(others, critics_after=critics_after, asks_about=not people, prices=prices)
        self._human = feedback_step(people, name="human", critics_after=critics_after) if people else None
        self._check = check_step(keep=self._keep, steps_a_round=STEPS_A_ROUND)
        self._begin = Step("before_agent", self._begun)
        self._call_model = Step("model", self._called)
        self._call_tool = Step("tools", self._used)
        self._judge = Step("feedback", self._judged)
        self._finish = Step("after_agent", self._finished)

    # The hooks; each is a step of ours, which runs one logic for sync and async.

    def before_agent(self, state: RefineAgentState, runtime: Runtime[Any]) -> Update:
        return self._begin.invoke(state, get_config())

    async def abefore_agent(self, state: RefineAgentState, runtime: Runtime[Any]) -> Update:
        return await self._begin.ainvoke(state, get_config())

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: RefineAgentState, runtime: Runtime[Any]) -> Update | None:
        """Go to the end where no model call may begin, or the last answer is to be judged again."""
        if loop_state(state).get("judge_again"):
            return {"jump_to": "end"}
        why = self._no_more(state) if begun(state) else None
        return {"jump_to": "end", "_refine_spent": why} if why else None

    @hook_config(can_jump_to=["end"])
    async def abefore_model(self, state: RefineAgentState, runtime: Runtime[Any]) -> Update | None:
        return self.before_model(state, runtime)

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[Any], ModelResponse[Any]]) -> Any:
        return self._call_model.invoke((request, handler), get_config())

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[Any], Awaitable[ModelResponse[Any]]]
    ) -> Any:
        return await self._call_model.ainvoke((request, handler), get_config())

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[Any], ToolMessage | Command[Any]]) -> Any:
        return self._call_tool.invoke((request, handler), get_config())

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[Any], Awaitable[ToolMessage | Command[Any]]]
    ) -> Any:
        return await self._call_tool.ainvoke((request, handler), get_config())

    @hook_config(can_jump_to=["model"])
    def after_agent(self, state: RefineAgentState, runtime: Runtime[Any]) -> Update:
        return self._finish.invoke(state, get_config())

    @hook_config(can_jump_to=["model"])
    async def aafter_agent(self, state: RefineAgentState, runtime: Runtime[Any]) -> Update:
        return await self._finish.ainvoke(state, get_config())

    def _begun(self, state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        """Open the record of a run: the last message of the user is the task."""
        asked, conversation = task_in(state["messages"])
        loop = {**loop_state(state), "task": asked, "require": state.get("require"), "limits": self._limits}
        update = yield from self._prepare.logic(loop, config)
        values = {name: value for name, value in update.items() if name != "events"}
        # That of an earlier turn is no answer to this one.
        typed = {name: values.pop(name) for name in ("structured_response",) if name in values}
        opened = {"_refine_events": update["events"], "_refine": {**values, "conversation": conversation}, **typed}
        return {**opened, "require": None, "_refine_spent": None, "_refine_kept": None}

    def _no_more(self, state: Mapping[str, Any]) -> Spent:
        """Return the reason to call no model any more: a spent budget, an error, too few steps; else none."""
        loop, spent = loop_state(state), spent_so_far(state)
        if spent.get("budget") or spent.get("error"):
            return {"budget": spent.get("budget", ""), "error": spent.get("error", "")}
        if budget := spent_budget(loop["events"], loop["limits"], besides=spent["usage"]):
            return {"budget": budget}
        return {"error": OUT_OF_STEPS} if _steps_left(state) <= STEPS_A_ROUND else {}

    def _called(self, given: Any, config: RunnableConfig) -> Steps:
        """Make a model call of the agent's: counted, kept in the journal, refused once a budget is spent."""
        request, handler = given
        asked = loop_state(request.state).get("requirements", ()) if begun(request.state) else ()
        own = [one for one in asked if one["by"] == CALLER and one["status"] != "withdrawn"]
        told = told_with(self._told, {one["text"]: one["verifiers"] for one in own}).strip()
        if told:
            system = f"{request.system_prompt}\n\n{told}" if request.system_prompt else told
            request = request.override(system_message=SystemMessage(system))
        response, spent = yield from self._asked(handler, request, config)
        if isinstance(response, Exception):
            response = ModelResponse(result=[])  # `before_model` goes to the end next
        elif (reply := reply_in({"messages": list(response.result)})) is not None:
            spent["said"] = reply.id
        extended: Any = ExtendedModelResponse(response, Command(update={"_refine_spent": spent}))
        return extended  # type: ignore[no-any-return]

    def _asked(self, target: Any, request: Any, config: RunnableConfig) -> Generator[Any, Any, tuple[Any, Spent]]:
        """Make a model call with the schema of a typed answer in it, or without where its provider refuses that.

        Where the agent may call tools the schema stands in the system prompt alone: servers take one of the two.
        """
        schema = None if self._answer is None or request.tools else self._answer.schema
        held: Any = None if schema is None else bound_to_schema(request.model, schema)
        if schema is not None and held is not None:
            constrained = request.override(model_settings={**request.model_settings, **held.kwargs})
            try:
                response, spent = yield from self._counted(target, constrained, config)
            except Exception as error:
                if not refuses_schema(error):
                    raise
            else:
                if not isinstance(response, Exception):
                    response.result[:] = [
                        structured_text(one, schema) if isinstance(one, AIMessage) else one for one in response.result
                    ]
                return response, spent
        return (yield from self._counted(target, request, config))

    def _used(self, given: Any, config: RunnableConfig) -> Steps:
        """Make a tool call, below which models may be called: a subagent's, say."""
        request, handler = given
        loop, so_far = loop_state(request.state), spent_so_far(request.state)
        if not begun(request.state):
            return (yield Do(handler, handler, (request,)))  # type: ignore[no-any-return]
        # No model will read what it returns.
        if budget := spent_budget(loop["events"], loop["limits"], besides=so_far["usage"]):
            return _refusal(request, f"Not run: the {budget.replace('_', ' ')} is spent.")  # type: ignore[no-any-return]
        result, spent = yield from self._counted(handler, request, config)
        if isinstance(result, Exception):
            result = _refusal(request, str(result))
        elif why := _unkept(result, config):
            # Else each resume would run the tool again.
            result = _refusal(request, f"The tool ran, but its result can't be kept: {why}.")
        elif not spent["usage"]["calls"] and loop["limits"]["max_seconds"] is None:
            return result  # type: ignore[no-any-return]
        if isinstance(result, ToolMessage):
            result = Command(update={"messages": [result]})
        if isinstance(result, Command) and isinstance(result.update, dict):
            result = replace(result, update={**result.update, "_refine_spent": spent})
        return result  # type: ignore[no-any-return]

    def _counted(self, target: Any, request: Any, config: RunnableConfig) -> Generator[Any, Any, tuple[Any, Spent]]:
        """Make a call; return its result, or the error that ends the run with the best draft so far, and what it used.

        Before the first draft there is nothing to keep, and an error is raised.
        """
        # Where no run has begun, nothing is bounded: another middleware ends it before an answer.
        loop: Any = loop_state(request.state) if begun(request.state) else {"events": []}
        used = spent_so_far(request.state)["usage"]
        outcome = yield from call(target, request, config=config, prices=self._prices, state=loop, besides=used)
        spent: Spent = {"usage": outcome.usage, "model": outcome.model}
        error = outcome.error
        if isinstance(error, BudgetSpentError):
            return error, {**spent, "budget": error.budget}
        # The agent's own middleware shortens the conversation then, and calls again.
        if error is not None and (isinstance(error, ContextOverflowError) or not attempts(loop["events"])):
            raise error
        if error is not None:
            return error, {**spent, "error": f"{type(error).__name__}: {error}"}
        return outcome.result, spent

    def _finished(self, state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        """Record the answer, judge it, and give the best one or go back into the agent's loop."""
        news: list[Event] = []
        if not begun(state):
            opened = yield from self._begun(state, config)
            news = opened["_refine_events"]
            state = {**state, **opened, "_refine_events": append_events(loop_state(state)["events"], [news])}
        loop = loop_state(state)
        if self._human is None:
            loop = _after(loop, (yield from self._judged(state, config)))
        else:  # as a task, whose result LangGraph keeps while the run waits for a person
            loop = _after(loop, (yield Do(_as_task, _as_async_task, (self._judge, state))))
            loop = _after(loop, (yield from self._human.logic(loop, config)))
        decided = yield from self._check.logic({**loop, "remaining_steps": _steps_left(state)}, config)
        loop = _after(loop, decided)
        text = said_in_conversation(state, loop, feedback=self._feedback_text, keep=self._keep, files=self._files)
        if self._folder is not None:
            text |= yield from self._brought_back(self._folder, loop, text.get("messages", ()))
        if self._answer is not None and loop["stop_reason"] is not None:
            text |= structured_response(loop["events"], self._answer.parsed)
            answer = text["structured_response"]
            # A saver of `open_checkpointer` keeps it as its JSON, as that of a graph does.
            if (types := getattr(_serializer(config), "answers", None)) is not None:
                types.update(map(type, [answer, *answer] if isinstance(answer, list | tuple) else [answer]))
            if (best := best_draft(loop["events"], keep=self._keep)) is not None:
                text["messages"] = [one.model_copy(update={"content": best.text}) for one in text.get("messages", ())]
        news = [*news, *loop.pop("events")[len(state["_refine_events"]) :]]
        for name in ("judge_again", "structured_response"):
            loop.pop(name, None)
        return {"_refine_events": news, "_refine": loop, "_refine_spent": None, **text}

    def _brought_back(self, folder: JudgedFolder, loop: Mapping[str, Any], messages: Sequence[AnyMessage]) -> Steps:
        """Bring the folder to the files of the best draft, of which the conversation is told the words alone."""
        if (best := best_draft(loop["events"], keep=self._keep)) is None:
            return {}
        answer = yield calling(folder.bring_back, best.text, loop["base_tree"])
        said = [one.model_copy(update={"content": answer}) for one in messages if answer and one.text == best.text]
        return {"messages": said} if said else {}

    def _judged(self, state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        """Return the events of an answer: the draft or revision that it is, and what critics other than people say."""
        loop, spent = loop_state(state), spent_so_far(state)
        if loop.get("judge_again"):  # it is in the record
            return (yield from self._feedback.logic(loop, config))
        budget, error = spent.get("budget") or None, spent.get("error", "")
        data = None if budget or error else state.get("structured_response")
        messages = since_asked(state["messages"])
        run = run_in(messages, data=data, stopped=error, budget=budget)
        if not run.unfinished and data is None and (notice := notice_in(messages, spent)):
            run = replace(run, unfinished=ENDED.format(notice=notice), notice=True)
        if run.schema is None and run.text.strip():
            run = replace(run, text=with_files(run.text, files_in(state, self._files)))
            if self._folder is not None:
                run = replace(run, text=(yield calling(self._folder.draft, run.text, loop["base_tree"])))
        elif run.schema is not None and self._folder is not None:
            raise ValueError("the agent has a response_format: files are no part of a structured response")
        step = self._refine if attempts(loop["events"]) or summary_of(loop["events"]).said else self._generate
        wrote = yield from step.logic({**loop, "handed_over": (run, spent["usage"], spent.get("model", ""))}, config)
        judged = yield from self._feedback.logic(_after(loop, wrote), config)
        return {**wrote, **judged, "events": [*wrote["events"], *judged.get("events", [])]}


def _judges(critics: Sequence[Any], folder: JudgedFolder | None, *, typed: bool) -> list[Any]:
    """Return who judges an agent's answers, of whom models are shown its tools."""
    check_lists(critics=critics)
    if folder is not None:
        if typed:
            raise ValueError("give answer_type or folder: files are no part of a structured response")
        critics = folder.judges(critics)
    if not critics and not typed:
        raise ValueError("critics is empty: nobody would judge the agent's answers")
    return [agent_judge(one, kind=WitnessCritic) if isinstance(one, BaseChatModel) else one for one in critics]


def _as_task(step: Step, state: Mapping[str, Any]) -> Update:
    @task(name=step.name)  # type: ignore[arg-type]  # its overloads confuse mypy
    def made() -> Update:
        return step.invoke(state, get_config())

    return made().result()


async def _as_async_task(step: Step, state: Mapping[str, Any]) -> Update:
    @task(name=step.name)  # type: ignore[arg-type]
    async def made() -> Update:
        return await step.ainvoke(state, get_config())

    return await made()


def _after(loop: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    return {**loop, **update, "events": append_events(loop["events"], [update.get("events", [])])}


def _steps_left(state: Mapping[str, Any]) -> int:
    left: int = state.get("_refine_steps", STEPS_A_ROUND + 1)
    return left


def _refusal(request: ToolCallRequest, why: str) -> Any:
    called = request.tool_call
    return ToolMessage(why, tool_call_id=called["id"], name=called["name"], status="error")


def _serializer(config: RunnableConfig) -> Any:
    """Return the serializer of the saver in force; `None` where there is none."""
    return getattr(config.get("configurable", {}).get(CHECKPOINTER), "serde", None)


def _unkept(result: Any, config: RunnableConfig) -> str:
    """Return the reason why the thread's saver refuses a tool's result, of over 64 MiB say; empty where it is kept."""
    serde = _serializer(config)
    try:
        if serde is not None:
            serde.dumps_typed(result.update if isinstance(result, Command) else [result])
    except (TypeError, ValueError) as error:
        return str(error)
    return ""


STEPS_A_ROUND = 6
"""Steps to finish in: from `before_model` over a model and its tools to `after_agent`, with some to spare."""
