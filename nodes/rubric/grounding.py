"""What is known before anyone writes: facts and preferences, found once, recorded, and shown to writers and judges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ...state.folds import current_run, rounds
from ..prompts import PromptedModel, attempt_at_hand, prompt_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.messages import BaseMessage

    from ...state.events import Event

__all__ = ["Ground", "GroundedModel", "Grounding", "ground_event", "grounded_task"]


class Ground(Protocol):
    """Where facts come from: passages, each with `id`, `text` and `source`; `afind` is asked in async runs."""

    name: str

    def find(self, task: str) -> list[dict[str, Any]]: ...

    async def afind(self, task: str) -> list[dict[str, Any]]: ...


class Grounding:
    """A `prepare` that asks each ground about the task and records what it found as a `retrieval` event.

    The record, not the state, holds it: forks and replays see what the run saw.
    """

    def __init__(self, *grounds: Ground) -> None:
        self.grounds = grounds

    def __call__(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return the update with one event for each ground that found anything."""
        return _update(state["task"], [(ground, ground.find(state["task"])) for ground in self.grounds])

    async def acall(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Async twin."""
        return _update(state["task"], [(ground, await ground.afind(state["task"])) for ground in self.grounds])


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
        headings.setdefault(by, []).append(f"- {text}")
    blocks = [f"Known from {by}:\n" + "\n".join(lines) for by, lines in headings.items()]
    return "\n\n".join([task, *blocks])


class GroundedModel(PromptedModel):
    """A writer whose `{task}` carries what was found for it."""

    def messages(self, state: Mapping[str, Any]) -> list[BaseMessage]:
        """Return the messages that the model is asked with."""
        events = state.get("events", [])
        template = self.templates[min(rounds(events), len(self.templates) - 1)]
        attempt = attempt_at_hand(events, self.keep)
        values = prompt_values(grounded_task(state["task"], events), events, attempt, memory=self.memory)
        return template.format_messages(**values)


def _update(task: str, found: Sequence[tuple[Ground, list[dict[str, Any]]]]) -> dict[str, Any]:
    return {"events": [ground_event(ground.name, task, documents) for ground, documents in found if documents]}
