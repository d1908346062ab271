"""Logic written once for sync and async callers: a generator that yields the calls it wants made. Internal.

It is sent the result of each, so that it neither blocks nor awaits itself. `drive` makes the calls in place, `adrive`
awaits them; beside these two nothing needs a second version of what it does.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

__all__ = ["Do", "Logic", "adrive", "do", "do_all", "drive"]

Wanted = TypeVar("Wanted")
Result = TypeVar("Result")


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


def do_all(owner: Any, method: str, *args: Any, **kwargs: Any) -> Do:
    """Return the call that lists the items of such a method's iterator."""

    def listed() -> list[Any]:
        return list(getattr(owner, method)(*args, **kwargs))

    async def alisted() -> list[Any]:
        return [item async for item in getattr(owner, f"a{method}")(*args, **kwargs)]

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
