"""A thread step by step, and its branches. Internal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from ..dual import Do, do
from ..langgraph_internals import INPUT_CHANNEL
from ..storage.index import RunIndex, RunRow, row_from_checkpoint

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

    from langgraph.checkpoint.base import CheckpointTuple
    from langgraph.types import StateSnapshot

    from ..events import Event
    from .kind import GraphKind

__all__ = [
    "HistoryStep",
    "ThreadTree",
    "family",
    "grow_tree",
    "guide",
    "newest_branch",
    "read_history",
    "rows_of",
    "steps_of",
]


@dataclass(frozen=True)
class HistoryStep:
    """One checkpoint of a thread."""

    checkpoint_id: str
    step: int
    node: str
    """Its origin: a node, several joined by commas, `input`, or `fork` for the first of a branch."""
    next: tuple[str, ...]
    events: tuple[Event, ...]
    """The events that it added to the record; empty for graphs that keep none."""
    stop_reason: str | None
    created_at: str | None


@dataclass(frozen=True)
class ThreadTree:
    """A thread with the threads that were forked from it."""

    thread_id: str
    row: RunRow | None
    children: tuple[ThreadTree, ...] = field(default=())

    def __str__(self) -> str:
        """Return a line for each thread, with its stop reason and score, forks below what they were forked from."""
        lines = []
        for tree, lasts in self.walk():
            stopped = "not kept here" if tree.row is None else tree.row.stop_reason or "unfinished"
            score = "" if tree.row is None or tree.row.score is None else f", scored {tree.row.score:.2f}"
            lines.append(f"{guide(lasts)}{tree.thread_id}: {stopped}{score}")
        return "\n".join(lines)

    def walk(self) -> Iterator[tuple[ThreadTree, Sequence[bool]]]:
        """Yield each thread before its forks, with whether its ancestors below the root, and it, are the last of their
        siblings."""
        # A stack and not recursion, which forks of forks could make too deep.
        waiting: list[tuple[ThreadTree, Sequence[bool]]] = [(self, ())]
        while waiting:
            tree, lasts = waiting.pop()
            yield tree, lasts
            waiting += [(fork, (*lasts, fork is tree.children[-1])) for fork in reversed(tree.children)]


def guide(lasts: Sequence[bool]) -> str:
    """Return the lines before a thread's name, from what `ThreadTree.walk` says of it."""
    if not lasts:
        return ""
    return "".join("   " if last else "│  " for last in lasts[:-1]) + ("└─ " if lasts[-1] else "├─ ")


def newest_branch(snapshots: Iterable[StateSnapshot]) -> list[StateSnapshot]:
    """Return the snapshots that led to the newest, oldest first.

    A thread that was run on from an earlier checkpoint, or had its state changed there, holds several branches; those
    it left are no part of its record.

    Args:
        snapshots: Newest first, as `graph.get_state_history(config)` gives them.
    """
    branch: list[StateSnapshot] = []
    for snapshot in snapshots:
        above = branch[-1].parent_config if branch else None
        if not branch or (above and above["configurable"]["checkpoint_id"] == _id(snapshot)):
            branch.append(snapshot)
    return branch[::-1]


def _id(snapshot: StateSnapshot) -> str:
    return str(snapshot.config["configurable"]["checkpoint_id"])


def read_history(snapshots: Iterable[StateSnapshot], kind: GraphKind) -> list[HistoryStep]:
    """Return the steps that led to where a thread stands, oldest first.

    Args:
        snapshots: Newest first, as `graph.get_state_history(config)` gives them.
        kind: Of the graph, which says where a record is.
    """
    checkpoints, length = [], 0
    for snapshot in newest_branch(snapshots):
        values: dict[str, Any] = snapshot.values if isinstance(snapshot.values, dict) else {}
        events = kind.read(values)
        reason = kind.loop_values(values).get("stop_reason")
        checkpoints.append(
            (_id(snapshot), snapshot.metadata or {}, snapshot.next, events[length:], reason, snapshot.created_at)
        )
        length = len(events)
    return steps_of(checkpoints)


Seen: TypeAlias = "tuple[str, Mapping[str, Any], tuple[str, ...], Sequence[Event], str | None, str | None]"
"""A checkpoint: its id, metadata, the nodes that are next, what it added to the record, `stop_reason`, and when."""


def steps_of(checkpoints: Iterable[Seen]) -> list[HistoryStep]:
    """Return the steps that made the checkpoints of a thread's branch, oldest first."""
    steps: list[HistoryStep] = []
    ran = ""
    for checkpoint_id, metadata, following, news, stop_reason, created_at in checkpoints:
        source = metadata.get("source")
        node = {"input": "input", "update": "edit"}.get(str(source), ran)
        if source == "update" and not steps:
            node = "fork"
        number = metadata.get("step", 0)
        steps.append(HistoryStep(checkpoint_id, number, node, following, tuple(news), stop_reason, created_at))
        ran = ", ".join(following).replace(INPUT_CHANNEL, "start")
    return steps


def grow_tree(thread_id: str, rows: Iterable[RunRow]) -> ThreadTree:
    """Return the branch that holds a thread: its oldest known ancestor with all descendants.

    An ancestor that was deleted stands there without a row, and still holds its forks together, also where its id was
    given to another thread since.

    Args:
        thread_id: A thread of the tree.
        rows: The index rows to look in.
    """
    by_id = {row.thread_id: row for row in rows}
    children: dict[Place, list[Place]] = {}
    parents: dict[Place, Place] = {}
    for row in sorted(by_id.values(), key=lambda row: row.created_at):
        if row.parent_thread_id:
            parent = by_id.get(row.parent_thread_id)
            # One made after its fork took over the id of the thread that was forked.
            place = (row.parent_thread_id, parent is not None and parent.created_at <= row.created_at)
            children.setdefault(place, []).append((row.thread_id, True))
            parents[row.thread_id, True] = place
    root: Place = (thread_id, thread_id in by_id)
    seen = {root}
    while (above := parents.get(root)) and above not in seen:
        root = above
        seen.add(root)
    return _grow(root, children, by_id)


Place: TypeAlias = tuple[str, bool]
"""A thread's id, and whether the thread is kept: `False` is one that was deleted."""


def _grow(root: Place, children: Mapping[Place, list[Place]], by_id: Mapping[str, RunRow]) -> ThreadTree:
    """Build from the leaves up, with no call per generation: a thread can be forked a thousand times in a row."""
    order, placed = [root], {root}
    for place in order:
        new = [child for child in children.get(place, ()) if child not in placed]
        order += new
        placed.update(new)
    grown: dict[Place, ThreadTree] = {}
    for place in reversed(order):
        name, ancestors = place
        below = tuple(grown[child] for child in children.get(place, ()) if child in grown)
        grown[place] = ThreadTree(name, by_id[name] if ancestors and name in by_id else None, below)
    return grown[root]


def family(runs: RunIndex, thread_id: str) -> Generator[Do, Any, list[RunRow]]:
    """Return the index rows of a thread's ancestors and all their descendants."""
    rows: dict[str, RunRow] = {}
    top = thread_id
    while top not in rows and (row := (yield do(runs, "get", top))) is not None:
        rows[top] = row
        top = row.parent_thread_id or top
    waiting, seen = [top], {top}
    while waiting:
        for child in (yield do(runs, "children", waiting.pop())):
            rows[child.thread_id] = child
            if child.thread_id not in seen:
                seen.add(child.thread_id)
                waiting.append(child.thread_id)
    return list(rows.values())


def rows_of(tuples: Iterable[CheckpointTuple]) -> list[RunRow]:
    """Return one row a thread, read from checkpoints, newest first: for savers that keep no index."""
    rows: dict[str, RunRow] = {}
    for stored in tuples:
        row = row_from_checkpoint(stored.config, stored.checkpoint, stored.metadata)
        if row is not None:  # what an older checkpoint alone knows is its parent
            newer = rows.get(row.thread_id)
            rows[row.thread_id] = newer.after(row) if newer else row
    return list(rows.values())
