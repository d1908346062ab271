"""Logic written once for sync and async callers: a generator that yields the calls it wants made. Internal.

It is sent the result of each, so that it neither blocks nor awaits itself. `drive` makes the calls in place, `adrive`
awaits them; beside these two nothing needs a second version of what it does. A method that reads or writes a database
gets its async twin by `in_db_executor`.
"""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar, cast

__all__ = [
    "ABANDONED",
    "Do",
    "DualCallable",
    "Logic",
    "adrive",
    "at_once",
    "calling",
    "do",
    "do_all",
    "drive",
    "finish",
    "in_db_executor",
    "in_thread",
    "streaming",
]

Wanted = TypeVar("Wanted")
Result = TypeVar("Result")
S = TypeVar("S")
P = ParamSpec("P")
Arguments = ParamSpec("Arguments")


@dataclass(frozen=True)
class Do:
    """A call that a logic asks for, and its async twin."""

    call: Callable[..., Any]
    acall: Callable[..., Awaitable[Any]]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def make(self) -> Any:
        """Make the call in this thread."""
        return self.call(*self.args, **self.kwargs)

    async def amake(self) -> Any:
        """Await the call."""
        return await self.acall(*self.args, **self.kwargs)


Logic: TypeAlias = Generator[Do, Any, Result]
"""A generator that asks for calls, and returns a result."""


def do(owner: Any, method: str, *args: Any, **kwargs: Any) -> Do:
    """Return the call of a method whose async twin has its name behind an `a`, as LangGraph's methods have."""
    return Do(getattr(owner, method), getattr(owner, f"a{method}"), args, kwargs)


def do_all(owner: Any, method: str, *args: Any, until: Callable[[Any], bool] | None = None, **kwargs: Any) -> Do:
    """Return the call that lists the items of such a method's iterator, up to the first for which `until` holds."""

    def listed() -> list[Any]:
        items: list[Any] = []
        for item in getattr(owner, method)(*args, **kwargs):
            items.append(item)
            if until is not None and until(item):
                break
        return items

    async def alisted() -> list[Any]:
        items: list[Any] = []
        async for item in getattr(owner, f"a{method}")(*args, **kwargs):
            items.append(item)
            if until is not None and until(item):
                break
        return items

    return Do(listed, alisted)


def drive(logic: Generator[Wanted, Any, Result], make: Callable[[Wanted], Any] | None = None) -> Result:
    """Run the logic to its end and return its result.

    Args:
        logic: Gets the result of each call that it yields, or has its error raised where it stands.
        make: Makes one call; default: each is a `Do`.
    """
    try:
        wanted: Any = next(logic)
        while True:
            try:
                # In place: a call of `Do.make` more would be one for every row that is read or written.
                result = wanted.call(*wanted.args, **wanted.kwargs) if make is None else make(wanted)
            # Errors only: the logic may not go on after Ctrl-C or a cancellation.
            except Exception as error:
                wanted = logic.throw(error)
            else:
                wanted = logic.send(result)
    except StopIteration as end:
        return cast("Result", end.value)


async def adrive(
    logic: Generator[Wanted, Any, Result], make: Callable[[Wanted], Awaitable[Any]] | None = None
) -> Result:
    """Run the logic to its end, awaiting each call, and return its result; see `drive`."""
    try:
        wanted: Any = next(logic)
        while True:
            try:
                result = await (wanted.acall(*wanted.args, **wanted.kwargs) if make is None else make(wanted))
            except Exception as error:
                wanted = logic.throw(error)
            else:
                wanted = logic.send(result)
    except StopIteration as end:
        return cast("Result", end.value)


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
        result = await in_thread(None, context, partial(_called, target, *args, **named))
        return await asyncio.create_task(_awaited(result), context=context) if inspect.isawaitable(result) else result

    return Do(call, acall)


async def in_thread(threads: ThreadPoolExecutor | None, context: Context, function: Callable[[], Result]) -> Result:
    """Call a function in a thread of a pool; where the wait is cancelled, `ABANDONED` there says so."""
    abandoned = Event()
    context.run(ABANDONED.set, abandoned)
    try:
        return await asyncio.get_running_loop().run_in_executor(threads, context.run, function)
    except asyncio.CancelledError:
        abandoned.set()
        raise


ABANDONED: ContextVar[Event | None] = ContextVar("ABANDONED", default=None)
"""Of a function in a worker thread: set once nobody waits for its result any longer."""


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


async def _awaited(result: Awaitable[Result]) -> Result:
    return await result


def finish(result: Awaitable[Result]) -> Result:
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


def in_db_executor(
    method: Callable[Concatenate[S, P], Result],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, Result]]:
    """Return the async twin of a method, which never blocks the event loop.

    It calls the method of that name, as a subclass has it, on a thread of `self.db_executor`, an `Executor`; where that
    is `None`, as it is for what is kept in memory, it calls it at once.
    """
    name = method.__name__

    async def twin(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        call: Callable[[], Result] = partial(getattr(self, name), *args, **kwargs)
        executor = getattr(self, "db_executor", None)
        if executor is None:
            return call()
        run: Callable[[], Result] = partial(copy_context().run, call)
        result: Result = await asyncio.get_running_loop().run_in_executor(executor, run)
        return result

    twin.__name__ = f"a{name}"
    twin.__qualname__ = f"{method.__qualname__.rpartition('.')[0]}.{twin.__name__}"
    twin.__doc__ = f"Async twin of `{name}`."
    return twin
