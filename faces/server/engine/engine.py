"""The run engine: a bounded queue, the runs under way, and their threads. It knows nothing of HTTP. Internal."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from ....state.storage.leases import this_process
from ....state.threads.lease import LeaseHolder
from ....state.threads.snapshots import astate_of
from ...sessions import encryption_key, seal_key
from .assistants import Assistants
from .call_options import checked_options
from .ceilings import Ceilings
from .ending import IN_FLIGHT, Ending
from .execution import Execution
from .following import Follower
from .known_runs import KnownRuns
from .ownership import OwnedThreads
from .publishing import Publisher
from .queueing import RunQueue
from .records import DbExecutor, now, open_records
from .requests import can_be_id, checked_id, checked_request
from .runs import BadRequestError, Caller, NotThereError, QueueFullError, Run
from .saved_assistants import SavedAssistants
from .store import Store
from .sweeping import Sweeper
from .takeover import Takeover
from .tending import Background, Tending
from .thread_graphs import ThreadGraphs, offering_fork

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from datetime import datetime

    from langchain_core.language_models import BaseChatModel

    from ..settings import Settings
    from .assistants import Assistant
    from .execution import Finished
    from .records import Records
    from .runs import ServerEvent

__all__ = ["Caller", "Engine", "QueueFullError", "Run"]

LOG = logging.getLogger("redraft.server")


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
        self.stopped = False
        """True once it ends; the next server of its database goes on with what is under way."""
        self._given_saver = saver
        self._build_model = build_model
        at_once = settings.max_concurrent_runs if settings.work else 0
        self._queue = RunQueue(self._work, self._claim, self._count, at_once=at_once, waiting=settings.queue_length)
        self._db = DbExecutor()
        self._background = Background()
        self._tending: Tending | None = None

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
        self.store = Store(self.records.items, self._db)
        self.owned = OwnedThreads(self.saver, self.records, self._db)
        index = getattr(self.saver, "runs", None)
        self._takeover = Takeover(self.records, index, self._db, most_attempts=self.settings.max_attempts)
        self._leases = LeaseHolder(self.saver)
        self._assistants = Assistants(self.settings, self.saver, self._build_model)
        self.saved = SavedAssistants(self.records.saved, self._db, self._assistants, self.settings)
        self.graphs = ThreadGraphs(self._assistants, self.saver)
        prices = await asyncio.to_thread(_prices, self.settings)
        self._ceilings = Ceilings(self.settings, self.records.usage, self._db, prices)
        serde, relay = getattr(self.saver, "serde", None), self.records.relay
        self._follower = Follower(self.records, self._db, serde, can_hear=self._can_hear)
        self.known = KnownRuns(self.records, self._db, self._follower)
        self._publisher = Publisher(relay, self._db, serde, find=self.known.here.get, cancel=self._cancel)
        self._execution = Execution(
            self.graphs,
            self.owned,
            self.records,
            self._db,
            self._leases,
            publisher=self._publisher,
            ceilings=self._ceilings,
            max_seconds=self.settings.max_seconds_a_run,
            on_finished=self.on_finished,
        )
        self._ending = Ending(
            self.known,
            self._queue,
            self._execution,
            self._follower,
            records=self.records,
            db=self._db,
            saver=self.saver,
        )
        self._sweeper = Sweeper(self.saver, self.owned, self.records, self._db, self.settings)
        # A wrong spec or a missing key ends the server now, and not its first run.
        await asyncio.to_thread(self._assistants.model, self.settings.model)
        await self._db.write(self.records.usage.forget_past)
        self._tending = Tending(
            self.settings,
            self.records,
            self._db,
            known=self.known,
            queue=self._queue,
            takeover=self._takeover,
            follower=self._follower,
            publisher=self._publisher,
            sweeper=self._sweeper,
            background=self._background,
            conninfo=self.saver.pool.conninfo if relay.has_channel else None,
        )
        await self._tending.start()

    async def stop(self) -> None:
        """End what is under way where it stands; the next server of this database goes on with it."""
        self.stopped = True
        if self._tending is not None:
            await self._tending.stop()
        await self._queue.close()
        # `start` may have failed before there were any.
        if hasattr(self, "_follower"):
            await self._follower.close()
            await self._publisher.close()
            await self._background.close()
            with suppress(Exception):
                await self._publisher.tell("queued")
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

    async def queued(self) -> int:
        """Return the number of runs that wait, in whichever process they were asked for."""
        return await self._queue.queued()

    @property
    def running(self) -> int:
        """The number of runs under way in this process."""
        return self._queue.running

    async def delete_thread(self, caller: Caller, thread_id: str) -> None:
        """Delete a thread of the caller's with all it holds; what runs on it is cancelled first.

        Raises:
            NotThereError: There is no such thread.
        """
        await self.owned.thread(caller, thread_id)
        await self._ending.end_all(thread_id)
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
        after_s: float = 0,
        webhook: str | None = None,
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
            multitask: What to do with a thread that is busy: `"enqueue"`, `"reject"`, `"interrupt"`, or `"rollback"`,
                which goes on from where the thread stood before.
            keep: Whether a thread of the run's own is kept.
            after_s: Seconds before which it does not begin.
            webhook: Kept with its request, for who is told of its end.

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
            conversation=self.assistant(assistant).preset.conversation,
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
        if webhook is not None:
            request["webhook"] = webhook
        if input is None and command is None and thread_id is None:
            raise BadRequestError('a new thread needs an input with a "task"')
        # Kept over the awaits below, or two requests could both get the last place.
        async with self._queue.place(caller):
            record = await self.owned.thread_for(caller, thread_id, assistant, if_not_exists)
            if thread_id is not None:
                request |= await self._ending.make_way(record, multitask)
            at = now(after_s)
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
            self.known.add(run)
            # From here on it is everybody's: a run that a caller hears of survives this process.
            await self._takeover.note(run, after_s=after_s)
        if after_s:
            asyncio.get_running_loop().call_later(after_s, lambda: self._background.do(self._begin_waiting(run)))
        else:
            await self._begin_waiting(run)
        return run

    async def run(self, caller: Caller, run_id: str) -> Run:
        """Return a run of the caller's.

        Raises:
            NotThereError: There is none of this id, or it is another's.
        """
        found = self.known.here.get(run_id)
        if (found is None or not found.here) and can_be_id(run_id):
            record = await self._db.read(self.records.run, run_id)
            found = None if record is None else self.known.of(record)
        # The same answer for both: nobody learns which ids another caller has.
        if found is None or found.caller != caller:
            raise NotThereError("there is no such run")
        return found

    async def runs(self, caller: Caller, thread_id: str) -> list[Run]:
        """Return every run of a thread of the caller's, the last created first."""
        await self.owned.thread(caller, thread_id)
        return await self.known.on_thread(thread_id)

    async def join(self, run: Run) -> Mapping[str, Any]:
        """Return the output of a run when it has ended: `__error__` where it failed, the thread's values where this
        process no longer knows more."""
        await run.wait()
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
        await self._ending.end(await self.run(caller, run_id))

    async def cancel_many(
        self,
        caller: Caller,
        *,
        thread_id: str | None = None,
        run_ids: Sequence[str] | None = None,
        statuses: Sequence[str] = IN_FLIGHT,
    ) -> None:
        """End runs of the caller's where they stand; those that have ended are left alone.

        Args:
            caller: Whose they are.
            thread_id: Only those of this thread.
            run_ids: Only these; nothing is cancelled where one of them is not there.
            statuses: Only runs that stand so; not looked at where ids are given.

        Raises:
            NotThereError: There is no such thread or run.
            TakenError: Another server of a SQLite file runs one of them; the others are cancelled.
        """
        if thread_id is not None:
            await self.owned.thread(caller, thread_id)
        if run_ids is None:
            going = await self._db.read(self.records.in_flight)
            every = [self.known.of(one) for one in going if one.owner == caller.id]
            runs = [run for run in every if run.status in statuses and thread_id in (None, run.thread_id)]
        else:
            runs = [await self.run(caller, name) for name in dict.fromkeys(run_ids)]
            if any(thread_id not in (None, run.thread_id) for run in runs):
                raise NotThereError("there is no such run")
        await self._ending.end_each(runs)

    async def forget(self, caller: Caller, run_id: str) -> None:
        """Cancel a run that has not ended, and forget it; its thread stays.

        Raises:
            NotThereError: There is no such run.
        """
        run = await self.run(caller, run_id)
        await self._ending.end(run)
        await self.known.remove(run.id)

    # within

    async def _begin_waiting(self, run: Run) -> None:
        """Let a run begin that waits; where it can't here, tell the others."""
        await self._queue.pump()
        if not run.here:
            await self._publisher.tell("queued")

    async def _work(self, run: Run) -> None:
        run.started_at = time.time()
        self.known.wake([run.thread_id])
        await self._execution.work(run)

    async def _cancel(self, run: Run) -> None:
        await self._ending.end(run)

    def _can_hear(self) -> bool:
        return self._tending is not None and self._tending.can_hear()

    async def _claim(self, most: int) -> list[Run]:
        """Return runs that wait, made this process's."""
        records = await self._db.write(partial(self.records.claim, this_process(), most, now=now()))
        if owners := {record.owner for record in records}:
            # Not waited for, and in order all the same: before the next claim of this process.
            self._background.do(self._db.write(self.records.note_turns, owners))
        runs = []
        for record in records:
            run = self.known.of(record)
            run.begun, run.attempts, run.status = record.begun, record.attempts, record.status
            self.known.begins_here(run)
            runs.append(run)
        try:
            await self._publisher.claimed(runs)
        except Exception:
            LOG.exception("what is wished of runs can't be read")
        self._background.do(self.known.tell_moved([run.thread_id for run in runs]))
        return runs

    async def _count(self) -> tuple[Mapping[str, int], int]:
        # Where things are written, so that it is in order with the runs that are about to be added.
        return await self._db.write(self.records.waiting, this_process())


def _prices(settings: Settings) -> Any:
    from ....models import PriceTable

    return PriceTable() if settings.prices is None else PriceTable.from_file(settings.prices)
