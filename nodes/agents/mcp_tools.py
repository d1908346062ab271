"""Tools of MCP servers, for agents and tool critics. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..runtime.dual import finish

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.tools import BaseTool

__all__ = ["mcp_tools"]

INSTALL = 'tools of MCP servers need an extra: pip install "redraft[mcp]"'


def mcp_tools(servers: Mapping[str, Mapping[str, Any]]) -> list[BaseTool]:
    """Return the tools of MCP servers, for `tool_critic`, `build_agent_graph` and any other agent.

    They can be invoked and awaited. Each call opens a session of its own, so that none outlives it. An error that a
    tool reports is told to the model; what a tool returns is untrusted like any other text.

    Args:
        servers: Connections by name, as langchain-mcp-adapters takes them: `{"transport": "stdio", "command": "npx",
            "args": […]}`, or `{"transport": "streamable_http", "url": "http://…/mcp", "headers": {…}}`. Where there are
            several, each tool's name begins with its server's.

    Raises:
        ValueError: There is no server, or a connection makes no sense.
        ImportError: The extra `mcp` is not installed.
        ExceptionGroup: A server can't be reached.
    """
    if not servers:
        raise ValueError("servers are empty: name at least one")
    try:
        from langchain_mcp_adapters.client import MultiServerMCPClient
    except ImportError as error:
        raise ImportError(f"{INSTALL} ({error})") from error
    connections: Any = {name: dict(connection) for name, connection in servers.items()}
    client = MultiServerMCPClient(connections, tool_name_prefix=len(servers) > 1)
    tools: list[BaseTool] = finish(client.get_tools())
    return [_both_ways(tool) for tool in tools]


def _both_ways(tool: Any) -> BaseTool:
    """Return a tool that can be invoked too: the adapter's can only be awaited."""
    coroutine = tool.coroutine

    def call(**arguments: Any) -> Any:
        return finish(coroutine(**arguments))

    both: BaseTool = tool.model_copy(update={"func": call})
    return both
