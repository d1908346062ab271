"""Options that the commands on a graph of one's own share: what is evaluated, and what judges it. Internal."""

from __future__ import annotations

from typing import Annotated

import typer

from ...faces.cli.options import DATA

__all__ = ["PACE", "AtOnce", "GraphOptions", "OwnScore", "Verify"]

PACE = "How fast"

Verify = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CHECK",
        help="Judges in the graph: a verifier as in `redraft run`, or module:name of yours; may be repeated.",
        rich_help_panel=DATA,
    ),
]

OwnScore = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Says which answers are right: module:name of a function of (row, answer) that returns True, False or a "
        "share from 0 to 1, or a judge's file; else the answers in the data, or the graph's own checks.",
        rich_help_panel=DATA,
    ),
]

GraphOptions = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="An option of the graph, as recipes have it: depth=1; may be repeated.",
        rich_help_panel=DATA,
    ),
]

AtOnce = Annotated[int, typer.Option(metavar="C", min=1, help="Problems worked on at once.", rich_help_panel=PACE)]
