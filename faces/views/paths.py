"""The path that a run took through its graph, read off its checkpoints."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from langgraph.types import StateSnapshot

__all__ = ["Taken", "path_taken"]


@dataclass
class Taken:
    """The nodes that the last run of a thread visited, and how often."""

    nodes: Counter[str] = field(default_factory=Counter)
    edges: Counter[tuple[str, str]] = field(default_factory=Counter)
    order: list[str] = field(default_factory=list)
    """The nodes as they ran; those of one step joined by commas."""
    waiting: tuple[str, ...] = ()
    """The nodes that come next; empty when the run is at its end."""


def path_taken(snapshots: Iterable[StateSnapshot], edges: Collection[tuple[str, str]]) -> Taken:
    """Return the path of the last run; it works with any graph.

    Args:
        snapshots: Newest first, as `graph.get_state_history(config)` gives them.
        edges: Those that the drawing has.
    """
    taken, before, pending = Taken(), (), ()  # type: tuple[Taken, tuple[str, ...], tuple[str, ...]]
    for snapshot in reversed(list(snapshots)):
        source = (snapshot.metadata or {}).get("source")
        if source == "input":  # another task begins
            taken, before = Taken(), ()
        elif source == "loop":
            for node in pending:
                taken.nodes[node] += 1
                for last in dict.fromkeys(before):
                    if (last, node) in edges:
                        taken.edges[last, node] += 1
            if pending and pending != ("__start__",):
                taken.order.append(", ".join(pending))
            before = pending
        else:  # written from outside: a fork, say
            before = ()
        pending = snapshot.next
    taken.waiting = pending
    if not pending and before:
        ends = [last for last in dict.fromkeys(before) if (last, "__end__") in edges]
        taken.nodes["__end__"] += bool(ends)
        taken.edges.update((last, "__end__") for last in ends)
    taken.nodes = +taken.nodes
    return taken
