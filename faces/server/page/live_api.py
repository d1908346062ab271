"""A run as the page watches it. Internal.

What happens, drawn, and what is being written, word by word; taken up after a drop.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from ..api.disconnect import PING, UNBUFFERED, kept_open
from ..api.guards import KnownCaller
from ..api.runs_api import event_after
from ..api.wire import dumps, event_bytes, plain
from ..engine.runs import ServerEvent
from .drawing import WRITERS, happening

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ..engine.engine import Engine
    from ..engine.runs import Run

__all__ = ["router"]

router = APIRouter(prefix="/page", include_in_schema=False)  # no part of the API


@router.get("/runs/{run_id}/live")
async def live(request: Request, caller: KnownCaller, run_id: str) -> Response:
    """Send what a run does: from its beginning, or after the event that `Last-Event-ID` names."""
    engine: Engine = request.app.state.engine
    run = await engine.run(caller, run_id)
    start = event_after(request)
    events = _events(run, start) if engine.knows(run) else _end_elsewhere(engine, run)
    return StreamingResponse(kept_open(events, PING), media_type="text/event-stream", headers=UNBUFFERED)


async def _events(run: Run, number: int) -> AsyncIterator[bytes]:
    if "custom" not in run.request.get("stream_modes", ()):
        yield _sent("silent", {})
    while True:
        changed = run.change()
        words = ""
        while number < len(run.log):
            event = run.log[number]
            if token := _token(event):
                words += token
            elif event is not None and (shown := _shown(event)):
                if words:
                    # By the number of the last event in it: who goes on after it misses no word, and gets none twice.
                    yield event_bytes(number - 1, ServerEvent("token", {"text": words}))
                yield event_bytes(number, ServerEvent(*shown))
                words = ""
            number += 1
        if words:
            yield event_bytes(number - 1, ServerEvent("token", {"text": words}))
        if run.ended:
            break
        await changed.wait()
    yield _sent("end", {"status": run.status})


async def _end_elsewhere(engine: Engine, run: Run) -> AsyncIterator[bytes]:
    """Give the end of a run that another server of this database has."""
    yield _sent("silent", {})
    while not run.ended:
        await asyncio.sleep(1)
        run = await engine.run(run.caller, run.id)
    yield _sent("end", {"status": run.status})


def _token(event: ServerEvent | None) -> str:
    """Return the words of a piece that a writer just wrote; nothing for all else."""
    if event is None or event.event != "messages" or not isinstance(event.data, list) or len(event.data) != 2:
        return ""
    message, metadata = event.data
    if not type(message).__name__.endswith("Chunk") or metadata.get("langgraph_node") not in WRITERS:
        return ""
    return str(message.text)


def _shown(event: ServerEvent) -> tuple[str, dict[str, Any]] | None:
    if event.event == "custom" and isinstance(event.data, dict):
        return happening(event.data)
    if event.event == "error" and isinstance(event.data, dict):
        return "problem", {"message": str(plain(event.data).get("message", ""))}
    return None


def _sent(name: str, data: dict[str, Any]) -> bytes:
    """Return an event after which nobody can ask to go on."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), dumps(data))
