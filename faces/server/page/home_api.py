"""First view of the page: a form that starts a run, and the caller's threads, searched and filtered. Internal."""

from __future__ import annotations

import asyncio
import dataclasses
import uuid
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from ....graphs.registry import known_options
from ....state.storage.index import PATH, BadRunError, RunIndex, RunRow
from ...views.wording import STOP_WORDS
from ..api.guards import KnownCaller, KnownEngine
from ..api.wire import RequestBody, json_response
from ..engine.assistants import Assistant
from ..engine.call_options import call_options
from ..engine.engine import Engine
from ..engine.records import ThreadRecord
from ..engine.runs import Caller, Submission
from ..settings import Settings
from .drawing import drawn

__all__ = ["router"]

router = APIRouter(prefix="/page", include_in_schema=False)  # no part of the API
Offset = Annotated[int, Query(ge=0, le=1_000_000)]
Words = Annotated[str, Query(max_length=200)]
A_PAGE = 20
MOST_PATHS = 100
"""Paths of a search that its row in the list holds; the search's own view has all."""
MODES = ("custom", "messages-tuple")
STANDING = {"busy": "under way", "interrupted": "waits for a person", "error": "ended by an error"}
"""How a thread may stand besides why its run stopped."""


class Start(RequestBody):
    """A run as the form asks for it."""

    assistant: str
    task: str
    model: str | None = None
    limits: dict[str, Any] | None = None
    options: dict[str, Any] | None = None


@router.get("/home")
async def home(
    engine: KnownEngine, caller: KnownCaller, offset: Offset = 0, q: Words = "", assistant: Words = "", stop: Words = ""
) -> Response:
    """Draw the form that starts a run, above the caller's threads."""
    settings = engine.settings
    offered = [one for one in engine.assistants().values() if one.served.listed]
    facts = {
        **await _threads(engine, caller, offset, q, assistant, stop),
        "presets": [{"id": one.id, "line": one.served.line, "fields": _fields(one, settings)} for one in offered],
        "models": [settings.model, *(spec for spec in settings.models if spec != settings.model)],
        "most_characters": settings.max_task_characters,
        "most_rounds": settings.max_rounds,
        "stops": {**STANDING, **{str(reason): words for reason, words in STOP_WORDS.items() if reason}},
        "asked": {"q": q, "assistant": assistant, "stop": stop},
    }
    return json_response({"html": drawn("home", facts)})


@router.get("/threads")
async def threads(
    engine: KnownEngine, caller: KnownCaller, offset: Offset = 0, q: Words = "", assistant: Words = "", stop: Words = ""
) -> Response:
    """Draw a page of the caller's threads, those changed last first."""
    found = await _threads(engine, caller, offset, q, assistant, stop)
    return json_response({"html": drawn("threads", found)})


@router.post("/start")
async def start(engine: KnownEngine, caller: KnownCaller, body: Start) -> Response:
    """Start a run on a new thread of the caller's."""
    submission = Submission(
        assistant=body.assistant,
        thread_id=str(uuid.uuid4()),
        input={"task": body.task, **({"limits": body.limits} if body.limits else {})},
        stream_modes=MODES,
        model=body.model,
        options=body.options,
        if_not_exists="create",
    )
    run = await engine.submit(caller, submission)
    return json_response({"thread_id": run.thread_id})


def _fields(assistant: Assistant, settings: Settings) -> list[dict[str, Any]]:
    """Return the form's fields for what a caller may set of an assistant: kind, bounds, choices, and the default."""
    schema = call_options(assistant, settings).model_json_schema()
    found = []
    for name, one in schema.get("properties", {}).items():
        choices = one.get("enum") or one.get("items", {}).get("enum") or ()
        own = assistant.options.get(name, known_options()[name].default if name in known_options() else None)
        found.append(
            {
                "name": name,
                "kind": "lines" if one["type"] == "array" and not choices else one["type"],
                "choices": choices,
                "one": one.get("maxItems") == 1,
                "least": one.get("minimum"),
                "most": one.get("maximum"),
                "told": one.get("description", ""),
                "default": list(own) if isinstance(own, tuple) else own,
            }
        )
    return found


async def _threads(engine: Engine, caller: Caller, offset: int, q: str, assistant: str, stop: str) -> dict[str, Any]:
    every = await engine.owned.every(caller)
    every.sort(key=lambda record: (record.updated_at, record.thread_id), reverse=True)
    found, paths = _folded(every)
    if assistant:
        found = [record for record in found if record.assistant == assistant]
    index: RunIndex = engine.saver.runs
    if q.strip() or stop:
        known = await asyncio.to_thread(_rows, index, found)
        found = [record for record in found if _meant(record, known.get(record.thread_id), q, stop)]
    page = found[offset : offset + A_PAGE]
    rows = await asyncio.to_thread(lambda: [_row(record, index, paths.get(record.thread_id, ())) for record in page])
    return {
        "rows": rows,
        "total": len(found),
        "filtered": bool(q.strip() or stop or assistant),
        "asked": {"q": q, "assistant": assistant, "stop": stop},
        "newer": max(offset - A_PAGE, 0) if offset else None,
        "older": offset + A_PAGE if offset + A_PAGE < len(found) else None,
    }


def _folded(every: Sequence[ThreadRecord]) -> tuple[list[ThreadRecord], dict[str, list[ThreadRecord]]]:
    """Return the threads without the paths of searches, and those by the search that they are of."""
    names = {record.thread_id for record in every}
    top: list[ThreadRecord] = []
    paths: dict[str, list[ThreadRecord]] = {}
    for record in every:
        search, slash, rest = record.thread_id.rpartition("/")
        if slash and search in names and PATH.match(f"/{rest}"):
            paths.setdefault(search, []).append(record)
        else:
            top.append(record)
    return top, {name: sorted(found, key=lambda one: one.thread_id) for name, found in paths.items()}


def _rows(index: RunIndex, records: Sequence[ThreadRecord]) -> dict[str, RunRow]:
    """Return the rows of the threads by their ids; one that can't be read hides no other."""
    found: dict[str, RunRow] = {}
    try:
        before = None
        while rows := index.list(limit=500, before=before):
            found |= {row.thread_id: row for row in rows}
            before = rows[-1].position
    except BadRunError:
        for record in records:
            if (row := _kept(index, record.thread_id)[0]) is not None:
                found[record.thread_id] = row
    return found


def _meant(record: ThreadRecord, row: RunRow | None, q: str, stop: str) -> bool:
    words = f"{record.thread_id} {row.task if row else ''}".casefold()
    reason = row.stop_reason if row else None
    standing = record.status if record.status == "busy" or reason is None else reason
    return all(word in words for word in q.casefold().split()) and stop in ("", standing)


def _kept(index: RunIndex, thread_id: str) -> tuple[RunRow | None, bool]:
    """Return the row of a thread, and whether it can be read."""
    try:
        return index.get(thread_id), True
    except BadRunError:
        return None, False


def _row(record: ThreadRecord, index: RunIndex, paths: Sequence[ThreadRecord] = ()) -> dict[str, Any]:
    kept, readable = _kept(index, record.thread_id)
    shown = record if readable else dataclasses.replace(record, status="error")
    return {
        "thread_id": record.thread_id,
        "assistant": record.assistant,
        "status": shown.status,
        "updated_at": record.updated_at,
        "when": f"{record.updated_at[:16].replace('T', ' ')} UTC",
        "kept": kept is not None,
        "task": kept.task if kept else "",
        "stop_reason": kept.stop_reason if kept else None,
        "rounds": kept.rounds if kept else 0,
        "score": kept.score if kept else None,
        "tokens": kept.total_tokens if kept else 0,
        "parent": bool(kept and kept.parent_thread_id),
        "paths": [_row(path, index) for path in paths[:MOST_PATHS]],
        "all_paths": len(paths),
    }
