"""A search's kind: it goes on by itself, and its paths are threads of the loop's kind."""

from __future__ import annotations

from ...state.threads.kind import GraphKind

__all__ = ["SearchKind"]


class SearchKind(GraphKind):
    """The kind of a search over drafts and revisions."""

    first_node = "prepare"
    keeps_record = True

    def check(self, what: str, *, thread_id: str, graph_name: str) -> None:
        """Raise ValueError: each path is forked, run once more or given other limits by itself."""
        raise ValueError(
            f"{what} is not for a search, but for its paths: "
            f"Thread(build_refine_graph(model, checkpointer=saver), '{thread_id}/b0.1')"
        )
