"""Two drafts, word by word, and the critique that made one of the other. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...state.summary import Attempt, attempts, run_options, summary_of
from ...state.threads.diffs import Change, Diff, diff_fields, diff_words
from ...state.typed_answer import ANSWER_SCHEMA
from .console import safe
from .timeline import event_row
from .wording import STOPPED_BY, score_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...state.events import Event
    from ...state.threads.thread import Thread

__all__ = [
    "ReadThread",
    "diff_facts",
    "diff_text",
    "drafts_of",
    "read_state",
    "read_values",
    "reasons_between",
]


class ReadThread(NamedTuple):
    """A thread of which the state was read."""

    thread_id: str
    values: Mapping[str, Any]


def read_values(thread: Thread) -> dict[str, Any]:
    """Return the values of a thread's state; empty where they are no dict.

    Raises:
        UnknownThreadError: There is no such thread.
    """
    return read_state(thread)[0]


def read_state(thread: Thread) -> tuple[dict[str, Any], tuple[str, str] | None]:
    """Return the values of a thread's state, and the node that raised an error there, with what it raised.

    A run that was stopped in the middle of a call leaves a `CancelledError`, which is no error of the run.

    Raises:
        UnknownThreadError: There is no such thread.
    """
    # Here, since the shell shows most threads without LangGraph.
    from ...state.threads.snapshots import state_of
    from ...state.threads.thread import UnknownThreadError

    if thread.saver.get_tuple(thread.config) is None:
        raise UnknownThreadError(f"there is no thread {thread.thread_id!r}")
    snapshot = state_of(thread.graph, thread.config)
    errors = [(task.name, str(task.error).strip('"')) for task in snapshot.tasks if task.error]
    raised = next((error for error in errors if error[1].partition("(")[0] not in STOPPED_BY), None)
    values = snapshot.values
    return {**values, "events": thread.kind.read(values)} if isinstance(values, dict) else {}, raised


def read_events(thread: Thread | ReadThread) -> list[Event]:
    """Return the record of a thread."""
    values = thread.values if isinstance(thread, ReadThread) else read_values(thread)
    return values.get("events") or []


def drafts_of(thread: Thread | ReadThread) -> tuple[list[Attempt], Attempt]:
    """Return the drafts of a thread's task, and the best of them.

    Raises:
        UnknownThreadError: There is no such thread.
        ValueError: It has no draft yet, or no record of ours.
    """
    events = read_events(thread)
    drafts = attempts(events)
    best = summary_of(events).answer
    if not drafts or best is None:
        raise ValueError(f"the thread {thread.thread_id!r} has no draft yet")
    return drafts, best


def reasons_between(one: Attempt, two: Attempt, drafts: Sequence[Attempt], *, same_thread: bool) -> list[Attempt]:
    """Return the drafts whose critiques led to `two`, oldest first: those from `one` on, in the same thread, that it
    goes back to; else the one that it revises.
    """
    by_round = {draft.round: draft for draft in drafts}
    criticised: list[Attempt] = []
    draft = two
    while draft.base is not None and draft.base in by_round and draft.base < draft.round:
        draft = by_round[draft.base]
        criticised.append(draft)
        if not same_thread or draft.round <= one.round:
            break
    return [draft for draft in reversed(criticised) if draft.critiques]


def diff_facts(
    thread: Thread | ReadThread,
    other: Thread | ReadThread | None = None,
    *,
    before: int | None = None,
    after: int | None = None,
) -> dict[str, Any]:
    """Return the comparison of two drafts as plain data.

    Args:
        thread: The first thread.
        other: The thread that `after` is taken from; default: the same.
        before: Round; default: the first, or the best where `other` is given.
        after: Round; default: the best.

    Raises:
        UnknownThreadError: There is no such thread.
        ValueError: There is no such draft.
    """
    mine, mine_best = drafts_of(thread)
    drafts, theirs_best = drafts_of(other) if other is not None else (mine, mine_best)
    first = mine[0] if other is None else mine_best
    one = first if before is None else _of_round(mine, before)
    two = theirs_best if after is None else _of_round(drafts, after)
    same_thread = other is None or other.thread_id == thread.thread_id
    typed = ANSWER_SCHEMA in run_options(read_events(thread))
    diff = (diff_fields if typed else diff_words)(one.text, two.text)
    return {
        "before": _named(one, thread, same_thread=same_thread),
        "after": _named(two, other or thread, same_thread=same_thread),
        "before_text": one.text,
        "after_text": two.text,
        "changes": [(change.kind, change.text) for change in diff.changes],
        **({"fields": diff.fields} if typed else {}),
        "same": one.text == two.text,
        "reasons": [
            {
                "round": draft.round,
                "said": [event_row(critique) for critique in draft.critiques],
                "events": [dict(critique) for critique in draft.critiques],
            }
            for draft in reasons_between(one, two, drafts, same_thread=same_thread)
        ],
    }


def diff_text(facts: Mapping[str, Any]) -> str:
    """Return the comparison in plain text: removed words in `[-…-]`, added ones in `{+…+}`; fields of typed drafts."""
    lines = [f"from {_line(facts['before'])}", f"to   {_line(facts['after'])}"]
    for reason in facts["reasons"]:
        lines.append(f"because, about round {reason['round']}:")
        for one in reason["said"]:
            lines.append(f"  {one['verdict']} · {one['by']}")
            lines += [f"    {line}" for line in one["text"].splitlines()]
    lines.append("")
    if facts["same"]:
        lines.append("the two drafts are the same")
    else:
        lines.append(
            str(Diff("", "", tuple(Change(kind, text) for kind, text in facts["changes"]), facts.get("fields", ())))
        )
    return safe("\n".join(lines))


def _of_round(drafts: Sequence[Attempt], number: int) -> Attempt:
    for draft in drafts:
        if draft.round == number:
            return draft
    raise ValueError(f"there is no draft of round {number}; there are {[draft.round for draft in drafts]}")


def _named(draft: Attempt, thread: Thread | ReadThread, *, same_thread: bool) -> dict[str, Any]:
    return {
        "thread_id": None if same_thread else thread.thread_id,
        "round": draft.round,
        "by": draft.by,
        "score": draft.score,
        "accepted": draft.accepted,
    }


def _line(named: Mapping[str, Any]) -> str:
    where = f"{named['thread_id']}, " if named["thread_id"] else ""
    accepted = " · accepted" if named["accepted"] else ""
    return f"{where}round {named['round']} · {named['by']} · score {score_of(named['score'])}{accepted}"
