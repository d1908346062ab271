"""The state and the steps of a finished thread, read off a SQLite file without LangGraph. Internal.

They are what `graph.get_state` and `Thread.history` give, of a thread of the loop. Where there is any doubt there are
none: then the whole saver reads the thread, and says what is wrong with it.
"""

from __future__ import annotations

import json
import sqlite3
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import ormsgpack
from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from ..checked_values import check_values
from ..events import EventOfKind  # noqa: TC001  (pydantic reads the annotations)
from ..usage import Score, Usage  # noqa: TC001
from .history import read_history
from .kind import OWN_STATE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..storage.index import Query
    from .history import HistoryStep

__all__ = ["Finished", "finished_history", "finished_state"]

DOUBTS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, sqlite3.Error)
SNAPSHOT = 7
"""The kind of LangGraph's extension that holds the value of a delta channel as it is."""
LARGEST = 64 * 2**20
"""Bytes of one value; a saver refuses larger ones with a word."""


class Finished(TypedDict, total=False):
    """The channels that are shown, of the types that the loop's state has."""

    task: str
    limits: dict[str, Any]
    events: list[Annotated[EventOfKind, Field(discriminator="kind")]]
    head: str
    answer: str
    stop_reason: str
    rounds: int
    score: Score | None
    accepted_by: str | None
    oracle: bool
    usage: Usage


def finished_state(query: Query, thread_id: str) -> dict[str, Any] | None:
    """Return the channels of `Finished`, of a thread that came to its end; `None` where a saver must say.

    Args:
        query: Runs a statement with `%(name)s` parameters and returns its rows.
        thread_id: The thread.
    """
    try:
        found = PlainThread(query, thread_id)
        return found.values(found.newest) if found.finished else None
    except DOUBTS:
        return None


def finished_history(query: Query, thread_id: str) -> list[HistoryStep] | None:
    """Return every step of a thread that came to its end, oldest first; `None` where a saver must say."""
    try:
        found = PlainThread(query, thread_id)
        if not found.finished:
            return None
        found.values(found.newest)
        return read_history([found.snapshot(one) for one in sorted(found.checkpoints, reverse=True)], OWN_STATE)
    except DOUBTS:
        return None


class PlainThread:
    """The checkpoints of a thread, and what was written at each; any doubt about them raises one of `DOUBTS`."""

    def __init__(self, query: Query, thread_id: str) -> None:
        place = {"thread_id": thread_id}
        self.checkpoints: dict[str, Any] = {}
        self.parents: dict[str, str | None] = {}
        self.metadata: dict[str, Any] = {}
        for checkpoint_id, parent, kind, data, metadata in query(CHECKPOINTS, place):
            self.checkpoints[checkpoint_id] = _plain(kind, data)
            self.parents[checkpoint_id] = parent
            self.metadata[checkpoint_id] = metadata
            if self.checkpoints[checkpoint_id]["id"] != checkpoint_id:
                raise ValueError("it is another checkpoint")
        self.news: dict[str, list[Any]] = {}
        """By checkpoint, what each step there added to the record."""
        self.written: set[str] = set()
        for checkpoint_id, channel, kind, data in query(WRITES, place):
            self.written.add(checkpoint_id)
            if channel == "events":
                self.news.setdefault(checkpoint_id, []).append(_plain(kind, data))
        self.newest = max(self.checkpoints)
        self._records: dict[str, list[Any]] = {}

    @property
    def finished(self) -> bool:
        """False of a step that waits or was broken off, of a search, a pipeline, and a graph that is not ours."""
        stored = self.checkpoints[self.newest]["channel_values"]
        waits = self.newest in self.written or bool(_next(stored))
        return not waits and stored.keys() >= NEEDED and not stored.keys() & OF_OTHERS

    def values(self, checkpoint_id: str) -> dict[str, Any]:
        """Return the channels that are shown, each of its type."""
        stored = self.checkpoints[checkpoint_id]["channel_values"]
        values = {name: value for name, value in stored.items() if name in Finished.__annotations__}
        values["events"] = self.record(checkpoint_id)
        check_values(_adapter(), values)
        return values

    def record(self, checkpoint_id: str) -> list[Any]:
        """Return the record as of a checkpoint: what its parent had, and what was added there."""
        chain: list[str] = []
        here: str | None = checkpoint_id
        while here is not None and here not in self._records:
            if here in chain[-1:] or len(chain) > len(self.checkpoints):
                raise ValueError("a checkpoint is its own ancestor")
            held = self.checkpoints[here]["channel_values"].get("events")
            if held is not None:
                self._records[here] = _list(held)
                break
            chain.append(here)
            here = self.parents[here]
        for one in reversed(chain):
            before = self.parents[one]
            news = self.news.get(before, []) if before is not None else []
            if len(news) > 1:
                raise ValueError("several steps at once: LangGraph knows their order")
            known = self._records[before] if before is not None else []
            self._records[one] = [*known, *(event for part in news for event in _list(part))] if news else known
        return self._records[checkpoint_id]

    def snapshot(self, checkpoint_id: str) -> Any:
        """Return of a checkpoint what `read_history` reads of LangGraph's snapshot."""
        checkpoint, metadata = self.checkpoints[checkpoint_id], json.loads(self.metadata[checkpoint_id])
        stored, parent = checkpoint["channel_values"], self.parents[checkpoint_id]
        told = (metadata["step"], checkpoint["ts"], metadata["source"], stored.get("stop_reason"))
        if not isinstance(told[0], int) or not all(isinstance(one, str | None) for one in told[1:]):
            raise TypeError("it has not the form of a checkpoint")
        if len(following := _next(stored)) > 1:
            raise ValueError("several steps at once: LangGraph knows their order")
        return SimpleNamespace(
            values={"events": self.record(checkpoint_id), "stop_reason": told[3]},
            next=following,
            metadata=metadata,
            config={"configurable": {"checkpoint_id": checkpoint_id}},
            parent_config=None if parent is None else {"configurable": {"checkpoint_id": parent}},
            created_at=checkpoint["ts"],
        )


def _next(stored: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the nodes that a checkpoint waits for."""
    begun = [name.removeprefix("branch:to:") for name in stored if name.startswith("branch:to:")]
    if any(name.startswith(("join:", "__pregel")) for name in stored):
        raise ValueError("LangGraph knows what comes next")
    return (*(["__start__"] if "__start__" in stored else []), *begun)


NEEDED = {"task", "head", "answer", "stop_reason", "rounds", "score", "accepted_by", "oracle", "usage"}
OF_OTHERS = {"search", "plans", "going", "judging", "at"}
"""Channels of searches and of pipelines, whose steps are read in other ways."""
CHECKPOINTS = (
    "SELECT checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata FROM checkpoints "
    "WHERE thread_id = %(thread_id)s AND checkpoint_ns = ''"
)
WRITES = "SELECT checkpoint_id, channel, type, value FROM writes WHERE thread_id = %(thread_id)s AND checkpoint_ns = ''"


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"the record is {type(value).__name__}")
    return value


def _plain(kind: Any, data: Any) -> Any:
    """Return a value of plain data."""
    if kind != "msgpack" or not isinstance(data, bytes) or len(data) > LARGEST:
        raise ValueError("it is no plain data")
    return ormsgpack.unpackb(data, ext_hook=_snapshot, option=ormsgpack.OPT_NON_STR_KEYS)


def _snapshot(code: int, data: bytes) -> Any:
    if code != SNAPSHOT:
        raise ValueError("it names a type")
    return ormsgpack.unpackb(data, option=ormsgpack.OPT_NON_STR_KEYS)


@cache
def _adapter() -> TypeAdapter[Any]:
    return TypeAdapter(Finished)
