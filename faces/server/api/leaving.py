"""Clients that leave before their run has ended: nobody could read the answer any more, so the run is cancelled."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from ..engine.engine import Engine
    from ..engine.runs import Caller, Run

__all__ = ["LEFT", "stays", "while_read"]

LEFT = 499
"""The status that is noted for a client that closed the connection."""

PING = ": at work\n\n"
PING_SECONDS = 15.0
"""Without a byte for long, proxies take a stream for dead."""

_cancelling: set[asyncio.Task[None]] = set()


async def stays(request: Request, engine: Engine, caller: Caller, run: Run) -> bool:
    """Return `True` once the run has ended, or `False` once the client has left, which cancels the run."""
    ended, left = asyncio.ensure_future(run.wait()), asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({ended, left}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        ended.cancel()
        left.cancel()
        _end(engine, caller, run)
    return run.ended


async def while_read(
    pieces: AsyncIterator[str], engine: Engine, caller: Caller, run: Run, *, ping_s: float = PING_SECONDS
) -> AsyncIterator[str]:
    """Give the pieces of an event stream, with a comment where none came for a while; cancel the run with its reader.

    Args:
        pieces: Whole events.
        engine: Runs the run.
        caller: Whose it is.
        run: What the stream is about.
        ping_s: Seconds after which a comment is sent.
    """
    coming: asyncio.Future[str] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(pieces))
            done, _ = await asyncio.wait({coming}, timeout=ping_s)
            if not done:
                yield PING
                continue
            try:
                piece = coming.result()
            except StopAsyncIteration:
                return
            coming = None
            yield piece
    finally:
        if coming is not None:
            coming.cancel()
        _end(engine, caller, run)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _end(engine: Engine, caller: Caller, run: Run) -> None:
    """Cancel a run that has not ended, in a task of its own: this one may be cancelled itself."""
    if not run.ended:
        task = asyncio.create_task(_cancel(engine, caller, run))
        _cancelling.add(task)
        task.add_done_callback(_cancelling.discard)


async def _cancel(engine: Engine, caller: Caller, run: Run) -> None:
    with suppress(LookupError, RuntimeError):  # it is gone, or the server stops
        await engine.cancel(caller, run.id)
