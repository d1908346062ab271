"""Plain-text printing for the terminal's views."""

from __future__ import annotations

import shutil
from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["printed", "terminal_width"]

NARROWEST = 60


def printed(*what: RenderableType, width: int | None = None) -> str:
    """Return what rich would print, without colours and without spaces at the ends of lines.

    Args:
        what: Shown below one another.
        width: In columns; default: the terminal's.
    """
    from rich.console import Console

    columns = width or terminal_width()
    stream = StringIO()
    console = Console(
        file=stream,
        width=columns,
        color_system=None,
        force_terminal=False,
        force_jupyter=False,  # in a notebook rich would show the text there and then, beside the view it is meant for
        highlight=False,
        markup=False,
        emoji=False,
    )
    for one in what:
        console.print(one)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()).rstrip("\n")


def terminal_width() -> int:
    """Return the columns of the terminal, or 100 where there is none."""
    return max(NARROWEST, shutil.get_terminal_size((100, 24)).columns)
