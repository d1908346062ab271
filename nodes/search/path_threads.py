"""Thread names of paths: a search resumes only paths that it began, and takes a free name for new ones. Internal."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

__all__ = ["PATH_RECIPE", "SEARCH", "OwnThread"]

SEARCH = "redraft_search"
"""In the metadata of a path's checkpoints: the token of its search."""
PATH_RECIPE = "redraft_path_recipe"
"""In the metadata of a search: what rebuilds one of its paths, as `redraft_recipe` rebuilds the search."""


class OwnThread:
    """Returns the thread id of a path: as planned, or with a number behind where that thread is somebody else's.

    Args:
        saver: Where threads are kept; `None` leaves the name as planned.
        search: Token of the search.
    """

    def __init__(self, saver: BaseCheckpointSaver[Any] | None, search: str) -> None:
        self._saver = saver
        self._mark = {SEARCH: search}

    def __call__(self, plan: Mapping[str, Any]) -> str | None:
        saver = self._saver
        planned: str | None = plan["thread_id"]
        if saver is None or planned is None:
            return planned
        for name in _names(planned):
            stored = saver.get_tuple(_config(name))
            if stored is None or self._marked(stored):
                return name
            # One of ours that was run on by hand since has the mark on its older checkpoints only.
            if any(True for _ in saver.list(_config(name), filter=self._mark, limit=1)):
                return name
        raise AssertionError("unreachable: names don't end")

    async def acall(self, plan: Mapping[str, Any]) -> str | None:
        """Async twin."""
        saver = self._saver
        planned: str | None = plan["thread_id"]
        if saver is None or planned is None:
            return planned
        for name in _names(planned):
            stored = await saver.aget_tuple(_config(name))
            if stored is None or self._marked(stored):
                return name
            if [found async for found in saver.alist(_config(name), filter=self._mark, limit=1)]:
                return name
        raise AssertionError("unreachable: names don't end")

    def _marked(self, stored: CheckpointTuple) -> bool:
        known: Mapping[str, Any] = {**stored.metadata}
        return bool(known.get(SEARCH) == self._mark[SEARCH])


def _names(planned: str) -> Iterator[str]:
    return (planned if number == 1 else f"{planned}-{number}" for number in count(1))


def _config(name: str) -> Any:
    return {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
