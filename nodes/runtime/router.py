"""A router of a graph that is called in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.runnables import Runnable, RunnableConfig

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Router"]


class Router(Runnable[Any, str]):
    """A function of the state that names the node to go to, as LangGraph runs it best.

    LangGraph hands a plain function to a thread in an async run, which costs more than a router does.

    Args:
        function: Takes the state and returns the name of a node.
    """

    def __init__(self, function: Callable[[Any], str]) -> None:
        self.name = function.__name__
        self.function = function

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> str:  # noqa: A002
        return self.function(input)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> str:  # noqa: A002
        return self.function(input)
