"""The run engine: a bounded queue, the runs under way, and their threads. It knows nothing of HTTP. Internal."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from ....state.threads.lease import LeaseHolder
from ....state.threads.snapshots import astate_of
from ...sessions import encryption_key, seal_key
from .assistants import Assistants
from .call_options import checked_options
from .ceilings import Ceilings
from .execution import Execution
from .ownership import OwnedThreads
from .queueing import RunQueue
from .records import DbExecutor, now, open_records
from .requests import can_be_id, checked_id, checked_request
from .runs import BadRequestError, Caller, NotThereError, QueueFullError, Run, TakenError
from .sweeping import Sweeper
from .takeover import Takeover, run_of
from .thread_graphs import ThreadGraphs, offering_fork

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from datetime import datetime

    from langchain_core.language_models import BaseChatModel

    from ..settings import Settings
    from .assistants import Assistant
    from .execution import Finished
    from .records import Records, ThreadRecord
    from .runs import ServerEvent

__all__ = ["Caller", "Engine", "QueueFullError", "Run"]

LOG = logging.getLogger("redraft.server")
BEAT_S = 10.0
REMEMBERED = 500
"""Ended runs whose events are kept for who joins late."""


class Engine:
    """Owns the saver, the graphs, the queue and the runs under way. Every method belongs to one event loop.

    Args:
        settings: Which database and models, and the limits.
        saver: In place of the database of the settings; the caller closes it.
        build_model: From a spec to a model, in place of `redraft.models.chat_model`.
    """

    def __init__(
        self, settings: Settings, *, saver: Any = None, build_model: Callable[[str], BaseChatModel] | None = None
    ) -> None:
        self.settings = settings
        self.on_finished: list[Finished] = []
        """Called with each run that ended and its output: the values of its graph, or `None` where it has none."""
        self._given_saver = saver
        self._build_model = build_model
        self._runs: dict[str, Run] = {}
        self._queue = RunQueue(self._work, at_once=settings.max_concurrent_runs, waiting=settings.queue_length)
        self._db = DbExecutor()
        self._tending: list[asyncio.Task[None]] = []
        # Each is there as long as somebody waits for it.
        self._moved: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()

    # life

    async def start(self) -> None:
        """Open the database, and go on with the runs that were in flight when a server of it ended.

        Raises:
            ValueError: The database or the model can't be used.
            OSError: The database can't be opened.
            ImportError: An extra is missing.
        """
        self.saver = self._given_saver if self._given_saver is not None else await self._db.write(self._opened)
        self.records: Records = await self._db.write(open_records, self.saver)
        self.owned = OwnedThreads(self.saver, self.records, self._db)
        index = getattr(self.saver, "runs", None)
        self._takeover = Takeover(self.records, index, self._db, most_attempts=self.settings.max_attempts)
        self._leases = LeaseHolder(self.saver)
        self._assistants = Assistants(self.settings, self.saver, self._build_model)
        self.graphs = ThreadGraphs(self._assistants, self.saver)
        prices = await asyncio.to_thread(_prices, self.settings)
        self._ceilings = Ceilings(self.settings, self.records.usage, self._db, prices)
        self._execution = Execution(
            self.graphs,
            self.owned,
            self.records,
            self._db,
            self._leases,
            ceilings=self._ceilings,
            max_seconds=self.settings.max_seconds_a_run,
            on_finished=self.on_finished,
        )
        # A wrong spec or a missing key ends the server now, and not its first run.
        await asyncio.to_thread(self._assistants.model, self.settings.model)
        await self._db.write(self.records.usage.forget_past)
        await self._take_over()
        self._sweeper = Sweeper(self.saver, self.owned, self.records, self._db, self.settings)
        self._tending = [asyncio.create_task(self._beat())]
        if self.settings.default_ttl is not None:
            self._tending.append(asyncio.create_task(self._sweep()))

    async def stop(self) -> None:
        """End what is under way where it stands; the next server of this database goes on with it."""
        for task in self._tending:
            task.cancel()
        await asyncio.gather(*self._tending, return_exceptions=True)
        for run in await self._queue.close():
            # With no process to its name another server takes it at once, and need not wait for this one's silence.
            await self._db.write(partial(self.records.change_run, run.id, now=now(), process=""))
        self._db.close()
        # `start` may have failed before there was one.
        if self._given_saver is None and hasattr(self, "saver"):
            await asyncio.to_thread(self.saver.close)

    def _opened(self) -> Any:
        from ....state import open_checkpointer

        db = self.settings.db
        return open_checkpointer(db, key=encryption_key(db), seal_key=seal_key()).open()

    # what there is

    def assistants(self) -> Mapping[str, Assistant]:
        """Return the assistants by id."""
        return self._assistants.known

    def assistant(self, name: str) -> Assistant:
        """Return an assistant.

        Raises:
            NotThereError: There is none of this id.
        """
        return self._assistants.get(name)

    def add(self, assistant: Assistant) -> None:
        """Offer one more assistant, in place of one of the same id."""
        self._assistants.known[assistant.id] = assistant

    async def graph(self, assistant: str, model: str | None = None, options: Mapping[str, Any] | None = None) -> Any:
        """Return the graph of an assistant, with these checked options in place of its own.

        Raises:
            NotThereError: There is no such assistant.
            BadRequestError: This model is not allowed, or the preset can't be run on this server.
        """
        return (await self.graphs.assistant(assistant, model, options))[0]

    async def check_database(self) -> None:
        """Ask the database for the time; raises its own error where it does not answer."""
        await self._db.read(self.records.clock)

    @property
    def queued(self) -> int:
        """The number of runs that wait."""
        return self._queue.queued

    @property
    def running(self) -> int:
        """The number of runs under way."""
        return self._queue.running

    async def delete_thread(self, caller: Caller, thread_id: str) -> None:
        """Delete a thread of the caller's with all it holds; what runs on it is cancelled first.

        Raises:
            NotThereError: There is no such thread.
        """
        await self.owned.thread(caller, thread_id)
        await self._end_all(thread_id)
        await self.owned.erase(thread_id)

    async def sweep(self, at: datetime | None = None) -> list[str]:
        """Delete the threads whose time to live is over, and return their ids.

        Args:
            at: The time; default: now.
        """
        return await self._sweeper.sweep(at)

    # runs

    async def submit(
        self,
        caller: Caller,
        assistant: str,
        *,
        thread_id: str | None = None,
        input: Any = None,  # noqa: A002  (as LangGraph's clients name it)
        command: Any = None,
        config: Mapping[str, Any] | None = None,
        checkpoint: Mapping[str, Any] | None = None,
        stream_modes: Sequence[str] = ("values",),
        subgraphs: bool = False,
        model: str | None = None,
        options: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        interrupt_before: Any = None,
        interrupt_after: Any = None,
        if_not_exists: str = "reject",
        multitask: str = "enqueue",
        keep: bool = False,
    ) -> Run:
        """Queue a run, and return it: it is kept by now, and goes on after a restart.

        Args:
            caller: Whose it is.
            assistant: Id of the assistant.
            thread_id: Without it the run gets a thread of its own, which is deleted when it has ended.
            input: Of the graph; `None` goes on where the thread stands.
            command: `resume` answers an interrupt; `update` and `goto` as LangGraph's `Command`.
            config: Only `recursion_limit` and `tags` are taken from it.
            checkpoint: Where to start, when not at the thread's end: `checkpoint_id`.
            stream_modes: What is sent: names of `MODES`.
            subgraphs: Whether subgraphs send too.
            model: Spec of another model than the server's, where that is allowed.
            options: Of the preset, those that callers may set: see `call_options`.
            metadata: Kept with the run.
            interrupt_before: Nodes to stop before, or `"*"`.
            interrupt_after: Nodes to stop after, or `"*"`.
            if_not_exists: `"create"` makes the thread.
            multitask: What to do with a thread that is busy: `"enqueue"`, `"reject"` or `"interrupt"`.
            keep: Whether a thread of the run's own is kept.

        Raises:
            BadRequestError: Something makes no sense or is not allowed.
            NotThereError: There is no such assistant or thread.
            TakenError: The thread is busy, and `multitask` is `"reject"`.
            QueueFullError: As many runs wait as may.
            QuotaSpentError: The caller has used up what they may use today.
        """
        await self._ceilings.check(caller)
        # Before a place is taken or a thread made, so that a bad request leaves nothing behind.
        if thread_id is None or input is not None:
            own = checked_options(self.assistant(assistant), self.settings, options) if options else {}
            graph = await self.graph(assistant, model, own)
        else:
            try:
                known = await self.owned.thread(caller, thread_id)
            except NotThereError:
                if if_not_exists == "create":
                    raise BadRequestError('a new thread needs an input with a "task"') from None
                raise
            if options:
                raise offering_fork("options are for a new task; the thread goes on as it was begun")
            own, place = {}, (checkpoint or {}).get("checkpoint_id")
            graph, _ = await self.graphs.going_on(known, assistant, model, None if place is None else checked_id(place))
        request = checked_request(
            self.settings,
            graph,
            input=input,
            command=command,
            config=config,
            checkpoint=checkpoint,
            stream_modes=stream_modes,
            subgraphs=subgraphs,
            interrupt_before=interrupt_before,
            interrupt_after=interrupt_after,
        )
        if own:
            request["options"] = own
        if input is None and command is None and thread_id is None:
            raise BadRequestError('a new thread needs an input with a "task"')
        # Kept over the awaits below, or two requests could both get the last place.
        with self._queue.place(caller):
            record = await self.owned.thread_for(caller, thread_id, assistant, if_not_exists)
            if thread_id is not None:
                await self._make_way(record, multitask)
            at = now()
            run = Run(
                id=str(uuid.uuid4()),
                thread_id=record.thread_id,
                assistant=assistant,
                caller=caller,
                created_at=at,
                updated_at=at,
                request=request,
                model=model,
                metadata=dict(metadata or {}),
                stateless=thread_id is None and not keep,
            )
            # In the database before it is queued: a run that a caller hears of survives a restart.
            await self._takeover.note(run)
        self._remember(run)
        self._queue.add(run)
        return run

    async def run(self, caller: Caller, run_id: str) -> Run:
        """Return a run of the caller's.

        Raises:
            NotThereError: There is none of this id, or it is another's.
        """
        found = self._runs.get(run_id)
        if found is None and can_be_id(run_id) and (record := await self._db.read(self.records.run, run_id)):
            found = run_of(record)
        # The same answer for both: nobody learns which ids another caller has.
        if found is None or found.caller != caller:
            raise NotThereError("there is no such run")
        return found

    def knows(self, run: Run) -> bool:
        """Return whether this process has what a run sends; another server of its database may have it."""
        return self._runs.get(run.id) is run

    async def runs(self, caller: Caller, thread_id: str) -> list[Run]:
        """Return every run of a thread of the caller's, the last created first."""
        await self.owned.thread(caller, thread_id)
        records = await self._db.read(self.records.runs, thread_id)
        return [self._runs.get(record.run_id) or run_of(record) for record in records]

    async def thread_runs(self, caller: Caller, thread_id: str, *, after: int | None = None) -> AsyncIterator[Run]:
        """Give each run of the caller's on a thread when it begins, without end; of those before, where `after` names
        no event, what is under way and the last that ended."""
        given: set[str] = set()
        while True:
            moved = self._moved.setdefault(thread_id, asyncio.Event())
            known = [run for run in self._runs.values() if run.thread_id == thread_id and run.caller == caller]
            begun = [run for run in known if run.started_at is not None or run.ended]
            ended = [run for run in begun if run.ended]
            if not given and after is None:
                given |= {run.id for run in ended[:-1]}
            for run in begun:
                if run.id not in given:
                    given.add(run.id)
                    yield run
            given.add("")  # from now on every run is new
            await moved.wait()

    def _wake(self, thread_id: str) -> None:
        """Tell who waits for the runs of a thread that one has begun, or was cancelled before."""
        if (moved := self._moved.pop(thread_id, None)) is not None:
            moved.set()

    async def join(self, run: Run) -> Mapping[str, Any]:
        """Return the output of a run when it has ended: `__error__` where it failed, the thread's values where this
        process no longer knows more."""
        while not run.ended:
            if run.id in self._runs:
                await run.wait()
            else:  # another server of this database runs it
                await asyncio.sleep(1)
                run = await self.run(run.caller, run.id)
        if run.status in ("error", "timeout") and run.error is not None:
            return {"__error__": run.error}
        if run.output is None and not run.stateless:
            graph = await self.graphs.reader(await self.owned.thread(run.caller, run.thread_id))
            snapshot = await astate_of(graph, {"configurable": {"thread_id": run.thread_id}})
            return dict(snapshot.values)
        return run.output or {}

    async def events(self, run: Run) -> AsyncIterator[ServerEvent]:
        """Give what a run sends until it ends; who comes late gets what was sent before."""
        async for _, event in run.follow():
            yield event

    async def cancel(self, caller: Caller, run_id: str) -> None:
        """End a run where it stands; its thread is kept and can go on.

        Raises:
            NotThereError: There is no such run.
        """
        await self._end(await self.run(caller, run_id))

    async def cancel_many(
        self,
        caller: Caller,
        *,
        thread_id: str | None = None,
        run_ids: Sequence[str] | None = None,
        statuses: Sequence[str] = ("pending", "running"),
    ) -> None:
        """End runs of the caller's where they stand; those that have ended are left alone.

        Args:
            caller: Whose they are.
            thread_id: Only those of this thread.
            run_ids: Only these; nothing is cancelled where one of them is not there.
            statuses: Only runs that stand so; not looked at where ids are given.

        Raises:
            NotThereError: There is no such thread or run.
            TakenError: Another server of this database runs one of them; the others are cancelled.
        """
        if thread_id is not None:
            await self.owned.thread(caller, thread_id)
        if run_ids is None:
            going = await self._db.read(self.records.in_flight)
            every = [self._runs.get(one.run_id) or run_of(one) for one in going if one.owner == caller.id]
            runs = [run for run in every if run.status in statuses and thread_id in (None, run.thread_id)]
        else:
            runs = [await self.run(caller, name) for name in dict.fromkeys(run_ids)]
            if any(thread_id not in (None, run.thread_id) for run in runs):
                raise NotThereError("there is no such run")
        elsewhere: TakenError | None = None
        for run in runs:
            try:
                await self._end(run)
            except TakenError as error:
                elsewhere = error
        if elsewhere is not None:
            raise elsewhere

    async def forget(self, caller: Caller, run_id: str) -> None:
        """Cancel a run that has not ended, and forget it; its thread stays.

        Raises:
            NotThereError: There is no such run.
        """
        run = await self.run(caller, run_id)
        await self._end(run)
        self._runs.pop(run.id, None)
        await self._db.write(self.records.remove_run, run.id)

    # within

    async def _make_way(self, record: ThreadRecord, multitask: str) -> None:
        if multitask not in ("enqueue", "reject", "interrupt"):
            raise BadRequestError("multitask_strategy is enqueue, reject or interrupt")
        if record.status != "busy" or multitask == "enqueue":
            return
        if multitask == "reject":
            raise TakenError("the thread is busy with another run")
        await self._end_all(record.thread_id)

    async def _work(self, run: Run) -> None:
        run.started_at = time.time()
        self._wake(run.thread_id)
        await self._execution.work(run)

    async def _end(self, run: Run) -> None:
        if run.ended:
            return
        if run.id in self._execution.cancelled:
            await run.wait()
            return
        # Before its task is cancelled: this tells a caller's cancelling from the server's own end.
        self._execution.cancelled.add(run.id)
        if not self._queue.remove(run) and not await self._queue.cancel(run):
            self._execution.cancelled.discard(run.id)
            raise TakenError("another server of this database runs it")
        if not run.ended:  # it was cancelled before its first step
            await self._execution.ended(run, "interrupted")
            self._wake(run.thread_id)

    async def _end_all(self, thread_id: str) -> None:
        for run in [run for run in self._runs.values() if run.thread_id == thread_id and not run.ended]:
            await self._end(run)

    def _remember(self, run: Run) -> None:
        self._runs[run.id] = run
        # At twice as many, so that they are not all looked through for each new run.
        if len(self._runs) > 2 * REMEMBERED:
            ended = [old for old in self._runs.values() if old.ended]
            for old in ended[: max(len(ended) - REMEMBERED, 0)]:
                del self._runs[old.id]

    async def _take_over(self) -> None:
        """Queue the runs in flight that a dead process left."""
        for run in await self._takeover.take(self._runs):
            self._remember(run)
            self._queue.add(run)

    async def _sweep(self) -> None:
        while True:
            try:
                if swept := await self.sweep():
                    LOG.info("%d threads were deleted: nobody touched them for their time to live", len(swept))
            except Exception:
                LOG.exception("threads whose time to live is over can't be deleted")
            await asyncio.sleep(60 * self.settings.sweep_interval_minutes)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            try:
                await self._takeover.beat()
                await self._take_over()
            except Exception:
                # It may come back; a server that no longer beats would lose its runs to others.
                LOG.exception("the database can't be reached")


def _prices(settings: Settings) -> Any:
    from ....models import PriceTable

    return PriceTable() if settings.prices is None else PriceTable.from_file(settings.prices)
