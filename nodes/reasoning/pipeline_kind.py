"""A pipeline's kind: its steps stand in a row of their own, not in the loop's. Pure; `Thread` writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...state.limits import merged_limits
from ...state.summary import current_run
from ...state.threads.kind import ForkPoint, GraphKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langgraph.types import StateSnapshot

__all__ = ["PipelineKind"]


class PipelineKind(GraphKind):
    """The kind of a pipeline. Its thread goes on after the step that was finished last, the state key `at`."""

    first_node = "begin"
    keeps_record = True

    def check(self, what: str, *, thread_id: str, graph_name: str) -> None:
        """Raise ValueError for a fork or a rerun; other limits it can be resumed with."""
        if what == "fork()":
            raise ValueError(
                "a pipeline's thread is forked with another graph, which then drafts, criticises and improves in turn: "
                f"Thread(build_reasoning_graph(model, checkpointer=saver), {thread_id!r}).fork(…)"
            )
        if what == "rerun()":
            raise ValueError(f"{what} is not for pipelines: run the pipeline's graph again on a thread of its own")

    def next_step(self, snapshot: StateSnapshot, limits: Mapping[str, Any] | None) -> ForkPoint | None:
        """Return what must be written before the thread can run on, or `None` when it just runs on, or is at its end.

        It is written as the step that was finished last, whose way on leads to the one that failed, or that a budget or
        a caller's `recursion_limit` left no room for.

        Raises:
            ValueError: A limit makes no sense.
        """
        values: Mapping[str, Any] = snapshot.values
        if not self.begun(snapshot):
            return None
        changed = {"limits": merged_limits(values.get("limits"), limits)} if limits is not None else {}
        at, kept = values.get("at") or "begin", {"task": values.get("task"), "resuming": True, **changed}
        if snapshot.next:
            return ForkPoint(kept, at) if changed else None
        reason = str(values.get("stop_reason"))
        out_of_steps = current_run(values["events"])[-1].get("out_of_steps", False)
        if reason == "failed" or out_of_steps or (changed and reason.endswith("_budget")):
            return ForkPoint({"stop_reason": None, "answer": "", **kept}, at)
        return None
