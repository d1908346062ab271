"""A stream on which nothing happens for long is kept open, and one that nobody reads any more ends its run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from redraft.server.api.disconnect import PING, kept_open
from redraft.server.engine.runs import Caller, Run

LOCAL = Caller("local")


class Cancelling:
    """Stands for the engine: notes which runs are cancelled."""

    def __init__(self) -> None:
        self.cancelled: asyncio.Queue[str] = asyncio.Queue()

    async def cancel(self, caller: Caller, run_id: str) -> None:
        assert caller == LOCAL
        await self.cancelled.put(run_id)


def run_of(status: Any) -> Run:
    return Run(id="r", thread_id="t", assistant="refine", caller=LOCAL, created_at="", status=status)


def stream(engine: Any, run: Run, pieces: AsyncIterator[bytes], **options: Any) -> Any:
    return kept_open(pieces, PING, cancels=(engine, run), **options)


async def test_a_quiet_stream_is_kept_open() -> None:
    """Comments, which clients skip, come while there is nothing to send, and no piece is lost over them."""
    go_on = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        await go_on.wait()
        yield b"two"

    engine, got = Cancelling(), []
    async for piece in stream(engine, run_of("success"), pieces(), quiet_s=0.01):
        got.append(piece)
        if len(got) == 3:
            go_on.set()
    assert (got[0], got[1], got[-1]) == (b"one", b": at work\n\n", b"two")
    assert set(got[1:-1]) == {b": at work\n\n"}
    assert engine.cancelled.empty()


async def test_a_run_ends_with_its_reader() -> None:
    """Whoever stops reading, in the middle or while waiting, ends a run that has not ended yet, once."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        await asyncio.Event().wait()

    engine = Cancelling()
    reading = stream(engine, run_of("running"), pieces())
    assert await anext(reading) == b"one"
    await reading.aclose()
    assert await engine.cancelled.get() == "r"

    reading = stream(engine, run_of("running"), pieces())
    await anext(reading)
    waiting = asyncio.ensure_future(anext(reading))
    await asyncio.wait({waiting}, timeout=0.01)
    waiting.cancel()
    assert await engine.cancelled.get() == "r"
    assert engine.cancelled.empty()
