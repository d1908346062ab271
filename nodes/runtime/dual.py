"""Callables and Runnables whose logic is written once for sync and async (see `redraft.state.dual`). Internal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import GraphBubbleUp

from ...state.critique import Critique
from ...state.dual import Do, adrive, drive
from ...state.events import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = ["Do", "DualCallable", "DualCritic", "DualRunnable", "adrive", "drive", "tolerated"]

Wanted = TypeVar("Wanted")
Result = TypeVar("Result")
Given = ParamSpec("Given")


class DualCallable(ABC, Generic[Given, Result]):
    """A callable that can be awaited as well, by `acall`; a node calls whichever fits. Both run its `logic`."""

    @abstractmethod
    def logic(self, *args: Given.args, **kwargs: Given.kwargs) -> Generator[Do, Any, Result]:
        """Yield calls, and return the result."""

    def __call__(self, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        """Run the logic, with each call made in this thread."""
        return drive(self.logic(*args, **kwargs))

    async def acall(self, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        """Run the logic without blocking."""
        return await adrive(self.logic(*args, **kwargs))


DualCritic = DualCallable[[str, str, Sequence[Event]], Critique]
"""A critic that asks models or runs programs: `(task, draft, history) -> Critique`."""


class DualRunnable(Runnable[Wanted, Result]):
    """A Runnable whose `invoke` and `ainvoke` run one `logic`."""

    @abstractmethod
    def logic(self, input: Wanted, config: RunnableConfig | None) -> Generator[Do, Any, Result]:  # noqa: A002
        """Yield calls, and return the output."""

    def invoke(self, input: Wanted, config: RunnableConfig | None = None, **_: Any) -> Result:  # noqa: A002
        return drive(self.logic(input, config))

    async def ainvoke(self, input: Wanted, config: RunnableConfig | None = None, **_: Any) -> Result:  # noqa: A002
        return await adrive(self.logic(input, config))


def tolerated(
    logic: Generator[Do, Any, Result], *, instead: Result, note: Callable[[Exception], None]
) -> Generator[Do, Any, Result]:
    """Return what a part of the logic returns, or `instead` where it raises; `note` gets the error for the record.

    Raises:
        GraphBubbleUp: LangGraph's own signals pass through.
    """
    try:
        return (yield from logic)
    except GraphBubbleUp:
        raise
    except Exception as error:
        note(error)
        return instead
