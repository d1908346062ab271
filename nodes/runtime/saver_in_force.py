"""Which saver the running graph uses: its own, or that of the graph that it is a node of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver

__all__ = ["SAVER", "saver_of"]

SAVER = "__pregel_checkpointer"
"""Where LangGraph's config holds the saver in force."""


def saver_of(config: RunnableConfig) -> BaseCheckpointSaver[Any] | None:
    """Return the saver that the running graph uses, or `None` where nothing is kept."""
    found: BaseCheckpointSaver[Any] | None = config.get("configurable", {}).get(SAVER)
    return found
