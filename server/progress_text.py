"""Progress of a run in words, for clients that show a text and no events. Internal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from ..faces.views.console import LiveRun, Screen, one_line, safe
from .engine.runs import Run

__all__ = ["ProgressText", "progress", "question_of", "question_text"]

MOST_SHOWN = 20_000
"""Characters of a question; the whole of a longer draft is in the thread."""


def question_text(question: Mapping[str, Any]) -> str:
    """Return a question about a draft as text."""
    critiques = [
        f"{critique.get('by')}: {critique.get('text')}"
        for critique in question.get("critiques", ())
        if critique.get("text")
    ]
    parts = [f"Is this draft right? (round {question.get('round', 0)})", str(question.get("draft", "")), *critiques]
    return safe("\n\n".join(parts))[:MOST_SHOWN]


def question_of(interrupts: Sequence[Any] | None) -> dict[str, Any] | None:
    """Return the question to a person in the last of a run's interrupts; `None` without one."""
    if not interrupts:
        return None
    question = getattr(interrupts[-1], "value", None)
    return question if isinstance(question, dict) else {"ask": str(question)}


async def progress(run: Run) -> AsyncIterator[str]:
    """Give what there is to read about a run, until it has ended."""
    words = ProgressText()
    async for _, event in run.follow():
        if event.event == "custom" and (text := words.lines(event.data)):
            yield text


class ProgressText:
    """Puts the items of one run's `custom` stream into words, in the order in which they come."""

    def __init__(self) -> None:
        self._page = _Page()
        self._live = LiveRun(self._page, self._page.note)

    def lines(self, item: Any) -> str:
        """Return the lines about an item, or an empty text; nodes of a user's own may send other items."""
        if not isinstance(item, Mapping) or not ("by" in item or item.get("kind") in ("start", "step", "skipped")):
            return ""
        if item.get("kind") == "failure":  # the message of an error is for whoever runs the server
            item = {**item, "text": ""}
        self._live.item(item)
        return self._page.taken()


class _Page(Screen):
    """A screen that keeps its lines until they are taken."""

    def __init__(self) -> None:
        # Not Screen's own __init__: it opens the terminal of whoever runs the server.
        self._lines: list[str] = []

    def line(self, *parts: str | tuple[str, str], indent: int = 0) -> None:
        text = "".join(part if isinstance(part, str) else part[0] for part in parts)
        self._lines.append(" " * indent + one_line(text))

    def block(self, text: str, *, indent: int = 0, style: str = "") -> None:
        lines = safe(text.strip("\n")).split("\n")
        self._lines += [(" " * indent + line).rstrip() for line in lines if text.strip()]

    def note(self, text: str) -> None:
        """Keep what is going on now."""
        if text:
            self._lines.append(one_line(text))

    def taken(self) -> str:
        text = "".join(f"{line}\n" for line in self._lines)
        self._lines.clear()
        return text
