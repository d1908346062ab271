"""Logic written once for sync and async callers: a generator that yields the calls it wants made. Internal.

It is sent the result of each, so that it neither blocks nor awaits itself. `drive` makes the calls in place, `adrive`
awaits them; beside these two nothing needs a second version of what it does. A method that reads or writes a database
gets its async twin by `in_db_executor`.
"""

from __future__ import annotations

import contextvars
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

__all__ = ["Do", "Logic", "adrive", "do", "do_all", "drive", "in_db_executor"]

Wanted = TypeVar("Wanted")
Result = TypeVar("Result")
S = TypeVar("S")
P = ParamSpec("P")


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
        import asyncio

        run: Callable[[], Result] = partial(contextvars.copy_context().run, call)
        result: Result = await asyncio.get_running_loop().run_in_executor(executor, run)
        return result

    twin.__name__ = f"a{name}"
    twin.__qualname__ = f"{method.__qualname__.rpartition('.')[0]}.{twin.__name__}"
    twin.__doc__ = f"Async twin of `{name}`."
    return twin
