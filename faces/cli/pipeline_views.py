"""How a pipeline is shown: quietly while it runs, and what criticising itself made of the text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..views.live import LiveRun
from ..views.wording import score_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .console import Screen

__all__ = ["QuietRun", "self_critique_of", "show_self_critique"]


class QuietRun(LiveRun):
    """Shows what is going on, and nothing of the texts but the steps that found nothing to do."""

    def item(self, item: Mapping[str, Any]) -> None:
        """Print one item of the `custom` stream."""
        if item.get("kind") in ("start", "skipped"):
            super().item(item)


def self_critique_of(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what criticising itself made of the text as plain data, or `None` where nothing was drafted.

    `improved_answer` is `None` where no improvement was better than the draft.
    """
    from ...nodes.reasoning.reasoning_events import self_critique
    from ...state.summary import latest_draft

    if latest_draft(values.get("events") or []) is None:
        return None
    found = self_critique(values["events"])
    return {
        "draft": found.draft,
        "critique": found.critique,
        "improved_answer": None if found.improved == found.draft else found.improved,
        "iterations": found.iterations,
        "confidence": found.confidence,
        "rating": found.rating,
    }


def show_self_critique(screen: Screen, found: Mapping[str, Any]) -> None:
    """Print the draft, the critique, the improved answer, how often it was improved, and the confidence in it."""
    answer = found["improved_answer"] or "(none: the draft is the answer)"
    for title, text in (("draft", found["draft"]), ("critique", found["critique"]), ("improved answer", answer)):
        screen.line("")
        screen.line((title, "bold"))
        screen.block(text or "(none)", indent=2)
    screen.line("")
    screen.line(("iterations ", "bold"), str(found["iterations"]))
    confidence = f"{found['rating']} ({score_of(found['confidence'])})"
    screen.line(("confidence ", "bold"), confidence, (", in its own opinion", "dim"))
