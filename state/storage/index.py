"""One row per thread, so that threads are listed without reading a checkpoint."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from .db_executor import in_db_executor

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Executor

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import Checkpoint

__all__ = ["KEPT", "Position", "RunIndex", "RunRow", "Runs", "row_from_checkpoint"]

Position: TypeAlias = tuple[str, str]
"""Where a page of runs ended: `(created_at, thread_id)` of its last row."""

TASK_CHARACTERS = 200


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RunRow:
    """What the index knows of one thread, as of its newest checkpoint."""

    thread_id: str
    preset: str | None = None
    """The preset that built the graph; `None` for a graph that was built in Python or is not ours."""
    task: str = ""
    """The first 200 characters of the task, on one line; empty for a graph that has no task."""
    stop_reason: str | None = None
    """Why the run stopped; `None` while it runs, waits or lies interrupted."""
    rounds: int = 0
    score: float | None = None
    """The score of the answer, 0–1; `None` when nothing scored it."""
    accepted_by: str | None = None
    total_tokens: int = 0
    cost_usd: float | None = None
    """`None` when a price is unknown, never 0 for that."""
    created_at: str
    """When the thread's first checkpoint was made, ISO 8601 in UTC, with microseconds."""
    updated_at: str
    """When its newest checkpoint was made, in the same form."""
    parent_thread_id: str | None = None
    """The thread that this one was forked from."""
    parent_checkpoint_id: str | None = None
    fork_at: int | str | None = None
    """Where it was forked: a round, or a checkpoint id."""
    recipe: str | None = None
    """JSON of the options that rebuild the graph; `None` when only Python can rebuild it."""

    @property
    def position(self) -> Position:
        """The `before=` that lists what follows this row."""
        return (self.created_at, self.thread_id)

    def after(self, previous: RunRow) -> RunRow:
        """This row, with what the thread's earlier row knows and a later checkpoint need not repeat."""
        kept = {name: getattr(previous, name) for name in KEPT if getattr(self, name) is None}
        return dataclasses.replace(self, created_at=previous.created_at, **kept)


KEPT = ("preset", "parent_thread_id", "parent_checkpoint_id", "fork_at", "recipe")
"""Told by the first call's metadata, and not forgotten when a later call's does not tell it."""

Runs: TypeAlias = list[RunRow]


class RunIndex(ABC):
    """The threads of one database, newest first."""

    db_executor: Executor | None = None
    """Where the async twins run; `None` where nothing can make them wait."""

    @abstractmethod
    def list(
        self,
        *,
        limit: int = 50,
        before: Position | None = None,
        preset: str | None = None,
        stop_reason: str | None = None,
        parent: str | None = None,
    ) -> Runs:
        """At most `limit` rows, the last created first; a page never repeats a row of the one before it.

        Args:
            limit: Rows on a page, at least 1.
            before: `position` of the last row of the page before; default: the first page.
            preset: Only threads of this preset.
            stop_reason: Only threads that stopped for this reason; `"running"` means those that have none.
            parent: Only forks of this thread.

        Raises:
            ValueError: If `limit` is below 1.
        """

    @abstractmethod
    def get(self, thread_id: str) -> RunRow | None:
        """The row of this thread, or `None` if the database has no such thread."""

    @abstractmethod
    def children(self, thread_id: str) -> Runs:
        """Every fork of this thread, the first created first."""

    alist = in_db_executor(list)  # noqa: A003  (the method above)
    aget = in_db_executor(get)
    achildren = in_db_executor(children)


def row_from_checkpoint(
    config: RunnableConfig, checkpoint: Checkpoint, told: Mapping[str, object], *, previous: RunRow | None = None
) -> RunRow | None:
    """The row that a checkpoint gives its thread; `None` for a subgraph's checkpoint, which is part of another run.

    Values of an unexpected type, as another graph's channels may hold under the same names, count as absent: the index
    never makes a run fail.

    Args:
        config: What the graph hands to `put`.
        checkpoint: Its `channel_values` hold our state.
        told: The metadata of both, as LangGraph's `get_checkpoint_metadata` puts them together.
        previous: The thread's row so far: `created_at`, and what only the first call's metadata told, is kept from it.
    """
    if config["configurable"].get("checkpoint_ns"):
        return None
    values: Mapping[str, Any] = checkpoint["channel_values"]
    started = values.get("__start__")
    if isinstance(started, dict) and "task" in started:
        values = {"task": started["task"]}  # a new task begins; the thread still holds the last one's result
    elif "branch:to:prepare" in values and "head" in values:  # it waits for `prepare`, which may have refused it
        values = {"task": values.get("task")}
    usage = values.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    updated_at = _utc(checkpoint["ts"])
    row = RunRow(
        thread_id=str(config["configurable"]["thread_id"]),
        preset=_text(told.get("redraft_preset")),
        task=" ".join((_text(values.get("task")) or "").split(maxsplit=TASK_CHARACTERS))[:TASK_CHARACTERS],
        stop_reason=_text(values.get("stop_reason")),
        rounds=_integer(values.get("rounds")) or 0,
        score=_number(values.get("score")),
        accepted_by=_text(values.get("accepted_by")),
        total_tokens=_integer(usage.get("total_tokens")) or 0,
        cost_usd=_number(usage.get("cost_usd")),
        created_at=updated_at,
        updated_at=updated_at,
        parent_thread_id=_text(told.get("redraft_parent_thread")),
        parent_checkpoint_id=_text(told.get("redraft_parent_checkpoint")),
        fork_at=_round_or_id(told.get("redraft_fork_at")),
        recipe=_text(told.get("redraft_recipe")),
    )
    return row if previous is None else row.after(previous)


def _text(value: object) -> str | None:
    """The string without what a database refuses: NUL and lone surrogates."""
    if not isinstance(value, str):
        return None
    value = value.replace("\0", "")
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None


def _number(value: object) -> float | None:
    number = value if isinstance(value, float) else _integer(value)
    return float(number) if number is not None and math.isfinite(number) else None


def _round_or_id(value: object) -> int | str | None:
    number = _integer(value)
    return number if number is not None else _text(value)


def _utc(timestamp: str) -> str:
    """The time in one fixed form, in which order of text is order of time."""
    try:
        return datetime.fromisoformat(timestamp).astimezone(UTC).isoformat(timespec="microseconds")
    except ValueError:
        return timestamp
