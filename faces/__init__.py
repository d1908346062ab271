"""Views of graphs and runs for notebooks and terminals, reports, and the HTTP server.

The `redraft` command is `redraft.faces.cli`; `langgraph.json` names the graphs of `redraft.faces.studio`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .run_config import build_from_recipe
    from .views.notebook import Display, alive, diff, live, scores, show, timeline, tree
    from .views.run_page import write_run_page
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "redraft.faces.run_config": ["build_from_recipe"],
            "redraft.faces.views.notebook": ["Display", "alive", "diff", "live", "scores", "show", "timeline", "tree"],
            "redraft.faces.views.run_page": ["write_run_page"],
        },
    )

__all__ = [
    "Display",
    "alive",
    "build_from_recipe",
    "diff",
    "live",
    "scores",
    "show",
    "timeline",
    "tree",
    "write_run_page",
]
