"""A run as the page watches it. Internal.

What happens, drawn, and what is being written, word by word; taken up after a drop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request, Response

from ...faces.views.documents import macros
from ...faces.views.rounds import Rounds, curve_of, place_of
from ...nodes.runtime.killable import off_loop
from ...state import Event
from ...state.events import ORDER
from ...state.summary import current_run
from ...state.threads.snapshots import state_of
from ...state.usage import NO_USAGE
from ..api.disconnect import event_stream
from ..api.guards import KnownCaller, KnownEngine
from ..api.runs_api import event_after
from ..api.wire import event_bytes, plain, sse
from ..engine.engine import Engine
from ..engine.runs import NotThereError, Run, ServerEvent
from .drawing import WRITERS, doing_now

__all__ = ["router"]

router = APIRouter(prefix="/page", include_in_schema=False)  # no part of the API


@router.get("/runs/{run_id}/live")
async def live(request: Request, engine: KnownEngine, caller: KnownCaller, run_id: str) -> Response:
    """Send what a run does: from its beginning, or after the event that `Last-Event-ID` names."""
    return event_stream(_events(engine, await engine.run(caller, run_id), event_after(request)))


async def _events(engine: Engine, run: Run, after: tuple[str, int] | None) -> AsyncIterator[bytes]:
    if "custom" not in run.request.get("stream_modes", ()):
        yield sse({}, "silent")
    number, rounds = 0, None
    with run.watched():
        while True:
            changed = run.changed
            words = ""
            while number < len(run.log):
                event = run.log[number]
                item = event.data if event is not None and event.event == "custom" and is_event(event.data) else None
                if item is not None:
                    rounds = rounds or LiveRounds(await _record(engine, run))
                    rounds.take(item)
                if number < run.first(after):  # sent before, to who takes the stream up here
                    pass
                elif token := _token(event):
                    words += token
                elif event is not None and (sent := await off_loop(_sent_as, event, rounds)):
                    if words:
                        # By the number of the last event in it: who goes on after it misses no word.
                        yield event_bytes(run, number - 1, ServerEvent("token", {"text": words}))
                    yield event_bytes(run, number, ServerEvent(*sent))
                    words = ""
                number += 1
            if words:
                yield event_bytes(run, number - 1, ServerEvent("token", {"text": words}))
            if run.is_whole:
                break
            await changed.wait()
    yield sse({"status": run.status}, "end")


def _token(event: ServerEvent | None) -> str:
    """Return the words of a piece that a writer just wrote; nothing for all else."""
    if event is None or event.event != "messages" or not isinstance(event.data, list) or len(event.data) != 2:
        return ""
    message, metadata = event.data
    if not type(message).__name__.endswith("Chunk") or metadata.get("langgraph_node") not in WRITERS:
        return ""
    return str(message.text)


async def _record(engine: Engine, run: Run) -> list[Any]:
    """Return the record of the run's thread as it is kept now; empty where it ends before the run's own task, or where
    there is none that can be read."""
    try:
        graph = await engine.graphs.reader(await engine.owned.thread(run.caller, run.thread_id))
        now = await off_loop(state_of, graph, {"configurable": {"thread_id": run.thread_id}})
    except (NotThereError, ValueError):
        return []
    if run.request.get("input") is not None and (now.metadata or {}).get("run_id") != run.id:
        return []
    return now.values.get("events") or []


def _sent_as(event: ServerEvent, rounds: LiveRounds | None) -> tuple[str, dict[str, Any]] | None:
    if event.event == "custom" and isinstance(event.data, dict):
        if rounds is not None and is_event(event.data):
            drawn = rounds.drawn(event.data)
            return None if drawn is None else ("row", drawn)
        now = doing_now(event.data)
        return None if now is None else ("doing", now)
    if event.event == "error" and isinstance(event.data, dict):
        return "problem", {"message": str(plain(event.data).get("message", ""))}
    return None


def is_event(item: object) -> bool:
    """Return True for an event in the stream mode `custom`; a user's own node may send any item."""
    if not isinstance(item, dict) or item.get("kind") in ("start", "step", "task"):
        return False
    texts = all(isinstance(item.get(name, ""), str) for name in ("text", "by", "branch"))
    usage = item.get("usage", NO_USAGE)
    return (
        isinstance(item.get("kind"), str)
        and isinstance(item.get("round"), int)
        and texts
        and isinstance(usage, dict)
        and NO_USAGE.keys() <= {"uncounted_calls", *usage}
    )


class LiveRounds:
    """The rounds of a run's task so far: what was kept before it, and what it has sent since.

    Args:
        stored: The thread's record; where it holds events that the run sends again, those are taken once.
    """

    def __init__(self, stored: Sequence[Event]) -> None:
        self._events: list[Event] = plain(current_run(stored))
        self._keep(len(self._events))

    def take(self, item: Mapping[str, Any]) -> None:
        """Add an event."""
        event: Any = {"text": "", "by": "", **plain(item)}
        if (link := event.get("prev")) and not event.get("branch"):
            same = (at for at, one in enumerate(self._events) if one.get("prev") == link and not one.get("branch"))
            if (kept := next(same, None)) is not None:
                self._keep(kept)
        self._events.append(event)
        self._rounds.take(event)

    def _keep(self, count: int) -> None:
        begun: Any = {"kind": "task", "round": 0, "by": "", "text": "", "options": {"order": ORDER}}
        self._events = self._events[:count] or [begun]
        self._rounds = Rounds(self._events)

    def drawn(self, item: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the round of an event as it is shown when it has ended, and the curve of all; `None` for nothing."""
        points, place = self._rounds.points(), place_of(item)
        if place not in points:
            return None
        card = {**points[place], **self._rounds.texts(place), "open": True}
        curve = curve_of([*points.values()])
        return {
            "html": str(macros().round(card, False, "fork")),  # of the macro
            "curve": str(macros().curve(curve)) if curve else "",
            "name": card["name"],
            "kind": item["kind"],
            "round": item["round"],
        }
