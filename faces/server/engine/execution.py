"""The execution of one run: within its time, told from outside errors, and written down when it ends."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from .driving import drive
from .ownership import now
from .runs import BadRequestError

if TYPE_CHECKING:
    from .engine import Engine
    from .ownership import Clerk
    from .runs import Run, RunStatus
    from .steering import Steering

__all__ = ["Execution"]

LOG = logging.getLogger("redraft.server")
TOKENS_KEPT_S = 60.0
"""How long after its end the tokens of a run are kept for who reads slowly; the rest of what it sent is kept longer."""


class Execution:
    """Runs the runs of an engine."""

    def __init__(self, engine: Engine, steering: Steering, clerk: Clerk) -> None:
        self.cancelled: set[str] = set()
        """Ids of the runs that somebody cancels right now."""
        self._engine = engine
        self._steering = steering
        self._clerk = clerk

    async def work(self, run: Run) -> None:
        """Run it to its end, and write down how it ended."""
        status: RunStatus | None = "error"
        run.started_at, run.status = time.time(), "running"
        clock = asyncio.timeout(self._engine.settings.max_seconds_a_run)
        try:
            async with clock:
                await self._clerk.call(partial(self._engine.records.change_run, run.id, now=now(), status="running"))
                run.send("metadata", {"run_id": run.id, "attempt": run.attempts})
                graph = await self._engine.graph(run.assistant, run.model)
                told = self._engine.recipe_metadata(run)
                async with self._steering.steered(run.thread_id) as control:
                    mark_begun = partial(self._mark_begun, run)
                    status = await drive(run, graph, control, metadata=told, mark_begun=mark_begun)
        except asyncio.CancelledError:
            status = "interrupted" if run.id in self.cancelled else None
        except BadRequestError as error:
            run.error = {"error": "BadRequestError", "message": str(error)}
        except Exception as error:
            if clock.expired():
                status = "timeout"
                told_s = f"{self._engine.settings.max_seconds_a_run:g} s"
                run.error = {"error": "RunTimeoutError", "message": f"the run took longer than {told_s}"}
            else:
                LOG.exception("run %s failed", run.id)
                run.error = _told(error)
        finally:
            await self.ended(run, status)

    async def ended(self, run: Run, status: RunStatus | None) -> None:
        """Write down how a run ended; `None`: not at all, since this server stops and another goes on with it."""
        at, records = now(), self._engine.records
        if status is None:
            with suppress(Exception):
                await self._clerk.call(
                    partial(self._engine.records.change_run, run.id, now=at, status="pending", process="")
                )
            run.wake()
            return
        try:
            if run.stateless:
                await self._engine.erase(run.thread_id)
            else:
                standing = {"success": "idle", "timeout": "error"}.get(status, status)
                values = {"status": status, "error": run.error, "process": ""}
                await self._clerk.call(partial(records.change_run, run.id, now=at, **values))
                await self._clerk.call(partial(records.change_thread, run.thread_id, now=at, status=standing))
        except Exception:
            LOG.exception("how run %s ended can't be written down", run.id)
        run.updated_at, run.ended_at, run.status = at, time.time(), status
        if run.error is not None:
            run.send("error", run.error)
        run.wake()
        asyncio.get_running_loop().call_later(TOKENS_KEPT_S, run.forget_tokens)
        self.cancelled.discard(run.id)
        for finished in self._engine.on_finished:
            try:
                finished(run, run.output)
            except Exception:
                LOG.exception("counting run %s failed", run.id)

    async def _mark_begun(self, run: Run) -> None:
        run.begun = True
        await self._clerk.call(partial(self._engine.records.change_run, run.id, now=now(), begun=1))


def _told(error: Exception) -> dict[str, str]:
    """Return an error as a caller is told it: what models and libraries say may hold prompts, paths and keys."""
    return {"error": type(error).__name__, "message": "the run failed; the server's log says why"}
