"""The journal of finished model calls, as nodes use it. Internal.

Each call is looked up before it is made, and kept after it.

LangChain's chat models have one place for that, their cache, and one cache for the whole process. A node's calls are
nobody else's business, so that cache is left alone: `_cache_in_force` is what chat models call to find it, and it puts
the journal before it for the calls of a node only. See `redraft.nodes.runtime` for which call is which.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import threading
from collections import Counter
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from langchain_core.caches import BaseCache
from langchain_core.globals import get_llm_cache
from langgraph.errors import GraphBubbleUp

from ...state.events import CHANGE_KINDS
from ...state.langgraph_internals import CHECKPOINTER as SAVER
from ...state.storage.journal import BadJournalError, Journal, KeptReply, UnkeptReplyError, UnreadJournalError
from ...state.usage import add_usage
from .dual import Do, adrive, drive
from .kept_replies import kept_reply, reply_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from langchain_core.outputs import Generation
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from ...state.usage import Usage
    from .meter import Meter

__all__ = [
    "JOURNAL",
    "JOURNALED_CALL",
    "SAVER",
    "JournalCache",
    "JournaledCall",
    "NodeJournal",
    "counted_before",
    "journal_option",
    "node_journal",
    "place_in",
    "saver_of",
]

JOURNAL = "redraft_journal"
"""In a config's `configurable`: `False` keeps no replies, `True` insists that they are kept."""
def saver_of(config: RunnableConfig) -> BaseCheckpointSaver[Any] | None:
    """Return the saver of the running graph, its own or that of the graph around it; `None` where it has none."""
    found: BaseCheckpointSaver[Any] | None = config.get("configurable", {}).get(SAVER)
    return found


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
        RuntimeError: One is to be kept, and this version of langchain-core has no place for it.
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
    _install()
    metadata = config.get("metadata", {})
    around = str(known.get("checkpoint_ns") or "").rpartition("|")[0]
    node = [around, metadata.get("langgraph_node"), list(metadata.get("langgraph_path") or ())]
    return NodeJournal(journal, str(known["thread_id"]), node, metadata.get("langgraph_step"))


def place_in(*states: Any) -> str:
    """Return how far the record is in the first of these that is a state of ours; empty where none is."""
    for state in states:
        if isinstance(state, dict) and "head" in state:
            return str(sum(event["kind"] not in PASSING for event in state.get("events") or ()))
    return ""


def counted_before(state: Mapping[str, Any] | None) -> Usage | None:
    """Return what failures since the last step that came to something have counted of replies that are kept."""
    events: Sequence[Mapping[str, Any]] = (state or {}).get("events") or ()
    tries = itertools.takewhile(lambda event: event["kind"] in PASSING, reversed(events))
    used = [event["usage"] for event in tries if event.get("kept")]
    return add_usage(used) if used else None


PASSING = frozenset({"failure", "verdict", *CHANGE_KINDS})
"""Events that change nothing about the calls of a node that is executed again."""


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
        self.unanswered: list[BaseException] = []
        """What models raised in place of a reply."""
        self._node = json.dumps(node, default=str)
        self._step = step
        self._counts: Counter[str] = Counter()
        self._used: list[str] = []
        self._lock = threading.Lock()

    def new_key(self, place: str, prompt: str, model: str) -> str:
        """Return the key of one more call; every further equal one has another."""
        key = self.key(place, prompt, model)
        # Samples of one prompt may be asked from several threads.
        with self._lock:
            self._counts[key] += 1
            self._used.append(numbered := f"{key}.{self._counts[key]}")
        return numbered

    def key(self, place: str, *what: str) -> str:
        """Return the hash of what is asked for, by this node, at this place of the record."""
        parts = (self._node, place or f"step {self._step}", *reversed(what))
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:40]

    def find(self, key: str) -> Generator[Do, Any, KeptReply | None]:
        """Return what is kept under a key.

        Raises:
            UnreadJournalError: It can't be read whether there is anything.
        """
        try:
            found: KeptReply | None = yield Do(self.journal.get, self.journal.aget, (self.thread_id, key))
        except BadJournalError:
            raise
        except Exception as error:
            raise UnreadJournalError(
                f"the journal of finished calls can't be read: {error}; resume goes on from what is kept"
            ) from error
        return found

    def keep(self, key: str, kept: KeptReply, what: str) -> Generator[Do, Any, None]:
        """Keep something under a key; it is committed when this ends.

        Raises:
            UnkeptReplyError: It could not be written.
        """
        try:
            yield Do(self.journal.add, self.journal.aadd, (self.thread_id, key, kept))
        except Exception as error:
            raise UnkeptReplyError(
                f"{what} could not be kept: {error}; what was kept before is safe, resume goes on"
            ) from error

    def guarded(self, logic: Generator[Any, Any, dict[str, Any]]) -> Generator[Any, Any, dict[str, Any]]:
        """Run a node's logic, and drop its replies from the journal where it failed on them: it would fail again."""
        try:
            update = yield from logic
        except Exception as error:
            expected = isinstance(error, (GraphBubbleUp, UnkeptReplyError))
            if not expected and not self.caused(error):
                yield from self._forget()
            raise
        written: Mapping[str, Any] = update if isinstance(update, dict) else {}  # a middleware's is none
        news: Sequence[Mapping[str, Any]] = written.get("events") or ()
        failures = [event for event in news if event.get("kind") == "failure" and not event.get("budget")]
        # As `failure` writes them into an event: the name, and the text cut to that length.
        known = {(type(one).__name__, str(one)[:2000]) for one in self.unanswered}
        # A first draft that came to nothing is written anew.
        if "raised" in written or any((one.get("error"), one.get("text")) not in known for one in failures):
            yield from self._forget()
        return update

    def _forget(self) -> Generator[Do, Any, None]:
        if self._used:
            yield Do(self.journal.forget, self.journal.aforget, (self.thread_id, self._used))

    def caused(self, error: BaseException | None) -> bool:
        """Return whether an error comes from a model that did not answer."""
        chain: list[BaseException] = []
        # Causes can form a circle.
        while error is not None and error not in chain:
            chain.append(error)
            error = error.__cause__ or error.__context__
        return any(one is other for one in chain for other in self.unanswered)


class JournaledCall:
    """One call that a node makes, below which every model call is looked up in the journal first.

    Args:
        node: The journal of the node.
        place: How far the record is.
        meter: Learns how much time a reply took that is there already, and what models raise.
    """

    def __init__(self, node: NodeJournal, place: str, meter: Meter) -> None:
        self._node = node
        self._place = place
        self._meter = meter
        meter.on_failure = node.unanswered.append
        meter.keeps = node.caused

    def new_key(self, prompt: str, model: str) -> str:
        """Return the key of one more model call."""
        return self._node.new_key(self._place, prompt, model)

    def find(self, key: str) -> Generator[Do, Any, list[Generation] | None]:
        """Return the reply to a model call; `None`: the caller makes the call.

        Raises:
            BadJournalError: What is kept of it is no reply.
            UnreadJournalError: It can't be read whether there is one.
        """
        kept = yield from self._node.find(key)
        if kept is None:
            return None
        try:
            found = reply_of(kept.reply)
        except ValueError as error:
            thread = self._node.thread_id
            raise BadJournalError(
                f"the journal of thread {thread!r} holds something else than a reply under {key!r} ({error}); "
                f"saver.journal.forget({thread!r}) drops what it holds, and the calls are made anew"
            ) from None
        self._meter.reuse(kept.seconds)
        return found

    def keep(self, key: str, generations: Sequence[Generation]) -> Generator[Do, Any, None]:
        """Keep the reply to a model call.

        Raises:
            UnkeptReplyError: It could not be written.
        """
        if (kept := kept_reply(generations, round(self._meter.elapsed, 6))) is not None:
            yield from self._node.keep(key, kept, "a model's reply")

    def tool_key(self, *what: str) -> str:
        """Return the key of a tool call. What says which one it is does so by itself: equal calls are not counted."""
        return f"{self._node.key(self._place, *what)}.tool"

    def tool_result(self, key: str) -> Generator[Do, Any, str | None]:
        """Return the result of a tool call that was made before; `None`: the caller makes the call.

        Raises:
            UnreadJournalError: It can't be read whether there is one.
        """
        kept = yield from self._node.find(key)
        if kept is None:
            return None
        self._meter.pass_time(kept.seconds)
        return kept.reply

    def keep_tool_result(self, key: str, text: str) -> Generator[Do, Any, None]:
        """Keep the result of a tool call.

        Raises:
            UnkeptReplyError: It could not be written.
        """
        yield from self._node.keep(key, KeptReply(text, round(self._meter.elapsed, 6)), "a tool's result")


class JournalCache(BaseCache):
    """The journal as the cache of one model call below a node; what it does not know, the process's own may.

    Args:
        call: The call of the node.
        below: The process's cache.
    """

    def __init__(self, call: JournaledCall, below: BaseCache | None) -> None:
        self._call = call
        self._below = below
        self._key: str | None = None

    def lookup(self, prompt: str, llm_string: str) -> Sequence[Generation] | None:
        return drive(self._found(prompt, llm_string))

    async def alookup(self, prompt: str, llm_string: str) -> Sequence[Generation] | None:
        return await adrive(self._found(prompt, llm_string))

    def update(self, prompt: str, llm_string: str, return_val: Sequence[Generation]) -> None:
        drive(self._kept(prompt, llm_string, return_val))

    async def aupdate(self, prompt: str, llm_string: str, return_val: Sequence[Generation]) -> None:
        await adrive(self._kept(prompt, llm_string, return_val))

    def clear(self, **kwargs: Any) -> None:
        """Clear the cache below; the journal goes with its threads."""
        if self._below is not None:
            self._below.clear(**kwargs)

    def _found(self, prompt: str, model: str) -> Generator[Do, Any, Sequence[Generation] | None]:
        self._key = self._call.new_key(prompt, model)
        found: Sequence[Generation] | None = yield from self._call.find(self._key)
        if found is None and self._below is not None:
            found = yield Do(self._below.lookup, self._below.alookup, (prompt, model))
        return found

    def _kept(self, prompt: str, model: str, reply: Sequence[Generation]) -> Generator[Do, Any, None]:
        if self._key is not None:
            yield from self._call.keep(self._key, reply)
        if self._below is not None:
            yield Do(self._below.update, self._below.aupdate, (prompt, model, reply))


JOURNALED_CALL: ContextVar[JournaledCall | None] = ContextVar("redraft_journaled_call", default=None)
"""Set where, and for as long as, a node with a journal waits for a call."""


def _cache_in_force() -> BaseCache | None:
    """Return the cache that a chat model looks into, for each call anew: the process's own, with the journal before it
    below a node."""
    own, call = get_llm_cache(), JOURNALED_CALL.get()
    return own if call is None else JournalCache(call, own)


def _install() -> None:
    """Let chat models find their cache through `_cache_in_force`, from the first journal on and for good.

    They look up `get_llm_cache` in their own module, so that only they go this way. The cache that is set for the
    process, and what `langchain_core.globals` says of it, is never touched.

    Raises:
        RuntimeError: They find their cache in another way: without a journal, calls would be paid twice unnoticed.
    """
    from langchain_core.language_models import chat_models

    if getattr(chat_models, "get_llm_cache", None) not in (get_llm_cache, _cache_in_force):
        raise RuntimeError("chat models of this langchain-core find their cache in an unknown way; pass journal=False")
    chat_models.get_llm_cache = _cache_in_force  # type: ignore[attr-defined]


@contextmanager
def journaled(node: NodeJournal | None, meter: Meter, states: Sequence[Any]) -> Iterator[None]:
    """Look up the model calls within the block in the journal of a node; without one, in no journal around it either.

    Args:
        node: The journal.
        meter: Of the call.
        states: Where it may be known how far the record is.
    """
    call = None if node is None else JournaledCall(node, place_in(*states), meter)
    before = JOURNALED_CALL.set(call)
    try:
        yield
    finally:
        JOURNALED_CALL.reset(before)
