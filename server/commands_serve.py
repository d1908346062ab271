"""Commands `serve`, `worker` and `mcp`. Internal.

The presets over HTTP, what executes their runs, and the presets as tools.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, nullcontext
from socket import AF_INET, AF_INET6, IPPROTO_IPV6, IPV6_V6ONLY, SO_REUSEADDR, SOL_SOCKET, socket
from typing import Annotated, Any

import typer

from ..faces.problems import BadInputError
from ..faces.views.console import say
from ..nodes.runtime.killable import end_helpers
from ..state.collector import tuned_gc
from .command_options import takes_settings
from .watchdog import Pulse, watched

__all__ = ["mcp", "serve", "worker"]

INSTALL = 'serving needs an extra: pip install ".[serve]" in a checkout'
Collector = Annotated[
    str | None, typer.Option("--otlp", metavar="URL", help="An OpenTelemetry collector that traces go to; no texts.")
]
Watchdog = Annotated[
    float,
    typer.Option(
        min=0.0,
        metavar="S",
        envvar="REDRAFT_WATCHDOG",
        help="Kill and replace a process whose event loop stands still for so long; 0: never.",
    ),
]
SILENCE_S = 30.0
CollectTexts = Annotated[bool, typer.Option("--otlp-texts", help="Tasks, prompts and drafts go there too.")]
CollectScores = Annotated[
    bool, typer.Option("--otlp-scores", help="Critics' scores go there too; the collector is a Phoenix.")
]


@takes_settings()
def serve(
    settings: Any,
    *,
    otlp: Collector = None,
    otlp_texts: CollectTexts = False,
    otlp_scores: CollectScores = False,
    watchdog: Watchdog = SILENCE_S,
) -> None:
    """Serve the presets over HTTP, for LangGraph's clients, OpenAI's clients and browsers.

    Runs that are under way when it ends go on when it starts again on the same database.

    With SQLite one process serves and works. On PostgreSQL several share one queue; --no-work leaves runs to workers.
    """
    # One socket for all processes that follow each other: who connects meanwhile waits.
    with _bound(settings.host, settings.port) as listening:
        pulse = watched(watchdog, say)
        app = _app(settings)
        with _traced(otlp, texts=otlp_texts, scores=otlp_scores):
            _listen(app, settings, listening, pulse)


@takes_settings(
    *("host", "port", "token_file", "metrics_token_file", "allow_origin", "max_connections"),
    *("max_task", "max_body", "max_waiting", "default_ttl", "ttl_includes_interrupted", "no_work"),
)
def worker(
    settings: Any,
    *,
    otlp: Collector = None,
    otlp_texts: CollectTexts = False,
    otlp_scores: CollectScores = False,
    watchdog: Watchdog = SILENCE_S,
) -> None:
    """Execute the runs that servers of the same PostgreSQL database are asked for.

    Start as many as are needed, with the models, pipelines, prompts and limits of the servers.

    One that dies loses nothing: another goes on where its runs stood. On SIGTERM it gives back what it has under way.
    """
    from .settings import check_shared

    check_shared(settings.db)
    pulse = watched(watchdog, say)
    app = _app(settings)
    with _traced(otlp, texts=otlp_texts, scores=otlp_scores):
        _work(app.state.engine, settings, pulse)


@takes_settings(
    *("host", "port", "token_file", "metrics_token_file", "allow_origin", "allow_webhook", "max_connections"),
    *("daily_calls", "daily_tokens", "max_runs", "max_waiting", "max_attempts", "max_task", "max_body"),
    *("default_ttl", "ttl_includes_interrupted", "no_work"),
)
def mcp(settings: Any) -> None:
    """Offer the presets as tools to the agent that starts this, by MCP on stdin and stdout.

    It ends when its client closes stdin. Each call is a thread like any other: `redraft threads` lists it. `redraft
    serve` offers the same tools at /mcp.
    """

    try:
        from .mcp.server import serve_stdio
    except ImportError as error:
        raise ImportError(f'MCP needs an extra: pip install ".[mcp]" in a checkout ({error})') from None
    asyncio.run(serve_stdio(settings))
    end_helpers()


def _app(settings: Any) -> Any:
    try:
        from . import create_app

        return create_app(settings)
    except ImportError as error:
        raise ImportError(f"{INSTALL} ({error})") from None


def _traced(otlp: str | None, *, texts: bool, scores: bool) -> AbstractContextManager[Any]:
    if (texts or scores) and otlp is None:
        raise BadInputError(f"{'--otlp-texts' if texts else '--otlp-scores'} needs --otlp URL")
    if otlp is None:
        return nullcontext()
    from .tracing import instrument, phoenix_client

    return instrument(otlp, show_texts=texts, scores=phoenix_client(otlp) if scores else None)


def _listen(app: Any, settings: Any, listening: socket, pulse: Pulse) -> None:
    """Serve until a signal ends it; what can't be opened is told before anything listens."""
    import uvicorn

    from .connections import MOST_CONNECTIONS, server_options

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Leave the signals to us: uvicorn would raise them once more, in the middle of our own end."""
            yield

    # The lifespan would print a traceback where a database can't be opened.
    server = Server(uvicorn.Config(app, lifespan="off", **server_options(settings)))
    _allow_files(MOST_CONNECTIONS)

    def end(*_: Any) -> None:
        server.should_exit = True

    async def served() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, end)
        async with _alive(app.state.engine, pulse), app.router.lifespan_context(app):
            with tuned_gc():
                with _port_problem(settings.host, settings.port):
                    listening.listen(2048)
                address = f"[{settings.host}]" if ":" in settings.host else settings.host
                needed = "; a token is needed" if settings.tokens else ""
                say(f"serving on http://{address}:{listening.getsockname()[1]}{needed}")
                await server.serve(sockets=[listening])

    asyncio.run(served())
    end_helpers()


def _work(engine: Any, settings: Any, pulse: Pulse) -> None:
    """Execute runs until a signal ends it."""

    async def worked() -> None:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(ended.set))
        async with _alive(engine, pulse):
            await engine.start()
            try:
                with tuned_gc():
                    say(f"working, on up to {settings.max_concurrent_runs} runs at once")
                    await ended.wait()
            finally:
                await engine.stop()

    asyncio.run(worked())
    end_helpers()


def _allow_files(connections: int) -> None:
    """Let the process hold as many connections as it serves, as far as the system has it."""
    try:
        import resource
    except ImportError:  # Windows has no such bound
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + 512
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _alive(engine: Any, pulse: Pulse) -> AbstractAsyncContextManager[None]:
    """Return a context in which this process gives signs of life, and knows which before it were killed."""
    from ..state.storage.leases import this_process

    engine.hung.update(pulse.hung)
    return pulse.beating(this_process())


@contextmanager
def _bound(host: str, port: int) -> Iterator[socket]:
    """Give a socket with this address, which does not listen yet."""
    with socket(AF_INET6 if ":" in host else AF_INET) as bound:
        with _port_problem(host, port):
            if os.name == "posix":  # elsewhere it would allow two at once
                bound.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
            if ":" in host:
                bound.setsockopt(IPPROTO_IPV6, IPV6_V6ONLY, 1)
            bound.bind((host, port))
        yield bound


@contextmanager
def _port_problem(host: str, port: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OSError(f"can't listen on {host!r}, port {port}: {error.strerror or error}") from None
