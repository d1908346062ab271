"""The state and the steps of a thread of ours, read off its rows without LangGraph. Internal.

They are what `graph.get_state` and `graph.get_state_history` give. Where there is any doubt, one of `DOUBTS` is raised:
then the whole saver reads the thread, and says what is wrong with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from ..checked_values import check_values
from ..events import DRAFT_KINDS, EventOfKind, RunValues
from ..langgraph_internals import BRANCH_TO, INPUT_CHANNEL, JOIN, PREGEL
from ..storage.thread_rows import OF_NO_TASK, CheckpointRow, ThreadRows
from ..summary import current_run
from .history import HistoryStep, Seen, steps_of
from .replay import Replay, replay_record

__all__ = ["checkpoint_of_round", "latest_round", "plain_history", "plain_replay", "plain_state"]


class Shown(RunValues, total=False):
    """The channels that are shown, of the types that the loop's state has."""

    task: str
    limits: dict[str, Any]
    events: list[Annotated[EventOfKind, Field(discriminator="kind")]]


def plain_state(rows: ThreadRows) -> dict[str, Any]:
    """Return the channels of `Shown` where a thread stands.

    In doubt are also a search, a graph that is not ours, and a thread whose last step was broken off: LangGraph knows
    what is kept of it.
    """
    return PlainThread(rows).state()


def plain_replay(rows: ThreadRows) -> Replay:
    """Return the output recomputed from the record; in doubt is also a task that may not have begun."""
    thread = PlainThread(rows)
    values, reopened = thread.state(), bool(_next(rows.load(thread.newest).values))
    task = current_run(values["events"])[:1]
    if reopened and task and task[0]["text"] != values.get("task"):
        raise LookupError("the record may be that of the task before")
    return replay_record(values, reopened=reopened)


def plain_history(rows: ThreadRows) -> list[HistoryStep]:
    """Return every step that led to where a thread stands, oldest first."""
    return steps_of(PlainThread(rows).steps())


def checkpoint_of_round(rows: ThreadRows, number: int, first_node: str) -> str | None:
    """Return the newest checkpoint that ends with the draft of a round; `None` where there is none.

    Args:
        rows: Of the thread.
        number: The round, of the task that was the newest there.
        first_node: What a task waits for; until it has run, the record is that of the task before.
    """
    waiting = {INPUT_CHANNEL, first_node}
    ends = [checkpoint_id for checkpoint_id, latest in PlainThread(rows).rounds().items() if latest == number]
    values = {checkpoint_id: rows.load(checkpoint_id).values for checkpoint_id in ends}
    return max((name for name, stored in values.items() if not waiting & {*_next(stored)}), default=None)


class PlainThread:
    """The checkpoints of a thread, and what was written at each; any doubt about them raises one of `DOUBTS`."""

    def __init__(self, rows: ThreadRows) -> None:
        self.rows = rows
        self.newest = max(rows.parents)
        if SENDS in rows.load(self.newest).channels:
            raise LookupError("several tasks of one node at once: LangGraph knows their order")
        self._news: defaultdict[str, list[Any]] = defaultdict(list)
        self.broken_off = False
        """True if tasks have written values that no checkpoint holds yet."""
        for checkpoint_id, task_id, channel, value in rows.writes:
            if channel == "events":
                self._news[checkpoint_id].append(value())
            if task_id == OF_NO_TASK and not channel.startswith("__"):
                raise ValueError("it was written by hand: LangGraph knows what comes of it")
            self.broken_off |= checkpoint_id == self.newest and channel not in OF_STEPS

    def state(self) -> dict[str, Any]:
        """Return the channels that are shown of the newest checkpoint, each of its type."""
        *_, (_, row, record, task) = self._grown()
        if task is None or not row.values.keys() >= NEEDED or self.broken_off:
            raise LookupError("LangGraph knows what is kept of its last step")
        return _checked(row, record, task)

    def steps(self) -> Iterator[Seen]:
        """Yield what is known of each checkpoint that led to the newest, oldest first."""
        length = 0
        for checkpoint_id, row, record, task in self._grown():
            ts, stored, _ = row
            metadata = self.rows.metadata(checkpoint_id)
            source, reason = metadata["source"], stored.get("stop_reason")
            if (
                not isinstance(metadata["step"], int)
                or not isinstance(source, str)
                or not isinstance(reason, str | None)
            ):
                raise TypeError("it has not the form of a checkpoint")
            yield checkpoint_id, metadata, _next(stored), record[length:], reason, ts
            length = len(record)
            if checkpoint_id == self.newest:
                _checked(row, record, task)

    def rounds(self) -> dict[str, int | None]:
        """Return by checkpoint the round of the draft that its task's record ends with."""
        rounds: dict[str, int | None] = {}
        # Parents come first: a checkpoint's id is later than its parent's.
        records = {name: self.rows.load(name).values.get("events") for name in sorted(self.rows.parents)}
        for checkpoint_id, held in records.items():
            parent = self.rows.parents[checkpoint_id]
            if held is not None or parent is None:
                rounds[checkpoint_id] = latest_round(_list(held or []), None)
            else:
                rounds[checkpoint_id] = latest_round(self._added(parent), rounds[parent])
        return rounds

    def _grown(self) -> Iterator[tuple[str, CheckpointRow, list[Any], Any]]:
        """Yield each checkpoint of the branch with the record there, one list that grows where none is stored, and the
        task."""
        # The newest checkpoint and those that led to it.
        chain, here = [self.newest], self.rows.parents[self.newest]
        while here is not None:
            if here >= chain[-1]:
                raise ValueError("a checkpoint is no later than its parent")
            chain.append(here)
            here = self.rows.parents[here]
        record: list[Any] = []
        parent = task = None
        for checkpoint_id, row in [(name, self.rows.load(name)) for name in reversed(chain)]:
            if (held := row.values.get("events")) is not None:
                record = list(_list(held))
            elif parent is not None:
                record += self._added(parent)
            task = row.values.get("task", task)
            yield checkpoint_id, row, record, task
            parent = checkpoint_id

    def _added(self, checkpoint_id: str) -> list[Any]:
        """Return the events that were added at a checkpoint."""
        news = self._news[checkpoint_id]
        if len(news) > 1:
            raise ValueError("several steps at once: LangGraph knows their order")
        return _list(news[0]) if news else []


def latest_round(events: Sequence[Mapping[str, Any]], base: int | None) -> int | None:
    """Return the round of the last draft of the newest task.

    Args:
        events: What was added last.
        base: That round before.
    """
    for event in reversed(events):
        if event["kind"] in DRAFT_KINDS and not event.get("rejected"):
            number: int = event["round"]
            return number
        # What is before belongs to an earlier task, whose rounds count from 0 as well.
        if event["kind"] == "task":
            return None
    return base


def _next(stored: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the node that a checkpoint waits for."""
    waits = [name.removeprefix(BRANCH_TO) for name in stored if name.startswith((BRANCH_TO, INPUT_CHANNEL))]
    if len(waits) > 1 or any(name.startswith((JOIN, PREGEL)) for name in stored):
        raise ValueError("several steps at once: LangGraph knows their order")
    return tuple(waits)


NEEDED = {"head", "answer", "stop_reason", "rounds", "score", "accepted_by", "oracle", "usage"}
SENDS = "__pregel_tasks"
"""LangGraph's channel of tasks that a node sends, as a search does for its paths."""
OF_STEPS = {"__interrupt__", "__error__", "__error_source_node__", "__resume__", "__scheduled__"}
"""Channels written for a task that did not end, and that hold none of its values."""


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"the record is {type(value).__name__}")
    return value


def _checked(row: CheckpointRow, record: list[Any], task: Any) -> dict[str, Any]:
    """Return the channels that are shown of a checkpoint, each of its type."""
    values = {name: value for name, value in row.values.items() if name in Shown.__annotations__}
    values |= {"events": record} if task is None else {"events": record, "task": task}
    check_values(_adapter(), values)
    return values


@cache
def _adapter() -> TypeAdapter[Any]:
    return TypeAdapter(Shown)
