"""Threads as a table, and branches as a tree."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ..views.plain_text import one_line, safe
from ..views.wording import reason_style, score_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table
    from rich.text import Text

    from ...state.storage.index import RunRow
    from ...state.threads.history import ThreadTree
    from .console import Screen

__all__ = ["branch_data", "plain_table", "show_threads", "show_tree"]


def plain_table(*columns: str, right: Sequence[str] = ()) -> Table:
    """Return an empty table without lines; the columns in `right` are numbers."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", no_wrap=column in right)
    return table


def show_threads(screen: Screen, rows: Sequence[RunRow], *, stopped: str | None = None) -> None:
    """Print one line a thread, or that there is none that `stopped` so."""
    from rich.text import Text

    if not rows and stopped is not None:
        screen.line("no thread here is unfinished" if stopped == "unfinished" else f"no thread here stopped: {stopped}")
        return
    if not rows:
        screen.line('no threads here yet; start one with: redraft run "Write …"')
        return
    table = plain_table("thread", "stopped", "rounds", "score", "tokens", "task", right=("rounds", "score", "tokens"))
    table.columns[0].overflow = "fold"
    table.columns[1].no_wrap = True
    table.columns[5].no_wrap, table.columns[5].overflow, table.columns[5].ratio = True, "ellipsis", 1
    for row in rows:
        table.add_row(
            Text(safe(row.thread_id), style="bold"),
            _stopped(row),
            str(row.rounds),
            score_of(row.score),
            f"{row.total_tokens:,}",
            Text(one_line(row.task), style="dim" if row.recipe is None else ""),
        )
    screen.put(table)
    if any(row.stop_reason is None for row in rows):
        screen.line(("unfinished threads go on with: redraft resume ID", "dim"))
    if any(row.recipe is None for row in rows):
        screen.line(("threads whose task is dim were built in Python; only Python can resume them", "dim"))


def branch_data(branch: ThreadTree) -> dict[str, Any]:
    """Return a branch and all below it as JSON holds them."""
    row = dataclasses.asdict(branch.row) if branch.row else {}
    kept = ("fork_at", "stop_reason", "rounds", "score", "total_tokens", "created_at")
    return {
        "thread_id": branch.thread_id,
        **{key: row.get(key) for key in kept},
        "children": [branch_data(child) for child in branch.children],
    }


def show_tree(screen: Screen, branch: ThreadTree, *, marked: str) -> None:
    """Print a branch and all below it, the thread that was asked for in bold."""
    from rich.tree import Tree

    root = Tree(_label(branch, marked), guide_style="dim")
    waiting = [(root, branch)]
    while waiting:
        node, parent = waiting.pop()
        waiting += [(node.add(_label(child, marked)), child) for child in parent.children]
    screen.put(root)


def _label(branch: ThreadTree, marked: str) -> Text:
    from rich.text import Text

    label = Text(safe(branch.thread_id), style="bold" if branch.thread_id == marked else "")
    row = branch.row
    if row is None:
        return label.append("  (not kept here)", style="dim")
    if row.fork_at is not None:
        where = f"round {row.fork_at}" if isinstance(row.fork_at, int) else f"checkpoint {safe(row.fork_at)}"
        label.append(f"  from {where}", style="dim")
    label.append("  ").append_text(_stopped(row))
    rounds = f"{row.rounds} round{'' if row.rounds == 1 else 's'}"
    return label.append(f"  {rounds} · score {score_of(row.score)} · {row.total_tokens:,} tokens", style="dim")


def _stopped(row: RunRow) -> Text:
    from rich.text import Text

    return Text(safe(row.stop_reason or "unfinished"), style=reason_style(row.stop_reason))
