"""Arrows that return a `Result` instead of raising, and arrows in parallel with the best going on. Internal."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, Generic, TypeVar

from langchain_core.runnables import Runnable, RunnableConfig, RunnableSequence
from langgraph.errors import GraphBubbleUp

from ...state.dual import Do, at_once, do
from ...state.events import failure, record
from ...state.summary import rounds
from ...state.usage import add_usage
from ..runtime.step import DualRunnable
from .arrows import ArrowError
from .branches import Branch

__all__ = ["FailureError", "InParallel", "Result", "SafeArrow", "best_branch", "safe"]

T = TypeVar("T")
U = TypeVar("U")


class FailureError(RuntimeError):
    """The value of a failure was asked for."""


@dataclass(frozen=True)
class Result(Generic[T]):
    """A value, or the message that says why there is none. Made by `Result.success` and `Result.failure`."""

    _value: T | None = None
    message: str = ""
    """Why it failed; empty for a success."""
    ok: bool = True
    partial: Any = None
    """The work done before it failed, or `None`."""

    @classmethod
    def success(cls, value: T) -> Result[T]:
        """Return a success with this value."""
        return cls(value)

    @classmethod
    def failure(cls, message: str, *, partial: Any = None) -> Result[T]:
        """Return a failure with this message.

        Args:
            message: Why it failed.
            partial: What was done before, so that it is not lost.

        Raises:
            ValueError: The message is blank: a failure says why.
        """
        if not message.strip():
            raise ValueError("a failure needs a message that says why")
        return cls(message=message, ok=False, partial=partial)

    @property
    def value(self) -> T:
        """The value of a success.

        Raises:
            FailureError: It is a failure; with its message.
        """
        if not self.ok:
            raise FailureError(self.message)
        return self._value  # type: ignore[return-value]

    def match(self, success: Callable[[T], U], failure: Callable[[str], U]) -> U:
        """Return `success(value)`, or `failure(message)`."""
        return success(self.value) if self.ok else failure(self.message)

    def map(self, function: Callable[[T], U]) -> Result[U]:
        """Return a success with what the function makes of the value; a failure stays as it is."""
        return Result(function(self.value)) if self.ok else self._passed_on()

    def bind(self, function: Callable[[T], Result[U]]) -> Result[U]:
        """Return the result that the function makes of the value; a failure stays as it is, and nothing is called."""
        return function(self.value) if self.ok else self._passed_on()

    def _passed_on(self) -> Result[Any]:
        return Result(message=self.message, ok=False, partial=self.partial)

    def __repr__(self) -> str:
        return f"Result.success({self._value!r})" if self.ok else f"Result.failure({self.message!r})"


class SafeArrow(DualRunnable[Any, Result[Branch]]):
    """An arrow that never raises: from a branch, or the result of another safe arrow, to a result.

    A failure is passed on as it is, and the arrow is not run. An arrow that finds nothing to work on is a failure here.
    A failure keeps in `partial` the branch with what was done before.

    Raises:
        TypeError: At run: it is given neither a branch nor a result.
    """

    def __init__(self, arrow: Runnable[Branch, Branch]) -> None:
        self.arrow = arrow
        self.name = f"safe_{arrow.get_name()}"

    def logic(
        self,
        input: Branch | Result[Branch],  # noqa: A002
        config: RunnableConfig | None,
    ) -> Generator[Do, Any, Result[Branch]]:
        """Return the branch after the arrow as a success, or why there is none."""
        ready = self._ready(input)
        if not ready.ok:
            return ready
        try:
            return Result.success((yield Do(self.arrow.invoke, self.arrow.ainvoke, (ready.value, config))))
        except GraphBubbleUp:
            raise
        except Exception as error:
            if isinstance(error, ArrowError):
                return Result.failure(str(error), partial=error.branch)
            return Result.failure(f"{type(error).__name__}: {error}", partial=ready.value)

    def _ready(self, source: Branch | Result[Branch]) -> Result[Branch]:
        if not isinstance(source, Branch | Result):
            raise TypeError(f"a safe arrow takes a Branch, or the Result of another one, not {source!r}")
        result = Result.success(source) if isinstance(source, Branch) else source
        missing = getattr(self.arrow, "missing", None)
        if result.ok and missing is not None and (reason := missing(result.value)):
            return Result.failure(reason, partial=result.value)
        return result


def safe(arrow: Runnable[Any, Any]) -> Runnable[Any, Result[Branch]]:
    """Return the arrow in its safe form: it returns a `Result` instead of raising, and stops at the first failure.

    Safe arrows compose with `|`. A composed arrow is made safe step by step, a loop too.
    """
    if isinstance(arrow, SafeArrow):
        return arrow
    if isinstance(arrow, RunnableSequence):
        return reduce(or_, map(safe, arrow.steps))
    return SafeArrow(arrow)


class InParallel(DualRunnable[Branch, Branch]):
    """Several arrows on copies of one branch at the same time; the best of the branches goes on.

    A branch that fails is left out. What goes on keeps the costs of all: those of a failed branch with the failure, the
    others' with the verdict that says which was the best.

    Args:
        arrows: One a branch; the branches are named after the first, with `/1`, `/2` … behind.
        by: What a branch is worth; default: as `best_branch`.

    Raises:
        ValueError: At build: there is no arrow.
        ArrowError: At run: all failed.
    """

    def __init__(self, *arrows: Runnable[Branch, Branch], by: Callable[[Branch], Any] | None = None) -> None:
        if not arrows:
            raise ValueError("give the arrows that are to run side by side")
        self.arrows = [safe(arrow) for arrow in arrows]
        self.by = by
        self.name = "in_parallel"

    def logic(self, input: Branch, config: RunnableConfig | None) -> Generator[Do, Any, Branch]:  # noqa: A002
        """Return the best branch."""
        apart = enumerate(self.arrows, start=1)
        calls = [do(arrow, "invoke", input.named(f"{input.name}/{number}"), config) for number, arrow in apart]
        return self._best(input, (yield at_once(calls)))

    def _best(self, branch: Branch, results: Sequence[Result[Branch]]) -> Branch:
        finished = [result.value for result in results if result.ok]
        if not finished:
            partial = [result.partial for result in results if isinstance(result.partial, Branch)]
            best = best_branch(partial, by=self.by) if partial else branch
            numbered = enumerate(results, start=1)
            left = [_failed(branch, number, one) for number, one in numbered if one.partial is not best]
            whole = best.extended(record({"head": best.head}, *left).get("events", []))
            raise ArrowError("; ".join(result.message for result in results), whole)
        best = best_branch(finished, by=self.by)
        news = [_failed(branch, number, one) for number, one in enumerate(results, start=1) if not one.ok]
        if others := [one for one in finished if one is not best]:
            text = f"{best.name} goes on; the others are {', '.join(one.name for one in others)}."
            cost = add_usage(event["usage"] for one in others for event in one.events[len(branch.events) :])
            number = best.latest.round if best.latest else 0
            news.append({"kind": "verdict", "round": number, "by": self.name, "text": text, "usage": cost})
        return best.extended(record({"head": best.head}, *news).get("events", []))


def best_branch(branches: Iterable[Branch], *, by: Callable[[Branch], Any] | None = None) -> Branch:
    """Return the best of several branches; of equals, the first.

    Args:
        branches: What to choose from.
        by: What a branch is worth, the greatest wins; default: whether its best text was accepted, then its score.

    Raises:
        ValueError: There is none.
    """
    best = max(branches, key=by or _worth, default=None)
    if best is None:
        raise ValueError("there is no branch to choose from")
    return best


def _failed(branch: Branch, number: int, result: Result[Branch]) -> dict[str, Any]:
    """Return the event that says why one of several branches failed, and what it cost."""
    done = result.partial.events[len(branch.events) :] if isinstance(result.partial, Branch) else ()
    event = failure(
        "in_parallel", rounds(branch.events), ArrowError(f"{branch.name}/{number}: {result.message}", branch)
    )
    return {**event, "usage": add_usage(one["usage"] for one in done)}


def _worth(branch: Branch) -> tuple[bool, float]:
    best = branch.best
    return (False, -1.0) if best is None else (best.accepted, -1.0 if best.score is None else best.score)
