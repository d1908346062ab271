"""Thread names of paths: a search resumes only paths that it began, and takes a free name for new ones. Internal."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from ...state.dual import Do, do, do_all

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from langgraph.checkpoint.base import BaseCheckpointSaver


__all__ = ["PATH_RECIPE", "SEARCH", "own_thread"]

SEARCH = "redraft_search"
"""In the metadata of a path's checkpoints: the token of its search."""
PATH_RECIPE = "redraft_path_recipe"
"""In the metadata of a search: what rebuilds one of its paths, as `redraft_recipe` rebuilds the search."""


def own_thread(
    saver: BaseCheckpointSaver[Any] | None, plan: Mapping[str, Any], search: str
) -> Generator[Do, Any, str | None]:
    """Return the thread id of a path: as planned, or with a number behind where that thread is somebody else's.

    Args:
        saver: Where threads are kept; `None` leaves the name as planned.
        plan: Of the path.
        search: Token of the search.
    """
    planned: str | None = plan["thread_id"]
    if saver is None or planned is None:
        return planned
    for number in count(1):
        name = planned if number == 1 else f"{planned}-{number}"
        config = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
        stored = yield do(saver, "get_tuple", config)
        if stored is None or stored.metadata.get(SEARCH) == search:
            return name
        # One of ours that was run on by hand since has the mark on its older checkpoints only.
        if (yield do_all(saver, "list", config, filter={SEARCH: search}, limit=1)):
            return name
    raise AssertionError("unreachable: names don't end")
