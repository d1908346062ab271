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
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from langchain_core.caches import BaseCache
from langchain_core.globals import get_llm_cache
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, Generation
from langgraph.errors import GraphBubbleUp
from pydantic import ValidationError

from ...models.batches import CALL
from ...state.checked_values import first_fault
from ...state.events import CHANGE_KINDS
from ...state.langgraph_internals import CHECKPOINTER as SAVER
from ...state.storage.journal import BadJournalError, Journal, KeptReply, UnkeptReplyError, UnreadJournalError
from ...state.usage import Usage, add_usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from .meter import Meter

__all__ = [
    "EXECUTION",
    "JOURNAL",
    "JOURNALED_CALL",
    "SAVER",
    "Execution",
    "JournalCache",
    "JournaledCall",
    "NodeJournal",
    "is_reused",
    "journal_in_force",
    "journal_option",
    "node_journal",
    "place_in",
    "saver_of",
]

JOURNAL = "redraft_journal"
"""In a config's `configurable`: `False` keeps no replies, `True` insists that they are kept."""


def saver_of(config: RunnableConfig) -> BaseCheckpointSaver[Any] | None:
    """Return the saver of the running graph, its own or that of the graph around it; `None` where it has none."""
    saver: BaseCheckpointSaver[Any] | None = config.get("configurable", {}).get(SAVER)
    return saver


def journal_option(journal: object, checkpointer: object) -> dict[str, bool]:
    """Return the part of a graph's `configurable` that the option of its builder sets.

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
    journal = getattr(saver, "journal", None)
    return journal if isinstance(journal, Journal) else None


NEEDED = "journal=True needs a checkpointer of open_checkpointer(…)"


def node_journal(config: RunnableConfig) -> NodeJournal | None:
    """Return the journal of one execution of a node, or `None` where none is kept.

    Raises:
        ValueError: The config insists on one, and the saver in force is not one of `open_checkpointer`.
        RuntimeError: One is to be kept, and this version of langchain-core has no place for it.
    """
    configurable = config.get("configurable", {})
    wanted = configurable.get(JOURNAL)
    journal = _kept_by(configurable.get(SAVER))
    if wanted is False:
        return None
    if journal is None or configurable.get("thread_id") is None:
        if wanted:
            raise ValueError(f"{NEEDED}, here or in the graph around")
        return None
    _install()
    metadata = config.get("metadata", {})
    around = str(configurable.get("checkpoint_ns") or "").rpartition("|")[0]
    node = [around, metadata.get("langgraph_node"), list(metadata.get("langgraph_path") or ())]
    return NodeJournal(journal, str(configurable["thread_id"]), node, metadata.get("langgraph_step"))


def place_in(*states: Any) -> str:
    """Return the length of the record in the first of these that is a state of ours; empty where none is."""
    for state in states:
        if isinstance(state, dict) and "head" in state:
            return str(sum(event["kind"] not in PASSING for event in state.get("events") or ()))
    return ""


def counted_before(state: Mapping[str, Any] | None) -> Usage | None:
    """Return the usage of kept replies that failures since the last successful step have counted."""
    events: Sequence[Mapping[str, Any]] = (state or {}).get("events") or ()
    tries = itertools.takewhile(lambda event: event["kind"] in PASSING, reversed(events))
    used = [event["usage"] for event in tries if event.get("kept")]
    return add_usage(used) if used else None


PASSING = frozenset({"failure", "verdict", *CHANGE_KINDS})
"""Events that change nothing about the calls of a node that is executed again."""


@dataclass
class Execution:
    """One execution of a node, as its calls see it."""

    config: RunnableConfig
    """As the node was given it."""
    called: bool = False

    @cached_property
    def journal(self) -> NodeJournal | None:
        """The journal of its calls, opened by the first; `None` where none is kept."""
        self.called = True
        return node_journal(self.config)


EXECUTION: ContextVar[Execution | None] = ContextVar("redraft_execution", default=None)


def journal_in_force() -> NodeJournal | None:
    """Return the journal of the node that is executed here; `None` where none is kept."""
    execution = EXECUTION.get()
    return None if execution is None else execution.journal


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
        """Errors that models raised in place of a reply."""
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

    def key(self, place: str, *asked: str) -> str:
        """Return the hash of a question that this node asks at this place of the record."""
        parts = (self._node, place or f"step {self._step}", *reversed(asked))
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:40]

    def read(self, key: str) -> KeptReply | None:
        """Return the row under a key, or `None`.

        Raises:
            UnreadJournalError: The journal can't be read.
        """
        with _journal_errors(UnreadJournalError, UNREAD):
            return self.journal.get(self.thread_id, key)

    async def aread(self, key: str) -> KeptReply | None:
        """Async twin of `read`."""
        with _journal_errors(UnreadJournalError, UNREAD):
            return await self.journal.aget(self.thread_id, key)

    def write(self, key: str, row: KeptReply, subject: str = "a model's reply") -> None:
        """Keep a row under a key; it is committed when this ends.

        Raises:
            UnkeptReplyError: It could not be written.
        """
        with _journal_errors(UnkeptReplyError, f"{subject} could not be kept: {UNKEPT}"):
            self.journal.add(self.thread_id, key, row)

    async def awrite(self, key: str, row: KeptReply, subject: str = "a model's reply") -> None:
        """Async twin of `write`."""
        with _journal_errors(UnkeptReplyError, f"{subject} could not be kept: {UNKEPT}"):
            await self.journal.aadd(self.thread_id, key, row)

    def fails_again(self, error: Exception) -> bool:
        """Return True if the node that raised this would raise it again with the same replies."""
        return not isinstance(error, (GraphBubbleUp, UnkeptReplyError)) and not self.caused(error)

    def forget(self) -> None:
        """Drop the replies that this execution used."""
        if self._used:
            self.journal.forget(self.thread_id, self._used)

    async def aforget(self) -> None:
        """Async twin of `forget`."""
        if self._used:
            await self.journal.aforget(self.thread_id, self._used)

    def caused(self, error: BaseException | None) -> bool:
        """Return True if an error comes from a model that did not answer."""
        chain: list[BaseException] = []
        # Causes can form a circle.
        while error is not None and error not in chain:
            chain.append(error)
            error = error.__cause__ or error.__context__
        return any(one is other for one in chain for other in self.unanswered)


@contextmanager
def _journal_errors(kind: type[UnkeptReplyError], message: str) -> Iterator[None]:
    """Raise errors of the database as errors of the journal."""
    try:
        yield
    except BadJournalError:
        raise
    except Exception as error:
        raise kind(message.format(error=error)) from error


UNREAD = "the journal of finished calls can't be read: {error}; resume goes on from what is kept"
UNKEPT = "{error}; what was kept before is safe, resume goes on"


class JournaledCall:
    """One call that a node makes, below which every model call is looked up in the journal first.

    Args:
        node: The journal of the node.
        states: Where it may be read how far the record is.
        meter: Learns how much time a reply took that is there already, and what models raise.
    """

    def __init__(self, node: NodeJournal, states: Sequence[Any], meter: Meter) -> None:
        self.node = node
        self.meter = meter
        self.place = place_in(*states)
        meter.on_failure = node.unanswered.append
        meter.keeps = node.caused
        meter.counted = counted_before(states[0]) if states else None


class KeptMessage(AIMessage):
    """A reply from the journal. LangChain copies what it finds in a cache; the copy is the reply as the model gave it.

    LangChain would write into the copy that the call cost nothing, and budgets count what it cost when it was made.
    """

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> AIMessage:  # type: ignore[override]
        """Return the reply with its own usage."""
        message = AIMessage(**_fields(self))
        _in_use[id(message)] = message
        return message


_in_use: WeakValueDictionary[int, AIMessage] = WeakValueDictionary()
"""The replies out of a journal that are in use, by their `id`: nothing in them says where they are from."""


def is_reused(message: AIMessage | None) -> bool:
    """Return True if a reply is out of a journal, or of a cache of LangChain's, which marks it."""
    if message is None:
        return False
    return _in_use.get(id(message)) is message or "total_cost" in (message.usage_metadata or {})


def kept_reply(generations: Sequence[Generation], seconds: float) -> KeptReply | None:
    """Return a reply as it is kept, or `None` where it is no chat model's or JSON can't hold it.

    Args:
        generations: What the model replied.
        seconds: As `KeptReply` has them.
    """
    messages: list[Any] = [getattr(generation, "message", None) for generation in generations]
    if not messages or not all(isinstance(message, AIMessage) for message in messages):
        return None
    try:
        reply = json.dumps([_fields(message) for message in messages], allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return None
    text = messages[0].content
    repeatable = len(messages) == 1 and isinstance(text, str) and len(text) >= SHORTEST
    return KeptReply(reply, round(seconds, 6), text if repeatable else "")


def reply_of(text: str) -> list[Generation]:
    """Return a reply as LangChain's cache returns it.

    Raises:
        ValueError: The text is no reply of a model.
    """
    try:
        messages = json.loads(text)
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if not isinstance(messages, list) or not messages:
        raise ValueError("it is no list of messages")
    return [ChatGeneration(message=_message(fields)) for fields in messages]


def _message(fields: Any) -> AIMessage:
    if not isinstance(fields, dict) or not fields.keys() <= KEPT:
        raise ValueError("it holds something else than messages of a model")
    try:
        return KeptMessage.model_validate(fields)
    except ValidationError as error:
        raise ValueError(first_fault(error)) from None


def _fields(message: Any) -> dict[str, Any]:
    return {name: getattr(message, name) for name in sorted(KEPT) if getattr(message, name, None)} | {
        "content": message.content
    }


KEPT = frozenset(
    [
        *("additional_kwargs", "content", "id", "invalid_tool_calls", "name"),
        *("response_metadata", "tool_calls", "usage_metadata"),
    ]
)
"""Fields of a message that are kept; all are data."""


SHORTEST = 200
"""Characters of a text that is worth looking for in the record."""


class JournalCache(BaseCache):
    """The journal as the cache of one model call below a node; what it does not hold, the process's own cache may.

    Args:
        call: The call of the node.
        below: The process's cache.
    """

    def __init__(self, call: JournaledCall, below: BaseCache | None) -> None:
        self._node = call.node
        self._meter = call.meter
        self._place = call.place
        self._below = below
        self._key = ""

    def lookup(self, prompt: str, llm_string: str) -> Sequence[Generation] | None:
        self._begin(prompt, llm_string)
        if (row := self._node.read(self._key)) is not None:
            return self._reply(row)
        return None if self._below is None else self._below.lookup(prompt, llm_string)

    async def alookup(self, prompt: str, llm_string: str) -> Sequence[Generation] | None:
        self._begin(prompt, llm_string)
        if (row := await self._node.aread(self._key)) is not None:
            return self._reply(row)
        return None if self._below is None else await self._below.alookup(prompt, llm_string)

    def update(self, prompt: str, llm_string: str, return_val: Sequence[Generation]) -> None:
        if row := kept_reply(return_val, self._meter.elapsed):
            self._node.write(self._key, row)
        if self._below is not None:
            self._below.update(prompt, llm_string, return_val)

    async def aupdate(self, prompt: str, llm_string: str, return_val: Sequence[Generation]) -> None:
        if row := kept_reply(return_val, self._meter.elapsed):
            await self._node.awrite(self._key, row)
        if self._below is not None:
            await self._below.aupdate(prompt, llm_string, return_val)

    def clear(self, **kwargs: Any) -> None:
        """Clear the cache below; the journal goes with its threads."""
        if self._below is not None:
            self._below.clear(**kwargs)

    def _begin(self, prompt: str, llm_string: str) -> None:
        self._key = self._node.new_key(self._place, prompt, llm_string)
        CALL.set(f"{self._node.thread_id}/{self._key}")

    def _reply(self, row: KeptReply) -> list[Generation]:
        """Return the reply that a row holds, and count the time that it took.

        Raises:
            BadJournalError: It holds something else.
        """
        try:
            reply = reply_of(row.reply)
        except ValueError as error:
            thread = self._node.thread_id
            raise BadJournalError(
                f"the journal of thread {thread!r} holds something else than a reply under {self._key!r} ({error}); "
                f"saver.journal.forget({thread!r}) drops what it holds, and the calls are made anew"
            ) from None
        self._meter.reuse(row.seconds)
        return reply


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
