"""The options that are settings of a server, for the commands that serve, work or offer tools by them. Internal."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from .._files import read_file
from ..faces.cli.options import Db, Model, Prices, PromptFile, age
from ..faces.problems import DEFAULT_DB, BadInputError, bad_input

__all__ = ["takes_settings"]

LISTENING = "Who reaches it"
BOUNDS = "What no caller can raise"
KEEPING = "How long threads stay"
WORKING = "Who executes runs"


def takes_settings(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command these options, and calls it with the settings that they make.

    Args:
        without: Options that make no sense for it.
    """

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        # Annotations are strings under `from __future__ import annotations`, and are wanted as types here.
        every = signature(_settings, eval_str=True).parameters.values()
        options = [option.replace(kind=Parameter.KEYWORD_ONLY) for option in every if option.name not in without]
        own = list(signature(command, eval_str=True).parameters.values())[1:]

        @wraps(command)
        def called(**values: Any) -> None:
            rest = {option.name: values.pop(option.name) for option in own}
            with bad_input():
                command(_settings(**values), **rest)

        called.__signature__ = Signature([*options, *own])  # type: ignore[attr-defined]  # typer reads it
        return called

    return decorated


def _settings(
    *,
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
    recipe: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FILE",
            help="A recipe to serve under a name, as `redraft choose` writes it; may be repeated.",
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
    evaluations: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Of `redraft eval`: its reports open from the page, where no token is needed."
        ),
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
) -> Any:
    from pydantic import ValidationError

    from ..faces.run_config import reasons_of
    from ..faces.sessions import model_or_default
    from ..faces.views.console import say
    from . import Settings

    if ttl_includes_interrupted and default_ttl is None:
        raise BadInputError("--ttl-includes-interrupted needs --default-ttl AGE")
    spec, note = model_or_default(model)
    if note:
        say(note)
    values: dict[str, Any] = {
        "host": host,
        "port": port,
        "db": db,
        "model": spec,
        "models": tuple(allow_model or ()),
        "index": index,
        "documents": _absolute(documents),
        "judge": _absolute(judge),
        "evaluations": _absolute(evaluations),
        "pipelines": _by_name("--pipeline", "STEPS", pipeline or []),
        "recipes": _recipes(recipe or []),
        "prompts": _absolute(prompts),
        "prices": _absolute(prices),
        "tokens": _tokens(token_file, "REDRAFT_SERVE_TOKENS"),
        "metrics_tokens": _tokens(metrics_token_file, "REDRAFT_METRICS_TOKENS"),
        "allow_origins": tuple(allow_origin or ()),
        "allow_webhooks": tuple(allow_webhook or ()),
        "max_rounds": max_rounds,
        "max_seconds_a_run": max_seconds,
        "max_calls_a_run": max_calls,
        "max_tokens_a_run": max_tokens,
        "max_cost_usd_a_run": max_cost_usd,
        "max_calls_a_day": daily_calls,
        "max_tokens_a_day": daily_tokens,
        "max_cost_usd_a_day": daily_cost_usd,
        "max_concurrent_runs": max_runs,
        "queue_length": max_waiting,
        "max_attempts": max_attempts,
        "max_task_characters": max_task,
        "max_body_bytes": max_body,
        "default_ttl": None if default_ttl is None else age(default_ttl, "--default-ttl") / timedelta(minutes=1),
        "ttl_includes_interrupted": ttl_includes_interrupted,
        "max_connections_a_peer": max_connections,
        "work": not no_work,
    }
    try:
        return Settings(**{name: value for name, value in values.items() if value is not None})
    except ValidationError as error:
        raise BadInputError(reasons_of(error)) from None


def _absolute(path: str | Path | None) -> str | None:
    return None if path is None else str(Path(path).expanduser().absolute())


def _by_name(flag: str, what: str, arguments: list[str]) -> dict[str, str]:
    """Return what a flag gives names to."""
    named: dict[str, str] = {}
    for argument in arguments:
        name, parted, value = argument.partition("=")
        if not parted or name in named:
            raise BadInputError(f"{flag} takes NAME={what}, each name once, not {argument!r}")
        named[name] = value
    return named


def _recipes(arguments: list[str]) -> dict[str, dict[str, Any]]:
    """Return the content of recipes' files by name."""
    from ..faces.run_config import read_recipe

    with bad_input():
        return {name: read_recipe(file) for name, file in _by_name("--recipe", "FILE", arguments).items()}


def _tokens(token_file: Path | None, variable: str) -> tuple[str, ...]:
    """Return the tokens of the file, or of the environment variable where no file is named."""
    if token_file is None:
        lines = os.environ.get(variable, "").split(",")
    else:
        try:
            lines = read_file(token_file).splitlines()
        except (OSError, ValueError) as error:
            raise BadInputError(f"the token file can't be read: {error}") from None
    tokens = tuple(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if token_file is not None and not tokens:
        raise BadInputError(f"there is no token in {str(token_file)!r}")
    return tokens
