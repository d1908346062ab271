"""One worker of several that share the problems of a run through PostgreSQL, on one machine or many."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .methods import build_method, check_methods
from .outcomes import run_problem
from .rate_limits import RATE_LIMITS, RateLimits
from .result_table import ResultTable, postgres_url
from .running import few_collections

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .methods import Kind, Method
    from .outcomes import Outcome

__all__ = ["SharedJob", "Worker"]


@dataclass(frozen=True)
class SharedJob:
    """What a worker needs to know, as plain data that can travel. It holds no gold answer, and no model's key.

    Args:
        run_id: Names the run in the database; one command's threads and results, and nobody else's.
        method: A name of `METHODS`.
        kind: Of the problems.
        problems: Id and task of each.
        model: Spec of the model that writes. Keys come from each worker's own environment.
        db: `postgresql://…`, for checkpoints and results; `repr` hides it.
        encryption_key: Encrypts the checkpoints, not the results, as `open_checkpointer` takes it; `repr` hides it.
        critic: Spec of the model that judges; `None` or `self`: the writer.
        model_options: `temperature`, `max_output_tokens` and `seed` of the writer.
        limits: Budgets for each problem.
        prices: Dollars by model name, as a price file holds them.
        rpm: Requests a minute of all workers together; each takes an equal share.
        tpm: Tokens a minute, likewise.

    Raises:
        ValueError: At build: the method is unknown, makes no sense for these problems or needs the gold answers, which
            no worker has; or `db` is not PostgreSQL.
    """

    run_id: str
    method: str
    kind: Kind
    problems: Sequence[tuple[str, str]] = field(repr=False)
    model: str
    db: str = field(repr=False)
    encryption_key: str | None = field(default=None, repr=False)
    critic: str | None = None
    model_options: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)
    prices: Mapping[str, Any] | None = None
    rpm: float | None = None
    tpm: float | None = None

    def __post_init__(self) -> None:
        check_methods([self.method], self.kind)
        if self.method.startswith("oracle-"):
            raise ValueError(
                f"{self.method} needs the gold answers while it runs, and they do not leave this machine: "
                "run it without --engine ray"
            )
        postgres_url(self.db)


class Worker:
    """Takes the next problem that has no result and that nobody else is at, runs it, stores what became of it.

    A worker that dies gives up its locks, and the others finish its problems from their checkpoints.

    Args:
        job: The run.
        number: Of this worker, from 0: each begins at another place in the list.
        workers: How many there are.
    """

    def __init__(self, job: SharedJob, number: int, workers: int) -> None:
        self._job = job
        self._workers = workers
        start = len(job.problems) * number // workers
        self._left = dict([*job.problems[start:], *job.problems[:start]])
        self._mine: set[str] = set()
        self._opening = asyncio.Lock()
        self._table: ResultTable | None = None
        self._method: Method | None = None
        self._pace: RateLimits | None = None
        self._open = AsyncExitStack()

    async def ready(self) -> None:
        """Return when the models are built and the database is open.

        Raises:
            ValueError: A spec is wrong, or its key is missing here.
            ImportError: Something that the run needs is not installed here.
            ConnectionError: The database can't be reached from here.
        """
        await self._opened()

    async def work(self) -> None:
        """Return when every problem has a result. Called several times at once, so many problems are worked on.

        Raises:
            ConnectionError: The database was lost, and could not be reached again for about half a minute.
        """
        pauses = iter(PAUSES_S)
        while self._left:
            table = self._table
            try:
                table = await self._opened()
                RATE_LIMITS.set(self._pace)
                while name := await self._next(table):
                    await self._solve(table, name)
                    pauses = iter(PAUSES_S)
            except ConnectionError:
                if (pause := next(pauses, None)) is None:
                    raise
                if table is not None and self._table is table:
                    self._table = None
                    await table.__aexit__(None, None, None)
                await asyncio.sleep(pause)

    async def close(self) -> None:
        """Close every connection."""
        table, self._table = self._table, None
        if table is not None:
            await table.__aexit__(None, None, None)
        await self._open.aclose()

    async def _opened(self) -> ResultTable:
        async with self._opening:
            if self._method is None:
                self._method = await self._built()
            if self._table is None:
                self._table = await ResultTable(self._job.db).__aenter__()
            return self._table

    async def _built(self) -> Method:
        from ...models import PriceTable, chat_model
        from ...state import open_checkpointer

        job = self._job
        saver = await self._open.enter_async_context(open_checkpointer(job.db, key=job.encryption_key))
        writer = chat_model(job.model, **job.model_options)
        judge = None if job.critic is None or job.critic == "self" else chat_model(job.critic)
        prices = None if job.prices is None else PriceTable(job.prices)
        if job.rpm or job.tpm:
            share = [None if rate is None else rate / self._workers for rate in (job.rpm, job.tpm)]
            self._pace = RateLimits(rpm=share[0], tpm=share[1])
        method = build_method(job.method, job.kind, writer, critic=judge, prices=prices, checkpointer=saver)
        self._open.enter_context(few_collections())
        return method

    async def _next(self, table: ResultTable) -> str | None:
        """Return a problem whose lock we have now; `None` when all have a result."""
        run = self._job.run_id
        while self._left:
            for name in list(self._left):
                # Our own lock would be given to us twice.
                if name in self._mine or name not in self._left:
                    continue
                self._mine.add(name)
                kept = False
                try:
                    if await table.take(self._thread(name)):
                        if not await table.stored(run, name):
                            kept = True
                            return name
                        self._left.pop(name, None)
                        await table.give_back(self._thread(name))
                finally:
                    if not kept:
                        self._mine.discard(name)
            await asyncio.sleep(POLL_S)
            for name in await table.finished(run):
                self._left.pop(name, None)
        return None

    async def _solve(self, table: ResultTable, name: str) -> None:
        try:
            await table.store(self._job.run_id, name, await self._run(table, name))
            self._left.pop(name, None)
            await table.give_back(self._thread(name))
        finally:
            self._mine.discard(name)

    async def _run(self, table: ResultTable, name: str) -> Outcome:
        """Run a problem while its lock is ours. When that is lost with the connection, stop: another may be at it."""
        method = self._method
        assert method is not None  # noqa: S101  # built before the table is opened
        limits = {**self._job.limits, "max_rounds": method.rounds}
        task = self._left[name]
        running = asyncio.create_task(run_problem(method, task, limits=limits, thread_id=self._thread(name)))
        try:
            while not (await asyncio.wait({running}, timeout=CHECK_S))[0]:
                await table.check()
            await table.check()
            return running.result()
        finally:
            if not running.done():
                running.cancel()
                await asyncio.wait({running})

    def _thread(self, name: str) -> str:
        return f"{self._job.run_id}/{name}"


POLL_S = 0.3
"""How often a worker that finds nothing to do looks again."""
CHECK_S = 3.0
"""How often a worker makes sure that its locks are still there."""
PAUSES_S = (0.5, 1, 2, 4, 8, 16)
"""Before each new try to reach a database that was lost."""
