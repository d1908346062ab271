"""Rendering of the page's fragments, around the templates that notebooks and reports share. Internal."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from ...faces.views.console import doing
from ...faces.views.documents import html_environment, macros, part

__all__ = ["doing_now", "drawn"]

WRITERS = ("generate", "refine")
"""Nodes whose words are shown as they are written; a critic's may be half of a JSON."""


def drawn(fragment: str, facts: Mapping[str, Any]) -> str:
    """Return a fragment as HTML, in which every text is escaped.

    Args:
        fragment: Name of its macro.
        facts: What it shows.
    """
    return str(getattr(_fragments(), fragment)(facts))


def doing_now(item: Mapping[str, Any]) -> dict[str, Any] | None:
    """Describe the step that a run is at; `None` for an item that tells of no step.

    Args:
        item: Of the stream mode `custom`; a node of the user's own may send any.
    """
    kind = item.get("kind")
    if kind == "start":
        return {
            "text": doing(item),
            "writes": item.get("node") in WRITERS,
            "round": item.get("round"),
            "branch": item.get("branch"),
        }
    if kind == "step":
        return {"text": f"{item.get('step')}: {item.get('tool', '')}", "writes": False}
    return None


@cache
def _fragments() -> Any:
    environment = html_environment(extra="serve")
    environment.globals["views"] = macros()
    return environment.from_string(part(__package__, "fragments.html.j2")).module
