"""Control of a path's run: a path belongs to its search, so one stops with the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.errors import GraphDrained

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.runtime import RunControl

__all__ = ["check_stop", "control_of"]

RUNTIME = "__pregel_runtime"
"""Where LangGraph's config holds what a run has of its own, its control among it."""


def control_of(config: RunnableConfig) -> RunControl | None:
    """Return what says whether the running graph is to stop."""
    runtime = config.get("configurable", {}).get(RUNTIME)
    found: RunControl | None = getattr(runtime, "control", None)
    return found


def check_stop(control: RunControl | None) -> None:
    """Return where a path may begin.

    Raises:
        GraphDrained: The search is to stop. It is resumed with this path.
    """
    if control is not None and control.drain_requested:
        raise GraphDrained(control.drain_reason or "shutdown")
