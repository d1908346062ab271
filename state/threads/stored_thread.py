"""Reading a thread: where it stands, its record, history and branches, and whom it waits for. Internal.

Each function is the logic of a method of `Thread`, written once for sync and async callers; see `redraft.state.dual`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..dual import do, do_all
from ..summary import attempts, best_draft, run_options
from .answers import ASK, pending_interrupts
from .diffs import Diff, diff_words
from .history import family, grow_tree, read_history, rows_of
from .plain_threads import plain_history
from .replay import Replay, replay_record
from .snapshots import check_stored, snapshot_at, snapshots_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from langgraph.checkpoint.base import CheckpointTuple
    from langgraph.types import Interrupt, StateSnapshot

    from ..dual import Logic
    from ..events import Event
    from ..storage.thread_rows import ThreadRows
    from .history import HistoryStep, ThreadTree
    from .kind import GraphKind
    from .thread import Thread

    T = TypeVar("T")

__all__ = [
    "UnknownThreadError",
    "diff",
    "history",
    "newest",
    "off_rows",
    "our_questions",
    "question",
    "replay",
    "standing",
    "stored",
    "tree",
]


class UnknownThreadError(LookupError):
    """No checkpoint of this thread is stored where the graph's checkpointer looks."""


def stored(thread: Thread) -> Logic[CheckpointTuple]:
    """Return the newest checkpoint, checked; raises UnknownThreadError."""
    found: CheckpointTuple | None = yield do(thread.saver, "get_tuple", thread.config)
    if found is None:
        raise UnknownThreadError(f"there is no thread {thread.thread_id!r}")
    # Before anything is made of it: others may have written to the database.
    check_stored(thread.graph, found)
    return found


def newest(thread: Thread) -> Logic[tuple[CheckpointTuple, StateSnapshot]]:
    """Return the newest checkpoint and the state there, read once; raises UnknownThreadError."""
    found = yield from stored(thread)
    return found, (yield from snapshot_at(thread.graph, thread.config, found=found))


def history(thread: Thread) -> Logic[list[HistoryStep]]:
    """Return every step that led to where the thread stands; see `Thread.history`."""
    yield from stored(thread)
    steps: list[HistoryStep] | None = yield from off_rows(thread, plain_history)
    if steps is not None and all(thread.graph.nodes.keys() >= {*step.next} for step in steps):
        return steps
    return read_history((yield snapshots_of(thread.graph, thread.config)), thread.kind)


def off_rows(thread: Thread, read: Callable[[ThreadRows], T | None]) -> Logic[T | None]:
    """Return what is read of the thread off its rows; `None` where the saver must read it.

    LangGraph's snapshot of each checkpoint takes several times as long.
    """
    if "events" not in thread.graph.channels or not thread.kind.keeps_record or not hasattr(thread.saver, "read_rows"):
        return None
    found: T | None = yield do(thread.saver, "read_rows", read, thread.thread_id)
    return found


def replay(thread: Thread) -> Logic[Replay]:
    """Return the output recomputed from the record; see `Thread.replay`."""
    _, snapshot = yield from newest(thread)
    values = thread.kind.values_of_last_run(snapshot) if thread.kind.keeps_record else {}
    return replay_record(values, reopened=bool(snapshot.next))


def diff(thread: Thread, other: Thread | None, before: int | None, after: int | None) -> Logic[Diff]:
    """Return what differs between two drafts; see `Thread.diff`."""
    mine = yield from _record(thread)
    others = (yield from _record(other)) if other else mine
    return diff_words(_draft(mine, before, first=other is None), _draft(others, after, first=False))


def tree(thread: Thread) -> Logic[ThreadTree]:
    """Return the branch tree that the thread is part of; see `Thread.tree`."""
    yield from stored(thread)
    if runs := getattr(thread.saver, "runs", None):
        return grow_tree(thread.thread_id, (yield from family(runs, thread.thread_id)))
    # Without an index, every checkpoint of the saver is read.
    return grow_tree(thread.thread_id, rows_of((yield do_all(thread.saver, "list", None))))


def question(thread: Thread) -> Logic[dict[str, Any] | None]:
    """Return what a person is asked right now; see `Thread.question`."""
    asked = our_questions(pending_interrupts((yield from stored(thread))))
    return dict(asked[-1].value) if asked else None


def our_questions(pending: Sequence[Interrupt]) -> list[Interrupt]:
    """Return the interrupts that ask a person about a draft."""
    return [one for one in pending if isinstance(one.value, dict) and one.value.get("ask") == ASK]


def standing(found: CheckpointTuple, kind: GraphKind) -> str:
    """Return where a thread stands that nobody runs, in words that follow its name."""
    if pending_interrupts(found):
        return "waits for a person, whose answer may end it"
    values = kind.loop_values(found.checkpoint["channel_values"])
    waits = kind.waiting(found)
    if values.get("stop_reason") and not waits:
        return f"is finished ({values['stop_reason']})"
    if not waits and "head" not in values:  # which every task of ours sets
        return "waits for nobody"
    return "stands in the middle of a run and waits for nobody (resume runs it on)"


def _record(thread: Thread) -> Logic[list[Event]]:
    _, snapshot = yield from newest(thread)
    return thread.kind.read(snapshot.values)


def _draft(events: Sequence[Event], number: int | None, *, first: bool) -> str:
    found = attempts(events)
    if not found:
        raise ValueError("the thread has no draft yet")
    if number is None:
        best = best_draft(events, keep=run_options(events).get("keep", "best"))
        return found[0].text if first or best is None else best.text
    for attempt in found:
        if attempt.round == number:
            return attempt.text
    raise ValueError(f"there is no draft of round {number}; there are {[attempt.round for attempt in found]}")
