"""Grounding: facts and preferences that are looked up once, recorded, and shown to writers and judges. Internal."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import Runnable, RunnableConfig

from ...state.summary import current_run
from ..runtime.dual import Do, DualCallable, DualRunnable, calling
from ..writing.prompt_injection import fence, opens_part
from ..writing.prompts import PromptedModel

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from ...state.events import Event

__all__ = ["Ground", "GroundedModel", "Grounding", "ground_event", "grounded_task"]


class Ground(DualCallable[[str], list[dict[str, Any]]]):
    """A source of facts about a task: passages, each with `id`, `text` and `source`."""

    name: str


class Grounding(DualRunnable["Mapping[str, Any]", dict[str, Any]]):
    """A `prepare` that asks each ground about the task and records what it found as a `retrieval` event.

    The record, not the state, holds it: forks and replays see what the run saw.

    Args:
        grounds: Who is asked.
        after: Another `prepare`, a Runnable or callable, run before: the grounds are asked about the task that it
            makes, and its update stays.
    """

    def __init__(self, *grounds: Ground, after: Any = None) -> None:
        self.name = "grounding"
        self.grounds = grounds
        self._after = after

    def logic(self, input: Mapping[str, Any], config: RunnableConfig | None) -> Generator[Do, Any, dict[str, Any]]:  # noqa: A002
        """Return the update with one event for each ground that found anything."""
        before: Any = {}
        if isinstance(self._after, Runnable):
            before = yield Do(self._after.invoke, self._after.ainvoke, (input, config))
        elif self._after is not None:
            before = yield calling(self._after, input)
        update: dict[str, Any] = dict(before) if isinstance(before, Mapping) else {}
        events = list(update.get("events", []))
        task = str(update.get("task") or input.get("task") or "")
        for ground in self.grounds if task else ():
            documents = yield from ground.logic(task)
            events += [ground_event(ground.name, task, documents)] if documents else []
        return {**update, "events": events}


def ground_event(by: str, asked: str, documents: Sequence[Mapping[str, Any]], *, number: int = 0) -> dict[str, Any]:
    """Return the event that says what was found for what was asked.

    Args:
        by: The ground or tool.
        asked: The question.
        documents: Passages, each with `id`, `text` and `source`.
        number: The draft that they are for.
    """
    return {
        "kind": "retrieval",
        "round": number,
        "by": by,
        "text": asked,
        "documents": [dict(one) for one in documents],
    }


def grounded_task(task: str, events: Sequence[Event]) -> str:
    """Return the task with what was found for it below; the task alone where nothing was."""
    found = [
        (event["by"], str(document["text"]))
        for event in current_run(events)
        if event["kind"] == "retrieval"
        for document in event.get("documents", [])
    ]
    headings: dict[str, list[str]] = {}
    for by, text in dict.fromkeys(found):
        headings.setdefault(by, []).append(f"- {_fenced(text)}")
    blocks = [f"Known from {by}:\n" + "\n".join(lines) for by, lines in headings.items()]
    return "\n\n".join([_fenced(task), *blocks])


def _fenced(text: str) -> str:
    """Return a text in a fence where a line of it looks like the heading of what is known."""
    return fence(text) if opens_part(text, pattern=KNOWN) else text


class GroundedModel(PromptedModel):
    """A writer whose `{task}` carries what was found for it."""

    def messages(self, state: Mapping[str, Any]) -> list[BaseMessage]:
        """Return the messages that the model is asked with."""
        return super().messages({**state, "task": grounded_task(state["task"], state.get("events", []))})


KNOWN = re.compile("knownfrom")
