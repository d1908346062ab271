"""The state of a branch search: that of any run, and the paths that it explores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from ...state.checked_channels import CheckedDelta
from ...state.schema import NEVER, RefineOutput, RefineState
from ...state.usage import Usage  # noqa: TC001  # langgraph reads the annotations at run time

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BranchingOutput", "BranchingState", "append_paths"]

Path = dict[str, Any]


def append_paths(paths: Sequence[Path], writes: Sequence[Sequence[Path]]) -> list[Path]:
    """Return all paths, those that were written last at the end: the reducer of the `paths` channel."""
    return [*paths, *(path for write in writes for path in write)]


class BranchingState(RefineState, total=False):
    """The state of a search."""

    paths: Annotated[list[Path], CheckedDelta(append_paths, snapshot_frequency=NEVER)]
    """Every path that was explored, with where its thread stands. Those of an earlier task have another `search`."""
    search: str
    """Token of the search for the current task."""
    base: str
    """What the thread ids of its paths begin with; empty where nothing is kept."""
    root: str | None
    """The search's own thread id; `None` where nothing is kept."""
    plans: list[Path]
    """The paths to explore next, all at once."""
    going: list[str]
    """Names of the paths that are still in the running."""
    compared: list[dict[str, Any]]
    """What the judge said so far, and what asking cost."""
    judging: Usage
    branches: list[dict[str, Any]]


class BranchingOutput(RefineOutput):
    """The output of a search: that of the best path, and the outcome of every path."""

    branches: list[dict[str, Any]]
    """Every path in the order of its name: `name`, `thread_id` and `parent` (a thread id; both `None` where nothing is
    kept), `variation`, `score`, `accepted_by`, `stop_reason`, `rounds`, `answer`, and `usage`, what it cost by itself.
    A path whose first draft an error prevented is `failed`, with an empty answer; the last event has the error.
    The `stop_reason` of a path says why its own thread stands: `max_rounds` where it was revised in other paths, lost,
    or no level was left."""
