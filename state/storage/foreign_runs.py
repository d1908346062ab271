"""Guess where a run of somebody else's graph begins and ends, so that it has a lease like a run of ours. Internal.

This is a guess, and the only one. A graph of redraft says where its runs begin and end (`CheckedGraph.stream`), and so
does `with Thread(graph, thread_id).stoppable() as control:` around a run of any graph; neither comes here. LangGraph
tells a saver nothing of that. So the run of any other graph is taken to begin with the first read whose config has
LangGraph's runtime and is no task's, and to end with the checkpoint after which no node is to run, with an error or a
question to a person, or with the task or thread that it runs in. Where it only seemed to have ended, what it still
writes takes its lease again.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.serde.types import ERROR, INTERRUPT

from ..langgraph_internals import AHEAD, RUNTIME, TASK_ID
from .lease_keeper import Lease, LeaseKeeper, control_of, driver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import Checkpoint

    from ..dual import Logic

__all__ = ["ForeignLease", "ForeignRuns"]


@dataclass(eq=False)
class ForeignLease(Lease):
    """The lease of a run whose end nobody says."""

    driver: weakref.ref[Any] | None = None
    """The asyncio task or thread that began the run."""
    worker: threading.Thread | None = None
    """One of the run's own threads, where it is a sync one: it dies with the run."""
    paused_at: str | None = None
    """The checkpoint at which an error or a question to a person ended it, as it seems."""

    def gone(self) -> bool:
        if self.worker is not None:
            return not self.worker.is_alive()
        at_work = self.driver() if self.driver else None
        if at_work is None:
            return True
        return at_work.done() if isinstance(at_work, asyncio.Task) else not at_work.is_alive()

    def ended(self) -> bool:
        # A task or a thread does one thing at a time: one that wants the thread next has ended its last run.
        mine = self.driver and self.driver() is driver()
        return self.over or self.gone() or (self.worker is None and bool(mine))

    def works(self, config: RunnableConfig) -> None:
        """Note that a sync run writes in this thread, which is one of its own."""
        if not config["configurable"].get("checkpoint_ns"):
            # Where an event loop runs, an async run calls what is sync.
            self.worker = threading.current_thread() if asyncio._get_running_loop() is None else None


class ForeignRuns:
    """The runs of graphs that say neither where they begin nor where they end.

    Args:
        leases: Holds their leases.
    """

    def __init__(self, leases: LeaseKeeper) -> None:
        self._leases = leases

    def begins(self, config: RunnableConfig) -> bool:
        """Return True if a read looks like that of a run which begins, and which holds no lease yet."""
        place = config["configurable"]
        if control_of(place) is None or TASK_ID in place or place.get("thread_id") is None:
            return False
        lease = self._leases.lease_of(config)
        return lease is None or (isinstance(lease, ForeignLease) and lease.ended())

    def begin(self, config: RunnableConfig) -> Logic[Lease]:
        """Take the lease of the thread for a run.

        Raises:
            BusyThreadError: Somebody runs the thread right now.
        """
        place = config["configurable"]
        lease = ForeignLease(str(place["thread_id"]), place[RUNTIME].control, driver=weakref.ref(driver()))
        yield from self._leases.take(lease)
        writer = getattr(place[RUNTIME], "stream_writer", None)
        if "<locals>" in getattr(writer, "__qualname__", ""):
            # LangGraph makes it for this run, with whose last frame it goes.
            weakref.finalize(writer, self._leases.finish, weakref.ref(lease)).atexit = False
        return lease

    def wrote(self, lease: ForeignLease, config: RunnableConfig, checkpoint: Checkpoint) -> None:
        """Note a checkpoint of a run, from which its end is guessed."""
        # A question may be written before the checkpoint that it is asked at.
        ahead = any(name.startswith(AHEAD) for name in checkpoint["channel_values"])
        self._seems(lease, config, over=not ahead or checkpoint["id"] == lease.paused_at)

    def wrote_of_task(self, lease: ForeignLease, config: RunnableConfig, writes: Sequence[tuple[str, Any]]) -> None:
        """Note what a task of a run wrote, from which its end is guessed."""
        over = lease.worker is None and any(channel in (ERROR, INTERRUPT) for channel, _ in writes)
        lease.paused_at = config["configurable"].get("checkpoint_id") if over else None
        self._seems(lease, config, over=over)

    def _seems(self, lease: ForeignLease, config: RunnableConfig, *, over: bool) -> None:
        if not config["configurable"].get("checkpoint_ns"):
            lease.over = over
            if over != lease.given_up:
                self._leases.look_for_ends()
