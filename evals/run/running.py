"""Running one method on one dataset: bounded concurrency, checkpoints, and a result for every problem."""

from __future__ import annotations

import asyncio
import gc
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .outcomes import run_problem, scored
from .rate_limits import RATE_LIMITS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from ..datasets.problems import Dataset, Problem
    from .methods import Method
    from .rate_limits import RateLimits
    from .records import ResultRecord
    from .result_files import ResultFile

__all__ = ["GivenUpError", "Progress", "few_collections", "run_all", "run_method", "thread_of"]

MOST_FAILURES = 5
"""So many problems in a row that failed before any succeeded end a run: the model is not there, say."""


class GivenUpError(RuntimeError):
    """Every problem so far failed in the same way, so the rest was not tried. Resuming goes on."""


@dataclass
class Progress:
    """How far a run is."""

    total: int
    done: int = 0
    right: int = 0
    failed: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0
    started: float = field(default_factory=perf_counter)
    known: int = 0
    """Of `done`, how many were there before this run began."""

    def add(self, record: ResultRecord, *, known: bool = False) -> None:
        """Count a problem."""
        self.done += 1
        self.known += known
        self.right += bool(record.is_correct)
        self.failed += record.error is not None
        self.tokens += 0 if known else record.total_tokens
        cost = record.cost_usd
        self.cost_usd = None if self.cost_usd is None or cost is None else self.cost_usd + cost

    @property
    def accuracy(self) -> float | None:
        """Share of right answers so far, 0–1."""
        return self.right / self.done if self.done else None

    @property
    def tokens_per_second(self) -> float:
        """Of this run."""
        return self.tokens / max(perf_counter() - self.started, 1e-9)

    @property
    def eta_s(self) -> float | None:
        """Seconds that are left at the pace so far; `None` before the first result."""
        fresh = self.done - self.known
        return (perf_counter() - self.started) / fresh * (self.total - self.done) if fresh else None


async def run_method(
    method: Method,
    dataset: Dataset,
    results: ResultFile,
    *,
    concurrency: int = 4,
    rate_limits: RateLimits | None = None,
    limits: Mapping[str, Any] | None = None,
    run_id: str,
    on_progress: Callable[[Progress, ResultRecord | None], None] = lambda *_: None,
) -> Progress:
    """Run every problem that has no result yet, and write each result as it comes.

    A worker takes the next problem when it has finished one. A problem whose thread is stored goes on from its
    checkpoint, and what it paid for before counts. When this is cancelled, what is under way stays in its thread.

    Args:
        method: Its graph has a checkpointer where runs are to be resumed.
        dataset: The problems.
        results: Open; holds what was finished before.
        concurrency: How many problems are worked on at once, 1 or more.
        rate_limits: For all of them together.
        limits: Budgets for each problem; the method's rounds are put over them.
        run_id: Distinguishes the threads of this run.
        on_progress: Called with the progress after each problem, and once at the beginning.

    Raises:
        ValueError: `concurrency` is below 1.
        GivenUpError: The first problems all failed.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency must be 1 or more, not {concurrency!r}")
    given = {**(limits or {}), "max_rounds": method.rounds}

    async def solve(problem: Problem) -> ResultRecord:
        RATE_LIMITS.set(rate_limits)
        outcome = await run_problem(method, problem.task, limits=given, thread_id=thread_of(run_id, problem))
        return await asyncio.to_thread(scored, outcome, dataset, problem, oracle=method.oracle)

    with few_collections():
        return await run_all(dataset, results, solve, at_once=concurrency, on_progress=on_progress)


async def run_all(
    dataset: Dataset,
    results: ResultFile,
    solve: Callable[[Problem], Awaitable[ResultRecord]],
    *,
    at_once: int,
    on_progress: Callable[[Progress, ResultRecord | None], None],
) -> Progress:
    """Solve every problem that has no result yet, so many at once, and write each result as it comes.

    Raises:
        GivenUpError: The first problems all failed.
    """
    progress = Progress(len(dataset.problems))
    for problem in dataset.problems:
        if problem.id in results.records:
            progress.add(results.records[problem.id], known=True)
    on_progress(progress, None)
    waiting = iter([problem for problem in dataset.problems if problem.id not in results.records])
    fresh = failed = 0

    async def work() -> None:
        nonlocal fresh, failed
        for problem in waiting:
            record = await solve(problem)
            results.add(record)
            progress.add(record)
            on_progress(progress, record)
            fresh, failed = fresh + 1, failed + bool(record.error)
            if fresh == failed >= MOST_FAILURES:
                raise GivenUpError(f"the first {fresh} problems all failed; the last one: {record.error}")

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(at_once, progress.total - progress.done)):
                group.create_task(work())
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
    return progress


def thread_of(run_id: str, problem: Problem) -> str:
    """Return the id of the thread in which a problem is worked on."""
    return f"{run_id}/{problem.id}"


@contextmanager
def few_collections() -> Iterator[None]:
    """Within the block the garbage collector looks at new objects only, and rarely: thousands of problems make many."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
