"""First view of the page: a form that starts a run, and the caller's threads, searched and filtered. Internal."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.responses import FileResponse

from ...faces.sessions import every_row
from ...faces.views.wording import STOP_WORDS, stop_words
from ...graphs.registry import known_options
from ...nodes.runtime.killable import off_loop
from ...state import BadCheckpointError, RunRow
from ...state.storage.index import PATH, BadRunError, RunIndex
from ..api.guards import KnownCaller, KnownEngine
from ..api.wire import RequestBody, json_response
from ..engine.assistants import Assistant
from ..engine.call_options import call_options
from ..engine.engine import Engine
from ..engine.ownership import LOCAL
from ..engine.runs import Caller, NotThereError, Submission
from ..engine.thread_records import ThreadRecord
from ..settings import Settings
from .drawing import drawn
from .meta_api import HEADERS

__all__ = ["kept", "router", "standing"]

router = APIRouter(prefix="/page", include_in_schema=False)  # no part of the API
Offset = Annotated[int, Query(ge=0, le=1_000_000)]
Words = Annotated[str, Query(max_length=200)]
A_PAGE = 20
MOST_PATHS = 100
"""Paths of a search that its row in the list holds; the search's own view has all."""
MODES = ("custom", "messages-tuple")
UNFINISHED = "unfinished"
STANDING = {
    "busy": "under way",
    "interrupted": "waits for a person",
    UNFINISHED: stop_words(None),
    "error": "ended by an error",
}
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
    facts = {
        **await _threads(engine, caller, offset, q, assistant, stop),
        "presets": [
            {"id": preset.id, "line": preset.served.line, "fields": _fields(preset, settings)}
            for preset in engine.presets.known.values()
            if preset.served.listed
        ],
        "models": [settings.model, *(spec for spec in settings.models if spec != settings.model)],
        "most_characters": settings.max_task_characters,
        "most_rounds": settings.max_rounds,
        "stops": {**STANDING, **{str(reason): words for reason, words in STOP_WORDS.items() if reason}},
        "asked": {"q": q, "assistant": assistant, "stop": stop},
        "reports": [*await off_loop(reports, settings)] if caller == LOCAL else [],
    }
    return json_response({"html": drawn("home", facts)})


@router.get("/evaluations/{name:path}")
async def evaluation(engine: KnownEngine, caller: KnownCaller, name: str) -> Response:
    """Show the report of an evaluation, as `redraft report` wrote it, to who started the server and to nobody else."""
    found = (await off_loop(reports, engine.settings)).get(name) if caller == LOCAL else None
    if found is None:
        raise NotThereError("there is no such report")
    # The page is one file: its own policy, in its head, allows just the style and the script that it was written with.
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'"
    return FileResponse(found, headers={**HEADERS, "Content-Security-Policy": policy}, media_type="text/html")


def reports(settings: Settings) -> dict[str, Path]:
    """Return the reports in the folder of evaluations, by the folders that they are about."""
    if settings.evaluations is None:
        return {}
    top = Path(settings.evaluations)
    # Of one evaluation, of several in a folder, or of one method.
    found = sorted(path for depth in ("", "*/", "*/*/") for path in top.glob(f"{depth}report.html"))
    return {"/".join((top.name, *path.parent.relative_to(top).parts)): path for path in found}


@router.get("/threads")
async def threads(
    engine: KnownEngine, caller: KnownCaller, offset: Offset = 0, q: Words = "", assistant: Words = "", stop: Words = ""
) -> Response:
    """Draw a page of the caller's threads, those changed last first."""
    return json_response({"html": drawn("threads", await _threads(engine, caller, offset, q, assistant, stop))})


@router.post("/start")
async def start(engine: KnownEngine, caller: KnownCaller, body: Start) -> Response:
    """Start a run on a new thread of the caller's."""
    run = await engine.submit(
        caller,
        Submission(
            assistant=body.assistant,
            thread_id=str(uuid.uuid4()),
            input={"task": body.task, **({"limits": body.limits} if body.limits else {})},
            stream_modes=MODES,
            model=body.model,
            options=body.options,
            if_not_exists="create",
        ),
    )
    return json_response({"thread_id": run.thread_id})


def _fields(assistant: Assistant, settings: Settings) -> list[dict[str, Any]]:
    """Return the form's fields for what a caller may set of an assistant: kind, bounds, choices, and the default."""
    schema = call_options(assistant, settings).model_json_schema()
    fields = []
    for name, field in schema.get("properties", {}).items():
        choices = field.get("enum") or field.get("items", {}).get("enum") or ()
        own = assistant.options.get(name, known_options()[name].default if name in known_options() else None)
        fields.append(
            {
                "name": name,
                "kind": "lines" if field["type"] == "array" and not choices else field["type"],
                "choices": choices,
                "one": field.get("maxItems") == 1,
                "least": field.get("minimum"),
                "most": field.get("maximum"),
                "told": field.get("description", ""),
                "default": list(own) if isinstance(own, tuple) else own,
            }
        )
    return fields


async def _threads(engine: Engine, caller: Caller, offset: int, q: str, assistant: str, stop: str) -> dict[str, Any]:
    index: RunIndex = engine.saver.runs

    def looked() -> tuple[int, list[dict[str, Any]]]:
        records, paths = _folded(engine.records.threads(caller.id, by="updated_at"))
        if assistant:
            records = [record for record in records if record.assistant == assistant]
        if q.strip() or stop:
            rows_by_id = _rows(index, records)
            records = [
                record for record in records if _meant(engine, record, rows_by_id.get(record.thread_id), q, stop)
            ]
        return len(records), [
            _row(engine, record, paths.get(record.thread_id, ())) for record in records[offset : offset + A_PAGE]
        ]

    async with engine.owned.looking(caller):
        total, rows = await off_loop(looked)
    return {
        "rows": rows,
        "total": total,
        "filtered": bool(q.strip() or stop or assistant),
        "asked": {"q": q, "assistant": assistant, "stop": stop},
        "newer": max(offset - A_PAGE, 0) if offset else None,
        "older": offset + A_PAGE if offset + A_PAGE < total else None,
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
    return top, {name: sorted(records, key=lambda one: one.thread_id) for name, records in paths.items()}


def _rows(index: RunIndex, records: Sequence[ThreadRecord]) -> dict[str, RunRow]:
    """Return the rows of the threads by their ids; one that can't be read hides no other."""
    try:
        return {row.thread_id: row for row in every_row(index)}
    except BadRunError:
        rows = [kept(index, record.thread_id)[0] for record in records]
        return {row.thread_id: row for row in rows if row is not None}


def _meant(engine: Engine, record: ThreadRecord, row: RunRow | None, q: str, stop: str) -> bool:
    words = f"{record.thread_id} {row.task if row else ''}".casefold()
    if not all(word in words for word in q.casefold().split()):
        return False
    if not stop:
        return True
    if row is not None and row.stop_reason is not None and record.status != "busy":
        return stop == row.stop_reason
    # A reason to stop is no standing: the checkpoints of the others need not be read for it.
    return stop not in STOP_WORDS and stop == standing(engine, record, row)


def standing(engine: Engine, record: ThreadRecord, row: RunRow | None) -> str:
    """Return how a thread stands besides its stop reason: a key of `STANDING`, or `idle`.

    LangGraph's API says `interrupted` of a run that waits for a person and of one that was stopped; here the second
    is `unfinished`, as in the shell.
    """
    if row is None or row.stop_reason is not None or record.status not in ("idle", "interrupted"):
        return record.status
    try:
        return "interrupted" if engine.owned.asks(record.thread_id) else UNFINISHED
    except BadCheckpointError:
        return record.status


def kept(index: RunIndex, thread_id: str) -> tuple[RunRow | None, bool]:
    """Return the row of a thread, and whether it can be read."""
    try:
        return index.get(thread_id), True
    except BadRunError:
        return None, False


def _row(engine: Engine, record: ThreadRecord, paths: Sequence[ThreadRecord] = ()) -> dict[str, Any]:
    row, readable = kept(engine.saver.runs, record.thread_id)
    return {
        "thread_id": record.thread_id,
        "assistant": record.assistant,
        "status": standing(engine, record, row) if readable else "error",
        "updated_at": record.updated_at,
        "when": f"{record.updated_at[:16].replace('T', ' ')} UTC",
        "kept": row is not None,
        "task": row.task if row else "",
        "stop_reason": row.stop_reason if row else None,
        "rounds": row.rounds if row else 0,
        "score": row.score if row else None,
        "tokens": row.total_tokens if row else 0,
        "parent": bool(row and row.parent_thread_id),
        "paths": [_row(engine, path) for path in paths[:MOST_PATHS]],
        "all_paths": len(paths),
    }
