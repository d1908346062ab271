"""Where the seconds and tokens of runs went: writers, critics, programs, people. Internal."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ...state.usage import NO_USAGE, add_usage
from .wording import who_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ...state.threads.history import HistoryStep
    from ...state.usage import Usage

__all__ = ["flame_of", "profile_of"]

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
        for step, took in _taken(steps):
            if step.node == "human":
                person += took
                continue
            seconds += took
            calls = _calls(step)
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


def flame_of(steps: Sequence[HistoryStep]) -> dict[str, Any] | None:
    """Return a flame chart of a thread: its rounds, below them the nodes of each, and below these their calls.

    Args:
        steps: Of the thread, oldest first. The time that a person took is left out.

    Returns:
        `seconds` of all, and `bars`: the `level` of each (0 for a round, 1 for a node, 2 and on for calls, side by side
        where they were), `start` and `width` in thousandths of the whole, `name`, `seconds` and `tokens`. `None` where
        nothing took any time.
    """
    clock, bars = 0.0, list[dict[str, Any]]()

    def bar(level: int, start: float, took: float, name: str, tokens: int) -> dict[str, Any]:
        bars.append({"level": level, "start": start, "seconds": took, "name": name, "tokens": tokens})
        return bars[-1]

    current: dict[str, Any] | None = None
    for step, took in _taken(steps):
        if step.node == "human":
            continue
        calls = [(by, usage) for by, usage in _calls(step) if usage["calls"]]
        tokens = sum(usage["total_tokens"] for _, usage in calls)
        name = f"round {max((event['round'] for event in step.events), default=0)}"
        if current is None or (step.events and current["name"] != name):
            current = bar(0, clock, 0.0, name, 0)
        current["seconds"] += took
        current["tokens"] += tokens
        bar(1, clock, took, step.node, tokens)
        beside, at = sum(usage["seconds"] for _, usage in calls) > took, clock
        for lane, (by, usage) in enumerate(calls):
            bar(2 + lane * beside, at, min(usage["seconds"], took), by, usage["total_tokens"])
            at += 0 if beside else usage["seconds"]
        clock += took
    if clock <= 0:
        return None
    for one in bars:
        one |= {"start": round(1000 * one["start"] / clock, 1), "width": round(1000 * one["seconds"] / clock, 1)}
    return {"seconds": clock, "bars": bars, "levels": 1 + max(one["level"] for one in bars)}


def _taken(steps: Sequence[HistoryStep]) -> Iterator[tuple[HistoryStep, float]]:
    """Yield each step of a run with the seconds that it took."""
    for before, step in pairwise(steps):
        if step.node not in OUTSIDE and before.created_at and step.created_at:
            took = datetime.fromisoformat(step.created_at) - datetime.fromisoformat(before.created_at)
            yield step, took.total_seconds()


def _calls(step: HistoryStep) -> list[tuple[str, Usage]]:
    return [(who_of(event), event["usage"]) for event in step.events if event.get("usage")]
