"""The HTTP clients that every OpenAI-style model of this process shares.

One sync client, and one async client on the aiohttp transport. An aiohttp session belongs to the event loop in which
it was opened, and using it in another raises "Event loop is closed"; so the shared async client keeps one session a
loop and closes it when that loop shuts down.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import threading
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Literal

from .broken_replies import MOST_SHOWN, broken, no_stream
from .echoes import sent_key, without_key

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    import httpx2

__all__ = ["Route", "async_client", "sync_client"]

Route = Literal["default", "direct"]
"""`default` honours HTTP_PROXY and its kin; `direct` never does (a proxy can't reach our own loopback server)."""

_CLOSE_TIMEOUT_S = 1.0
_OF_PLAIN_REQUESTS = {"content", "headers", "timeout"}


@cache
def sync_client(route: Route = "default") -> httpx2.Client:
    """The process's one blocking HTTP client, safe to use from any thread; closed at exit."""
    import openai

    from .waiting import Wait, heed_waits

    class SharedClient(openai.DefaultHttpxClient):  # type: ignore[misc, valid-type, unused-ignore]
        """A client that no single user of it can close, and whose refusals do not repeat the key."""

        def send(self, request: httpx2.Request, **kwargs: Any) -> httpx2.Response:
            wait = Wait(request)
            with wait:
                response: httpx2.Response = super().send(request, **kwargs)
                if response.is_error:
                    response.read()
                    return without_key(response)
                if kwargs.get("stream") and no_stream(response):
                    response.read()
                    raise broken(f"it is no stream but {response.text[:MOST_SHOWN]!r}", key=sent_key(response))
            if kwargs.get("stream"):
                response.stream = wait.over(response.stream)
            return response

        def close(self) -> None:
            # The OpenAI SDK closes the client it was given when it is closed itself; this one is everybody's.
            return

        def close_at_exit(self) -> None:
            super().close()

    client = SharedClient(trust_env=route == "default")
    heed_waits(client)
    atexit.register(client.close_at_exit)
    return client


@cache
def async_client(route: Route = "default") -> httpx2.AsyncClient:
    """The process's one async HTTP client (aiohttp underneath), safe to use from any number of event loops."""
    return _per_loop_client(trust_env=route == "default")


def _per_loop_client(*, trust_env: bool) -> httpx2.AsyncClient:
    import httpx2
    import openai

    from .waiting import Wait

    parsed_url = lru_cache(maxsize=256)(httpx2.URL)

    class PerLoopClient(openai.DefaultAioHttpClient):  # type: ignore[misc, valid-type, unused-ignore]
        """Builds requests itself and sends each through the client of the running loop."""

        def __init__(self) -> None:
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
            return httpx2.Request(method, parsed_url(url), content=content, headers=headers, extensions=extensions)

        async def send(self, request: httpx2.Request, **kwargs: Any) -> httpx2.Response:
            client, wait = await self._of_this_loop(), Wait(request)
            async with wait:
                response = await client.send(request, **kwargs)
                if response.is_error:
                    await response.aread()
                    return without_key(response)
                if kwargs.get("stream") and no_stream(response):
                    await response.aread()
                    raise broken(f"it is no stream but {response.text[:MOST_SHOWN]!r}", key=sent_key(response))
            if kwargs.get("stream"):
                response.stream = wait.over(response.stream)
            return response

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
                client = openai.DefaultAioHttpClient(trust_env=trust_env)
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
                with contextlib.suppress(Exception):
                    if loop.is_closed():
                        _drop(client)
                    elif loop.is_running():
                        asyncio.run_coroutine_threadsafe(_closed(closer), loop).result(_CLOSE_TIMEOUT_S)
                    else:
                        loop.run_until_complete(_closed(closer))
            self._by_loop.clear()

    return PerLoopClient()


async def _closed(closer: AsyncGenerator[None]) -> None:
    await closer.aclose()


def _drop(client: httpx2.AsyncClient) -> None:
    """Marks a client closed whose loop ended without `shutdown_asyncgens`; its sockets die with it."""
    closing = client.aclose()
    with contextlib.suppress(Exception):
        closing.send(None)
    closing.close()
