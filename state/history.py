"""A thread step by step, and its branches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langgraph.types import StateSnapshot

    from .events import Event
    from .runs import RunRow

__all__ = ["Branch", "HistoryStep", "grow_tree", "read_history"]


@dataclass(frozen=True)
class HistoryStep:
    """One checkpoint of a thread."""

    checkpoint_id: str
    step: int
    node: str
    """What ran to make it: a node, several joined by commas, `input`, or `fork` for the first of a branch."""
    next: tuple[str, ...]
    events: tuple[Event, ...]
    """What it added to the record; empty for graphs that keep none."""
    stop_reason: str | None
    created_at: str | None


@dataclass(frozen=True)
class Branch:
    """A thread with the threads that were forked from it."""

    thread_id: str
    row: RunRow | None
    children: tuple[Branch, ...] = field(default=())


def read_history(snapshots: Iterable[StateSnapshot]) -> list[HistoryStep]:
    """Return the steps of a thread, oldest first.

    Args:
        snapshots: Newest first, as `graph.get_state_history(config)` gives them.
    """
    steps: list[HistoryStep] = []
    ran, known = "", 0
    for snapshot in reversed(list(snapshots)):
        values: dict[str, Any] = snapshot.values if isinstance(snapshot.values, dict) else {}
        events = tuple(values.get("events") or ())
        metadata = snapshot.metadata or {}
        source = metadata.get("source")
        node = {"input": "input", "update": "edit"}.get(str(source), ran)
        if source == "update" and not steps:
            node = "fork"
        steps.append(
            HistoryStep(
                checkpoint_id=snapshot.config["configurable"]["checkpoint_id"],
                step=metadata.get("step", 0),
                node=node,
                next=snapshot.next,
                events=events[known:],
                stop_reason=values.get("stop_reason"),
                created_at=snapshot.created_at,
            )
        )
        ran, known = ", ".join(snapshot.next).replace("__start__", "start"), len(events)
    return steps


def _parent(row: RunRow | None) -> str | None:
    return row.parent_thread_id if row else None


def grow_tree(thread_id: str, rows: Iterable[RunRow]) -> Branch:
    """Return the branch that holds a thread: its oldest known ancestor with all descendants.

    Args:
        thread_id: A thread of the tree.
        rows: The index rows to look in.
    """
    known = {row.thread_id: row for row in rows}
    children: dict[str, list[str]] = {}
    for row in sorted(known.values(), key=lambda row: row.created_at):
        if row.parent_thread_id:
            children.setdefault(row.parent_thread_id, []).append(row.thread_id)
    root, seen = thread_id, {thread_id}
    while (parent := _parent(known.get(root))) and parent not in seen:
        root = parent
        seen.add(root)

    def grow(name: str) -> Branch:
        return Branch(name, known.get(name), tuple(grow(child) for child in children.get(name, ())))

    return grow(root)
