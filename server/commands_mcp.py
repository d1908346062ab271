"""Command `mcp`: the presets as tools, on stdin and stdout. Internal."""

from __future__ import annotations

from typing import Any

from .command_options import takes_settings

__all__ = ["mcp"]

INSTALL = 'MCP needs an extra: pip install "redraft[mcp]"'


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
    import asyncio

    try:
        from .mcp.server import serve_stdio
    except ImportError as error:
        raise ImportError(f"{INSTALL} ({error})") from None
    asyncio.run(serve_stdio(settings))
