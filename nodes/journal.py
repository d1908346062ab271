"""A finished model call is never paid twice: what a node asked before a crash is answered from the journal after it.

**Which call is which.** A reply is kept for its thread, under a hash of the node (with the graph that it is part of,
and which of several sent at once it is), how many events the record held when it was asked (failures and verdicts left
out), the model with its settings, the messages, and the how-many-th equal call of that execution of the node this is.
So samples of one prompt are calls of their own, whatever order they come in; a later round asks anew, also with an
equal prompt; and a node that is executed again, since a process died, an error or a person came in between, a caller
goes on from an old checkpoint, or nothing was saved yet (`durability="exit"`), finds each reply where it was. A fork, a
`rerun` and a new task of the thread are other runs: they pay.

**What counts.** A reply from the journal passes the callbacks of its model: its tokens, its dollars, and the time that
it took count as they did, so budgets decide the same. `usage["reused_calls"]` says how many there were. Whoever streams
the messages sees it at once, whole.

**What is kept.** Every reply of a chat model, also one that is refused or cut off: the run went on from it, and goes
the same way again. An error is no reply. Where a node fails for another reason than a model that did not answer, for a
first draft is empty or a verdict can't be read, say, its replies are forgotten, since with them it would fail again:
resumed, it asks anew. A row holds the reply as JSON and its hash; it goes with its thread.

**Where.** In the savers of `open_checkpointer`. Every LangChain chat model that a node calls takes part, in chains,
agents and critics of a user's own as well, by LangChain's own cache; a model built with `cache=False` does not. Of
equal calls in flight one is made, the others wait. Two processes don't run one thread at once: see
`redraft.state.under_way`.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from langgraph.errors import GraphBubbleUp

from ..state.journal import BadJournalError, Journal, KeptReply, UnkeptReplyError, UnreadJournalError
from .kept_replies import reply_of, text_of
from .saver_in_force import saver_of
from .single_flight import Flights, caller

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from langchain_core.outputs import Generation
    from langchain_core.runnables import RunnableConfig

    from .meter import Meter
    from .single_flight import Flight

__all__ = ["ASKING", "JOURNAL", "Asking", "Forget", "NodeJournal", "journal_option", "node_journal", "place_in"]

JOURNAL = "redraft_journal"
"""In a config's `configurable`: `False` keeps no replies, `True` insists that they are kept."""


def journal_option(journal: object, checkpointer: object) -> dict[str, bool]:
    """Return what the option of a builder adds to the `configurable` of its graph.

    Raises:
        TypeError: It is neither `True` nor `False`.
        ValueError: It is `True` beside a saver that keeps no journal.
    """
    if not isinstance(journal, bool):
        raise TypeError(f"journal must be True, False or None, not {journal!r}")
    if journal and not isinstance(checkpointer, bool | None) and not _kept_by(checkpointer):
        raise ValueError(f"{NEEDED}, not {type(checkpointer).__name__}")
    return {JOURNAL: journal}


def _kept_by(saver: object) -> Journal | None:
    found = getattr(saver, "journal", None)
    return found if isinstance(found, Journal) else None


NEEDED = "journal=True needs a checkpointer of open_checkpointer(…)"


def node_journal(config: RunnableConfig) -> NodeJournal | None:
    """Return the journal of one execution of a node, or `None` where none is kept.

    Raises:
        ValueError: The config insists on one, and the saver in force is not one of `open_checkpointer`.
    """
    known = config.get("configurable", {})
    wanted = known.get(JOURNAL)
    journal = _kept_by(saver_of(config))
    if wanted is False:
        return None
    if journal is None or known.get("thread_id") is None:
        if wanted:
            raise ValueError(f"{NEEDED}, here or in the graph around")
        return None
    told = config.get("metadata", {})
    around = str(known.get("checkpoint_ns") or "").rpartition("|")[0]
    node = [around, told.get("langgraph_node"), list(told.get("langgraph_path") or ())]
    return NodeJournal(journal, str(known["thread_id"]), node, told.get("langgraph_step"))


def place_in(*states: Any) -> str:
    """Return how far the record is in the first of these that is a state of ours; empty where none is."""
    for state in states:
        if isinstance(state, dict) and "head" in state:
            return str(sum(event["kind"] not in PASSING for event in state.get("events") or ()))
    return ""


PASSING = frozenset({"failure", "verdict"})
"""Events that change nothing about what a node asks when it is executed again."""


class NodeJournal:
    """The journal of one execution of a node.

    Args:
        journal: Where replies are kept.
        thread_id: For which thread.
        node: Which node; plain data.
        step: LangGraph's count of steps: stands in for the record where a state has none.
    """

    def __init__(self, journal: Journal, thread_id: str, node: Any, step: object) -> None:
        self.journal = journal
        self.thread_id = thread_id
        self.node = node
        self._step = step
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.used: list[str] = []
        self.unanswered: list[BaseException] = []
        """What models raised in place of a reply."""

    def call(self, place: str, prompt: str, model: str) -> str:
        """Return what this call is kept under; every further equal one is another."""
        parts = (json.dumps(self.node, default=str), place or f"step {self._step}", model, prompt)
        key = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:40]
        with self._lock:
            self._counts[key] += 1
            call = f"{key}.{self._counts[key]}"
            self.used.append(call)
        return call

    def to_forget(self, error: Exception | None, update: Any) -> Sequence[str]:
        """Return the calls whose replies a node failed on, so that it would fail on them again.

        Args:
            error: What the node raised.
            update: What it returned.
        """
        if error is not None:
            kept = isinstance(error, (GraphBubbleUp, UnkeptReplyError))
            return [] if kept or self._caused(error) else self.used
        news: Sequence[Mapping[str, Any]] = (update.get("events") if isinstance(update, dict) else None) or ()
        failures = [event for event in news if event.get("kind") == "failure" and not event.get("budget")]
        told = {(type(one).__name__, str(one)[:2000]) for one in self.unanswered}
        return self.used if any((one.get("error"), one.get("text")) not in told for one in failures) else []

    def _caused(self, error: BaseException | None) -> bool:
        """Return whether an error comes from a model that did not answer."""
        chain: list[BaseException] = []
        while error is not None and error not in chain:
            chain.append(error)
            error = error.__cause__ or error.__context__
        return any(one is other for one in chain for other in self.unanswered)


class Forget:
    """Drops, when it is called, what the journal of a node holds of some calls."""

    def __init__(self, node: NodeJournal, calls: Sequence[str]) -> None:
        self._node = node
        self._calls = calls

    def __call__(self) -> None:
        self._node.journal.forget(self._node.thread_id, self._calls)

    async def acall(self) -> None:
        """Async twin."""
        await self._node.journal.aforget(self._node.thread_id, self._calls)


class Asking:
    """What one call of a node asks of models, each of which looks here first.

    Args:
        node: The journal of the node.
        place: How far the record is.
        meter: Told how much time a reply took that is there already.
    """

    def __init__(self, node: NodeJournal, place: str, meter: Meter) -> None:
        self.node = node
        self._place = place
        self._meter = meter
        self._open: dict[Hashable, tuple[str, Flight]] = {}
        self._lock = threading.Lock()

    def find(self, prompt: str, model: str) -> list[Generation] | None:
        """Return the reply to a call, waiting for it where it is in flight; `None`: who asks makes the call.

        Raises:
            BadJournalError: What is kept of it is no reply.
            UnreadJournalError: It can't be read whether there is one.
        """
        call, who = self._begin(prompt, model)
        while True:
            flight, mine = FLIGHTS.board(self._key(call))
            if not mine:
                kept = flight.wait()
                if kept is None and flight.loop is not None and not flight.result.done():
                    return None
            else:
                self._opened(who, call, flight)
                with self._reading(who):
                    kept = self.node.journal.get(self.node.thread_id, call)
            if kept is not None:
                return self._reused(call, kept, who)
            if mine:
                return None

    async def afind(self, prompt: str, model: str) -> list[Generation] | None:
        """Async twin of `find`."""
        call, who = self._begin(prompt, model)
        while True:
            flight, mine = FLIGHTS.board(self._key(call))
            if not mine:
                kept = await flight.await_()
            else:
                self._opened(who, call, flight)
                with self._reading(who):
                    kept = await self.node.journal.aget(self.node.thread_id, call)
            if kept is not None:
                return self._reused(call, kept, who)
            if mine:
                return None

    def keep(self, generations: Sequence[Generation]) -> None:
        """Keep the reply to the call that this caller began.

        Raises:
            UnkeptReplyError: It could not be written.
        """
        who = caller()
        call, kept = self._told(who, generations)
        if call is not None and kept is not None:
            with _writing():
                self.node.journal.add(self.node.thread_id, call, kept)
        self._close(who, kept)

    async def akeep(self, generations: Sequence[Generation]) -> None:
        """Async twin of `keep`."""
        who = caller()
        call, kept = self._told(who, generations)
        if call is not None and kept is not None:
            with _writing():
                await self.node.journal.aadd(self.node.thread_id, call, kept)
        self._close(who, kept)

    def failed(self, error: BaseException) -> None:
        """Note that a model did not answer, and let go of the call that this caller began."""
        self.node.unanswered.append(error)
        self._close(caller())

    def end(self) -> None:
        """Let go of every call that has no reply."""
        for who in list(self._open):
            self._close(who)

    @contextmanager
    def _reading(self, who: Hashable) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._close(who)
            raise UnreadJournalError(
                f"the journal of finished calls can't be read: {error}; resume goes on from what is kept"
            ) from error

    def _begin(self, prompt: str, model: str) -> tuple[str, Hashable]:
        who = caller()
        self._close(who)  # the call before it has failed
        return self.node.call(self._place, prompt, model), who

    def _key(self, call: str) -> Hashable:
        return (id(self.node.journal), self.node.thread_id, call)

    def _opened(self, who: Hashable, call: str, flight: Flight) -> None:
        with self._lock:
            self._open[who] = (call, flight)
        if hasattr(who, "add_done_callback"):
            task: asyncio.Task[Any] = who  # type: ignore[assignment]
            task.add_done_callback(self._close)

    def _reused(self, call: str, kept: KeptReply, who: Hashable) -> list[Generation]:
        try:
            found = reply_of(kept.reply)
        except ValueError as error:
            self._close(who)
            thread = self.node.thread_id
            raise BadJournalError(
                f"the journal of thread {thread!r} holds something else than a reply under {call!r} ({error}); "
                f"saver.journal.forget({thread!r}) drops what it holds, and the calls are made anew"
            ) from None
        self._meter.reuse(kept.seconds)
        self._close(who, kept)
        return found

    def _told(self, who: Hashable, generations: Sequence[Generation]) -> tuple[str | None, KeptReply | None]:
        call, _ = self._open.get(who, (None, None))
        text = text_of(generations)
        return call, None if text is None else KeptReply(text, round(self._meter.elapsed, 6))

    def _close(self, who: Hashable, kept: KeptReply | None = None) -> None:
        with self._lock:
            call, flight = self._open.pop(who, (None, None))
        if call is not None and flight is not None:
            FLIGHTS.land(self._key(call), flight, kept)


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise UnkeptReplyError(
            f"a model's reply could not be kept: {error}; what was kept before is safe, resume goes on"
        ) from error


FLIGHTS = Flights()

ASKING: ContextVar[Asking | None] = ContextVar("redraft_asking", default=None)
"""Set for as long as a node with a journal waits for a call."""
