"""Commands of the server, as their entry point brings them; none is imported here. Internal."""

from __future__ import annotations

from ..faces.cli.command_list import LazyCommand

__all__ = ["COMMANDS"]

COMMANDS = (
    LazyCommand(
        "serve",
        "redraft.server.commands_serve:serve",
        "Serve the presets over HTTP, for LangGraph's clients, OpenAI's clients and browsers.",
        (
            "redraft serve",
            "redraft serve --model openai:gpt-5-mini --db postgresql://me@localhost/runs --port 9000",
            "redraft serve --no-work --db postgresql://me@localhost/runs    leaves the runs to workers",
            "redraft serve --host 0.0.0.0 --token-file tokens.txt --max-rounds 5 --max-seconds 300 --default-ttl 30d",
        ),
        after="rekey",
    ),
    LazyCommand(
        "worker",
        "redraft.server.commands_serve:worker",
        "Execute the runs that servers of the same PostgreSQL database are asked for.",
        (
            "redraft worker --db postgresql://me@localhost/runs --model openai:gpt-5-mini",
            "redraft worker --db postgresql://me@localhost/runs --max-runs 64 --max-seconds 300",
        ),
        after="rekey",
    ),
    LazyCommand(
        "mcp",
        "redraft.server.commands_serve:mcp",
        "Offer the presets as tools to the agent that starts this, by MCP on stdin and stdout.",
        (
            "redraft mcp --model openai:gpt-5-mini --max-cost-usd 0.50",
            "redraft mcp --dir notes --max-calls 50",
        ),
        after="rekey",
    ),
)
