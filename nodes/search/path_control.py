"""Control of a path's run: a path belongs to its search, so one stops with the other."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from langgraph.errors import GraphDrained

from ...state.threads.lease import StopControl, begin, under_way

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_core.runnables import RunnableConfig
    from langgraph.runtime import RunControl

    from ...state.threads.lease import Runner, UnderWay

__all__ = ["PathControl", "check_stop", "control_of", "running_path"]

RUNTIME = "__pregel_runtime"
"""Where LangGraph's config holds what a run has of its own, its control among it."""


class PathControl(StopControl):
    """Stops a path once its search is to stop, and the search once its path is.

    Args:
        outer: Of the search.
        runs: As in `StopControl`.
        thread_id: Of the path.
        runner: As in `StopControl`.
    """

    def __init__(self, outer: RunControl | None, runs: UnderWay, thread_id: str, runner: Runner) -> None:
        super().__init__(runs, thread_id, runner)
        self._outer = outer

    @property
    def drain_requested(self) -> bool:
        """True if the path ends before its next step."""
        if self._outer is not None and self._outer.drain_requested:
            self.request_drain(self._outer.drain_reason or "shutdown")
        elif super().drain_requested and self._outer is not None:
            self._outer.request_drain(self.drain_reason or "shutdown")
        return self.drain_reason is not None


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


@contextmanager
def running_path(saver: Any, thread_id: str, outer: RunControl | None) -> Iterator[PathControl]:
    """Give the control to run a path's thread with; meanwhile nobody else runs it.

    Raises:
        BusyThreadError: The thread is being run right now.
    """
    runs = under_way(saver)
    runner = begin(runs, thread_id)
    try:
        yield PathControl(outer, runs, thread_id, runner)
    finally:
        runs.remove(thread_id, runner.token)
