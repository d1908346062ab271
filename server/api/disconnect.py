"""Responses that wait for a run: kept open while nothing happens, and cancel-on-disconnect. Internal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import StreamingResponse

from ..engine.background import Background
from ..engine.engine import Engine
from ..engine.runs import Run

__all__ = [
    "CANCELLING",
    "CLIENT_LEFT",
    "PING",
    "cancel_unended",
    "ended_before_disconnect",
    "event_stream",
    "kept_open",
]

CLIENT_LEFT = 499
"""The status that is noted for a client that closed the connection."""

PING = b": at work\n\n"
"""A comment in an event stream, which clients skip."""
UNBUFFERED = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Headers of an event stream, which no proxy is to hold back."""
QUIET_S = 15.0
"""After so long without a byte proxies take a connection for dead."""

CANCELLING = Background()
"""Ends the runs of clients that have left."""


async def kept_open(
    pieces: AsyncIterator[bytes], filler: bytes, *, cancels: tuple[Engine, Run] | None = None, quiet_s: float = QUIET_S
) -> AsyncIterator[bytes]:
    """Give the pieces of a response, and a filler where none came for a while.

    Args:
        pieces: As they come.
        filler: What the client skips.
        cancels: A run that is cancelled where the client leaves before it has ended, and its engine; default: none.
        quiet_s: Seconds after which the filler is sent.
    """
    coming: asyncio.Future[bytes] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(pieces))
            # Not `wait_for`, which would cancel the piece that is still to come.
            done, _ = await asyncio.wait({coming}, timeout=quiet_s)
            if not done:
                yield filler
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
        if cancels is not None:
            cancel_unended(*cancels)


def event_stream(
    events: AsyncIterator[bytes],
    *,
    cancels: tuple[Engine, Run] | None = None,
    headers: Mapping[str, str] | None = None,
) -> StreamingResponse:
    """Return a response of server-sent events that is kept open.

    Args:
        events: As they come.
        cancels: As `kept_open` takes it.
        headers: Further ones.
    """
    return StreamingResponse(
        kept_open(events, PING, cancels=cancels),
        media_type="text/event-stream",
        headers={**UNBUFFERED, **(headers or {})},
    )


async def ended_before_disconnect(request: Request, engine: Engine, run: Run) -> bool:
    """Return `True` once the run has ended, or `False` once the client has left, which cancels the run."""
    ended, left = asyncio.ensure_future(run.wait()), asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({ended, left}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        ended.cancel()
        left.cancel()
        cancel_unended(engine, run)
    return run.ended


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def cancel_unended(engine: Engine, run: Run) -> None:
    """Cancel a run that has not ended, in a task of its own: this one may be cancelled itself."""

    async def cancel() -> None:
        with suppress(LookupError, RuntimeError):  # it is gone, or the server stops
            await engine.cancel(run.caller, run.id)

    if not run.ended:
        CANCELLING.do(cancel())
