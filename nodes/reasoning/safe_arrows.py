"""Arrows that never raise: they return a result, compose with `|`, and stop at the first failure."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig, RunnableSequence
from langgraph.errors import GraphBubbleUp

from .arrows import ArrowError
from .branch import Branch
from .results import Result

__all__ = ["SafeArrow", "safe"]


class SafeArrow(Runnable[Any, Result[Branch]]):
    """An arrow that never raises: from a branch, or the result of another safe arrow, to a result.

    A failure is passed on as it is, and the arrow is not run. An arrow that finds nothing to work on is a failure here.
    A failure keeps in `partial` the branch with what was done before.

    Raises:
        TypeError: At run: it is given neither a branch nor a result.
    """

    def __init__(self, arrow: Runnable[Branch, Branch]) -> None:
        self.arrow = arrow
        self.name = f"safe_{arrow.get_name()}"

    def invoke(self, input: Branch | Result[Branch], config: RunnableConfig | None = None, **_: Any) -> Result[Branch]:  # noqa: A002
        """Return the branch after the arrow as a success, or why there is none."""
        given = self._ready(input)
        try:
            return given.map(lambda branch: self.arrow.invoke(branch, config))
        except GraphBubbleUp:
            raise
        except Exception as error:
            return _failure(error, given)

    async def ainvoke(
        self,
        input: Branch | Result[Branch],  # noqa: A002
        config: RunnableConfig | None = None,
        **_: Any,
    ) -> Result[Branch]:
        """Return the branch after the arrow as a success, or why there is none, without blocking."""
        given = self._ready(input)
        if not given.ok:
            return given
        try:
            return Result.success(await self.arrow.ainvoke(given.value, config))
        except GraphBubbleUp:
            raise
        except Exception as error:
            return _failure(error, given)

    def _ready(self, given: Branch | Result[Branch]) -> Result[Branch]:
        if not isinstance(given, Branch | Result):
            raise TypeError(f"a safe arrow takes a Branch, or the Result of another one, not {given!r}")
        result = Result.success(given) if isinstance(given, Branch) else given
        missing = getattr(self.arrow, "missing", None)
        if not result.ok or missing is None:
            return result
        reason = missing(result.value)
        return Result.failure(reason, partial=result.value) if reason else result


def safe(arrow: Runnable[Any, Any]) -> Runnable[Any, Result[Branch]]:
    """Return the arrow in its safe form: it returns a `Result` instead of raising, and stops at the first failure.

    Safe arrows compose with `|`. A composed arrow is made safe step by step, a loop too.
    """
    if isinstance(arrow, SafeArrow):
        return arrow
    if isinstance(arrow, RunnableSequence):
        first, *others = [safe(step) for step in arrow.steps]
        composed = first
        for step in others:
            composed = composed | step
        return composed
    return SafeArrow(arrow)


def _failure(error: Exception, given: Result[Branch]) -> Result[Branch]:
    if isinstance(error, ArrowError):
        return Result.failure(str(error), partial=error.branch)
    return Result.failure(f"{type(error).__name__}: {error}", partial=given.value)
