"""The journal of one execution of a node: whether one is kept, what each call is kept under, and what is forgotten."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from langgraph.errors import GraphBubbleUp

from ...state.storage.journal import Journal, UnkeptReplyError
from .saver_in_force import saver_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.runnables import RunnableConfig

__all__ = ["JOURNAL", "Forget", "NodeJournal", "journal_option", "node_journal", "place_in"]

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
