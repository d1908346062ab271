"""Going on with a thread: resumed, answered, or asked to stop. Internal.

Each function is the logic of a method of `Thread`, written once for sync and async callers; see `redraft.state.dual`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ..dual import Do, do
from .answers import pending_interrupts, read_answer
from .fingerprint import ChangedGraphError
from .lease import leases_of, request_stop
from .record_checks import change_update, changes, compared
from .snapshots import snapshot_at
from .stored_thread import newest, our_questions, standing, stored

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langgraph.checkpoint.base import CheckpointTuple
    from langgraph.types import Command, StateSnapshot

    from ..dual import Logic
    from ..schema import RefineOutput
    from .lease import StopControl
    from .thread import Thread

__all__ = ["answer", "ready", "ready_answer", "resume", "run", "stop"]


def resume(
    thread: Thread, limits: Mapping[str, Any] | None, allow_changes: bool, control: StopControl
) -> Logic[RefineOutput]:
    """Run on from where the thread stands, and return the output; see `Thread.resume`."""
    given = yield from ready(thread, limits, allow_changes)
    return cast("RefineOutput", (yield run(thread, given, control)))


def run(thread: Thread, given: Any, control: StopControl) -> Do:
    """Return the call that runs the thread's graph.

    "sync": each step is saved before the next begins, so that a process that dies loses no finished one.
    """
    return do(thread.graph, "invoke", given, compared(thread.config), durability="sync", control=control)


def ready(thread: Thread, limits: Mapping[str, Any] | None, allow_changes: bool) -> Logic[dict[str, Any] | None]:
    """Write what `resume` writes before it runs, and return what to invoke the graph with; see `Thread.ready`."""
    kind, graph = thread.kind, thread.graph
    if limits is not None:
        kind.check("resuming with other limits", thread_id=thread.thread_id, graph_name=graph.get_name())
    found, snapshot = yield from newest(thread)
    changed = _changes(thread, found, snapshot, limits)
    if changed and not allow_changes:
        raise _changed(thread, changed)
    if _killed_in_mid_step(found, snapshot):
        yield do(graph, "invoke", None, compared(thread.config), interrupt_before="*", durability="sync")
        found, snapshot = yield from newest(thread)
    # A change is written as changed limits are, with or without any.
    step = kind.next_step(snapshot, limits if limits is not None or not changed else {})
    if step and changed:
        step.values.update(change_update(kind, snapshot, changed))
    # LangGraph goes on after the node that an update is written as, as if it had just run.
    if step:
        yield do(graph, "update_state", thread.config, step.values, as_node=step.as_node)
    return kind.restart(found, snapshot, limits)


def answer(thread: Thread, reply: Any, at: int | None, by: str | None, control: StopControl) -> Logic[RefineOutput]:
    """Answer the question that the thread waits with, and run on; see `Thread.answer`."""
    given = yield from ready_answer(thread, reply, at, by)
    return cast("RefineOutput", (yield run(thread, given, control)))


def ready_answer(thread: Thread, reply: Any, at: int | None, by: str | None) -> Logic[Command[Any]]:
    """Return what to invoke the graph with to give a reply, having checked it; see `Thread.ready_answer`."""
    from langgraph.types import Command

    found = yield from stored(thread)
    pending = pending_interrupts(found)
    asked = our_questions(pending)
    if pending and not asked:
        raise ValueError(
            f"the thread {thread.thread_id!r} waits at an interrupt of another node, which asks for something else: "
            "answer with graph.invoke(Command(resume=…), config)"
        )
    if not asked:
        raise ValueError(
            f"the thread {thread.thread_id!r} {standing(found, thread.kind)}: there is no question to answer"
        )
    meant = [one for one in asked if at in (None, one.value["round"]) and by in (None, one.value["by"])]
    if not meant:
        question = asked[-1].value
        whose = "" if by is None else f" to {by!r}"
        waits = f"the draft of round {question['round']}" + ("" if by is None else f" for {question['by']!r}")
        about = "" if at is None else f" about round {at!r}"
        raise ValueError(
            f"the question{whose}{about} of thread {thread.thread_id!r} is answered or never was asked; "
            f"it waits with {waits}"
        )
    snapshot = yield from snapshot_at(thread.graph, thread.config, found=found)
    if changed := _changes(thread, found, snapshot, None):
        raise _changed(thread, changed)
    # Read here only to refuse a bad reply before anything changes; the node reads it again.
    read_answer(reply, draft=meant[-1].value["draft"])
    # Where graphs run side by side, LangGraph wants to know whose question this answers.
    return Command(resume={meant[-1].id: reply} if len(pending) > 1 else reply)


def stop(thread: Thread) -> Logic[str]:
    """Ask whoever runs the thread to stop after the step it is in, and return who that is; see `Thread.stop`."""
    # Before the thread is read: a run holds its lease before its first checkpoint is stored.
    if runner := (yield from request_stop(leases_of(thread.saver), thread.thread_id)):
        return runner.described
    where = standing((yield from stored(thread)), thread.kind)
    raise ValueError(f"the thread {thread.thread_id!r} {where}, so there is nothing to stop")


def _changes(
    thread: Thread, found: CheckpointTuple, snapshot: StateSnapshot, limits: Mapping[str, Any] | None
) -> list[str]:
    """Return in what the graph differs from that which began the run; nothing where nothing would run."""
    kind, graph = thread.kind, thread.graph
    if not kind.keeps_record:
        # A run of ours has all of these, from its first node on.
        ours = {"head", "oracle", "accepted_by"} <= found.checkpoint["channel_values"].keys()
        return [f"{graph.get_name()!r} is no graph of redraft"] if ours and "head" not in graph.channels else []
    finished = not snapshot.next and snapshot.values.get("stop_reason") not in (None, "failed")
    return [] if finished and limits is None else changes(kind, graph.get_name(), snapshot)


def _changed(thread: Thread, found: Sequence[str]) -> ChangedGraphError:
    return ChangedGraphError(
        f"the thread {thread.thread_id!r} was begun with another graph: {'; '.join(found)}",
        "To go on with this one, resume it with allow_changes=True (--allow-changes at the shell)",
    )


def _killed_in_mid_step(found: CheckpointTuple, snapshot: StateSnapshot) -> bool:
    """Return whether a node's writes are saved but not the checkpoint that follows.

    `get_state` shows such a thread as finished, and `update_state` would drop the writes. Running it with an interrupt
    before every node applies them and runs nothing.
    """
    return not snapshot.next and bool(found.pending_writes)
