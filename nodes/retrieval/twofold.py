"""A node's work written once for sync and async: it says which calls it wants made, and is sent what came of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from langgraph.errors import GraphBubbleUp

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    Work = Generator["Do", Any, dict[str, Any]]

__all__ = ["Do", "Twofold", "tolerated"]

Result = TypeVar("Result")


@dataclass(frozen=True)
class Do:
    """A call that the work wants made, and its async twin."""

    call: Callable[..., Any]
    acall: Callable[..., Any]
    args: tuple[Any, ...] = ()


def tolerated(
    work: Generator[Do, Any, Result], *, instead: Result, tell: Callable[[Exception], None]
) -> Generator[Do, Any, Result]:
    """Return what a part of the work returns, or `instead` where it raises; `tell` gets the error for the record.

    Raises:
        GraphBubbleUp: LangGraph's own signals pass through.
    """
    try:
        return (yield from work)
    except GraphBubbleUp:
        raise
    except Exception as error:
        tell(error)
        return instead


class Twofold(ABC):
    """A callable over the state with an async twin, `acall`; both do `work`."""

    @abstractmethod
    def work(self, state: Mapping[str, Any]) -> Work:
        """Yield calls, and return the state update."""

    def __call__(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Do the work, each call in this thread."""
        steps = self.work(state)
        try:
            wanted = next(steps)
            while True:
                try:
                    result = wanted.call(*wanted.args)
                except Exception as error:
                    wanted = steps.throw(error)
                else:
                    wanted = steps.send(result)
        except StopIteration as end:
            return dict(end.value)

    async def acall(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Do the work without blocking."""
        steps = self.work(state)
        try:
            wanted = next(steps)
            while True:
                try:
                    result = await wanted.acall(*wanted.args)
                except Exception as error:
                    wanted = steps.throw(error)
                else:
                    wanted = steps.send(result)
        except StopIteration as end:
            return dict(end.value)
