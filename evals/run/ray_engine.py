"""The same run past one machine: workers on Ray, checkpoints and results in PostgreSQL, scores and files here."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING

from .outcomes import scored
from .ray_actors import Actors, check_connected
from .result_table import ResultTable
from .running import MOST_FAILURES, GivenUpError, Progress

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from ..datasets.problems import Dataset
    from .outcomes import Outcome
    from .records import ResultRecord
    from .result_files import ResultFile
    from .shared_work import SharedJob

__all__ = ["run_on_ray"]


async def run_on_ray(
    job: SharedJob,
    dataset: Dataset,
    results: ResultFile,
    *,
    workers: int = 2,
    concurrency: int = 4,
    retry_failed: bool = False,
    on_progress: Callable[[Progress, ResultRecord | None], None] = lambda *_: None,
) -> Progress:
    """Run every problem that has no result yet on the Ray cluster that this process is connected to.

    Each worker is an async actor that Ray starts again when it dies. It takes problems one by one out of what is left,
    so that the others finish what a dead one had begun, from its checkpoint. What the database knows already, for the
    command that asked for it was killed, is written first and not run again. When this is cancelled the workers are
    stopped; what was under way stays in its thread.

    Args:
        job: What the workers are told. Its problems are those of `dataset`.
        dataset: Scores what comes back. The gold answers stay here.
        results: Open; holds what was finished before.
        workers: Processes, each with a CPU of the cluster to itself.
        concurrency: How many problems each of them works on at once.
        retry_failed: Run again what failed, unless `results` has it.
        on_progress: Called with the progress after each problem, and once at the beginning.

    Raises:
        ValueError: `workers` or `concurrency` is below 1, or a worker can't build a model.
        ImportError: The extra `ray` or `postgres` is not installed, here or where a worker runs.
        ConnectionError: The database can't be reached, from here or from a worker.
        RuntimeError: Ray is not connected, another command is at work on this run, no worker started within five
            minutes, or Ray lost them all.
        GivenUpError: The first problems all failed.
    """
    for name, count in (("workers", workers), ("concurrency", concurrency)):
        if count < 1:
            raise ValueError(f"{name} must be 1 or more, not {count!r}")
    check_connected()
    async with ResultTable(job.db) as table:
        await _taken_over(table, job.run_id)
        run = _Run(job, dataset, results, table, on_progress)
        await run.begin(retry_failed=retry_failed)
        if left := [(problem.id, problem.task) for problem in dataset.problems if problem.id not in results.records]:
            actors = Actors(dataclasses.replace(job, problems=left), min(workers, len(left)), concurrency)
            try:
                await _until_done(run, actors)
            finally:
                actors.kill()
        return run.progress


async def _taken_over(table: ResultTable, run: str) -> None:
    """Return when no other command is at work on the run. One that was just killed may need a moment to be gone.

    Raises:
        RuntimeError: One is.
    """
    for _ in range(int(TAKE_OVER_S / POLL_S)):
        if await table.take(f"command {run}"):
            return
        await asyncio.sleep(POLL_S)
    raise RuntimeError(f"another command is at work on the run {run!r}; wait for its end or stop it")


async def _until_done(run: _Run, actors: Actors) -> None:
    """Write down results as they come, until there are all. An error of a worker ends it."""
    working = asyncio.create_task(actors.work())
    try:
        while run.progress.done < run.progress.total:
            await asyncio.wait({working}, timeout=POLL_S)
            ended = working.done()
            if ended:
                working.result()
            await run.collect()
            if ended and run.progress.done < run.progress.total:
                raise RuntimeError(f"results of the run {run.job.run_id!r} were taken out of the database meanwhile")
    finally:
        working.cancel()
        await asyncio.wait({working})
    await actors.close()


class _Run:
    """What is known of a run, in the file and in the database."""

    def __init__(
        self,
        job: SharedJob,
        dataset: Dataset,
        results: ResultFile,
        table: ResultTable,
        on_progress: Callable[[Progress, ResultRecord | None], None],
    ) -> None:
        self.progress = Progress(len(dataset.problems))
        self.job, self._dataset, self._results, self._table = job, dataset, results, table
        self._on_progress = on_progress
        self._problems = {problem.id: problem for problem in dataset.problems}
        self._fresh: list[ResultRecord] = []

    async def begin(self, *, retry_failed: bool) -> None:
        for name in self._problems:
            if name in self._results.records:
                self.progress.add(self._results.records[name], known=True)
        again = []
        async for record in self._new():
            if retry_failed and record.error is not None:
                again.append(record.question_id)
            elif self._results.add(record):
                self.progress.add(record, known=True)
        await self._table.forget(self.job.run_id, again)
        self._on_progress(self.progress, None)

    async def collect(self) -> None:
        """Score and write what is new.

        Raises:
            GivenUpError: The first problems all failed.
        """
        async for record in self._new():
            if not self._results.add(record):
                continue
            self.progress.add(record)
            self._on_progress(self.progress, record)
            self._fresh = [*self._fresh, record][: MOST_FAILURES + 1]
            if len(self._fresh) == MOST_FAILURES and all(one.error for one in self._fresh):
                raise GivenUpError(f"the first {MOST_FAILURES} problems all failed; the last one: {record.error}")

    async def _new(self) -> AsyncIterator[ResultRecord]:
        """Give the records of what the database knows and the file does not."""
        known = await self._table.finished(self.job.run_id)
        missing = [name for name in self._problems if name in known and name not in self._results.records]
        for start in range(0, len(missing), AT_ONCE):
            found = await self._table.read(self.job.run_id, missing[start : start + AT_ONCE])
            scoring = [asyncio.to_thread(self._scored, name, outcome) for name, outcome in found.items()]
            for record in await asyncio.gather(*scoring):
                yield record

    def _scored(self, name: str, outcome: Outcome) -> ResultRecord:
        return scored(outcome, self._dataset, self._problems[name])


POLL_S = 0.3
"""How often the database is asked for new results."""
TAKE_OVER_S = 3.0
AT_ONCE = 200
"""Results that are read from the database at a time."""
