"""The lease of a thread by name: held for a `with` block, whose run hears who wants it to stop. Internal.

What a lease is says `redraft.state.storage.leases`. A run of a graph of ours takes one by itself, unless it runs within
such a block.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from langgraph.runtime import RunControl

from ..dual import Do, adrive, do, drive
from ..storage.lease_keeper import LOOK_S, REQUESTED, Lease, LeaseKeeper, control_of, works
from ..storage.leases import BusyThreadError, Leases, Runner

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator

    from langchain_core.runnables import RunnableConfig


__all__ = ["BusyThreadError", "LeaseHolder", "RunLease", "StopControl", "leased", "leases_of", "request_stop"]

LOG = logging.getLogger("redraft")

MOMENT_S = 0.1
"""What a process has read of its leases holds for so long, for all its runs: many at once ask ten times a second."""

# Weak: a saver that nobody uses any more goes, and its leases with it.
_OF_OTHER_SAVERS: WeakKeyDictionary[Any, LeaseKeeper] = WeakKeyDictionary()


def leases_of(saver: Any) -> Leases:
    """Return the leases of a saver's threads: for all processes where the saver is a database of ours."""
    return _keeper_of(saver).leases


def _keeper_of(saver: Any) -> LeaseKeeper:
    found = getattr(saver, "leases", None)
    if isinstance(found, LeaseKeeper):
        return found
    if (keeper := _OF_OTHER_SAVERS.get(saver)) is not None:
        return keeper
    from ..storage.sqlite import IndexedMemorySaver

    return _OF_OTHER_SAVERS.setdefault(saver, IndexedMemorySaver().leases)


class StopControl(RunControl):
    """LangGraph's control of one run: somebody who wants the run to stop ends it by `request_drain`.

    Args:
        alook: Looks who wants to; awaited by `refresh`, since LangGraph reads a control in the event loop, where
            nothing may block.
    """

    def __init__(self, alook: Callable[[], Awaitable[None]] | None = None) -> None:
        super().__init__()
        self._alook = alook

    async def refresh(self) -> None:
        """Look who wants the run to stop, off the event loop, so that what LangGraph reads next is true."""
        if self.drain_reason is None and self._alook is not None:
            try:
                await self._alook()
            except Exception:
                # A run that works does not end because nobody could look.
                LOG.exception("who is asked to stop can't be read")


class LookingControl(StopControl):
    """A control that looks anew whenever LangGraph reads it, between two steps.

    Args:
        look: Looks who wants the run to stop; by a sync run.
        alook: The same, awaited.
        outer: Of the run that this one is a part of: the two stop together.
    """

    def __init__(
        self,
        look: Callable[[], None] | None = None,
        *,
        alook: Callable[[], Awaitable[None]] | None = None,
        outer: RunControl | None = None,
    ) -> None:
        super().__init__(alook)
        self._look = look
        self._outer = outer

    def request_drain(self, reason: str = "shutdown") -> None:
        """Have this run, and the one that it is a part of, end before the next step."""
        super().request_drain(reason)
        if self._outer is not None:
            self._outer.request_drain(reason)

    @property
    def drain_requested(self) -> bool:
        """True if the run ends before the next step: on request, or since another process took the thread over."""
        if self.drain_reason is None:
            if self._outer is not None and self._outer.drain_requested:
                # By `super`: the outer run knows already.
                super().request_drain(self._outer.drain_reason or "shutdown")
            elif self._look is not None:
                self._look()
        return self.drain_reason is not None

    async def refresh(self) -> None:
        if isinstance(self._outer, StopControl):
            await self._outer.refresh()
        await super().refresh()


# Weak: a control lives as long as its run.
_CONTROLS: WeakValueDictionary[str, StopControl] = WeakValueDictionary()
"""Those of this process by the tokens of their runs: a request from within the process is seen at once."""


@contextmanager
def leased(saver: Any, thread_id: str, *, outer: RunControl | None = None) -> Iterator[StopControl]:
    """Hold a thread's lease, and give what its run is controlled by: the lease is read before a step, unless that was
    done a tenth of a second before.

    Args:
        saver: Where the thread is kept.
        thread_id: The thread.
        outer: Of the run that this one is a part of.

    Raises:
        BusyThreadError: Somebody runs the thread right now.
    """
    keeper = _keeper_of(saver)

    def look() -> None:
        if _is_stale(keeper):
            keeper.look()

    control = LookingControl(look, outer=outer)
    lease = drive(keeper.take(Lease(thread_id, control)))
    _CONTROLS[lease.token] = control
    keeper.enter(lease)
    try:
        yield control
    finally:
        keeper.leave(lease).make()


class LeaseHolder:
    """The leases that are held within an event loop: taken and released without ever blocking it.

    A step of ours that called a model or a function looks at its own lease when it ends, see `StopControl.refresh`. For
    nodes of a user's the keeper looks at all leases every half second.

    Args:
        saver: Where the threads are kept.
    """

    def __init__(self, saver: Any) -> None:
        self._keeper = _keeper_of(saver)

    @asynccontextmanager
    async def leased(
        self, thread_id: str, *, outer: RunControl | None = None, wait: bool = False
    ) -> AsyncIterator[StopControl]:
        """Hold a thread's lease, and give what its run is controlled by.

        Args:
            thread_id: The thread.
            outer: Of the run that this one is a part of.
            wait: Whether to wait until the thread is free.

        Raises:
            BusyThreadError: Somebody runs the thread right now, and `wait` is not set.
        """
        control = StopControl(self._look) if outer is None else LookingControl(alook=self._look, outer=outer)
        while True:
            taking = asyncio.ensure_future(adrive(self._keeper.take(Lease(thread_id, control))))
            try:
                # Shielded: a write that is under way can't be called back, so that its lease is given back instead.
                lease = await asyncio.shield(taking)
            except BusyThreadError:
                if not wait:
                    raise
            except asyncio.CancelledError:  # while it is being written that the run begins
                await self._release(after=taking)
                raise
            else:
                break
            await asyncio.sleep(LOOK_S)
        _CONTROLS[lease.token] = control
        self._keeper.enter(lease)
        try:
            yield control
        finally:
            await self._release(lease)

    async def _look(self) -> None:
        """Look who wants the runs of this process to stop, unless that was done a moment ago."""
        executor = self._keeper.leases.db_executor
        if executor is None:
            self._keeper.look()
        elif _is_stale(self._keeper):
            await asyncio.get_running_loop().run_in_executor(executor, self._keeper.look)

    async def _release(self, lease: Lease | None = None, *, after: asyncio.Future[Lease] | None = None) -> None:
        """Give a lease back, also where the run is cancelled meanwhile: one that stays would keep the thread busy for
        as long as this process lives."""
        # Here, since a task of its own would leave another context.
        leaving = None if lease is None else self._keeper.leave(lease)

        async def released() -> None:
            if after is not None:
                await asyncio.wait([after])
                if after.exception() is None:
                    await self._keeper.leave(after.result()).amake()
            elif leaving is not None:
                await leaving.amake()

        await asyncio.shield(asyncio.ensure_future(released()))


@dataclass(frozen=True)
class RunLease:
    """The lease that a run of a graph takes where it begins, and gives back where it ends.

    Args:
        keeper: Of the leases of its saver.
        lease: What is taken.
    """

    keeper: LeaseKeeper
    lease: Lease

    @classmethod
    def wanted(cls, saver: Any, config: RunnableConfig, control: RunControl | None) -> RunLease | None:
        """Return the lease that a run is to take; `None` where its thread is held already, or its saver keeps none."""
        place, keeper = config["configurable"], getattr(saver, "leases", None)
        if not isinstance(keeper, LeaseKeeper) or place.get("thread_id") is None:
            return None
        thread_id, control = str(place["thread_id"]), control or control_of(place)
        held = keeper.find(thread_id, control)
        # A `with` block may have ended whose context lives on.
        if held is not None and not (held.over and type(held) is Lease):
            return None
        return cls(keeper, Lease(thread_id, control or RunControl()))

    def take(self) -> None:
        """Take it.

        Raises:
            BusyThreadError: Somebody runs the thread right now.
        """
        drive(self.keeper.take(self.lease))

    async def atake(self) -> None:
        """As `take`; one that comes while the run is cancelled is given back."""
        taking = asyncio.ensure_future(adrive(self.keeper.take(self.lease)))
        try:
            await asyncio.shield(taking)
        except asyncio.CancelledError:
            taking.add_done_callback(self._given_back)
            raise

    def finish(self) -> None:
        """Give it back; nothing is waited for."""
        self.keeper.finish(self.lease)

    def _given_back(self, taking: asyncio.Future[Lease]) -> None:
        if not taking.cancelled() and taking.exception() is None:
            self.finish()


def request_stop(leases: Leases, thread_id: str) -> Generator[Do, Any, Runner | None]:
    """Ask whoever runs a thread to stop after the step it is in; return who that is, or `None` where nobody does."""
    runner: Runner | None = yield do(leases, "get", thread_id)
    # `None` is not `False`: on another machine the runner may well be at work.
    if runner is None or works(runner) is False:
        return None
    if not (yield do(leases, "request_stop", thread_id, runner.token)):
        return None
    if control := _CONTROLS.get(runner.token):
        control.request_drain(REQUESTED)
    return runner


def _is_stale(keeper: LeaseKeeper) -> bool:
    return time.monotonic() - keeper.looked_at > MOMENT_S
