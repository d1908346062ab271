"""Command `serve`: the presets over HTTP. Internal."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..problems import DEFAULT_DB, BadInputError, bad_input
from .options import Db, Model, Prices, PromptFile, age

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from socket import socket

__all__ = ["checked_settings", "named_pipelines", "serve", "worker"]

LISTENING = "Who reaches it"
BOUNDS = "What no caller can raise"
KEEPING = "How long threads stay"
WORKING = "Who executes runs"
INSTALL = 'serving needs an extra: pip install "redraft[serve]"'


def _serve(
    host: Annotated[
        str,
        typer.Option(
            metavar="HOST", help="Where to listen; any but this machine's own needs a token.", rich_help_panel=LISTENING
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="PORT", help="0 takes a free one.", rich_help_panel=LISTENING)
    ] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Tokens, one a line, each a caller of its own; or REDRAFT_SERVE_TOKENS, with commas between.",
            rich_help_panel=LISTENING,
        ),
    ] = None,
    metrics_token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Tokens that read /metrics of all callers, and nothing else; or REDRAFT_METRICS_TOKENS.",
            rich_help_panel=LISTENING,
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="A site whose pages may use the server, as https://app.example; may be repeated.",
            rich_help_panel=LISTENING,
        ),
    ] = None,
    allow_webhook: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST",
            help="A host in this network that a run's webhook may lead to; may be repeated.",
            rich_help_panel=BOUNDS,
        ),
    ] = None,
    db: Db = DEFAULT_DB,
    model: Model = None,
    allow_model: Annotated[
        list[str] | None,
        typer.Option(metavar="SPEC", help="A model that callers may name in its place; may be repeated."),
    ] = None,
    documents: Annotated[
        str | None, typer.Option("--dir", metavar="FOLDER", help="Whose documents retrieval searches.")
    ] = None,
    pipeline: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=STEPS",
            help="A pipeline to serve under a name, as `redraft pipeline` takes its steps; may be repeated.",
        ),
    ] = None,
    index: Annotated[
        str | None, typer.Option("--index", metavar="NAME", help="A stored index that retrieval searches instead.")
    ] = None,
    prompts: PromptFile = None,
    prices: Prices = None,
    judge: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of `redraft calibrate`: accepts where that is rarely wrong.")
    ] = None,
    max_rounds: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Revisions of a run.", rich_help_panel=BOUNDS)
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option(metavar="S", help="Of a run, by the clock.", rich_help_panel=BOUNDS)
    ] = None,
    max_calls: Annotated[
        int | None, typer.Option(metavar="N", help="Model calls of a run, whoever makes them.", rich_help_panel=BOUNDS)
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens of a run.", rich_help_panel=BOUNDS)
    ] = None,
    max_cost_usd: Annotated[
        float | None, typer.Option(metavar="USD", help="Dollars of a run.", rich_help_panel=BOUNDS)
    ] = None,
    daily_calls: Annotated[
        int | None, typer.Option(metavar="N", help="Model calls of a caller a day (UTC).", rich_help_panel=BOUNDS)
    ] = None,
    daily_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens of a caller a day.", rich_help_panel=BOUNDS)
    ] = None,
    daily_cost_usd: Annotated[
        float | None, typer.Option(metavar="USD", help="Dollars of a caller a day.", rich_help_panel=BOUNDS)
    ] = None,
    max_runs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Runs at the same time.", rich_help_panel=BOUNDS)
    ] = None,
    max_waiting: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Runs that wait for one to end.", rich_help_panel=BOUNDS)
    ] = None,
    max_attempts: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Servers that may die of a run that gets no step further; then it is given up.",
            rich_help_panel=BOUNDS,
        ),
    ] = None,
    max_task: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Characters of a task.", rich_help_panel=BOUNDS)
    ] = None,
    max_body: Annotated[
        int | None, typer.Option(min=1024, metavar="N", help="Bytes of a request.", rich_help_panel=BOUNDS)
    ] = None,
    default_ttl: Annotated[
        str | None,
        typer.Option(
            metavar="AGE",
            help="Delete threads that did not move for so long: 30d, 12h, 45m. Else they stay.",
            rich_help_panel=KEEPING,
        ),
    ] = None,
    ttl_includes_interrupted: Annotated[
        bool,
        typer.Option(
            "--ttl-includes-interrupted",
            help="Also those that wait for a person, or whose run was cancelled.",
            rich_help_panel=KEEPING,
        ),
    ] = False,
    max_connections: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Connections of one address, a proxy's too.", rich_help_panel=BOUNDS),
    ] = None,
    no_work: Annotated[
        bool,
        typer.Option(
            "--no-work",
            help="Answer, and leave the runs to `redraft worker` on the same PostgreSQL database.",
            rich_help_panel=WORKING,
        ),
    ] = False,
    otlp: Annotated[
        str | None, typer.Option(metavar="URL", help="An OpenTelemetry collector that traces go to; no texts.")
    ] = None,
    otlp_texts: Annotated[bool, typer.Option("--otlp-texts", help="Tasks, prompts and drafts go there too.")] = False,
    *,
    answers: bool = True,
) -> None:
    from ..sessions import model_or_default
    from ..views.console import say

    if otlp_texts and otlp is None:
        raise BadInputError("--otlp-texts needs --otlp URL")
    if ttl_includes_interrupted and default_ttl is None:
        raise BadInputError("--ttl-includes-interrupted needs --default-ttl AGE")
    spec, note = model_or_default(model)
    if note:
        say(note)
    with bad_input(), ExitStack() as stack:
        app, settings = _app(
            host=host,
            port=port,
            db=db,
            model=spec,
            models=tuple(allow_model or ()),
            index=index,
            documents=None if documents is None else str(Path(documents).expanduser().absolute()),
            judge=None if judge is None else str(judge.expanduser().absolute()),
            pipelines=named_pipelines(pipeline or []),
            prompts=None if prompts is None else str(prompts.expanduser().absolute()),
            prices=None if prices is None else str(Path(prices).expanduser().absolute()),
            tokens=_tokens(token_file, "REDRAFT_SERVE_TOKENS"),
            metrics_tokens=_tokens(metrics_token_file, "REDRAFT_METRICS_TOKENS"),
            allow_origins=tuple(allow_origin or ()),
            allow_webhooks=tuple(allow_webhook or ()),
            max_rounds=max_rounds,
            max_seconds_a_run=max_seconds,
            max_calls_a_run=max_calls,
            max_tokens_a_run=max_tokens,
            max_cost_usd_a_run=max_cost_usd,
            max_calls_a_day=daily_calls,
            max_tokens_a_day=daily_tokens,
            max_cost_usd_a_day=daily_cost_usd,
            max_concurrent_runs=max_runs,
            queue_length=max_waiting,
            max_attempts=max_attempts,
            max_task_characters=max_task,
            max_body_bytes=max_body,
            default_ttl=None if default_ttl is None else age(default_ttl, "--default-ttl") / timedelta(minutes=1),
            ttl_includes_interrupted=ttl_includes_interrupted,
            max_connections_a_peer=max_connections,
            work=not no_work,
        )
        if not answers:
            from ..server.settings import check_shared

            check_shared(db)
        if otlp is not None:
            from ..server.tracing import instrument

            stack.enter_context(instrument(otlp, show_texts=otlp_texts))
        if answers:
            _listen(app, settings)
        else:
            _work(app.state.engine, settings)


def _part(*without: str, **fixed: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command the options of `_serve` but these."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def called(**given: Any) -> None:
            _serve(**given, **fixed)

        # Annotations are strings under `from __future__ import annotations`, and are wanted as types here.
        every = signature(_serve, eval_str=True).parameters.values()
        kept = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in every if one.name not in (*without, *fixed)]
        called.__signature__ = Signature(kept)  # type: ignore[attr-defined]  # typer reads it
        return called

    return decorated


@_part(answers=True)
def serve() -> None:
    """Serve the presets over HTTP, for LangGraph's clients, OpenAI's clients and browsers.

    Runs that are under way when it ends go on when it starts again on the same database.

    With SQLite one process serves and works. On PostgreSQL several share one queue; --no-work leaves runs to workers.
    """


@_part(
    *("host", "port", "token_file", "metrics_token_file", "allow_origin", "max_connections"),
    *("max_task", "max_body", "max_waiting", "default_ttl", "ttl_includes_interrupted", "no_work"),
    answers=False,
)
def worker() -> None:
    """Execute the runs that servers of the same PostgreSQL database are asked for.

    Start as many as are needed, with the models, pipelines, prompts and limits of the servers.

    One that dies loses nothing: another goes on where its runs stood. On SIGTERM it gives back what it has under way.
    """


def named_pipelines(given: list[str]) -> dict[str, str]:
    """Return pipelines by name."""
    found: dict[str, str] = {}
    for one in given:
        name, parted, steps = one.partition("=")
        if not parted or name in found:
            raise BadInputError(f"--pipeline takes NAME=STEPS, each name once, not {one!r}")
        found[name] = steps
    return found


def _app(**given: Any) -> tuple[Any, Any]:
    try:
        from ..server import create_app

        settings = checked_settings(**given)
        return create_app(settings), settings
    except ImportError as error:
        raise ImportError(f"{INSTALL} ({error})") from None


def checked_settings(**given: Any) -> Any:
    """Return the settings of a server, where `None` means not given.

    Raises:
        BadInputError: One makes no sense.
    """
    from pydantic import ValidationError

    from ..server import Settings

    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        told = [_told(detail) for detail in error.errors(include_input=False)]
        raise BadInputError("; ".join(told)) from None


def _told(detail: Any) -> str:
    """Return what is wrong with a setting, by its name where it is not told otherwise."""
    said = detail["msg"].removeprefix("Value error, ")
    return said if said != detail["msg"] else f"{'.'.join(map(str, detail['loc']))}: {said[0].lower()}{said[1:]}"


def _listen(app: Any, settings: Any) -> None:
    """Serve until a signal ends it; what can't be opened is told before anything listens."""
    import asyncio
    import gc
    import signal

    import uvicorn

    from ..server.connections import MOST_CONNECTIONS, server_options
    from ..views.console import say

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
        async with app.router.lifespan_context(app):
            gc.collect()
            gc.freeze()  # what lives as long as the process is not looked through again and again
            gc.set_threshold(100_000, 50, 50)
            with _socket(settings.host, settings.port) as listening:
                shown = f"[{settings.host}]" if ":" in settings.host else settings.host
                needed = "; a token is needed" if settings.tokens else ""
                say(f"serving on http://{shown}:{listening.getsockname()[1]}{needed}")
                await server.serve(sockets=[listening])

    asyncio.run(served())


def _work(engine: Any, settings: Any) -> None:
    """Execute runs until a signal ends it."""
    import asyncio
    import gc
    import signal

    from ..views.console import say

    async def worked() -> None:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(ended.set))
        await engine.start()
        gc.collect()
        gc.freeze()
        gc.set_threshold(100_000, 50, 50)
        try:
            say(f"working, on up to {settings.max_concurrent_runs} runs at once")
            await ended.wait()
        finally:
            await engine.stop()

    asyncio.run(worked())


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


def _socket(host: str, port: int) -> socket:
    from socket import AF_INET, AF_INET6, create_server

    try:
        return create_server((host, port), family=AF_INET6 if ":" in host else AF_INET, backlog=2048)
    except OSError as error:
        raise OSError(f"can't listen on {host!r}, port {port}: {error.strerror or error}") from None


def _tokens(token_file: Path | None, variable: str) -> tuple[str, ...]:
    """Return the tokens of the file, or of the environment variable where no file is named."""
    if token_file is None:
        lines = os.environ.get(variable, "").split(",")
    else:
        try:
            lines = token_file.expanduser().read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise BadInputError(f"the token file can't be read: {error}") from None
    found = tuple(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if token_file is not None and not found:
        raise BadInputError(f"there is no token in {str(token_file)!r}")
    return found
