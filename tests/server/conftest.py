"""A server as users have it: uvicorn on a free port of loopback, with scripted models."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from redraft.models import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOKENS = ("first-token-0123456789", "second-token-0123456789")


class Served:
    """A server that runs, with what the tests look at."""

    def __init__(self, url: str, app: Any, server: Any) -> None:
        self.url = url
        self.app = app
        self.engine = app.state.engine
        self.server = server

    def forget_runs(self) -> None:
        """Forget what the process remembers of runs, as after a start."""
        self.engine.known.here.clear()
        self.engine.known._elsewhere.clear()


class Talking:
    """Replies by prompt: a critic finds fault with a first draft, and is content with a second."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        """While it is not set, every call waits."""
        self.model = ScriptedModel([self.reply] * 500)

    def reply(self, messages: list[Any]) -> str:
        assert self.gate.wait(30)
        asked = "\n".join(str(message.content) for message in messages)
        if "no issues" in asked:  # the stop phrase stands in the critic's prompt alone
            return "no issues" if "second draft" in asked else "Name the month."
        return "second draft" if "Name the month." in asked else "first draft"


@pytest.fixture(scope="session", autouse=True)
def _routes_are_built_once() -> Iterator[None]:
    """Every app here has the same routes, and FastAPI builds the models of all of them at an app's first request, which
    is most of what a server of a test's own costs."""
    from fastapi import routing

    contexts = routing._EffectiveRouteContext
    build, built = contexts.from_api_route, {}

    def once(*, original_route: Any, include_context: Any) -> Any:
        key = (id(original_route), include_context.path_for(original_route))  # routes live as long as their modules
        if key not in built:
            built[key] = build(original_route=original_route, include_context=include_context)
        return built[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contexts, "from_api_route", once)
        yield


class _Soon:
    """The module `asyncio`, where a server that looks ten times a second if it is to end looks a hundred times."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, delay: float) -> None:
        await asyncio.sleep(delay / 10)


@pytest.fixture(scope="session", autouse=True)
def _servers_end_soon() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("uvicorn.server.asyncio", _Soon())
        yield


@contextmanager
def _serving(app: Any) -> Iterator[Served]:
    import uvicorn
    from redraft.server.connections import server_options

    options = {**server_options(app.state.settings), "timeout_graceful_shutdown": 1}

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: Any = None) -> None:
            await super().shutdown(sockets)
            # Else one that a client keeps open is found as garbage, and fails whichever test runs then.
            for connection in [*self.server_state.connections]:
                connection.transport.abort()
            await asyncio.sleep(0)

    server = Server(uvicorn.Config(app, host="127.0.0.1", port=0, **options))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Served(f"http://127.0.0.1:{port}", app, server)
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture(scope="session")
def serving() -> Any:
    """A context in which this app is served."""
    return _serving


@pytest.fixture
def talking() -> Talking:
    """A model that drafts, finds fault once, and is content then."""
    return Talking()


@pytest.fixture
def start_server(talking: Talking) -> Iterator[Callable[..., Served]]:
    """Start a server with these settings; it ends with the test, or earlier with `.stop()`."""
    from redraft.server import Engine, Settings, create_app

    with ExitStack() as stack:

        def start(*, build_model: Any = None, **settings: Any) -> Served:
            given = Settings(**{"db": "memory", **settings})
            engine = Engine(given, build_model=build_model or (lambda spec: talking.model))
            own = stack.enter_context(ExitStack())
            served = own.enter_context(_serving(create_app(given, engine=engine)))
            served.stop = own.close  # type: ignore[attr-defined]
            return served

        yield start
        talking.gate.set()  # also where a test failed: the server would wait for the model


@pytest.fixture
def server(start_server: Callable[..., Served]) -> Served:
    """A server on memory, open to this machine."""
    return start_server()


@pytest.fixture
def tokens() -> tuple[str, str]:
    """What two callers know."""
    return TOKENS


@pytest.fixture
def served(start_server: Callable[..., Served]) -> Callable[..., tuple[str, Any]]:
    """Start a server with this model, and `other` as `openai:other`; its address, and its engine."""

    def start(model: Any, *, other: Any = None, **settings: Any) -> tuple[str, Any]:
        built = {"openai:writer": model, "openai:other": other}
        named = {"model": "openai:writer", "models": ("openai:other",), **settings}
        found = start_server(build_model=built.__getitem__, **named)
        return found.url, found.engine

    return start


@pytest.fixture
def held() -> Any:
    """A context with a model whose first reply waits until the block ends, and what is set once it was asked."""
    return _held


@contextmanager
def _held() -> Iterator[tuple[Any, threading.Event]]:
    asked, release = threading.Event(), threading.Event()

    def wait(messages: Any) -> str:
        asked.set()
        assert release.wait(20)
        return "A boat."

    try:
        yield ScriptedModel([wait] * 3), asked
    finally:
        release.set()
