"""Views of graphs and runs for notebooks and terminals, reports, and the HTTP server.

The `redraft` command is `redraft.faces.cli`; `langgraph.json` names the graphs of `redraft.faces.studio`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .server.app import create_app
    from .server.settings import Settings
    from .views.notebook import Display, alive, diff, live, scores, show, timeline, tree
    from .views.report.page import write_report
    from .views.report.plots import draw_plots
    from .views.run_page import write_run_page
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "redraft.faces.server.app": ["create_app"],
            "redraft.faces.server.settings": ["Settings"],
            "redraft.faces.views.notebook": ["Display", "alive", "diff", "live", "scores", "show", "timeline", "tree"],
            "redraft.faces.views.report.page": ["write_report"],
            "redraft.faces.views.report.plots": ["draw_plots"],
            "redraft.faces.views.run_page": ["write_run_page"],
        },
    )

__all__ = [
    "Display",
    "Settings",
    "alive",
    "create_app",
    "diff",
    "draw_plots",
    "live",
    "scores",
    "show",
    "timeline",
    "tree",
    "write_report",
    "write_run_page",
]
