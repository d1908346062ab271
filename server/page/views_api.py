"""Views of a thread for one caller: one, and two compared. Internal."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from ...faces.views.console import one_line, shortened
from ...faces.views.documents import macros
from ...faces.views.drafts import diff_facts, read_state, read_values
from ...faces.views.rounds import curve_of, round_cards
from ...faces.views.run_page import run_facts
from ...faces.views.timeline import event_row, timeline_facts, tree_facts
from ...faces.views.where_time_went import flame_of
from ...nodes.runtime.killable import off_loop
from ...state import RunRow, Thread, UnknownThreadError
from ...state.dual import adrive
from ...state.stopping import REFUSED_OUTSIDE
from ...state.storage.index import BadRunError
from ...state.summary import attempts, requirements, summary_of
from ...state.threads.history import family, grow_tree
from ..api.guards import KnownCaller, KnownEngine
from ..api.wire import json_response, plain
from ..engine.call_options import told_options
from ..engine.engine import Engine
from ..engine.ownership import LOCAL
from ..engine.requests import can_be_served
from ..engine.runs import Caller, NotThereError, Run
from ..engine.thread_graphs import Recorded
from ..engine.thread_records import ThreadRecord
from .drawing import drawn
from .home_api import kept, standing

__all__ = ["router"]

router = APIRouter(prefix="/page", include_in_schema=False)  # no part of the API
Round = Annotated[int | None, Query(ge=0, le=1_000_000)]


# Before the route of a thread, whose `:path` takes slashes too and would match this address.
@router.get("/threads/{thread_id:path}/diff")
async def diff(
    engine: KnownEngine, caller: KnownCaller, thread_id: str, before: Round = None, after: Round = None
) -> Response:
    """Draw what differs between two drafts of a thread, and the critiques that led from one to the other."""
    thread, _ = await _read(engine, caller, thread_id)
    facts = await _read_or_404(partial(diff_facts, thread, before=before, after=after))
    return json_response({"html": str(await off_loop(macros().diff, facts))})


@router.get("/threads/{thread_id:path}/prompts")
async def prompts(engine: KnownEngine, caller: KnownCaller, thread_id: str) -> Response:
    """Draw the prompts of a thread's last run, as they were sent: for who started the server, and no other caller."""
    thread, _ = await _read(engine, caller, thread_id)
    if caller != LOCAL:
        raise NotThereError("prompts are the server's own, and shown to no caller")
    sent = await _read_or_404(thread.prompts)
    return json_response({"html": await off_loop(drawn, "prompts", sent)})


@router.get("/threads/{thread_id:path}")
async def thread(engine: KnownEngine, caller: KnownCaller, thread_id: str) -> Response:
    """Draw a thread: its run under way, answer, steps and branches."""
    read, record = await _read(engine, caller, thread_id)
    # Before its state: the page follows a run under way to its end, and of no other will it hear.
    runs = await engine.runs(caller, thread_id)
    under_way = [run for run in reversed(runs) if not run.ended]
    rows = await adrive(family(engine.saver.runs, thread_id))
    # Another caller may have threads in the same family.
    owned = {row.thread_id for row in rows if await engine.owned.find(caller, row.thread_id)}
    facts = await off_loop(read_thread, read, visible(rows, owned))
    last = runs[0] if runs else None
    if under_way and facts["rounds"]:
        facts["rounds"][-1]["open"] = True  # as it is for who has watched the run
    recorded = await _recorded(engine, record) if facts["begun"] else Recorded(None)
    # A pipeline's fork goes on as another preset.
    facts["forkable"] |= recorded.recipe is not None and recorded.recipe.of_fork() != recorded.recipe
    facts |= {
        **await _going_on(engine, read, recorded, facts, under_way=bool(under_way)),
        "assistant": record.assistant,
        "status": await off_loop(_standing, engine, record),
        "run": under_way[0].id if under_way else None,
        "no_fork": _no_fork(facts, under_way=bool(under_way)),
        "refused": recorded.refused,
        "recipe": await off_loop(_recipe, engine, record, recorded),
        "own_prompts": caller == LOCAL and _prompts_are_known(facts, recorded),
        "forks_as": [assistant.id for assistant in engine.presets.known.values() if assistant.served.listed],
        "problem": _problem(last, facts["raised"]),
        "most_rounds": engine.settings.max_rounds,
        "most_characters": engine.settings.max_task_characters,
    }
    return json_response(
        {
            "html": await off_loop(drawn, "thread", facts),
            "title": facts["title"],
            "assistant": record.assistant,
            "drafts": [{name: draft[name] for name in ("round", "text", "feedback")} for draft in facts["drafts"]],
            "asked": facts["question"] and facts["question"]["draft"],
        }
    )


@router.get("/compare")
async def compare(
    engine: KnownEngine, caller: KnownCaller, one: str, two: str, before: Round = None, after: Round = None
) -> Response:
    """Draw two threads side by side, each with a draft, and what differs between those."""
    sides, read = [], []
    for name, thread_id, number in (("before", one, before), ("after", two, after)):
        thread, record = await _read(engine, caller, thread_id)
        side = await _read_or_404(partial(read_side, thread, number))
        sides.append({**side, "name": name, "status": await off_loop(_standing, engine, record)})
        read.append(thread)
    rounds = {side["name"]: side["chosen"]["round"] for side in sides}
    facts = await _read_or_404(partial(diff_facts, *read, **rounds))
    facts = {"sides": sides, "diff": await off_loop(macros().diff, facts)}
    return json_response({"html": await off_loop(drawn, "compare", facts)})


async def _read(engine: Engine, caller: Caller, thread_id: str) -> tuple[Thread, ThreadRecord]:
    record = await engine.owned.thread(caller, thread_id)
    return Thread(await engine.graphs.reader(record), thread_id), record


def _standing(engine: Engine, record: ThreadRecord) -> str:
    row, _ = kept(engine.saver.runs, record.thread_id)
    return standing(engine, record, row)


async def _read_or_404(read: Any) -> Any:
    """Call a reader in a worker thread, and raise NotThereError for what can't be read."""
    try:
        return await off_loop(read)
    except (UnknownThreadError, ValueError) as error:
        raise NotThereError(str(error)[:500]) from error


def _problem(last: Run | None, raised: str) -> str:
    """Describe the failure of the last run, from the record where this server has no run of it."""
    if last and last.ended and last.error:
        return f"The last run ended early: {last.error['message']}" + (f" ({raised})" if raised else "")
    return f"An error ended the last run: {raised}" if raised and not (last and not last.ended) else ""


A_SEARCH = "A search is not forked as a whole: open one of its paths, and fork that."
UNDER_WAY = "A run is under way; the thread can be forked when it has ended."
"""Why a thread can't be forked here."""


async def _recorded(engine: Engine, record: ThreadRecord) -> Recorded:
    """Return the recipe of a thread, and in words that follow "it" why this server does not go on with it."""
    try:
        recorded = await engine.graphs.recorded(record)
    except BadRunError:
        return Recorded(None, refused="can't be read")
    if recorded == Recorded(None) and record.assistant not in engine.presets.known:
        return Recorded(None, refused="was built in Python")
    return recorded


def _no_fork(facts: Mapping[str, Any], *, under_way: bool) -> str:
    """Return the reason why a thread can't be forked here; empty where it can."""
    if not facts["forkable"]:
        return A_SEARCH
    return UNDER_WAY if under_way else ""


def _prompts_are_known(facts: Mapping[str, Any], recorded: Recorded) -> bool:
    return facts["begun"] and recorded.recipe is not None and not recorded.refused


def _recipe(engine: Engine, record: ThreadRecord, recorded: Recorded) -> list[tuple[str, str]]:
    """Return the options that a thread was begun with, as far as a caller may know them."""
    assistant = engine.presets.known.get(str(record.assistant))
    if assistant is None or recorded.recipe is None:
        return []
    told = told_options(assistant, engine.settings, recorded.recipe.flat())
    return [
        (name, ", ".join(map(str, value)) if isinstance(value, list) else str(value)) for name, value in told.items()
    ]


async def _going_on(
    engine: Engine, thread: Thread, recorded: Recorded, facts: Mapping[str, Any], *, under_way: bool
) -> dict[str, Any]:
    """Return the question that a thread puts to a person, and `can_go_on`: True where it can go on as it is."""
    rests = facts["begun"] and not under_way and not recorded.refused and can_be_served(thread.thread_id)
    question = await thread.aquestion() if rests else None
    if question is None:
        return {"question": None, "can_go_on": rests and facts["stop_reason"] in (None, "failed", *REFUSED_OUTSIDE)}
    asked_of_person = {
        "by": str(question.get("by", "human")),
        "round": question["round"],
        "score": question.get("score"),
        "draft": str(question["draft"]),
        "error": question.get("error"),
        "said": [event_row({"kind": "critique", **critique}) for critique in question["critiques"]],
        "most_characters": engine.settings.max_task_characters,
    }
    return {"question": asked_of_person, "can_go_on": False}


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
        return {
            **_thread_facts(thread.thread_id, {}),
            **dict.fromkeys(("timeline", "flame", "tree", "curve")),
            "forkable": False,
            "begun": False,
            "parent": None,
            "prompt_texts": {},
            "beginning": None,
            "raised": "",
            "rounds": [],
        }
    facts = _thread_facts(thread.thread_id, values)
    steps = [dataclasses.replace(step, events=tuple(plain(step.events))) for step in thread.history()]
    cards = round_cards(plain(values.get("events") or []))
    tree = tree_facts(grow_tree(thread.thread_id, rows), thread.thread_id)
    parent = next((row.parent_thread_id for row in rows if row.thread_id == thread.thread_id), None)
    if len(tree["rows"]) > 1:
        tree["linked"] = True
    return {
        **facts,
        "rounds": cards,
        "curve": curve_of(cards),
        "timeline": timeline_facts(thread.thread_id, steps),
        "flame": flame_of(steps),
        "tree": tree,
        "forkable": thread.kind.forkable,
        "begun": True,
        "parent": parent,
        "prompt_texts": thread.kind.prompt_texts,
        "beginning": next((step.checkpoint_id for step in steps if step.next == ("generate",)), None),
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
    facts = _thread_facts(thread.thread_id, read_values(thread))
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


def _thread_facts(thread_id: str, values: Mapping[str, Any]) -> dict[str, Any]:
    events = values.get("events") or []
    best = summary_of(events).answer
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
        "requirements": requirements(events),
        "drafts": [
            {
                "round": draft.round,
                "text": draft.text,
                "feedback": draft.feedback,
                "score": draft.score,
                "accepted": draft.accepted,
                "best": best is not None and draft.round == best.round,
                "said": [event_row(critique) for critique in draft.critiques],
            }
            for draft in attempts(events)
        ],
        "compared": best.round if best else None,
    }
