"""What LangGraph asks between two steps of a run: whether to go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.runtime import RunControl

if TYPE_CHECKING:
    from .under_way import Runner, UnderWay

__all__ = ["StopControl"]


class StopControl(RunControl):
    """LangGraph's control of one run: asked between two steps, it looks whether someone wants the run to stop."""

    def __init__(self, runs: UnderWay, thread_id: str, runner: Runner) -> None:
        super().__init__()
        self._runs = runs
        self._thread_id = thread_id
        self._runner = runner

    @property
    def drain_requested(self) -> bool:
        """Whether the run ends before the next step: on request, or since another process took the thread over."""
        if self.drain_reason is None:
            found = self._runs.get(self._thread_id)
            if found is None or found.token != self._runner.token:
                self.request_drain("another process runs the thread now")
            elif found.asked:
                self.request_drain("stopped on request")
        return self.drain_reason is not None
