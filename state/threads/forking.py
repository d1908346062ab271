"""New threads made of one: a fork of it from any round or checkpoint, and its task run once more. Internal.

Each function is the logic of a method of `Thread`, written once for sync and async callers; see `redraft.state.dual`.
"""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ..dual import do
from ..events import DRAFT_KINDS
from ..summary import attempts, rounds, run_options
from .fingerprint import differences, fingerprint_in_force
from .plain_threads import checkpoint_of_round
from .record_checks import made_by, refuse_edited
from .snapshots import snapshot_at, snapshots_of
from .stored_thread import UnknownThreadError, newest, off_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.types import StateSnapshot

    from ..dual import Logic
    from ..events import Event
    from ..storage.index import RunRow
    from .thread import Thread

__all__ = ["fork", "rerun"]


def fork(
    thread: Thread, at: int | str, thread_id: str | None, given: Mapping[str, Any] | None, **changes: Any
) -> Logic[str]:
    """Write a new thread that starts in the middle of this one, and return its id; see `Thread.fork`."""
    branch = yield from _new_id(thread, "fork()", thread_id)
    if not isinstance(at, int | str) or isinstance(at, bool) or at == "":
        raise ValueError(f"at must be a round (0 is the first draft) or a checkpoint id, not {at!r}")
    _, latest = yield from newest(thread)
    if isinstance(at, str):
        snapshot = yield from snapshot_at(thread.graph, _config(thread.thread_id, checkpoint_id=at))
        if snapshot.created_at is None:
            raise UnknownThreadError(f"the thread {thread.thread_id!r} has no checkpoint {at!r}")
    else:
        snapshot = yield from _ending_with(thread, at, latest)
    for values in (latest.values, snapshot.values):
        refuse_edited(thread.kind, thread.thread_id, values)
    point = thread.kind.fork_point(snapshot, at, opening=_fork_event(thread, snapshot, latest, at), **changes)
    known: Mapping[str, Any] = {**(snapshot.metadata or {}), **(latest.metadata or {})}
    # A saver without an index keeps preset and recipe in the metadata only.
    runs = getattr(thread.saver, "runs", None)
    row: RunRow | None = (yield do(runs, "get", thread.thread_id)) if runs else None
    metadata = {
        "redraft_parent_thread": thread.thread_id,
        "redraft_parent_checkpoint": snapshot.config["configurable"].get("checkpoint_id"),
        "redraft_fork_at": at,
        "redraft_recipe": row.recipe if row else known.get("redraft_recipe"),
        "redraft_preset": row.preset if row else known.get("redraft_preset"),
        **(given or {}),
    }
    kept = {key: value for key, value in metadata.items() if value is not None}
    config = {**_config(branch), "metadata": kept}
    yield do(thread.graph, "update_state", config, point.values, as_node=point.as_node)
    return branch


def rerun(thread: Thread, thread_id: str | None) -> Logic[tuple[str, dict[str, Any]]]:
    """Return the id of a new thread, and the input that runs this one's task there; see `Thread.rerun`."""
    _, snapshot = yield from newest(thread)
    branch = yield from _new_id(thread, "rerun()", thread_id)
    return branch, thread.kind.task_again(snapshot)


def _new_id(thread: Thread, what: str, thread_id: str | None) -> Logic[str]:
    """Return the id of a thread that is not there yet, for what makes one of this.

    Raises:
        ValueError: `thread_id` is taken, or the graph is of a kind that can't do that.
    """
    thread.kind.check(what, thread_id=thread.thread_id, graph_name=thread.graph.get_name())
    branch = str(thread_id or f"{thread.thread_id}-{secrets.token_hex(3)}")
    if (yield do(thread.saver, "get_tuple", _config(branch))) is not None:
        raise ValueError(f"the thread {branch!r} exists already; choose another thread_id")
    return branch


def _fork_event(thread: Thread, snapshot: StateSnapshot, latest: StateSnapshot, at: int | str) -> dict[str, Any]:
    """Return the event that a fork's own part begins with."""
    kind = thread.kind
    events, newest_events = kind.read(snapshot.values), kind.read(latest.values)
    # A graph that only reads forks for the one that runs the parent now, whose recipe the fork gets.
    present, options = kind.fingerprint, kind.options
    if not present:
        present, options = fingerprint_in_force(newest_events), run_options(newest_events)
    return {
        "kind": "fork",
        "round": rounds(events),
        "by": "caller",
        "text": "; ".join(differences(fingerprint_in_force(events), present)),
        "parent": thread.thread_id,
        "parent_head": snapshot.values.get("head") or "",
        "fork_at": at,
        # Told in any case: a change that came later in the parent is not in what the fork keeps.
        **made_by(present, options, events),
    }


def _ending_with(thread: Thread, number: int, latest: StateSnapshot) -> Logic[StateSnapshot]:
    """Return the newest checkpoint that ends with the draft of that round, or the newest of all."""
    kind = thread.kind

    def ends_with_it(snapshot: StateSnapshot) -> bool:
        return kind.begun(snapshot) and _latest_round(kind.read(snapshot.values)) == number

    if any(attempt.round == number for attempt in attempts(kind.read(latest.values))):
        find = partial(checkpoint_of_round, number=number, first_node=kind.first_node)
        if (checkpoint_id := (yield from off_rows(thread, find))) is not None:
            found = yield from snapshot_at(thread.graph, _config(thread.thread_id, checkpoint_id=checkpoint_id))
            if ends_with_it(found):
                return found
        # Newest first, so that all that was said about the draft comes along.
        seen = yield snapshots_of(thread.graph, thread.config, ends_with_it)
        if ends_with_it(seen[-1]):
            return cast("StateSnapshot", seen[-1])
    return latest


def _latest_round(events: Sequence[Event]) -> int | None:
    for event in reversed(events):
        if event["kind"] in DRAFT_KINDS and not event.get("rejected"):
            number: int = event["round"]
            return number
        # What is before belongs to an earlier task, whose rounds count from 0 as well.
        if event["kind"] == "task":
            break
    return None


def _config(thread_id: str, **place: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, **place}}
