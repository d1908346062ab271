"""Evaluations on Ray. Internal.

The driver hands each problem to a free worker; checkpoints lie in PostgreSQL, results here.

The driver is the command that the user started. It alone knows the gold answers, scores and writes results. A worker is
an actor of Ray's that runs the problems it is handed and returns what became of them. Nothing else is shared: a problem
whose worker died is handed to another one, and one whose driver died is handed out again by the next command. Either
goes on from its checkpoint, so that at most the call under way is paid again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from ...nodes.runtime.pace import Pace
from ...state.collector import tuned_gc
from ...state.masking import masked
from ...state.storage.checkpointers import kind_and_place, without_secrets
from .methods import Kind, Method, build_method, check_methods
from .runner import RATE_LIMITS, Outcome, Progress, RateLimits, run_all, run_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..datasets.dataset import Dataset
    from .result_record import ResultRecord
    from .run_folder import ResultFile

__all__ = ["RayJob", "run_on_ray"]


@dataclass(frozen=True)
class RayJob:
    """A run as its workers know it: plain data that can travel, without gold answers and without a model's key.

    Args:
        run_id: Names the run; the threads of its problems begin with it.
        method: A name of `METHODS`.
        kind: Of the problems.
        model: Spec of the model that writes. Keys come from each worker's own environment.
        db: `postgresql://…`, for checkpoints; `repr` hides it.
        encryption_key: Encrypts the checkpoints, as `open_checkpointer` takes it; `repr` hides it.
        seal_key: Seals them, alike.
        critic: Who judges, as `--critic` names it; `None` or `self`: the writer.
        model_options: `temperature`, `max_output_tokens` and `seed` of the writer; `timeout_s`, which is the critic's
            too.
        limits: Budgets for each problem.
        prompts: In place of the method's own, by name.
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
    model: str
    db: str = field(repr=False)
    encryption_key: str | None = field(default=None, repr=False)
    seal_key: str | None = field(default=None, repr=False)
    critic: str | None = None
    model_options: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)
    prompts: Mapping[str, str] = field(default_factory=dict)
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
        if kind_and_place(self.db)[0] != "postgres":
            raise ValueError(
                f"{without_secrets(self.db)!r} is not a PostgreSQL URL, and workers on several machines share one "
                "database: use postgresql://user:password@host:port/database"
            )


class Worker:
    """Runs the problems that it is handed, in a process of Ray's. The job comes with each call: Ray logs what an actor
    is made with, and the job holds the database's password.

    Args:
        workers: How many there are: each takes an equal share of the rates.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        # Calls come several at once: one of them builds, the others wait for it.
        self._building = asyncio.Lock()
        self._method: Method | None = None
        self._rates: RateLimits | None = None
        self._running: dict[str, asyncio.Task[Outcome]] = {}
        self._open = AsyncExitStack()

    async def ready(self, job: RayJob) -> None:
        """Build the models and open the database.

        Raises:
            ValueError: A spec is wrong, or its key is missing here.
            ImportError: Something that the run needs is not installed here.
            ConnectionError: The database can't be reached from here.
        """
        await self._built(job)

    async def solve(self, job: RayJob, thread_id: str, task: str) -> Outcome:
        """Run a problem and return its outcome; one that runs already, because the call came twice, is awaited.

        Raises:
            ConnectionError: The database was lost, and could not be reached again for about half a minute.
        """
        if thread_id not in self._running:
            self._running[thread_id] = asyncio.create_task(self._solve(job, thread_id, task))
        try:
            return await self._running[thread_id]
        finally:
            self._running.pop(thread_id, None)

    async def close(self) -> None:
        """Close every connection."""
        await self._open.aclose()

    async def _solve(self, job: RayJob, thread_id: str, task: str) -> Outcome:
        pauses = iter(PAUSES_S)
        while True:
            try:
                method = await self._built(job)
                # A context variable belongs to a task, so each problem's task sets it.
                RATE_LIMITS.set(self._rates)
                return await run_problem(method, task, limits={**job.limits, **method.limits}, thread_id=thread_id)
            # The database may be back in a moment, and what was paid for is in its checkpoints.
            except ConnectionError:
                if (pause := next(pauses, None)) is None:
                    raise
                await asyncio.sleep(pause)

    async def _built(self, job: RayJob) -> Method:
        from ...models import PriceTable, chat_model
        from ...nodes.critics.registry import SELF, named_critic
        from ...state import open_checkpointer

        async with self._building:
            if self._method is None:
                saver = await self._open.enter_async_context(
                    open_checkpointer(_watched(job.db), key=job.encryption_key, seal_key=job.seal_key)
                )
                writer = chat_model(job.model, **job.model_options)
                patience = {name: value for name, value in job.model_options.items() if name == "timeout_s"}
                judging_model = partial(chat_model, **patience)
                judge = None if job.critic in (None, SELF) else named_critic(job.critic, writer, judging_model)
                prices = None if job.prices is None else PriceTable(job.prices)
                if job.rpm or job.tpm:
                    rpm, tpm = (None if rate is None else rate / self._workers for rate in (job.rpm, job.tpm))
                    self._rates = RateLimits(rpm=rpm, tpm=tpm)
                self._method = build_method(
                    job.method,
                    job.kind,
                    writer,
                    critic=judge,
                    prompts=job.prompts,
                    prices=prices,
                    checkpointer=saver,
                )
                self._open.enter_context(tuned_gc())
            return self._method


async def run_on_ray(
    job: RayJob,
    dataset: Dataset,
    results: ResultFile,
    *,
    workers: int = 2,
    concurrency: int = 4,
    on_progress: Callable[[Progress, ResultRecord | None], None] = lambda *_: None,
) -> Progress:
    """Run every problem that has no result yet on the Ray cluster that this process is connected to.

    When this is cancelled the workers are stopped; what was under way stays in its thread.

    Args:
        job: What the workers are told.
        dataset: The problems; it scores what comes back. The gold answers stay here.
        results: Open; holds what was finished before.
        workers: Processes, each with a CPU of the cluster to itself.
        concurrency: How many problems each of them works on at once.
        on_progress: Called with the progress after each problem, and once at the beginning.

    Raises:
        ValueError: `workers` or `concurrency` is below 1, or a worker can't build a model.
        ImportError: The extra `ray` or `postgres` is not installed, here or where a worker runs.
        ConnectionError: The database can't be reached from a worker.
        RuntimeError: Ray is not connected, no worker started within five minutes, or one after the other died without
            finishing a problem.
        GivenUpError: The first problems all failed.
    """
    for name, count in (("workers", workers), ("concurrency", concurrency)):
        if count < 1:
            raise ValueError(f"{name} must be 1 or more, not {count!r}")
    left = sum(problem.id not in results.records for problem in dataset.problems)
    # A worker without a problem would hold a CPU of the cluster for nothing.
    pool = _WorkerPool(job, min(workers, max(left, 1)), concurrency)
    try:
        if left:
            await pool.start()
        progress = await run_all(
            dataset,
            results,
            pool.solve,
            run_id=job.run_id,
            pace=Pace(workers * concurrency),
            on_progress=on_progress,
        )
        await pool.close()
    finally:
        pool.kill()
    return progress


class _WorkerPool:
    """Actors of Ray's, spread over the cluster. One that died is replaced, and its problems are handed to another.

    Unlike `ray.util.ActorPool`, several calls a worker are under way at once, a new worker joins when it is ready, and
    a worker's death is not the caller's error.

    Args:
        job: What they are told.
        workers: How many.
        concurrency: How many problems each works on at once.
    """

    def __init__(self, job: RayJob, workers: int, concurrency: int) -> None:
        self._ray = ray = _connected()
        self._workers, self._concurrency = workers, concurrency
        # `max_restarts` stays 0: were Ray to start a dead actor again, the error of its calls would not tell that the
        # process is gone from that the network hiccups, and a problem could be handed out while it still runs.
        self._actor = ray.remote(
            num_cpus=1,
            max_concurrency=max(concurrency, 2),
            scheduling_strategy="SPREAD",
            # No secret: what is given here lands in Ray's logs.
            runtime_env={"env_vars": {"LANGGRAPH_STRICT_MSGPACK": "true"}},
        )(Worker)
        self._job = ray.put(job)
        self._alive: set[Any] = set()
        self._free: asyncio.Queue[Any] = asyncio.Queue()
        """A worker as often as it has room for a problem, or an exception that ends the run."""
        self._joining: set[asyncio.Task[None]] = set()
        self._deaths = 0
        """Since the last problem that was finished."""

    async def start(self) -> None:
        """Start the workers, and return when one is ready; the others join it as the cluster has room.

        Raises:
            Exception: What a worker raised, as it raised it.
            RuntimeError: None could be started.
        """
        for _ in range(self._workers):
            self._add()
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                first = await self._free.get()
        except TimeoutError:
            free = self._ray.available_resources().get("CPU", 0)
            raise RuntimeError(
                f"no worker started within {START_TIMEOUT_S:.0f} s: each takes a CPU, and the cluster has {free:g} free"
            ) from None
        if isinstance(first, Exception):
            raise first
        # It was only looked at; its place is still free.
        self._free.put_nowait(first)

    async def solve(self, thread_id: str, task: str) -> Outcome:
        """Run a problem on the next worker that has room, and return its outcome.

        Raises:
            Exception: What a worker raised, as it raised it.
            RuntimeError: One worker after the other died.
        """
        errors = self._ray.exceptions
        while True:
            worker = await self._free.get()
            if isinstance(worker, Exception):
                raise worker
            # One that died still stands there, as often as it had room.
            if worker not in self._alive:
                continue
            try:
                while True:
                    try:
                        outcome: Outcome = await worker.solve.remote(self._job, thread_id, task)
                        break
                    except errors.ActorUnavailableError:  # it may be at work still: ask the same one again
                        await asyncio.sleep(POLL_S)
            except errors.ActorDiedError as error:
                self._replace(worker, error)
                continue
            except errors.RayTaskError as error:
                raise _cause(error) from None
            self._deaths = 0
            self._free.put_nowait(worker)
            return outcome

    async def close(self) -> None:
        """Let the workers close their connections, as far as they can at once."""
        if self._alive:
            await asyncio.wait([asyncio.ensure_future(_closed(one)) for one in self._alive], timeout=CLOSE_TIMEOUT_S)

    def kill(self) -> None:
        """End them all."""
        for task in self._joining:
            task.cancel()
        for worker in self._alive:
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._ray.kill(worker, no_restart=True)
        self._alive.clear()

    def _add(self) -> None:
        worker = self._actor.remote(self._workers)
        self._alive.add(worker)
        task = asyncio.create_task(self._join(worker))
        # asyncio keeps only a weak reference to a task: one that nobody holds may vanish before it is done.
        self._joining.add(task)
        task.add_done_callback(self._joining.discard)

    async def _join(self, worker: Any) -> None:
        errors = self._ray.exceptions
        try:
            await worker.ready.remote(self._job)
        except errors.ActorDiedError as error:
            self._replace(worker, error)
        except errors.RayTaskError as error:
            self._free.put_nowait(_cause(error))
        else:
            for _ in range(self._concurrency):
                self._free.put_nowait(worker)

    def _replace(self, worker: Any, error: Exception) -> None:
        """Start a worker in the place of one that died; each call that it had under way comes here."""
        if worker not in self._alive:
            return
        self._alive.discard(worker)
        self._deaths += 1
        if self._deaths >= MOST_DEATHS:  # a problem that kills who works on it would go on for ever
            reason = " ".join(masked(str(error)).split())[:LONGEST_SAID] or type(error).__name__
            died = RuntimeError(f"{self._deaths} workers died and no problem was finished between; the last: {reason}")
            self._free.put_nowait(died)
        else:
            self._add()


async def _closed(worker: Any) -> None:
    with contextlib.suppress(Exception):  # one that died has no connections left to close
        await worker.close.remote()


def _cause(error: Any) -> Exception:
    """Return a worker's exception without the traceback that Ray writes into its message."""
    return error.cause if isinstance(error.cause, Exception) else RuntimeError(str(error.cause))


def _connected() -> Any:
    """Return Ray, connected.

    Raises:
        ImportError: The extra `ray` is not installed.
        RuntimeError: It is not connected to a cluster.
    """
    try:
        import ray
    except ImportError as error:
        raise ImportError(f'--engine ray needs an extra: pip install ".[ray]" in a checkout ({error})') from None
    if not ray.is_initialized():
        raise RuntimeError("Ray is not connected: call ray.init() before")
    return ray


def _watched(url: str) -> str:
    """Return the URL of a database such that a lost connection is noticed within 40 s; by default it takes two hours.

    Who looks at `pg_stat_activity` sees which process it is.
    """
    name = f"redraft eval {os.getpid()} {socket.gethostname()}"[:63]
    place, _, options = url.partition("?")
    ours = urlencode({**NETWORK, "application_name": name}, quote_via=quote)  # libpq reads no + as a space
    return f"{place}?{ours}{options and '&'}{options}"  # of two that differ, libpq takes the later one: the user's


NETWORK = {"keepalives_idle": 20, "keepalives_interval": 5, "keepalives_count": 4, "tcp_user_timeout": 40_000}
PAUSES_S = (0.5, 1, 2, 4, 8, 16)
"""Before each new try to reach a database that was lost."""
POLL_S = 0.3
START_TIMEOUT_S = 300.0
CLOSE_TIMEOUT_S = 3.0
MOST_DEATHS = 5
LONGEST_SAID = 500
