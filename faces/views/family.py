"""A thread's branches: where each was forked, why it stopped, and how good it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .console import safe
from .printing import printed
from .wording import money, score_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...state.threads.history import ThreadTree

__all__ = ["tree_facts", "tree_text"]

DEEPEST = 12
"""Forks of forks for which lines are drawn; deeper ones say how deep they are."""


def tree_facts(branch: ThreadTree, asked: str) -> dict[str, Any]:
    """Return what the tree shows: a row a thread, parents before their forks.

    Args:
        branch: The oldest ancestor, with all below it.
        asked: The thread that is marked.
    """
    rows: list[dict[str, Any]] = []
    waiting: list[tuple[ThreadTree, list[bool], bool]] = [(branch, [], True)]
    while waiting:
        one, above, last = waiting.pop()
        rows.append({**_row(one), "guide": _guide(above, last=last), "asked": one.thread_id == asked})
        below = [*above, last]
        forks = [(fork, below, fork is one.children[-1]) for fork in one.children]
        waiting += reversed(forks)
    scores = [row["score"] for row in rows if row["score"] is not None]
    best = max(scores, default=None)
    alone = len(scores) > 1 and scores.count(best) == 1
    for row in rows:
        row["best"] = alone and row["score"] == best
    return {"rows": rows, "asked": asked}


def tree_text(facts: Mapping[str, Any]) -> str:
    """Return the tree as a table in plain text; the thread that was asked for has a star."""
    from rich.text import Text

    from .console import plain_table

    table = plain_table("thread", "from", "stopped", "rounds", "score", "tokens", right=("rounds", "score", "tokens"))
    table.columns[0].overflow = "fold"
    table.columns[2].no_wrap = True
    for row in facts["rows"]:
        table.add_row(
            Text(f"{row['guide']}{safe(row['thread_id'])}{' *' if row['asked'] else ''}"),
            Text(safe(row["from"])),
            row["stop_reason"] or ("unfinished" if row["kept"] else "not kept here"),
            str(row["rounds"]) if row["kept"] else "",
            score_of(row["score"]) if row["kept"] else "",
            f"{row['tokens']:,}" if row["kept"] else "",
        )
    return printed(table)


def _row(one: ThreadTree) -> dict[str, Any]:
    row = one.row
    at = row.fork_at if row else None
    return {
        "thread_id": one.thread_id,
        "kept": row is not None,
        "from": "" if at is None else f"round {at}" if isinstance(at, int) else f"checkpoint …{at[-8:]}",
        "stop_reason": row.stop_reason if row else None,
        "style": {"accepted": "good", "failed": "bad"}.get((row.stop_reason if row else None) or "", "open"),
        "rounds": row.rounds if row else 0,
        "score": row.score if row else None,
        "tokens": row.total_tokens if row else 0,
        "cost": "unknown" if row and row.cost_usd is None else money(row.cost_usd) if row else "",
    }


def _guide(above: list[bool], *, last: bool) -> str:
    """Return the lines before a name; `above` says for each ancestor whether it is the last of its siblings."""
    if not above:
        return ""
    if len(above) > DEEPEST:
        return f"… {len(above)} forks deep: "
    return "".join("   " if ended else "│  " for ended in above[1:]) + ("└─ " if last else "├─ ")
