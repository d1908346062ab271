"""Thread summaries for the page. They block while the database is read, so they run in a worker thread. Internal."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ....state.summary import Attempt, attempts, best_draft, run_options
from ....state.threads.history import grow_tree
from ....state.threads.thread import UnknownThreadError
from ...views.console import one_line, shortened
from ...views.drafts import read_state, read_values
from ...views.rounds import curve_of, round_cards
from ...views.run_page import run_facts
from ...views.timeline import event_row, timeline_facts, tree_facts
from ..api.wire import plain

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from ....state import Thread
    from ....state.storage.index import RunRow

__all__ = ["read_side", "read_thread", "visible"]

TITLE = 120


def read_thread(thread: Thread, rows: list[RunRow]) -> dict[str, Any]:
    """Return the facts that the page shows of a thread, empty where nothing was run on it yet.

    What a failed call said is left out, as everywhere on this server.

    Args:
        thread: On a graph that reads it.
        rows: Those of its family that its caller may see.
    """
    try:
        values, raised = read_state(thread)
    except UnknownThreadError:
        none = dict.fromkeys(("timeline", "tree", "curve"))
        return {**_read(thread.thread_id, {}), **none, "forkable": False, "begun": False, "raised": "", "rounds": []}
    facts = _read(thread.thread_id, values)
    steps = [dataclasses.replace(step, events=tuple(plain(step.events))) for step in thread.history()]
    cards = round_cards(plain(values.get("events") or []))
    tree = tree_facts(grow_tree(thread.thread_id, rows), thread.thread_id)
    if len(tree["rows"]) > 1:
        tree["linked"] = True
    return {
        **facts,
        "rounds": cards,
        "curve": curve_of(cards),
        "timeline": timeline_facts(thread.thread_id, steps),
        "tree": tree,
        "forkable": thread.kind.forkable,
        "begun": True,
        # What it says may hold prompts, paths and keys.
        "raised": f"{raised[1].partition('(')[0]:.80} in {raised[0]}" if raised else "",
    }


def read_side(thread: Thread, number: int | None) -> dict[str, Any]:
    """Return one side of a comparison.

    Args:
        thread: On a graph that reads it.
        number: Round of the draft that is shown; default: the best.

    Raises:
        UnknownThreadError: Nothing was run on the thread yet.
        ValueError: There is no such draft.
    """
    facts = _read(thread.thread_id, read_values(thread))
    wanted = facts["compared"] if number is None else number
    for draft in facts["drafts"]:
        if draft["round"] == wanted:
            return {**facts, "chosen": draft}
    raise ValueError(f"the thread {thread.thread_id!r} has no draft{'' if number is None else f' of round {number}'}")


def visible(rows: list[RunRow], owned: Container[str]) -> list[RunRow]:
    """Return the rows of threads that are the caller's; nothing of them names another's."""
    in_family = {row.thread_id for row in rows}
    return [
        dataclasses.replace(row, parent_thread_id=None)
        if row.parent_thread_id in in_family and row.parent_thread_id not in owned
        else row
        for row in rows
        if row.thread_id in owned
    ]


def _read(thread_id: str, values: Mapping[str, Any]) -> dict[str, Any]:
    events = values.get("events") or []
    best = best_draft(events, keep=run_options(events).get("keep", "best")) if events else None
    task = str(values.get("task") or "")
    title = shortened(one_line(task), TITLE)
    return {
        "thread_id": thread_id,
        "title": title or thread_id,
        "task": task,
        "long_task": bool(task) and title != task.strip(),
        "answer": str(values.get("answer") or ""),
        "stop_reason": values.get("stop_reason"),
        "told": run_facts(values, events),
        "drafts": [_draft(draft, best) for draft in attempts(events)],
        "compared": best.round if best else None,
    }


def _draft(draft: Attempt, best: Attempt | None) -> dict[str, Any]:
    return {
        "round": draft.round,
        "text": draft.text,
        "feedback": draft.feedback,
        "score": draft.score,
        "accepted": draft.accepted,
        "best": best is not None and draft.round == best.round,
        "said": [event_row(critique) for critique in draft.critiques],
    }
