"""Calls in flight in this process: who asks what is being asked already waits for that reply, and makes no call."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["Flight", "Flights", "caller"]


def caller() -> Hashable:
    """Return who makes a call right now: the task, or else the thread. Each makes one call at a time."""
    try:
        return asyncio.current_task() or threading.get_ident()
    except RuntimeError:
        return threading.get_ident()


def _loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@dataclass(frozen=True)
class Flight:
    """One call that somebody makes."""

    result: Future[Any] = field(default_factory=Future)
    """The reply, or `None` where none came."""
    loop: asyncio.AbstractEventLoop | None = field(default_factory=_loop)
    """Where it is made, when that is an event loop."""

    def wait(self) -> Any:
        """Return the reply, or `None`; at once where waiting here would keep the call itself from ending."""
        if self.loop is not None and self.loop is _loop():
            return None
        return self.result.result()

    async def await_(self) -> Any:
        """Async twin of `wait`; a waiter that is cancelled leaves the call alone."""
        return await asyncio.shield(asyncio.wrap_future(self.result))


class Flights:
    """The calls in flight, by their key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flights: dict[Hashable, Flight] = {}

    def board(self, key: Hashable) -> tuple[Flight, bool]:
        """Return the flight of a call, and whether it begins now: then who boarded makes the call and lands it."""
        with self._lock:
            known = self._flights.get(key)
            if known is not None:
                return known, False
            self._flights[key] = begun = Flight()
            return begun, True

    def land(self, key: Hashable, flight: Flight, reply: Any = None) -> None:
        """End a flight with its reply, or with `None`: then one of those who waited makes the call."""
        with self._lock:
            if self._flights.get(key) is flight:
                del self._flights[key]
        if not flight.result.done():
            flight.result.set_result(reply)
