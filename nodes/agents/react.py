"""ReAct agents: a model calls tools until it answers; calls that a model wrote as text are read too. Internal.

LangGraph's own prebuilt agent is deprecated.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig, RunnableLambda
from langchain_core.runnables.config import merge_configs
from langgraph.errors import GraphRecursionError
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from ...state.dual import Do
from ...state.langgraph_internals import DURABILITY
from ..arguments import checked_count
from ..runtime.step import DualRunnable
from ..runtime.tool_calls import journaled_tool_calls
from ..writing.replies import read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Mapping, Sequence

    from langchain_core.language_models import BaseChatModel
    from langchain_core.tools import BaseTool
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.prebuilt.tool_node import ToolCallRequest

__all__ = ["ANY_DURABILITY", "ToolUsingModel", "ToolsUnfinishedError", "react_agent", "read_text_calls", "storable"]


def read_text_calls(message: AIMessage, tools: Collection[str]) -> AIMessage:
    """Return the message with the tool calls that its text is, or the message itself.

    The whole text must be calls, each a JSON object with the name of a known tool and its arguments, bare, in a code
    fence, or between `<tool_call>` tags. A text that only speaks of a tool, or shows a call beside other words, is an
    answer.

    Args:
        message: What the model replied.
        tools: Names of the tools that it was offered.
    """
    if message.tool_calls:
        return message
    calls = [_call(part, tools) for part in _parts(read_text(message))]
    if not calls or not all(calls):
        return message
    return message.model_copy(update={"content": "", "tool_calls": calls})


def _parts(text: str) -> list[str]:
    """Return the pieces of a text that may each be a call."""
    bare = text.strip()
    for opening, closing in ENCLOSED:
        parts, at = [], 0
        # From one to the next, so that each is looked at once, however many are never closed.
        while (opened := opening.match(bare, at)) and (end := bare.find(closing, opened.end())) >= 0:
            parts.append(bare[opened.end() : end])
            at = end + len(closing)
        if parts:
            return parts if at == len(bare) else [bare]
    return [bare] if bare else []


def _call(text: str, tools: Collection[str]) -> dict[str, Any] | None:
    try:
        call = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(call, dict) or call.get("name") not in tools or not call.keys() <= {*KEYS, "parameters"}:
        return None
    arguments = call.get("arguments", call.get("parameters", {}))
    if not isinstance(arguments, dict):
        return None
    return {"name": call["name"], "args": arguments, "id": f"call_{uuid4().hex[:12]}", "type": "tool_call"}


def react_agent(
    model: BaseChatModel,
    tools: Sequence[BaseTool | Callable[..., Any]] = (),
    *,
    prompt: str | None = None,
    max_calls: int | None = None,
    catch_tool_errors: bool | Callable[[Exception], str] = False,
    return_direct: bool = True,
    functions: Sequence[Mapping[str, Any]] = (),
    checkpointer: bool | None = None,
    name: str = "agent",
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return a graph over `messages` in which the model calls tools until it answers in words.

    A reply whose whole text is a call of one of the tools, as JSON, counts as that call.

    Args:
        model: The model; without tools it is asked once.
        tools: LangChain tools, or functions with type hints and a docstring.
        prompt: A system message put before the conversation.
        max_calls: Tool calls an answer may take; those beyond are refused, and the model is asked once more to answer.
            Default: as many as the `recursion_limit` has room for.
        catch_tool_errors: Whether an error inside a tool is told to the model, or how it is worded for it; else it ends
            the run. Arguments that do not fit a tool are told to the model in any case.
        return_direct: Whether the result of a tool that was built with `return_direct`, called last, is the answer.
        functions: Tools of somebody else's, as OpenAI describes functions: the agent ends where it calls one.
        checkpointer: As in `StateGraph.compile`.
        name: Name of the graph.

    Raises:
        ValueError: At build: `max_calls` is below 1, or two tools have one name.
        NotImplementedError: At build: the model can't call tools.
    """
    if max_calls is not None:
        checked_count("max_calls", max_calls, least=1)
    system: list[BaseMessage] = [SystemMessage(prompt)] if prompt else []
    conversation: RunnableLambda[Any, Any] = RunnableLambda(lambda state: [*system, *state["messages"]])
    answered: RunnableLambda[Any, Any] = RunnableLambda(lambda message: {"messages": [message]})

    def route(state: MessagesState) -> Literal["tools", "__end__"]:
        """Go on while tools are called. A model that calls them after a refusal is not asked again."""
        if max_calls is not None and _made(state["messages"]) > max_calls:
            return "__end__"
        if any(call["name"] in foreign for call in getattr(state["messages"][-1], "tool_calls", ())):
            return "__end__"
        return tools_condition(state)  # type: ignore[arg-type]  # a state is a dict

    def route_results(state: MessagesState) -> Literal["agent", "__end__"]:
        """End where the last result is the answer itself."""
        last = state["messages"][-1]
        done = isinstance(last, ToolMessage) and last.status == "success" and last.name in direct
        return "__end__" if done else "agent"

    foreign = [str(function["function"]["name"]) for function in functions]
    graph = StateGraph(MessagesState)
    graph.add_edge(START, "agent")
    if not tools and not functions:
        graph.add_node("agent", conversation | model | answered)
        graph.add_edge("agent", END)
        return graph.compile(checkpointer=checkpointer, name=name)
    handled: dict[str, Any] = {"handle_tool_errors": catch_tool_errors} if catch_tool_errors else {}
    refusal = _refusing(max_calls) if max_calls is not None else None
    node = ToolNode(list(tools), **handled, **journaled_tool_calls(refusal))
    names = [*node.tools_by_name, *foreign]
    if len(set(names)) < len(tools) + len(functions):
        raise ValueError(f"two tools have one name; the names are {', '.join(sorted(set(names)))}")
    direct = {one.name for one in node.tools_by_name.values() if return_direct and one.return_direct}
    read: RunnableLambda[Any, Any] = RunnableLambda(
        lambda message: _for_one_side(_with_own_ids(read_text_calls(message, names)), foreign)
    )
    graph.add_node(
        "agent", conversation | _with_tools(model, [*node.tools_by_name.values(), *functions]) | read | answered
    )
    graph.add_node("tools", node)
    graph.add_conditional_edges("agent", route)
    graph.add_conditional_edges("tools", route_results)
    return graph.compile(checkpointer=checkpointer, name=name)


def _for_one_side(message: Any, foreign: Collection[str]) -> Any:
    """Return the message with the calls of somebody else's tools only, where it has some: it waits for their results,
    and calls the others again after them."""
    if not isinstance(message, AIMessage):
        return message
    theirs = [call for call in message.tool_calls if call["name"] in foreign]
    return message.model_copy(update={"tool_calls": theirs}) if theirs else message


def _with_tools(model: Any, tools: Sequence[Any]) -> Runnable[Any, Any]:
    settings = model.kwargs if isinstance(model, RunnableBinding) else {}  # which its `bind_tools` would leave out
    try:
        bound: Runnable[Any, Any] = model.bind_tools(list(tools))
        return bound.bind(**settings) if settings else bound
    except (NotImplementedError, AttributeError) as error:  # a wrapper such as `with_retry()` has no such method
        raise NotImplementedError(f"{type(model).__name__} can't call tools: it has no bind_tools") from error


def _with_own_ids(message: Any) -> Any:
    """Return the message with an id of its own for each call, and with arguments that a checkpoint can hold.

    Some models give several calls one id; a call can then be neither counted nor answered by itself.
    """
    if not isinstance(message, AIMessage) or not message.tool_calls:
        return message
    seen: set[str | None] = set()
    calls = []
    for number, call in enumerate(message.tool_calls, start=1):
        name = call["id"] if call["id"] and call["id"] not in seen else f"{call['id'] or 'call'}-{number}"
        seen.add(name)
        calls.append({**call, "id": name, "args": storable(call["args"])})
    if calls == message.tool_calls:
        return message
    return message.model_copy(update={"tool_calls": calls, "content": storable(message.content)})


def storable(value: Any) -> Any:
    """Return a value with its whole numbers of more than 64 bits, which no checkpoint holds, as text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if -(2**63) <= value < 2**63 else str(value)
    if isinstance(value, dict):
        return {key: storable(one) for key, one in value.items()}
    return [storable(one) for one in value] if isinstance(value, list) else value


def _refusing(max_calls: int) -> Callable[[ToolCallRequest], ToolMessage | None]:
    """Return a function that answers a tool call beyond the bound, which is not made."""

    def refusal(request: ToolCallRequest) -> ToolMessage | None:
        messages = request.state["messages"]
        calls = next(message.tool_calls for message in reversed(messages) if isinstance(message, AIMessage))
        if _made(messages) + calls.index(request.tool_call) < max_calls:
            return None
        call = request.tool_call
        return ToolMessage(NO_CALLS_LEFT, tool_call_id=call["id"], name=call["name"], status="error")

    return refusal


def _made(messages: Sequence[BaseMessage]) -> int:
    """Return the number of tool calls that were answered since someone last asked, refusals counted."""
    count = 0
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            break
        count += isinstance(message, ToolMessage)
    return count


class ToolsUnfinishedError(RuntimeError):
    """A model kept asking for tools and never answered."""


class ToolUsingModel(DualRunnable[Any, AIMessage]):
    """A chat model that may call tools before it answers.

    A tool that raises, or that does not exist, is answered with the error, so that the model can do something else.

    Args:
        model: A chat model with tool calling.
        tools: LangChain tools, or plain functions with a docstring and type hints.
        max_turns: How often it may ask for tools before it must answer.

    Raises:
        ValueError: At build: there is no tool, or two share a name.
        NotImplementedError: At build: the model can't call tools.
        ToolsUnfinishedError: At run: it asked for tools more often.
    """

    def __init__(
        self, model: BaseChatModel, tools: Sequence[BaseTool | Callable[..., Any]], *, max_turns: int = 8
    ) -> None:
        if not tools:
            raise ValueError("tools is empty: give some, or ask the model itself")
        self.name = "tool_using_model"
        self.max_turns = max_turns
        self._agent = react_agent(
            model, tools, catch_tool_errors=True, return_direct=False, checkpointer=False, name=self.name
        )

    def logic(self, input: Any, config: RunnableConfig | None) -> Generator[Do, Any, AIMessage]:  # noqa: A002
        """Return the answer."""
        # In one piece: each that is merged brings what it inherits, the durability too.
        bounds: Any = {**ANY_DURABILITY, "recursion_limit": 2 * self.max_turns + 2}
        arguments = ({"messages": list(input)}, merge_configs(config, bounds))
        try:
            state = yield Do(self._agent.invoke, self._agent.ainvoke, arguments)
        except GraphRecursionError:
            raise ToolsUnfinishedError(f"the model asked for tools {self.max_turns} times and did not answer") from None
        reply = state["messages"][-1]
        if not isinstance(reply, AIMessage):
            raise TypeError(f"the model replied with {reply!r}, which is no message of a model")
        return reply


KEYS = ("name", "arguments", "id", "type")
ENCLOSED = ((re.compile(r"\s*+<tool_call>"), "</tool_call>"), (re.compile(r"\s*+```(?:json)?[^\S\n]*+\n"), "```"))
ANY_DURABILITY: Any = {"configurable": {DURABILITY: "async"}}
"""Configuration of an agent called inside a node: LangGraph hands the `durability="sync"` of a resumed run down to
graphs that keep no checkpoints, and these then break."""
NO_CALLS_LEFT = "Not run: no tool calls are left. Answer now, from what you know."
