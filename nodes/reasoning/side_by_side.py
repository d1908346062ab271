"""Arrows on copies of one branch at the same time, of which the best goes on."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import Runnable, RunnableConfig

from ...state.events import failure, record
from ...state.summary import rounds
from ...state.usage import add_usage
from .arrows import ArrowError
from .branch import Branch
from .safe_arrows import safe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from .results import Result

__all__ = ["InParallel", "best_branch"]


class InParallel(Runnable[Branch, Branch]):
    """Several arrows on copies of one branch at the same time; the best of the branches goes on.

    A branch that fails is left out. What goes on keeps the costs of all: those of a failed branch with the failure, the
    others' with the verdict that says which was the best.

    Args:
        arrows: One a branch; the branches are named after the first, with `/1`, `/2` … behind.
        by: What a branch is worth; default: as `best_branch`.

    Raises:
        ValueError: At build: there is no arrow.
        ArrowError: At run: all failed.
    """

    def __init__(self, *arrows: Runnable[Branch, Branch], by: Callable[[Branch], Any] | None = None) -> None:
        if not arrows:
            raise ValueError("give the arrows that are to run side by side")
        self.arrows = [safe(arrow) for arrow in arrows]
        self.by = by
        self.name = "in_parallel"

    def invoke(self, input: Branch, config: RunnableConfig | None = None, **_: Any) -> Branch:  # noqa: A002
        """Return the best branch."""
        with ThreadPoolExecutor(len(self.arrows)) as pool:
            running = [
                pool.submit(copy_context().run, arrow.invoke, branch, config) for arrow, branch in self._apart(input)
            ]
            return self._best(input, [one.result() for one in running])

    async def ainvoke(self, input: Branch, config: RunnableConfig | None = None, **_: Any) -> Branch:  # noqa: A002
        """Return the best branch, without blocking."""
        running = [arrow.ainvoke(branch, config) for arrow, branch in self._apart(input)]
        return self._best(input, await asyncio.gather(*running))

    def _apart(self, branch: Branch) -> Iterator[tuple[Runnable[Any, Result[Branch]], Branch]]:
        for number, arrow in enumerate(self.arrows, start=1):
            yield arrow, branch.named(f"{branch.name}/{number}")

    def _best(self, branch: Branch, results: Sequence[Result[Branch]]) -> Branch:
        finished = [result.value for result in results if result.ok]
        if not finished:
            kept = [result.partial for result in results if isinstance(result.partial, Branch)]
            best = best_branch(kept, by=self.by) if kept else branch
            numbered = enumerate(results, start=1)
            left = [_told(branch, number, one) for number, one in numbered if one.partial is not best]
            told = best.extended(record({"head": best.head}, *left).get("events", []))
            raise ArrowError("; ".join(result.message for result in results), told)
        best = best_branch(finished, by=self.by)
        news = [_told(branch, number, one) for number, one in enumerate(results, start=1) if not one.ok]
        if others := [one for one in finished if one is not best]:
            text = f"{best.name} goes on; the others are {', '.join(one.name for one in others)}."
            cost = add_usage(event["usage"] for one in others for event in one.events[len(branch.events) :])
            number = best.latest.round if best.latest else 0
            news.append({"kind": "verdict", "round": number, "by": self.name, "text": text, "usage": cost})
        return best.extended(record({"head": best.head}, *news).get("events", []))


def best_branch(branches: Iterable[Branch], *, by: Callable[[Branch], Any] | None = None) -> Branch:
    """Return the best of several branches; of equals, the first.

    Args:
        branches: What to choose from.
        by: What a branch is worth, the greatest wins; default: whether its best text was accepted, then its score.

    Raises:
        ValueError: There is none.
    """
    found = list(branches)
    if not found:
        raise ValueError("there is no branch to choose from")
    return max(found, key=by or _worth)


def _told(branch: Branch, number: int, result: Result[Branch]) -> dict[str, Any]:
    """Return the event that says why one of several branches failed, and what it cost."""
    done = result.partial.events[len(branch.events) :] if isinstance(result.partial, Branch) else ()
    event = failure(
        "in_parallel", rounds(branch.events), ArrowError(f"{branch.name}/{number}: {result.message}", branch)
    )
    return {**event, "usage": add_usage(one["usage"] for one in done)}


def _worth(branch: Branch) -> tuple[bool, float]:
    best = branch.best
    return (False, -1.0) if best is None else (best.accepted, -1.0 if best.score is None else best.score)
