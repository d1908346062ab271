"""A model that may use tools before it answers: it asks for calls, they are made, and it is asked again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import GraphRecursionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.language_models import BaseChatModel
    from langchain_core.tools import BaseTool

__all__ = ["ToolUsingModel", "ToolsUnfinishedError"]


class ToolsUnfinishedError(RuntimeError):
    """A model kept asking for tools and never answered."""


class ToolUsingModel(Runnable[Any, AIMessage]):
    """From messages to the answer of a model that may call tools on the way.

    A tool that raises, or that does not exist, is answered with the error, so that the model can do something else.

    Args:
        model: A chat model with tool calling.
        tools: LangChain tools, or plain functions with a docstring and type hints.
        max_turns: How often it may ask for tools before it must answer.

    Raises:
        ValueError: At build: there is no tool, two share a name, or the model can't be given tools.
        ToolsUnfinishedError: At run: it asked for tools more often.
    """

    def __init__(
        self, model: BaseChatModel, tools: Sequence[BaseTool | Callable[..., Any]], *, max_turns: int = 8
    ) -> None:
        from langgraph.graph import START, MessagesState, StateGraph
        from langgraph.prebuilt import ToolNode, tools_condition

        node = ToolNode(tools, handle_tool_errors=True)
        if not tools or len(node.tools_by_name) != len(tools):
            raise ValueError(f"tools must be some tools with names that differ, not {list(node.tools_by_name)}")
        try:
            bound = model.bind_tools(list(node.tools_by_name.values()))
        except NotImplementedError:
            raise ValueError(
                f"{type(model).__name__} can't be given tools: leave them out, or name a model that can call them"
            ) from None
        self.name = "tool_using_model"
        self.max_turns = max_turns
        graph = StateGraph(MessagesState)
        graph.add_node("model", RunnableMessages(bound))
        graph.add_node("tools", node)
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", tools_condition)
        graph.add_edge("tools", "model")
        self._agent = graph.compile(checkpointer=False, name=self.name)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> AIMessage:  # noqa: A002
        """Return the answer."""
        try:
            return _answer(self._agent.invoke({"messages": list(input)}, self._bounded(config)))
        except GraphRecursionError:
            raise self._unfinished() from None

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> AIMessage:  # noqa: A002
        """Return the answer, without blocking."""
        try:
            return _answer(await self._agent.ainvoke({"messages": list(input)}, self._bounded(config)))
        except GraphRecursionError:
            raise self._unfinished() from None

    def _bounded(self, config: RunnableConfig | None) -> RunnableConfig:
        return {**(config or {}), "recursion_limit": 2 * self.max_turns + 2}

    def _unfinished(self) -> ToolsUnfinishedError:
        return ToolsUnfinishedError(f"the model asked for tools {self.max_turns} times and did not answer")


class RunnableMessages(Runnable[Any, dict[str, Any]]):
    """The node that asks the model with the messages so far."""

    def __init__(self, model: Runnable[Any, AIMessage]) -> None:
        self._model = model

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:  # noqa: A002
        """Return the reply as a state update."""
        return {"messages": [self._model.invoke(input["messages"], config)]}

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:  # noqa: A002
        """Return the reply as a state update, without blocking."""
        return {"messages": [await self._model.ainvoke(input["messages"], config)]}


def _answer(state: dict[str, Any]) -> AIMessage:
    reply = state["messages"][-1]
    if not isinstance(reply, AIMessage):
        raise TypeError(f"the model replied with {reply!r}, which is no message of a model")
    return reply
