"""Asking models from a node: what the journal holds is not asked again, and equal calls in flight are made once."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from ...state.storage.journal import BadJournalError, KeptReply, UnkeptReplyError, UnreadJournalError
from .single_flight import Flights, caller, reply_of, text_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Hashable, Iterator, Sequence

    from langchain_core.outputs import Generation

    from .journal import NodeJournal
    from .meter import Meter
    from .single_flight import Flight

__all__ = ["ASKING", "Asking"]


class Asking:
    """What one call of a node asks of models, each of which looks here first.

    Args:
        node: The journal of the node.
        place: How far the record is.
        meter: Told how much time a reply took that is there already.
    """

    def __init__(self, node: NodeJournal, place: str, meter: Meter) -> None:
        self.node = node
        self._place = place
        self._meter = meter
        self._open: dict[Hashable, tuple[str, Flight]] = {}
        self._lock = threading.Lock()

    def find(self, prompt: str, model: str) -> list[Generation] | None:
        """Return the reply to a call, waiting for it where it is in flight; `None`: who asks makes the call.

        Raises:
            BadJournalError: What is kept of it is no reply.
            UnreadJournalError: It can't be read whether there is one.
        """
        call, who = self._begin(prompt, model)
        while True:
            flight, mine = FLIGHTS.board(self._key(call))
            if not mine:
                kept = flight.wait()
                if kept is None and flight.loop is not None and not flight.result.done():
                    return None
            else:
                self._opened(who, call, flight)
                with self._reading(who):
                    kept = self.node.journal.get(self.node.thread_id, call)
            if kept is not None:
                return self._reused(call, kept, who)
            if mine:
                return None

    async def afind(self, prompt: str, model: str) -> list[Generation] | None:
        """Async twin of `find`."""
        call, who = self._begin(prompt, model)
        while True:
            flight, mine = FLIGHTS.board(self._key(call))
            if not mine:
                kept = await flight.await_()
            else:
                self._opened(who, call, flight)
                with self._reading(who):
                    kept = await self.node.journal.aget(self.node.thread_id, call)
            if kept is not None:
                return self._reused(call, kept, who)
            if mine:
                return None

    def keep(self, generations: Sequence[Generation]) -> None:
        """Keep the reply to the call that this caller began.

        Raises:
            UnkeptReplyError: It could not be written.
        """
        who = caller()
        call, kept = self._told(who, generations)
        if call is not None and kept is not None:
            with _writing():
                self.node.journal.add(self.node.thread_id, call, kept)
        self._close(who, kept)

    async def akeep(self, generations: Sequence[Generation]) -> None:
        """Async twin of `keep`."""
        who = caller()
        call, kept = self._told(who, generations)
        if call is not None and kept is not None:
            with _writing():
                await self.node.journal.aadd(self.node.thread_id, call, kept)
        self._close(who, kept)

    def failed(self, error: BaseException) -> None:
        """Note that a model did not answer, and let go of the call that this caller began."""
        self.node.unanswered.append(error)
        self._close(caller())

    def end(self) -> None:
        """Let go of every call that has no reply."""
        for who in list(self._open):
            self._close(who)

    @contextmanager
    def _reading(self, who: Hashable) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._close(who)
            raise UnreadJournalError(
                f"the journal of finished calls can't be read: {error}; resume goes on from what is kept"
            ) from error

    def _begin(self, prompt: str, model: str) -> tuple[str, Hashable]:
        who = caller()
        self._close(who)  # the call before it has failed
        return self.node.call(self._place, prompt, model), who

    def _key(self, call: str) -> Hashable:
        return (id(self.node.journal), self.node.thread_id, call)

    def _opened(self, who: Hashable, call: str, flight: Flight) -> None:
        with self._lock:
            self._open[who] = (call, flight)
        if hasattr(who, "add_done_callback"):
            task: asyncio.Task[Any] = who  # type: ignore[assignment]
            task.add_done_callback(self._close)

    def _reused(self, call: str, kept: KeptReply, who: Hashable) -> list[Generation]:
        try:
            found = reply_of(kept.reply)
        except ValueError as error:
            self._close(who)
            thread = self.node.thread_id
            raise BadJournalError(
                f"the journal of thread {thread!r} holds something else than a reply under {call!r} ({error}); "
                f"saver.journal.forget({thread!r}) drops what it holds, and the calls are made anew"
            ) from None
        self._meter.reuse(kept.seconds)
        self._close(who, kept)
        return found

    def _told(self, who: Hashable, generations: Sequence[Generation]) -> tuple[str | None, KeptReply | None]:
        call, _ = self._open.get(who, (None, None))
        text = text_of(generations)
        return call, None if text is None else KeptReply(text, round(self._meter.elapsed, 6))

    def _close(self, who: Hashable, kept: KeptReply | None = None) -> None:
        with self._lock:
            call, flight = self._open.pop(who, (None, None))
        if call is not None and flight is not None:
            FLIGHTS.land(self._key(call), flight, kept)


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise UnkeptReplyError(
            f"a model's reply could not be kept: {error}; what was kept before is safe, resume goes on"
        ) from error


FLIGHTS = Flights()

ASKING: ContextVar[Asking | None] = ContextVar("redraft_asking", default=None)
"""Set for as long as a node with a journal waits for a call."""
