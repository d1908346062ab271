"""Workers as actors of Ray: spread over the cluster, started again when they die, and gone with the command."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from ...state.masking import masked
from .shared_work import Worker

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from .shared_work import SharedJob

__all__ = ["Actors", "Seat", "check_connected"]


class Seat:
    """The actor that holds a worker in a process of Ray's, and a new one when the process had to be started again.

    The job comes with each call, which Ray repeats as it was; what an actor is made with may be gone by then.
    """

    def __init__(self, number: int, workers: int) -> None:
        self._place = number, workers
        self._worker: Worker | None = None

    async def ready(self, job: SharedJob) -> None:
        await self._on(job).ready()

    async def work(self, job: SharedJob) -> None:
        await self._on(job).work()

    async def close(self) -> None:
        if self._worker is not None:
            await self._worker.close()

    def _on(self, job: SharedJob) -> Worker:
        if self._worker is None:
            self._worker = Worker(job, *self._place)
        return self._worker


class Actors:
    """The workers of a job on the cluster that this process is connected to, each with a CPU to itself.

    Args:
        job: What they are told.
        workers: How many.
        concurrency: How many problems each works on at once.

    Raises:
        ImportError: The extra `ray` is not installed.
        RuntimeError: Ray is not connected to a cluster.
    """

    def __init__(self, job: SharedJob, workers: int, concurrency: int) -> None:
        ray = self._ray = check_connected()
        self._concurrency = concurrency
        actor = ray.remote(
            num_cpus=1,
            max_restarts=-1,
            max_task_retries=-1,
            max_concurrency=concurrency,
            scheduling_strategy="SPREAD",
            # No secret: what is given here lands in Ray's logs.
            runtime_env={"env_vars": {"LANGGRAPH_STRICT_MSGPACK": "true"}},
        )(Seat)
        self._job = ray.put(job)
        self._actors = [actor.remote(number, workers) for number in range(workers)]

    async def work(self) -> None:
        """Return when every worker finds nothing more to do.

        Raises:
            Exception: What a worker raised, as it raised it.
            RuntimeError: None could be started, or Ray lost one for good.
        """
        try:
            await self._started()
            async with asyncio.TaskGroup() as group:
                for actor in self._actors:
                    for _ in range(self._concurrency):
                        group.create_task(_awaited(actor.work.remote(self._job)))
        except BaseExceptionGroup as several:
            raise self._told(several.exceptions[0]) from None
        except self._ray.exceptions.RayError as error:
            raise self._told(error) from None

    async def close(self) -> None:
        """Let the workers close their connections, as far as they can at once."""
        closing = [asyncio.create_task(_awaited(actor.close.remote())) for actor in self._actors]
        _, late = await asyncio.wait(closing, timeout=CLOSE_TIMEOUT_S)
        for one in late:
            one.cancel()
        # A worker that died has no connections left to close.
        await asyncio.gather(*closing, return_exceptions=True)

    def kill(self) -> None:
        """End them all."""
        for actor in self._actors:
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._ray.kill(actor, no_restart=True)

    async def _started(self) -> None:
        """Return when one worker is ready; the others join it as the cluster has room."""
        starting = [asyncio.create_task(_awaited(actor.ready.remote(self._job))) for actor in self._actors]
        started, rest = await asyncio.wait(starting, timeout=START_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        for one in rest:
            one.cancel()
        if not started:
            free = self._ray.available_resources().get("CPU", 0)
            raise RuntimeError(
                f"no worker started within {START_TIMEOUT_S:.0f} s: each takes a CPU, and the cluster has {free:g} free"
            )
        for one in started:
            one.result()

    def _told(self, error: BaseException) -> BaseException:
        """Return what a worker raised, without the traceback that Ray writes into its message."""
        if isinstance(error, self._ray.exceptions.RayTaskError):
            cause = error.cause
            return cause if isinstance(cause, Exception) else RuntimeError(str(cause))
        if isinstance(error, self._ray.exceptions.RayError):
            said = " ".join(masked(str(error)).split())[:LONGEST_SAID] or type(error).__name__
            return RuntimeError(f"Ray lost a worker for good: {said}")
        return error


async def _awaited(reference: Awaitable[Any]) -> Any:
    return await reference


def check_connected() -> Any:
    """Return Ray, connected.

    Raises:
        ImportError: The extra `ray` is not installed.
        RuntimeError: It is not connected to a cluster.
    """
    try:
        import ray
    except ImportError as error:
        raise ImportError(f'--engine ray needs an extra: pip install "redraft[ray]" ({error})') from None
    if not ray.is_initialized():
        raise RuntimeError("Ray is not connected: call ray.init() before")
    return ray


START_TIMEOUT_S = 300.0
CLOSE_TIMEOUT_S = 3.0
LONGEST_SAID = 500
