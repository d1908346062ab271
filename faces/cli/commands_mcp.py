"""Command `mcp`: the presets as tools, on stdin and stdout. Internal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..problems import DEFAULT_DB, bad_input
from .commands_serve import BOUNDS, checked_settings, named_pipelines
from .options import Db, Model, Prices, PromptFile

__all__ = ["mcp"]

INSTALL = 'MCP needs an extra: pip install "redraft[mcp]"'


def mcp(
    db: Db = DEFAULT_DB,
    model: Model = None,
    allow_model: Annotated[
        list[str] | None,
        typer.Option(metavar="SPEC", help="A model that a call may name in its place; may be repeated."),
    ] = None,
    documents: Annotated[
        str | None, typer.Option("--dir", metavar="FOLDER", help="Whose documents the tool retrieve searches.")
    ] = None,
    index: Annotated[
        str | None, typer.Option("--index", metavar="NAME", help="A stored index that retrieve searches instead.")
    ] = None,
    pipeline: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=STEPS", help="A pipeline as a tool of this name; may be repeated."),
    ] = None,
    prompts: PromptFile = None,
    prices: Prices = None,
    judge: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of `redraft calibrate`: accepts where that is rarely wrong.")
    ] = None,
    max_rounds: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Revisions of a call.", rich_help_panel=BOUNDS)
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option(metavar="S", help="Of a call, by the clock.", rich_help_panel=BOUNDS)
    ] = None,
    max_calls: Annotated[
        int | None, typer.Option(metavar="N", help="Model calls of a tool's call.", rich_help_panel=BOUNDS)
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens of a call.", rich_help_panel=BOUNDS)
    ] = None,
    max_cost_usd: Annotated[
        float | None, typer.Option(metavar="USD", help="Dollars of a call.", rich_help_panel=BOUNDS)
    ] = None,
    daily_cost_usd: Annotated[
        float | None, typer.Option(metavar="USD", help="Dollars a day (UTC).", rich_help_panel=BOUNDS)
    ] = None,
) -> None:
    """Offer the presets as tools to the agent that starts this, by MCP on stdin and stdout.

    It ends when its client closes stdin. Each call is a thread like any other: `redraft threads` lists it. `redraft
    serve` offers the same tools at /mcp.
    """
    import asyncio

    from ..sessions import model_or_default
    from ..views.console import say

    spec, note = model_or_default(model)
    if note:
        say(note)
    with bad_input():
        settings = checked_settings(
            db=db,
            model=spec,
            models=tuple(allow_model or ()),
            documents=None if documents is None else str(Path(documents).expanduser().absolute()),
            index=index,
            pipelines=named_pipelines(pipeline or []),
            prompts=None if prompts is None else str(prompts.expanduser().absolute()),
            prices=None if prices is None else str(Path(prices).expanduser().absolute()),
            judge=None if judge is None else str(judge.expanduser().absolute()),
            max_rounds=max_rounds,
            max_seconds_a_run=max_seconds,
            max_calls_a_run=max_calls,
            max_tokens_a_run=max_tokens,
            max_cost_usd_a_run=max_cost_usd,
            max_cost_usd_a_day=daily_cost_usd,
        )
        try:
            from ..server.mcp.stdio import serve_stdio
        except ImportError as error:
            raise ImportError(f"{INSTALL} ({error})") from None
        asyncio.run(serve_stdio(settings))
