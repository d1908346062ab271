"""Where the seconds and tokens of runs went: writers, critics, programs, people. Internal."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ...state.usage import NO_USAGE, add_usage
from .wording import who_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...state.threads.history import HistoryStep
    from ...state.usage import Usage

__all__ = ["profile_of"]

OUTSIDE = ("input", "edit", "fork")
"""Steps that a caller made: the time before them belongs to no run."""


def profile_of(histories: Iterable[Sequence[HistoryStep]]) -> dict[str, Any]:
    """Return where the time and the tokens of some threads went.

    Args:
        histories: The steps of each, oldest first.

    Returns:
        `seconds` from the beginning of runs to their end, without `person_seconds`, which a person took to answer;
        `models`, a row for each node and who answered in it, with `usage` and the `seconds` of its calls; and `rest`,
        the seconds of each node beside its calls: programs, the sandbox, saving, and the time until a run that was cut
        off was resumed. Calls side by side have more seconds than their node.
    """
    seconds, person, threads = 0.0, 0.0, 0
    used: dict[tuple[str, str], list[Usage]] = {}
    rest: dict[str, float] = {}
    for steps in histories:
        threads += 1
        for before, step in pairwise(steps):
            if step.node in OUTSIDE or not (before.created_at and step.created_at):
                continue
            took = (datetime.fromisoformat(step.created_at) - datetime.fromisoformat(before.created_at)).total_seconds()
            if step.node == "human":
                person += took
                continue
            seconds += took
            calls = [(who_of(event), event["usage"]) for event in step.events if event.get("usage")]
            for by, usage in calls:
                if usage["calls"]:
                    used.setdefault((step.node, by), []).append(usage)
            rest[step.node] = rest.get(step.node, 0.0) + max(took - sum(usage["seconds"] for _, usage in calls), 0.0)
    rows: list[dict[str, Any]] = [
        {"node": node, "by": by, "usage": add_usage(usages)} for (node, by), usages in used.items()
    ]
    rows.sort(key=lambda row: -row["usage"]["seconds"])
    everything: list[Usage] = [row["usage"] for row in rows]
    return {
        "threads": threads,
        "seconds": round(seconds, 3),
        "person_seconds": round(person, 3),
        "models": rows,
        "rest": {node: round(took, 3) for node, took in sorted(rest.items(), key=lambda one: -one[1])},
        "usage": add_usage(everything or [NO_USAGE]),
    }
