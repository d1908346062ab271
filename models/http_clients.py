"""HTTP clients that all OpenAI-style models of a process share, and the time that a call may wait. Internal.

There is one sync client, and one async client on the aiohttp transport. An aiohttp session belongs to the event loop in
which it was opened, and using it in another raises "Event loop is closed"; so the shared async client keeps one session
a loop and closes it when that loop shuts down.

An HTTP client's own time limit is for each read, which a byte now and then, or a comment in a stream, keeps from ever
being reached. A `Wait` adds up what all reads of one request take, the connection and the headers included; what a
caller does between two pieces of a stream is not waiting.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextvars import ContextVar, Token
from functools import cache, lru_cache
from types import TracebackType
from typing import Any, Literal, Self

import httpx2
import openai

from .server_replies import MOST_SHOWN, broken, no_stream, sent_key, without_key

__all__ = ["Route", "Wait", "async_client", "sync_client"]


Route = Literal["default", "direct"]
"""`default` honours HTTP_PROXY and its kin; `direct` never does (a proxy can't reach our own loopback server)."""

_CLOSE_TIMEOUT_S = 1.0

_OF_PLAIN_REQUESTS = {"content", "headers", "timeout"}


@cache
def sync_client(route: Route = "default") -> httpx2.Client:
    """Return the process's one blocking HTTP client, safe to use from any thread; closed at exit."""
    client = _SharedClient(trust_env=route == "default")
    # Nothing can interrupt a thread that reads, so each read is given what is left of the wait around it. The
    # transports have no option for that; those of async clients need none.
    for transport in [client._transport, *client._mounts.values()]:
        if transport is not None:
            pool = transport._pool  # type: ignore[attr-defined]
            pool._network_backend = _Heeding(pool._network_backend)
    atexit.register(client.close_at_exit)
    return client


@cache
def async_client(route: Route = "default") -> httpx2.AsyncClient:
    """Return the process's one async HTTP client (aiohttp underneath), safe to use from any number of event loops."""
    return _PerLoopClient(trust_env=route == "default")


class _SharedClient(openai.DefaultHttpxClient):  # type: ignore[misc, valid-type, unused-ignore]
    """A client that no single user of it can close, and whose refusals do not repeat the key."""

    def send(self, request: httpx2.Request, **kwargs: Any) -> httpx2.Response:
        wait = Wait(request)
        with wait:
            response: httpx2.Response = super().send(request, **kwargs)
            if response.is_error or no_stream(response):
                response.read()
        return _received(response, wait, streamed=kwargs.get("stream", False))

    def close(self) -> None:
        # The OpenAI SDK closes the client it was given when it is closed itself; this one is everybody's.
        return

    def close_at_exit(self) -> None:
        super().close()


_parsed_url = lru_cache(maxsize=256)(httpx2.URL)


class _PerLoopClient(openai.DefaultAioHttpClient):  # type: ignore[misc, valid-type, unused-ignore]
    """Builds requests itself and sends each through the client of the running loop."""

    def __init__(self, *, trust_env: bool) -> None:
        super().__init__(trust_env=trust_env)
        self._by_loop: dict[asyncio.AbstractEventLoop, tuple[httpx2.AsyncClient, AsyncGenerator[None]]] = {}
        self._lock = threading.Lock()
        self._own_headers = [(name.lower(), value) for name, value in self.headers.items()]
        atexit.register(self._close_leftovers)

    def build_request(self, method: str, url: Any, **given: Any) -> httpx2.Request:
        content, headers, timeout = given.get("content"), given.get("headers"), given.get("timeout")
        others = any(given[name] is not None for name in given.keys() - _OF_PLAIN_REQUESTS)
        if others or content is None or timeout is None or not isinstance(headers, list):
            return super().build_request(method, url, **given)
        named = {name.lower() for name, _ in headers}
        headers = headers + [(name, value) for name, value in self._own_headers if name not in named]
        extensions = {"timeout": httpx2.Timeout(timeout).as_dict()}
        return httpx2.Request(method, _parsed_url(url), content=content, headers=headers, extensions=extensions)

    async def send(self, request: httpx2.Request, **kwargs: Any) -> httpx2.Response:
        client, wait = await self._of_this_loop(), Wait(request)
        async with wait:
            response = await client.send(request, **kwargs)
            if response.is_error or no_stream(response):
                await response.aread()
        return _received(response, wait, streamed=kwargs.get("stream", False))

    async def aclose(self) -> None:
        # As above.
        return

    async def _of_this_loop(self) -> httpx2.AsyncClient:
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop in self._by_loop:
                return self._by_loop[loop][0]
            for dead in [other for other in self._by_loop if other.is_closed()]:
                _drop(self._by_loop.pop(dead)[0])
            client = openai.DefaultAioHttpClient(trust_env=self.trust_env)
            closer = self._close_with_loop(loop, client)
            self._by_loop[loop] = (client, closer)
        # A started generator is closed by `loop.shutdown_asyncgens()`, which asyncio.run, pytest and uvicorn all
        # call while the loop still works: the only hook on "this loop is about to end" that asyncio offers.
        await anext(closer)
        return client

    async def _close_with_loop(
        self, loop: asyncio.AbstractEventLoop, client: httpx2.AsyncClient
    ) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            with self._lock:
                self._by_loop.pop(loop, None)
            await client.aclose()

    def _close_leftovers(self) -> None:
        for loop, (client, closer) in list(self._by_loop.items()):
            # At exit nobody is left to hear of it.
            with contextlib.suppress(Exception):
                if loop.is_closed():
                    _drop(client)
                elif loop.is_running():
                    asyncio.run_coroutine_threadsafe(_closed(closer), loop).result(_CLOSE_TIMEOUT_S)
                else:
                    loop.run_until_complete(_closed(closer))
        self._by_loop.clear()


def _received(response: httpx2.Response, wait: Wait, *, streamed: bool) -> httpx2.Response:
    """Return a response as a caller may have it: a refusal without the key, and a stream that keeps to `wait`.

    Raises:
        BrokenReplyError: A stream was asked for, and something else came.
    """
    if response.is_error:
        return without_key(response)
    if streamed and no_stream(response):
        raise broken(f"it is no stream but {response.text[:MOST_SHOWN]!r}", key=sent_key(response))
    if streamed:
        response.stream = _Streamed(response.stream, wait)
    return response


async def _closed(closer: AsyncGenerator[None]) -> None:
    await closer.aclose()


def _drop(client: httpx2.AsyncClient) -> None:
    """Mark a client closed whose loop ended without `shutdown_asyncgens`; its sockets die with it."""
    closing = client.aclose()
    with contextlib.suppress(Exception):
        # Runs to its first await, before which the client notes that it is closed.
        closing.send(None)
    closing.close()


class Wait:
    """Time that one request may still wait; around each part of it in `with` or `async with`.

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
        # As `_within` raises it; to the caller it is the same as any late reply.
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


_UNTIL: ContextVar[float | None] = ContextVar("redraft_waiting_until", default=None)
"""Monotonic time at which the call at hand has waited long enough."""


def _not_late(error: Exception, request: httpx2.Request) -> httpx2.RequestError | None:
    """Return the error that the blocking client would raise where the aiohttp transport raises another.

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


class _Heeding:
    """A network backend, and the connections that it opens, whose steps heed the wait."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def connect_tcp(self, *args: Any, timeout: float | None = None, **options: Any) -> _Heeding:
        return _Heeding(self._inner.connect_tcp(*args, timeout=_within(timeout), **options))

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _within(timeout))  # type: ignore[no-any-return]

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _within(timeout))

    def start_tls(self, *args: Any, timeout: float | None = None, **options: Any) -> _Heeding:
        return _Heeding(self._inner.start_tls(*args, timeout=_within(timeout), **options))


def _within(timeout: float | None) -> float | None:
    """Return the timeout of one read.

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
