"""A model that may use tools before it answers: it asks for calls, they are made, and it is asked again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import merge_configs
from langgraph.errors import GraphRecursionError

from .react import ANY_DURABILITY, react_agent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.language_models import BaseChatModel
    from langchain_core.tools import BaseTool

__all__ = ["ToolUsingModel", "ToolsUnfinishedError"]


class ToolsUnfinishedError(RuntimeError):
    """A model kept asking for tools and never answered."""


class ToolUsingModel(Runnable[Any, AIMessage]):
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
        # In one piece: each that is merged brings what it inherits, the durability too.
        bounds: Any = {**ANY_DURABILITY, "recursion_limit": 2 * self.max_turns + 2}
        return merge_configs(config, bounds)

    def _unfinished(self) -> ToolsUnfinishedError:
        return ToolsUnfinishedError(f"the model asked for tools {self.max_turns} times and did not answer")


def _answer(state: dict[str, Any]) -> AIMessage:
    reply = state["messages"][-1]
    if not isinstance(reply, AIMessage):
        raise TypeError(f"the model replied with {reply!r}, which is no message of a model")
    return reply
