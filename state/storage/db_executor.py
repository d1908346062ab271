"""Async twins of methods that read or write a database: the same code, on the saver's own threads. Internal."""

from __future__ import annotations

import contextvars
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["in_db_executor"]


S = TypeVar("S")
P = ParamSpec("P")
T = TypeVar("T")


def in_db_executor(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Return the async twin of a method, which never blocks the event loop.

    It calls the method of that name, as a subclass has it, on a thread of `self.db_executor`, an `Executor`; where that
    is `None`, as it is for what is kept in memory, it calls it at once.
    """
    name = method.__name__

    async def twin(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        call: Callable[[], T] = partial(getattr(self, name), *args, **kwargs)
        executor = getattr(self, "db_executor", None)
        if executor is None:
            return call()
        import asyncio

        run: Callable[[], T] = partial(contextvars.copy_context().run, call)
        result: T = await asyncio.get_running_loop().run_in_executor(executor, run)
        return result

    twin.__name__ = f"a{name}"
    twin.__qualname__ = f"{method.__qualname__.rpartition('.')[0]}.{twin.__name__}"
    twin.__doc__ = f"Async twin of `{name}`."
    return twin
