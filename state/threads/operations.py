"""Logic of the methods of `Thread`: a thread is read, resumed, answered, stopped, forked and run once more. Internal.

Each function is written once for sync and async callers; see `redraft.state.dual`.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..dual import Do, Logic, do, do_all
from ..summary import attempts, best_draft, rounds, run_options, summary_of
from ..typed_answer import ANSWER_SCHEMA, checked_draft, structured_response
from .answers import newest_question, our_questions, pending_interrupts, read_answer
from .diffs import Diff, diff_fields, diff_words
from .history import HistoryStep, ThreadTree, family, grow_tree, read_history, rows_of
from .kind import (
    ChangedGraphError,
    GraphKind,
    change_update,
    changes,
    compared,
    differences,
    fingerprint_in_force,
    made_by,
    refuse_edited,
)
from .lease import StopControl, leases_of, request_stop
from .plain_threads import checkpoint_of_round, latest_round, plain_history
from .replay import Replay, replay_record
from .snapshots import check_stored, schemas_of, snapshot_at, snapshots

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple
    from langgraph.types import Command, StateSnapshot

    from ..events import Event
    from ..schema import RefineOutput
    from ..storage.index import RunRow
    from ..storage.thread_rows import ThreadRows
    from .kind import SentPrompt
    from .thread import Thread

__all__ = [
    "UnknownThreadError",
    "answer",
    "diff",
    "fork",
    "history",
    "question",
    "ready",
    "ready_answer",
    "replay",
    "rerun",
    "resume",
    "run",
    "stop",
    "tree",
    "withdraw",
]

T = TypeVar("T")


class UnknownThreadError(LookupError):
    """No checkpoint of this thread is stored where the graph's checkpointer looks."""


# read


def _stored(thread: Thread, *, check: bool = True) -> Logic[CheckpointTuple]:
    """Return the newest checkpoint; raises UnknownThreadError."""
    checkpoint: CheckpointTuple | None = yield do(thread.saver, "get_tuple", _config(thread.thread_id))
    if checkpoint is None:
        raise UnknownThreadError(f"there is no thread {thread.thread_id!r}")
    # Before anything is made of it: others may have written to the database.
    if check:
        check_stored(checkpoint, schemas_of(thread.graph))
    return checkpoint


def _newest(thread: Thread) -> Logic[tuple[CheckpointTuple, StateSnapshot]]:
    """Return the newest checkpoint and the state there, read once; raises UnknownThreadError."""
    checkpoint = yield from _stored(thread, check=False)  # `snapshot_at` does
    return checkpoint, (yield from snapshot_at(thread.graph, _config(thread.thread_id), checkpoint=checkpoint))


def _off_rows(thread: Thread, read: Callable[[ThreadRows], T | None]) -> Logic[T | None]:
    """Read something of the thread off its rows; `None` where the saver must read it.

    LangGraph's snapshot of each checkpoint takes several times as long.
    """
    if "events" not in thread.graph.channels or not thread.kind.keeps_record or not hasattr(thread.saver, "read_rows"):
        return None
    return cast("T | None", (yield do(thread.saver, "read_rows", read, thread.thread_id)))


def history(thread: Thread) -> Logic[list[HistoryStep]]:
    """Return every step that led to where the thread stands."""
    yield from _stored(thread)
    steps: list[HistoryStep] | None = yield from _off_rows(thread, plain_history)
    if steps is not None and all(thread.graph.nodes.keys() >= {*step.next} for step in steps):
        return steps
    return read_history((yield from snapshots(thread.graph, _config(thread.thread_id))), thread.kind)


def replay(thread: Thread) -> Logic[Replay]:
    """Return the output recomputed from the record."""
    _, snapshot = yield from _newest(thread)
    values = thread.kind.values_of_last_run(snapshot) if thread.kind.keeps_record else {}
    own = {name: values[name] for name in thread.kind.own if name in values}
    replayed = replay_record(values, reopened=bool(snapshot.next), **own)
    kind = getattr(thread.graph.channels.get("structured_response"), "kind", None)
    typed = structured_response(values["events"], kind.parsed if kind else json.loads)
    return replace(replayed, output=cast("RefineOutput", {**replayed.output, **typed}))


def prompts(thread: Thread) -> Logic[list[SentPrompt]]:
    """Return what models were asked with in the last run."""
    _, snapshot = yield from _newest(thread)
    kind, name = thread.kind, thread.graph.get_name()
    if kind.prompts is None:
        raise ValueError(f"{name!r} is no loop of ours, so nobody can tell what its models were asked with")
    if reasons := changes(kind, name, snapshot):
        raise ValueError(f"another graph made this run ({'; '.join(reasons)}), and asked in other words")
    return kind.prompts(kind.values_of_last_run(snapshot))


def diff(thread: Thread, other: Thread | str | None, before: int | None, after: int | None) -> Logic[Diff]:
    """Return the differences between two drafts."""
    if isinstance(other, str):
        other = type(thread)(thread.graph, other)
    if other is not None and not isinstance(other, type(thread)):
        raise TypeError(
            f"diff() compares with another Thread or its id, not {other!r:.200}; rounds are before= and after="
        )
    mine = yield from _record(thread)
    others = (yield from _record(other)) if other else mine
    compare = diff_fields if ANSWER_SCHEMA in run_options(mine) else diff_words
    return compare(_draft(mine, before, first=other is None), _draft(others, after, first=False))


def _record(thread: Thread) -> Logic[list[Event]]:
    _, snapshot = yield from _newest(thread)
    return thread.kind.read(snapshot.values)


def _draft(events: Sequence[Event], number: int | None, *, first: bool) -> str:
    summary = summary_of(events)
    texts = {draft.round: draft.text for draft in reversed(summary.attempts)}
    if not texts:
        raise ValueError("the thread has no draft yet")
    if number is None:
        best = summary.answer
        return summary.attempts[0].text if first or best is None else best.text
    if number not in texts:
        raise ValueError(
            f"there is no draft of round {number}; there are {[draft.round for draft in summary.attempts]}"
        )
    return texts[number]


def tree(thread: Thread) -> Logic[ThreadTree]:
    """Return the branch tree that the thread is part of."""
    yield from _stored(thread)
    if runs := getattr(thread.saver, "runs", None):
        return grow_tree(thread.thread_id, (yield from family(runs, thread.thread_id)))
    # Without an index, every checkpoint of the saver is read.
    return grow_tree(thread.thread_id, rows_of((yield do_all(thread.saver, "list", None))))


def question(thread: Thread) -> Logic[dict[str, Any] | None]:
    """Return the question that a person is asked right now."""
    return newest_question(pending_interrupts((yield from _stored(thread))))


def _standing(checkpoint: CheckpointTuple, kind: GraphKind) -> str:
    """Describe where a thread stands that nobody runs, in words that follow its name."""
    if pending_interrupts(checkpoint):
        return "waits for a person, whose answer may end it"
    values = kind.loop_values(checkpoint.checkpoint["channel_values"])
    waits = kind.waiting(checkpoint)
    if values.get("stop_reason") and not waits:
        return f"is finished ({values['stop_reason']})"
    if not waits and "head" not in values:  # which every task of ours sets
        return "waits for nobody"
    return "stands in the middle of a run and waits for nobody (resume runs it on)"


# go on


def resume(
    thread: Thread, limits: Mapping[str, Any] | None, allow_changes: bool, control: StopControl
) -> Logic[RefineOutput]:
    """Run on from where the thread stands, and return the output."""
    return cast("RefineOutput", (yield run(thread, (yield from ready(thread, limits, allow_changes)), control)))


def run(thread: Thread, run_input: Any, control: StopControl) -> Do:
    """Return the call that runs the thread's graph.

    "sync": each step is saved before the next begins, so that a process that dies loses no finished one.
    """
    return do(
        thread.graph, "invoke", run_input, compared(_config(thread.thread_id)), durability="sync", control=control
    )


def ready(thread: Thread, limits: Mapping[str, Any] | None, allow_changes: bool) -> Logic[dict[str, Any] | None]:
    """Write what `resume` writes before it runs, and return the input to invoke the graph with."""
    kind, graph = thread.kind, thread.graph
    if limits is not None:
        kind.check("resuming with other limits", thread_id=thread.thread_id, graph_name=graph.get_name())
    checkpoint, snapshot = yield from _newest(thread)
    changed = _changes(thread, checkpoint, snapshot, limits)
    if changed and not allow_changes:
        raise _changed(thread, changed)
    # Killed after a node's writes were saved and before the checkpoint that follows: `get_state` shows such a thread as
    # finished, and `update_state` would drop the writes. An interrupt before every node applies them and runs nothing.
    if not snapshot.next and checkpoint.pending_writes:
        yield do(graph, "invoke", None, compared(_config(thread.thread_id)), interrupt_before="*", durability="sync")
        checkpoint, snapshot = yield from _newest(thread)
    # A change is written as changed limits are, with or without any.
    step = kind.next_step(snapshot, limits if limits is not None or not changed else {})
    if step and changed:
        step.values.update(change_update(kind, snapshot, changed))
    # LangGraph goes on after the node that an update is written as, as if it had just run.
    if step:
        yield do(graph, "update_state", _config(thread.thread_id), step.values, as_node=step.as_node)
    return kind.restart(checkpoint, snapshot, limits)


def answer(thread: Thread, reply: Any, at: int | None, by: str | None, control: StopControl) -> Logic[RefineOutput]:
    """Answer the question that the thread waits with, and run on."""
    return cast("RefineOutput", (yield run(thread, (yield from ready_answer(thread, reply, at, by)), control)))


def ready_answer(thread: Thread, reply: Any, at: int | None, by: str | None) -> Logic[Command[Any]]:
    """Return the command to invoke the graph with to give a reply, having checked it."""
    from langgraph.types import Command

    checkpoint = yield from _stored(thread)
    pending = pending_interrupts(checkpoint)
    questions = our_questions(pending)
    if pending and not questions:
        raise ValueError(
            f"the thread {thread.thread_id!r} waits at an interrupt of another node, which asks for something else: "
            "answer with graph.invoke(Command(resume=…), config)"
        )
    if not questions:
        raise ValueError(
            f"the thread {thread.thread_id!r} {_standing(checkpoint, thread.kind)}: there is no question to answer"
        )
    meant = [each for each in questions if at in (None, each.value["round"]) and by in (None, each.value["by"])]
    if not meant:
        value = questions[-1].value
        whose = "" if by is None else f" to {by!r}"
        waits = f"the draft of round {value['round']}" + ("" if by is None else f" for {value['by']!r}")
        about = "" if at is None else f" about round {at!r}"
        raise ValueError(
            f"the question{whose}{about} of thread {thread.thread_id!r} is answered or never was asked; "
            f"it waits with {waits}"
        )
    snapshot = yield from snapshot_at(thread.graph, _config(thread.thread_id), checkpoint=checkpoint)
    if changed := _changes(thread, checkpoint, snapshot, None):
        raise _changed(thread, changed)
    if isinstance(reply, dict) and reply.get("action") == "edit":
        edited = yield from checked_draft(thread.kind.read(snapshot.values), reply.get("draft"), thread.kind.known_type)
        reply = {**reply, "draft": edited}
    # Read here only to refuse a bad reply before anything changes; the node reads it again.
    read_answer(reply, draft=meant[-1].value["draft"])
    # Where graphs run side by side, LangGraph wants to know whose question this answers.
    return Command(resume={meant[-1].id: reply} if len(pending) > 1 else reply)


def stop(thread: Thread) -> Logic[str]:
    """Ask whoever runs the thread to stop after the step it is in, and return who that is."""
    # Before the thread is read: a run holds its lease before its first checkpoint is stored.
    if runner := (yield from request_stop(leases_of(thread.saver), thread.thread_id)):
        return runner.described
    where = _standing((yield from _stored(thread)), thread.kind)
    raise ValueError(f"the thread {thread.thread_id!r} {where}, so there is nothing to stop")


def _changes(
    thread: Thread, checkpoint: CheckpointTuple, snapshot: StateSnapshot, limits: Mapping[str, Any] | None
) -> list[str]:
    """Return the differences between the graph and the one that began the run; none where nothing would run."""
    kind, graph = thread.kind, thread.graph
    if not kind.keeps_record:
        # A run of ours has all of these, from its first node on.
        ours = {"head", "oracle", "accepted_by"} <= checkpoint.checkpoint["channel_values"].keys()
        return [f"{graph.get_name()!r} is no graph of redraft"] if ours and "head" not in graph.channels else []
    finished = not snapshot.next and snapshot.values.get("stop_reason") not in (None, "failed")
    return [] if finished and limits is None else changes(kind, graph.get_name(), snapshot)


def _changed(thread: Thread, reasons: Sequence[str]) -> ChangedGraphError:
    return ChangedGraphError(
        f"the thread {thread.thread_id!r} was begun with another graph: {'; '.join(reasons)}",
        "To go on with this one, resume it with allow_changes=True (--allow-changes at the shell)",
    )


# branch

PLACES = "a round (0 is the first draft), 'best', 'last' or a checkpoint id"


def fork(
    thread: Thread, at: int | str, thread_id: str | None, metadata: Mapping[str, Any] | None, **edits: Any
) -> Logic[str]:
    """Write a new thread that starts in the middle of this one, and return its id."""
    branch = yield from _new_id(thread, "fork()", thread_id)
    if not isinstance(at, int | str) or isinstance(at, bool) or at == "":
        raise ValueError(f"at must be {PLACES}, not {at!r}")
    _, latest = yield from _newest(thread)
    if at in ("best", "last"):
        draft = best_draft(thread.kind.read(latest.values), keep="best" if at == "best" else "last")
        at = draft.round if draft else 0
    if isinstance(at, str):
        snapshot = yield from snapshot_at(thread.graph, _config(thread.thread_id, checkpoint_id=at))
        if snapshot.created_at is None:
            raise UnknownThreadError(f"the thread {thread.thread_id!r} has no checkpoint {at!r}; at is {PLACES}")
    else:
        snapshot = yield from _ending_with(thread, at, latest)
    for values in (latest.values, snapshot.values):
        refuse_edited(thread.kind, thread.thread_id, values)
    events = thread.kind.read(snapshot.values)
    edits["draft"] = yield from checked_draft(events, edits.get("draft"), thread.kind.known_type)
    point = thread.kind.fork_point(snapshot, at, opening=_fork_event(thread, snapshot, latest, at), **edits)
    inherited: Mapping[str, Any] = {**(snapshot.metadata or {}), **(latest.metadata or {})}
    # A saver without an index keeps preset and recipe in the metadata only.
    runs = getattr(thread.saver, "runs", None)
    row: RunRow | None = (yield do(runs, "get", thread.thread_id)) if runs else None
    origin = {
        "redraft_parent_thread": thread.thread_id,
        "redraft_parent_checkpoint": snapshot.config["configurable"].get("checkpoint_id"),
        "redraft_fork_at": at,
        "redraft_recipe": row.recipe if row else inherited.get("redraft_recipe"),
        "redraft_preset": row.preset if row else inherited.get("redraft_preset"),
        **(metadata or {}),
    }
    config = {**_config(branch), "metadata": {key: value for key, value in origin.items() if value is not None}}
    yield do(thread.graph, "update_state", config, point.values, as_node=point.as_node)
    return branch


def withdraw(thread: Thread, text: str) -> Logic[None]:
    """Write that a requirement stands no longer; `check` decides anew then."""
    thread.kind.check("withdraw()", thread_id=thread.thread_id, graph_name=thread.graph.get_name())
    _, snapshot = yield from _newest(thread)
    point = thread.kind.withdrawal(snapshot, text)
    yield do(thread.graph, "update_state", _config(thread.thread_id), point.values, as_node=point.as_node)


def rerun(thread: Thread, thread_id: str | None) -> Logic[tuple[str, dict[str, Any]]]:
    """Return the id of a new thread, and the input that runs this one's task there."""
    _, snapshot = yield from _newest(thread)
    branch = yield from _new_id(thread, "rerun()", thread_id)
    return branch, thread.kind.task_again(snapshot)


def _new_id(thread: Thread, what: str, thread_id: str | None) -> Logic[str]:
    """Return the id of a thread that is not there yet, for a branch of this one.

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
        # In any case: a change that came later in the parent is not in the part that the fork keeps.
        **made_by(present, options, events),
    }


def _ending_with(thread: Thread, number: int, latest: StateSnapshot) -> Logic[StateSnapshot]:
    """Return the newest checkpoint that ends with the draft of that round, or the newest of all."""
    kind = thread.kind

    def ends_with_it(snapshot: StateSnapshot) -> bool:
        return kind.begun(snapshot) and latest_round(kind.read(snapshot.values), None) == number

    if any(draft.round == number for draft in attempts(kind.read(latest.values))):
        find = partial(checkpoint_of_round, number=number, first_node=kind.first_node)
        if (checkpoint_id := (yield from _off_rows(thread, find))) is not None:
            snapshot = yield from snapshot_at(thread.graph, _config(thread.thread_id, checkpoint_id=checkpoint_id))
            if ends_with_it(snapshot):
                return snapshot
        # Newest first, so that all that was said about the draft comes along.
        seen = yield from snapshots(thread.graph, _config(thread.thread_id), ends_with_it)
        if ends_with_it(seen[-1]):
            return seen[-1]
    return latest


def _config(thread_id: str, **place: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, **place}}
