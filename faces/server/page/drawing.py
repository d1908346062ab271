"""Rendering of the page's fragments, around the templates that notebooks and reports share. Internal."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from ...views.documents import html_environment, macros, part
from ...views.live import doing
from ...views.timeline import event_row
from ..api.wire import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["drawn", "happening"]

WRITERS = ("generate", "refine")
"""Nodes whose words are shown as they are written; a critic's may be half of a JSON."""


def drawn(fragment: str, facts: Mapping[str, Any]) -> str:
    """Return a fragment as HTML, in which every text is escaped.

    Args:
        fragment: Name of its macro.
        facts: What it shows.
    """
    return str(getattr(_fragments(), fragment)(facts))


def happening(item: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Return what a run tells while it goes on as an event of the page; `None` for what the page does not show.

    Args:
        item: Of the stream mode `custom`; a node of the user's own may send any.
    """
    kind = item.get("kind")
    if kind == "start":
        place = {"round": item.get("round"), "branch": item.get("branch")}
        return "doing", {"text": doing(item), "writes": item.get("node") in WRITERS, **place}
    if kind == "step":
        return "doing", {"text": f"{item.get('step')}: {item.get('tool', '')}", "writes": False}
    if not isinstance(kind, str) or kind == "task" or not isinstance(item.get("round"), int):
        return None
    html = drawn("happening", event_row(plain(item)))
    return "row", {"html": html, "kind": kind, "round": item["round"], "branch": item.get("branch")}


@cache
def _fragments() -> Any:
    environment = html_environment(extra="serve")
    environment.globals["views"] = macros()
    return environment.from_string(part(__package__, "fragments.html.j2")).module
