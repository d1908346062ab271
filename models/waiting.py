"""How long a call may wait in all.

An HTTP client's own time limit is for each read, which a byte now and then, or a comment in a stream, keeps from ever
being reached. A `Wait` adds up what all reads of one request take, the connection and the headers included; what a
caller does between two pieces of a stream is not waiting.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Generator
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, Self

import httpx2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from types import TracebackType

__all__ = ["Wait", "heed_waits"]

_UNTIL: ContextVar[float | None] = ContextVar("redraft_waiting_until", default=None)
"""When the call at hand has waited long enough, on the monotonic clock."""


class Wait:
    """What one request may still wait; around each part of it in `with` or `async with`.

    Args:
        request: Its time limit for reads is the limit of all of them together; without one it may wait for ever.

    Raises:
        httpx2.ReadTimeout: On leaving: the time is over.
    """

    def __init__(self, request: httpx2.Request) -> None:
        self._request = request
        self._left_s: float | None = request.extensions.get("timeout", {}).get("read")
        self._began = 0.0

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._token: Token[float | None] = _UNTIL.set(None if self._left_s is None else self._began + self._left_s)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        _UNTIL.reset(self._token)
        self._count()
        if isinstance(error, TimeoutError):
            raise self._over() from error

    async def __aenter__(self) -> Self:
        self._began = time.monotonic()
        self._clock = asyncio.timeout(self._left_s)
        await self._clock.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._count()
        try:
            await self._clock.__aexit__(kind, error, trace)
        except TimeoutError as late:
            raise self._over() from late
        if isinstance(error, Exception) and (plain := _not_late(error, self._request)):
            raise plain from error

    def _count(self) -> None:
        if self._left_s is not None:
            self._left_s = max(0.0, self._left_s - (time.monotonic() - self._began))

    def _over(self) -> httpx2.ReadTimeout:
        return httpx2.ReadTimeout("the reply took too long", request=self._request)

    def over(self, stream: Any) -> Any:
        """Return the body of a streamed reply, for whose parts the rest of the time may be waited."""
        return _Streamed(stream, self)


def _not_late(error: Exception, request: httpx2.Request) -> httpx2.RequestError | None:
    """Return what the blocking client would raise where the aiohttp transport raises something else.

    It reports every connection that ends as a time-out, and some errors as aiohttp's own.
    """
    import aiohttp

    if isinstance(error, httpx2.ConnectTimeout) and not isinstance(error.__cause__, TimeoutError):
        return httpx2.NetworkError(str(error), request=request)
    if isinstance(error, aiohttp.ClientError):
        return httpx2.RemoteProtocolError(str(error), request=request)
    return None


class _Streamed(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    def __init__(self, stream: Any, wait: Wait) -> None:
        self._stream = stream
        self._wait = wait

    def __iter__(self) -> Iterator[bytes]:
        parts = iter(self._stream)
        try:
            while True:
                with self._wait:
                    part = next(parts, None)
                if part is None:
                    return
                yield part
        finally:
            if isinstance(parts, Generator):  # whoever leaves early leaves it unfinished
                parts.close()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts = aiter(self._stream)
        try:
            while True:
                async with self._wait:
                    part = await anext(parts, None)
                if part is None:
                    return
                yield part
        finally:
            if isinstance(parts, AsyncGenerator):
                await parts.aclose()

    def close(self) -> None:
        self._stream.close()

    async def aclose(self) -> None:
        await self._stream.aclose()


def heed_waits(client: httpx2.Client) -> None:
    """Let a blocking client's connections wait no longer than the `Wait` around them says.

    Nothing can interrupt a thread that reads, so each read is given what is left. The transports have no option for
    that; those of async clients need none.
    """
    for transport in [client._transport, *client._mounts.values()]:
        if transport is not None:
            pool = transport._pool  # type: ignore[attr-defined]
            pool._network_backend = _Backend(pool._network_backend)


class _Backend:
    """Opens connections that heed the wait."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def connect_tcp(self, *args: Any, timeout: float | None = None, **given: Any) -> _Connection:
        return _Connection(self._inner.connect_tcp(*args, timeout=_within(timeout), **given))


class _Connection:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        found: bytes = self._inner.read(max_bytes, _within(timeout))
        return found

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _within(timeout))

    def start_tls(self, *args: Any, timeout: float | None = None, **given: Any) -> _Connection:
        return _Connection(self._inner.start_tls(*args, timeout=_within(timeout), **given))


def _within(timeout: float | None) -> float | None:
    """Return how long one read may take.

    Raises:
        TimeoutError: The time is over.
    """
    until = _UNTIL.get()
    if until is None:
        return timeout
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left if timeout is None else min(timeout, left)
