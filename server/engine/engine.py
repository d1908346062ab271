"""The run engine: a bounded queue, the runs under way, and their threads. It knows nothing of HTTP. Internal."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel

from ...faces.sessions import encryption_key, seal_key
from ...models import PriceTable
from ...nodes.runtime.killable import off_loop
from ...state import Usage, open_checkpointer
from ...state.storage.leases import this_process
from ..settings import Settings
from .assistants import Assistants
from .background import Background
from .call_options import checked_options
from .ceilings import Ceilings
from .ending import IN_FLIGHT, Ending
from .execution import Execution, Finished
from .following import Follower, Publisher
from .known_runs import KnownRuns
from .ownership import IN_USE, OwnedThreads
from .queueing import RunQueue
from .records import Database, now
from .requests import can_be_id, checked_id, checked_request
from .runs import LOG, BadRequestError, Caller, NotThereError, QueueFullError, Run, Submission, TakenError
from .saved_assistants import SavedAssistants
from .store import Store
from .tending import Channel, Tending
from .thread_graphs import ThreadGraphs

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.types import StateSnapshot

__all__ = ["Caller", "Engine", "QueueFullError", "Run", "Submission"]


class Engine:
    """Owns the saver, the graphs, the queue and the runs under way. Every method belongs to one event loop.

    Args:
        settings: Which database and models, and the limits.
        build_model: From a spec to a model, in place of `redraft.models.chat_model`.
    """

    def __init__(self, settings: Settings, *, build_model: Callable[[str], BaseChatModel] | None = None) -> None:
        self.settings = settings
        self.on_finished: list[Finished] = []
        """Called with each run that ended and its output: the values of its graph, or `None` where it has none."""
        self.on_called: list[Callable[[Run, Usage], None]] = []
        """Called with each model call that was made, in the thread that made it: its run, and what it used."""
        self.hung: dict[str, frozenset[str]] = {}
        """By name, the processes that were killed since their event loops stood still, each with the runs whose code
        was executed then; without any where that is not known."""
        self.stopped = False
        """True once it ends; the next server of its database goes on with what is under way."""
        self._build_model = build_model
        self.background = Background()
        self._closing = AsyncExitStack()
        """Closed by `stop`, the last opened first."""

    # life

    async def start(self) -> None:
        """Open the database, and go on with the runs that were in flight when a server of it ended.

        Raises:
            ValueError: The database or the model can't be used.
            OSError: The database can't be opened.
            ImportError: An extra is missing.
        """
        settings, closing = self.settings, self._closing
        self.saver: Any = await asyncio.to_thread(
            lambda: open_checkpointer(settings.db, key=encryption_key(settings.db), seal_key=seal_key()).open()
        )
        closing.push_async_callback(asyncio.to_thread, self.saver.close)
        self.db = db = await asyncio.to_thread(Database, self.saver)
        closing.callback(db.close)
        self.records = db.records
        self.store = Store(db)
        self.owned = OwnedThreads(db)
        self.presets = Assistants(settings, self.saver, self._build_model)
        self.graphs = ThreadGraphs(self.presets, self.saver)
        self.saved = SavedAssistants(db, self.presets, settings)
        own = settings.prices
        prices = PriceTable() if own is None else await asyncio.to_thread(PriceTable.from_file, own)
        self.ceilings = Ceilings(settings, db, prices, self.on_called)
        # A wrong spec or a missing key ends the server now, and not its first run.
        await asyncio.to_thread(self.presets.model, settings.model)
        await db.write(self.records.usage.forget_past)
        self.channel = Channel(self.saver.pool.conninfo if self.records.has_channel else None)
        self.follower = Follower(self)
        self.known = KnownRuns(self)
        self.publisher = Publisher(self)
        closing.push_async_callback(self._give_back)
        closing.push_async_callback(self.background.close)
        closing.push_async_callback(self.publisher.background.close, cancel=True)
        closing.push_async_callback(self.follower.background.close, cancel=True)
        self.execution = Execution(self)
        self.queue = RunQueue(
            self.execution.work,
            self._claim,
            # Counted where things are written, so that it is in order with the runs that are about to be added.
            partial(db.write, self.records.waiting, this_process()),
            at_once=settings.max_concurrent_runs if settings.work else 0,
            waiting=settings.queue_length,
        )
        closing.push_async_callback(self.queue.close)
        self.ending = Ending(self)
        # What has not ended by then is left to other servers.
        closing.push_async_callback(self.ending.background.close, cancel=True)
        self.tending = Tending(self)
        closing.push_async_callback(self.tending.lasting.close, cancel=True)
        await self.tending.start()

    async def stop(self) -> None:
        """End what is under way where it stands; the next server of this database goes on with it."""
        self.stopped = True
        await self._closing.aclose()

    async def _give_back(self) -> None:
        """Tell other servers that runs of this one wait again."""
        with suppress(Exception):
            await self.publisher.tell("queued")

    # what there is

    async def delete_thread(self, caller: Caller, thread_id: str) -> None:
        """Delete a thread of the caller's with all it holds; what runs on it is cancelled first.

        Raises:
            NotThereError: There is no such thread.
        """
        await self.owned.thread(caller, thread_id)
        await self.ending.end_all(thread_id)
        await self.owned.erase(thread_id)
        self.known.forget(thread_id)

    # runs

    async def submit(self, caller: Caller, submission: Submission) -> Run:
        """Queue a run, and return it: it is kept by now, and goes on after a restart.

        Args:
            caller: Whose it is.
            submission: What it is to do.

        Raises:
            BadRequestError: Something makes no sense or is not allowed.
            NotThereError: There is no such assistant or thread.
            TakenError: The thread is busy, and `multitask` is `"reject"`.
            QueueFullError: As many runs wait as may.
            QuotaSpentError: The caller has used up what they may use today.
        """
        await self.ceilings.check(caller)
        # Before a place is taken or a thread made, so that a bad request leaves nothing behind.
        request = await self._checked(caller, submission)
        # Kept over the awaits below, or two requests could both get the last place.
        async with self.queue.place(caller):
            # The second time where another request has just made the thread.
            run = await self._noted(caller, submission, request) or await self._noted(caller, submission, request)
        if run is None:
            raise TakenError(IN_USE)
        if submission.after_s:
            asyncio.get_running_loop().call_later(
                submission.after_s, lambda: self.background.do(self._begin_waiting(run))
            )
        elif self.settings.work:
            await self._begin_waiting(run)
        return run

    async def _noted(self, caller: Caller, submission: Submission, request: Mapping[str, Any]) -> Run | None:
        """Note a run with its thread, and return it; `None` where the id of a new thread has come into use."""
        thread_id, assistant = submission.thread_id, submission.assistant
        record, new = await self.owned.thread_for(caller, thread_id, assistant, submission.if_not_exists)
        way = {} if new else await self.ending.make_way(record, submission.multitask)
        at = now(submission.after_s)
        run = Run(
            id=str(uuid.uuid4()),
            thread_id=record.thread_id,
            assistant=assistant,
            caller=caller,
            created_at=at,
            updated_at=at,
            request={**request, **way},
            model=submission.model,
            metadata=dict(submission.metadata or {}),
            stateless=thread_id is None and not submission.keep,
        )
        self.known.add(run)
        # From here on it is everybody's: a run that a caller hears of survives this process.
        thread_at = record.created_at if new else None
        return run if await self.tending.note(run, after_s=submission.after_s, thread_at=thread_at) else None

    async def _checked(self, caller: Caller, submission: Submission) -> dict[str, Any]:
        """Return the request of a run as it is kept, checked against the graph that it will run on."""
        assistant, options = self.presets.get(submission.assistant), submission.options
        if options:
            options = await off_loop(checked_options, assistant, self.settings, options)
        if submission.thread_id is None or submission.input is not None:
            graph, _ = await self.graphs.assistant(assistant.id, submission.model, options)
        else:
            try:
                thread = await self.owned.thread(caller, submission.thread_id)
            except NotThereError:
                if submission.if_not_exists == "create":
                    raise BadRequestError('a new thread needs an input with a "task"') from None
                raise
            place = None if submission.checkpoint_id is None else checked_id(submission.checkpoint_id)
            graph, _ = await self.graphs.going_on(thread, assistant.id, submission.model, place, options)
            options = None  # they are the thread's own
        request = checked_request(self.settings, graph, assistant.preset.conversation, submission)
        if options:
            request["options"] = options
        if submission.input is None and submission.command is None and submission.thread_id is None:
            raise BadRequestError('a new thread needs an input with a "task"')
        return request

    async def run(self, caller: Caller, run_id: str) -> Run:
        """Return a run of the caller's.

        Raises:
            NotThereError: There is none of this id, or it is another's.
        """
        run = self.known.here.get(run_id)
        if (run is None or not run.here) and can_be_id(run_id):
            stored = await self.db.read(self.records.run, run_id)
            # One without a thread of its own may have ended meanwhile, which leaves no row.
            run = self.known.here.get(run_id) if stored is None else self.known.of(stored)
        # The same answer for both: nobody learns which ids another caller has.
        if run is None or run.caller != caller:
            raise NotThereError("there is no such run")
        return run

    async def runs(self, caller: Caller, thread_id: str) -> list[Run]:
        """Return every run of a thread of the caller's, the last created first."""
        await self.owned.thread(caller, thread_id)
        return await self.known.on_thread(thread_id)

    async def join(self, run: Run) -> Mapping[str, Any]:
        """Return the output of a run when it has ended, of the state that it left in its thread where this process no
        longer knows it: `__error__` where it failed."""
        await run.wait()
        if run.status in ("error", "timeout") and run.error is not None:
            return {"__error__": run.error}
        if run.output is None and not run.stateless and (left := await self.state_after(run)) is not None:
            graph = await self.graphs.reader(await self.owned.thread(run.caller, run.thread_id))
            output = {name: left.values[name] for name in graph.output_channels if name in left.values}
            return output | ({"__interrupt__": left.interrupts} if left.interrupts else {})
        return run.output or {}

    async def state_after(self, run: Run) -> StateSnapshot | None:
        """Return the state in which a run has left its thread, which may have gone on since; `None` where it is not
        kept."""
        record = await self.owned.thread(run.caller, run.thread_id)
        newest = await self.graphs.state(record)
        if (newest.metadata or {}).get("run_id", run.id) == run.id:
            return newest
        config: RunnableConfig = {"configurable": {"thread_id": run.thread_id, "checkpoint_ns": ""}}
        async for stored in self.saver.alist(config, filter={"run_id": run.id}, limit=1):
            return await self.graphs.state(record, checkpoint_id=stored.config["configurable"]["checkpoint_id"])
        return None

    async def cancel(self, caller: Caller, run_id: str) -> None:
        """End a run where it stands; its thread is kept and can go on.

        Raises:
            NotThereError: There is no such run.
        """
        await self.ending.end(await self.run(caller, run_id))

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
            every = [
                self.known.of(stored)
                for stored in await self.db.read(self.records.in_flight)
                if stored.caller == caller
            ]
            runs = [run for run in every if run.status in statuses and thread_id in (None, run.thread_id)]
        else:
            runs = [await self.run(caller, name) for name in dict.fromkeys(run_ids)]
            if any(thread_id not in (None, run.thread_id) for run in runs):
                raise NotThereError("there is no such run")
        await self.ending.end_each(runs)

    async def forget(self, caller: Caller, run_id: str) -> None:
        """Cancel a run that has not ended, and forget it; its thread stays.

        Raises:
            NotThereError: There is no such run.
        """
        run = await self.run(caller, run_id)
        await self.ending.end(run)
        await self.known.remove(run.id)

    # within

    async def _begin_waiting(self, run: Run) -> None:
        """Let a run begin that waits; where it can't here, tell the others."""
        await self.queue.pump()
        if not run.here:
            await self.publisher.tell("queued")

    async def _claim(self, most: int) -> list[Run]:
        """Return runs that wait, made this process's."""
        claimed = await self.db.write(self.records.claim, this_process(), most, now=now())
        if owners := {run.caller.id for run in claimed}:
            # Not waited for, and in order all the same: before the next claim of this process.
            self.background.do(self.db.write(self.records.note_turns, owners))
        runs = [self.known.claimed(run) for run in claimed]
        try:
            cancelled = await self.publisher.claimed(runs)
        except Exception:
            LOG.exception("what is wished of runs can't be read")
        else:
            for run in cancelled:
                self.ending.begin(run)
        self.background.do(self.known.tell_moved([run.thread_id for run in runs]))
        return runs
