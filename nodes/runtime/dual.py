"""Logic written once for sync and async callers: a generator that yields the calls it wants made.

It is sent what became of each, so that it neither blocks nor awaits itself. `drive` makes the calls in place, `adrive`
awaits them; beside these two no node, critic or cache needs a second version of what it does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import GraphBubbleUp

from ...state.critique import Critique
from ...state.events import Event

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

__all__ = ["Do", "DualCallable", "DualCritic", "DualRunnable", "adrive", "drive", "tolerated"]

Wanted = TypeVar("Wanted")
Result = TypeVar("Result")
Given = ParamSpec("Given")


@dataclass(frozen=True)
class Do:
    """A call that the logic wants made, and how it is made where calls are awaited."""

    call: Callable[..., Any]
    acall: Callable[..., Awaitable[Any]]
    args: tuple[Any, ...] = ()

    def make(self) -> Any:
        """Make the call in this thread."""
        return self.call(*self.args)

    async def amake(self) -> Any:
        """Await the call."""
        return await self.acall(*self.args)


def drive(logic: Generator[Wanted, Any, Result], make: Callable[[Wanted], Any] = Do.make) -> Result:  # type: ignore[assignment]
    """Run the logic to its end and return its result.

    Args:
        logic: Gets the result of each call that it yields, or has its error raised where it stands.
        make: Makes one call.
    """
    try:
        wanted = next(logic)
        while True:
            try:
                result = make(wanted)
            except Exception as error:
                wanted = logic.throw(error)
            else:
                wanted = logic.send(result)
    except StopIteration as end:
        found: Result = end.value
        return found


async def adrive(
    logic: Generator[Wanted, Any, Result],
    make: Callable[[Wanted], Awaitable[Any]] = Do.amake,  # type: ignore[assignment]
) -> Result:
    """Run the logic to its end, awaiting each call, and return its result; see `drive`."""
    try:
        wanted = next(logic)
        while True:
            try:
                result = await make(wanted)
            except Exception as error:
                wanted = logic.throw(error)
            else:
                wanted = logic.send(result)
    except StopIteration as end:
        found: Result = end.value
        return found


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
