"""How a pipeline is shown: quietly while it runs, and what criticising itself made of the text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .live import LiveRun
from .wording import score_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .console import Screen

__all__ = ["QuietRun", "show_self_critique"]


class QuietRun(LiveRun):
    """Shows what is going on, and nothing of the texts but the steps that found nothing to do."""

    def item(self, item: Mapping[str, Any]) -> None:
        """Print one item of the `custom` stream."""
        if item.get("kind") in ("start", "skipped"):
            super().item(item)


def show_self_critique(screen: Screen, values: Mapping[str, Any]) -> None:
    """Print the draft, the critique, the improved answer, how often it was improved, and the confidence in it."""
    from ..state.reasoning import self_critique

    found = self_critique(values["events"])
    for title, text in (("draft", found.draft), ("critique", found.critique), ("improved answer", found.improved)):
        screen.line("")
        screen.line((title, "bold"))
        screen.block(text or "(none)", indent=2)
    screen.line("")
    screen.line(("iterations ", "bold"), str(found.iterations))
    screen.line(
        ("confidence ", "bold"), f"{found.rating} ({score_of(found.confidence)})", (", in its own opinion", "dim")
    )
