"""Callables and Runnables whose logic is written once for sync and async (see `redraft.state.dual`). Internal."""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing
from contextvars import copy_context
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import GraphBubbleUp

from ...state.critique import Critique
from ...state.dual import Do, adrive, drive
from ...state.events import Event
from .killable import off_loop

__all__ = [
    "Do",
    "DualCallable",
    "DualCritic",
    "DualRunnable",
    "adrive",
    "at_once",
    "beside",
    "calling",
    "drive",
    "finish",
    "streaming",
    "tolerated",
]

Wanted = TypeVar("Wanted")
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


class DualCallable(ABC, Generic[Arguments, Result]):
    """A callable that can be awaited as well, by `acall`; a node calls whichever fits. Both run its `logic`."""

    @abstractmethod
    def logic(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Generator[Do, Any, Result]:
        """Yield calls, and return the result."""

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        """Run the logic, with each call made in this thread."""
        return drive(self.logic(*args, **kwargs))

    async def acall(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
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


def calling(function: Callable[..., Any], *args: Any, **named: Any) -> Do:
    """Return the call of a function that may be async.

    In a sync run an async one is run to its end; in an async run one that is not async runs in a worker thread.
    """

    def call() -> Any:
        result = _called(function, *args, **named)
        return finish(result) if inspect.isawaitable(result) else result

    async def acall() -> Any:
        target = getattr(function, "acall", function)
        # An object with an async `__call__` is itself no coroutine function.
        if inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(getattr(target, "__call__", None)):  # noqa: B004
            return await target(*args, **named)
        # For the thread and for an awaitable that it returns: meter and journal are found there.
        context = copy_context()
        run = partial(context.run, _called, target, *args, **named)
        result = await asyncio.get_running_loop().run_in_executor(None, run)
        return await asyncio.create_task(_awaited(result), context=context) if inspect.isawaitable(result) else result

    return Do(call, acall)


def beside(function: Callable[..., Any], *args: Any) -> Do:
    """Return the call of a plain function that what others supply may make slow.

    In an async run it is made in a thread, of which nobody whom a server names takes more than their share.
    """
    return Do(function, partial(off_loop, function), args)


def _called(target: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Call; a `StopIteration`, which neither a generator nor a future can carry, becomes an error like any other."""
    try:
        return target(*args, **named)
    except StopIteration as error:
        raise RuntimeError(f"StopIteration: {error}") from error


def streaming(graph: Any, take: Callable[[Any], None], *args: Any, **options: Any) -> Do:
    """Return the run of a graph that hands each item of its stream to `take`."""

    def run() -> None:
        with closing(graph.stream(*args, **options)) as items:
            for item in items:
                take(item)

    async def arun() -> None:
        async with aclosing(graph.astream(*args, **options)) as items:
            async for item in items:
                take(item)

    return Do(run, arun)


async def _awaited(result: Any) -> Any:
    return await result


def finish(result: Any) -> Any:
    """Run an awaitable to its end from synchronous code, also below a running loop (a notebook's)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_awaited(result))
    # A thread that runs a loop can't run a second one.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, asyncio.run, _awaited(result)).result()


def at_once(calls: Sequence[Do], *, most_threads: int | None = None) -> Do:
    """Return the call that makes several calls side by side and lists their results, in order.

    All run to their end; the call then raises the first error there was. `Do(drive, adrive, (logic,))` is the call of a
    logic.

    Args:
        calls: One or more.
        most_threads: How many may run at the same time in a sync run; default: all.
    """

    def run() -> list[Any]:
        threads = min(len(calls), most_threads or len(calls))
        if threads < 2:
            return [call.make() for call in calls]
        with ThreadPoolExecutor(threads) as pool:
            # Each in a copy of the context: what counts the calls of models travels there.
            running = [pool.submit(copy_context().run, call.make) for call in calls]
        return [future.result() for future in running]

    async def arun() -> list[Any]:
        results = await asyncio.gather(*(call.amake() for call in calls), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results

    return Do(run, arun)


def tolerated(
    logic: Generator[Do, Any, Result], *, instead: Result, note: Callable[[Exception], None]
) -> Generator[Do, Any, Result]:
    """Run a part of the logic; where it raises, return `instead`, and give the error to `note` for the record.

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
