"""Ends of runs that a caller wishes: cancelled, interrupted for another, or rolled back. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...state.storage.leases import this_process
from .background import Background
from .records import now
from .runs import Run, TakenError
from .thread_records import ThreadRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .engine import Engine

__all__ = ["IN_FLIGHT", "Ending"]

IN_FLIGHT = ("pending", "running")


class Ending:
    """Ends runs where they stand, in every process of the database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.background = Background()

    def begin(self, run: Run) -> None:
        """End a run in the background."""
        self.background.do(self.end(run))

    async def end(self, run: Run) -> None:
        """End a run; return when it has.

        Raises:
            TakenError: Another server of a SQLite file runs it.
        """
        if run.ended:
            return
        if run.id in self._engine.execution.cancelled:
            await run.wait()
            return
        # Before its task is cancelled: this tells a caller's cancelling from the server's own end.
        self._engine.execution.cancelled.add(run.id)
        try:
            while not run.ended:
                if await self._engine.queue.cancel(run):
                    if not run.ended:  # it was cancelled before its first step
                        await self._engine.execution.ended(run, "interrupted", began=run.begun)
                        self._engine.known.wake([run.thread_id])
                    return
                # Where nobody runs it, nobody will from now on.
                if await self._engine.db.write(self._engine.records.claim_one, run.id, this_process(), now=now()):
                    self._engine.known.begins_here(run)
                    await self._engine.execution.ended(run, "interrupted", began=run.begun)
                    await self._engine.known.tell_moved([run.thread_id])
                    return
                await self._engine.queue.pump()  # if it was claimed here just now, it has begun after this
                if run not in self._engine.queue:
                    if not self._engine.records.has_channel:
                        raise TakenError("another server of this database runs it")
                    await self._engine.follower.cancel(run)
        finally:
            self._engine.execution.cancelled.discard(run.id)

    async def end_each(self, runs: Iterable[Run]) -> None:
        """End several runs.

        Raises:
            TakenError: Another server of a SQLite file runs one of them; the others have ended.
        """
        elsewhere: TakenError | None = None
        for run in runs:
            try:
                await self.end(run)
            except TakenError as error:
                elsewhere = error
        if elsewhere is not None:
            raise elsewhere

    async def end_all(self, thread_id: str) -> None:
        """End every run of a thread."""
        for run in await self._engine.known.on_thread(thread_id):
            await self.end(run)

    async def make_way(self, record: ThreadRecord, multitask: str) -> dict[str, Any]:
        """Make a busy thread free, or refuse to; return what the request of the next run says of it.

        Raises:
            TakenError: The thread is busy, and `multitask` is `"reject"`.
        """
        if record.status != "busy" or multitask == "enqueue":
            return {}
        if multitask == "reject":
            raise TakenError("the thread is busy with another run")
        if multitask == "rollback":
            return await self._roll_back(record.thread_id)
        await self.end_all(record.thread_id)
        return {}

    async def _roll_back(self, thread_id: str) -> dict[str, Any]:
        """End and forget what runs on a thread, and return the checkpoint before it: the next run goes on from there.

        What was written stays in the history, beside the branch that the thread then is on.
        """
        runs = await self._engine.db.read(self._engine.records.runs, thread_id)
        ids, first = {run.id for run in runs if run.status in IN_FLIGHT}, None
        await self.end_all(thread_id)
        async for stored in self._engine.saver.alist({"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}):
            if stored.metadata.get("run_id") not in ids:
                break
            first = stored
        for run_id in ids:
            await self._engine.known.remove(run_id)
        if first is not None and first.parent_config is not None:
            return {"checkpoint_id": first.parent_config["configurable"]["checkpoint_id"]}
        if first is not None:
            await self._engine.saver.adelete_thread(thread_id)
        return {}
