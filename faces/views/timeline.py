"""Timeline of a thread (who acted, cost, verdicts) and its tree of forks. Internal."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from ...state.summary import requirements
from ...state.threads.history import guide
from .console import plain_table, printed, safe, shortened, terminal_width
from .wording import (
    REJECTED_WORDS,
    amount,
    cost_words,
    left_out,
    mark,
    money,
    reason_style,
    said_nothing,
    score_of,
    seconds,
    stop_words,
    stripped_words,
    who_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.table import Table
    from rich.text import Text

    from ...state.threads.history import HistoryStep, ThreadTree

__all__ = [
    "ROUND_BEGINS",
    "event_row",
    "stop_text",
    "timeline_facts",
    "timeline_text",
    "totals",
    "tree_facts",
    "tree_table",
    "verdict_of",
]

EXCERPT = 160
ROUND_BEGINS = ("task", "revision")

STYLES = {"green": "good", "red": "bad", "yellow": "open"}


def timeline_facts(thread_id: str, steps: Sequence[HistoryStep]) -> dict[str, Any]:
    """Return the facts of a timeline: a row an event, or a row a step for graphs that keep no events of ours."""
    ours = any(step.events for step in steps)
    rows = list(_events(steps) if ours else _steps(steps))
    last = steps[-1] if steps else None
    return {
        "thread_id": thread_id,
        "ours": ours,
        "rows": rows,
        "stop_reason": last.stop_reason if last else None,
        "stopped": stop_words(last.stop_reason) if last and last.stop_reason else None,
        "waiting": list(last.next) if last else [],
        "requirements": requirements([event for step in steps for event in step.events]),
        **totals(rows),
    }


def event_row(event: Mapping[str, Any], *, step: int | None = None, node: str = "") -> dict[str, Any]:
    """Return an event as a row: who, what, tokens, seconds, verdict, text."""
    usage = event.get("usage") or {}
    verdict, style = verdict_of(event)
    text = str(event.get("text") or "")
    kind = str(event.get("kind", ""))
    silent = kind in ("critique", "human") and not text.strip()
    if silent:
        text = said_nothing(event)
    if kind == "skipped" and event.get("node") == "branch":
        text = left_out(event)
    return {
        "step": step,
        "node": node,
        "by": who_of(event),
        "what": kind,
        "round": event.get("round"),
        "calls": usage.get("calls", 0),
        "tokens": usage.get("total_tokens", 0),
        "counted": not usage.get("uncounted_calls"),
        "cost_usd": usage.get("cost_usd", 0.0),
        "seconds": usage.get("seconds", 0.0),
        "verdict": verdict,
        "style": style,
        "text": text,
        "silent": silent,
        "excerpt": shortened(text, EXCERPT),
    }


def verdict_of(event: Mapping[str, Any]) -> tuple[str, str]:
    """Return the verdict of an event in words, and how it is to look: `good`, `bad`, `open` or nothing."""
    kind = event.get("kind")
    if kind in ("critique", "human"):
        sign, colour = mark(event.get("accepted"))
        unsaid = "may not say" if event.get("calibration") else "unreadable"
        words = {True: "accepts", False: "rejects", None: unsaid}[event.get("accepted")]
        if event.get("stop"):
            words = "stops"
        score = event.get("score")
        words_and_score = f"{sign} {words}" + (f" · {score_of(score)}" if score is not None else "")
        marks = [mark for mark in ("oracle", "uncalibrated") if event.get(mark)]
        return " · ".join([words_and_score, *marks]), STYLES[colour]
    if kind == "verdict":
        reason = event.get("stop_reason")
        return ("goes on", "") if reason is None else (f"stops: {stop_words(reason)}", STYLES[reason_style(reason)])
    if rejected := event.get("rejected"):
        return f"✗ not a draft: {REJECTED_WORDS.get(str(rejected), str(rejected))}", "bad"
    if taken_off := stripped_words(event):
        return shortened(taken_off, EXCERPT), "open"
    if kind == "failure":
        budget = event.get("budget")
        return (f"stopped: {budget}", "open") if budget else (f"✗ {event.get('error')}", "bad")
    if kind == "skipped":
        return ("left out" if event.get("node") == "branch" else "changed nothing"), "open"
    return "", ""


def totals(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sums of the rows' costs; the dollars are `None` as soon as one price is not known."""
    rows = list(rows)
    costs = [row.get("cost_usd", 0.0) for row in rows]
    return {
        "total_calls": sum(row["calls"] for row in rows),
        "total_tokens": sum(row["tokens"] for row in rows),
        "total_counted": all(row["counted"] for row in rows),
        "total_seconds": sum(row["seconds"] for row in rows),
        "total_cost_usd": None if None in costs else sum(costs),
    }


def timeline_text(facts: Mapping[str, Any]) -> str:
    """Return the timeline as a table in plain text, as wide as the terminal; what was said gets the rest of it.

    Below it stands how the thread ended, what it cost, and what is next.
    """
    from rich.cells import cell_len

    rows = [[safe(cell) for cell in _cells(row, facts)] for row in facts["rows"]]
    used = [place for place in range(len(HEAD)) if any(row[place] for row in rows)]
    table = plain_table(*(HEAD[place] for place in used), right=NUMBERS)
    table.expand = "said" in (HEAD[place] for place in used)
    for column, place in zip(table.columns, used, strict=True):
        column.no_wrap, column.overflow = True, "ellipsis"
        column.max_width, column.ratio = (None, 1) if HEAD[place] == "said" else (WIDEST[place], None)
    for row in rows:
        table.add_row(*(row[place] for place in used))
    widths = (max(cell_len(row[place]) for row in (HEAD, *rows)) for place in used)
    least = sum(2 + min(width, WIDEST[place]) for width, place in zip(widths, used, strict=True)) - 2
    ending = [f"thread {safe(facts['thread_id'])}", str(facts["stop_reason"] or "unfinished")]
    if facts["ours"]:
        tokens = amount(facts["total_tokens"], "token")
        ending.append(tokens if facts["total_counted"] else f"at least {tokens}")
        ending += cost_words(facts)
    ending.append(seconds(facts["total_seconds"]))
    ending += [f"next: {', '.join(map(safe, facts['waiting']))}"] if facts["waiting"] else []
    return f"{printed(table, width=max(terminal_width(), least))}\n\n{' · '.join(ending)}"


HEAD = ("step", "node", "who", "what", "tokens", "time", "verdict", "said")
WIDEST = (6, 14, 20, 14, 9, 9, 34, 24)
"""Of each column; what was said gets more where there is room."""
NUMBERS = ("step", "tokens", "time")


def _cells(row: Mapping[str, Any], facts: Mapping[str, Any]) -> list[str]:
    what = row["what"] if not facts["ours"] or row["round"] is None else f"{row['what']} {row['round']}"
    tokens = "" if not row["calls"] else f"{row['tokens']:,}" if row["counted"] else "?"
    spent = seconds(row["seconds"]) if row["calls"] or not facts["ours"] else ""
    text = "(of its parent) " + row["excerpt"] if row.get("inherited") else row["excerpt"]
    return [str(row["step"]), row["node"], row["by"], what, tokens, spent, row["verdict"], text]


def _events(steps: Iterable[HistoryStep]) -> Iterable[dict[str, Any]]:
    for step in steps:
        # From its `fork` event on a fork's record is its own; those of format 1 have none.
        forked = (at for at in reversed(range(len(step.events))) if step.events[at]["kind"] == "fork")
        own = next(forked, len(step.events)) if step.node == "fork" else 0
        for at, event in enumerate(step.events):
            row = event_row(event, step=step.step, node=step.node)
            row["new_round"] = row["what"] in ROUND_BEGINS
            row["inherited"] = at < own
            yield row


def _steps(steps: Sequence[HistoryStep]) -> Iterable[dict[str, Any]]:
    before: str | None = None
    for step in steps:
        spent = _between(before, step.created_at)
        before = step.created_at
        row = event_row({"kind": "step", "by": "", "text": ""}, step=step.step, node=step.node)
        ahead = f"→ {', '.join(step.next)}" if step.next else ""
        yield {**row, "what": "", "seconds": spent, "verdict": ahead, "new_round": step.node == "input",
               "inherited": False}  # fmt: skip


def _between(before: str | None, after: str | None) -> float:
    if before is None or after is None:
        return 0.0
    try:
        return max(0.0, (datetime.fromisoformat(after) - datetime.fromisoformat(before)).total_seconds())
    except ValueError:
        return 0.0


DEEPEST = 12
"""Forks of forks for which lines are drawn; deeper ones say how deep they are."""


def tree_facts(branch: ThreadTree, marked: str) -> dict[str, Any]:
    """Return the facts of a tree: a row a thread, parents before their forks.

    Args:
        branch: The oldest ancestor, with all below it.
        marked: The thread that was asked for.
    """
    rows = [{**_row(node), "guide": _guide(lasts), "asked": node.thread_id == marked} for node, lasts in branch.walk()]
    scores = [row["score"] for row in rows if row["score"] is not None]
    best = max(scores, default=None)
    # A tie has no best.
    alone = len(scores) > 1 and scores.count(best) == 1
    for row in rows:
        row["best"] = alone and row["score"] == best
    return {"rows": rows, "asked": marked}


def tree_table(facts: Mapping[str, Any]) -> Table:
    """Return the tree as a table; the thread that was asked for is bold and has a star."""
    from rich.text import Text

    table = plain_table("thread", "from", "stopped", "rounds", "score", "tokens", right=("rounds", "score", "tokens"))
    table.columns[0].overflow = "fold"
    table.columns[2].no_wrap = True
    for row in facts["rows"]:
        numbers = (str(row["rounds"]), score_of(row["score"]), f"{row['tokens']:,}")
        table.add_row(
            Text.assemble(row["guide"], (f"{safe(row['thread_id'])}{' *' * row['asked']}", "bold" * row["asked"])),
            Text(safe(row["from"]), "dim"),
            stop_text(row["stop_reason"]) if row["kept"] else Text("not kept here", "dim"),
            *(numbers if row["kept"] else ()),
        )
    return table


def stop_text(reason: str | None) -> Text:
    """Return the reason why a thread stopped, in its colour."""
    from rich.text import Text

    return Text(safe(reason or "unfinished"), reason_style(reason))


def _row(node: ThreadTree) -> dict[str, Any]:
    row = node.row
    at = row.fork_at if row else None
    return {
        "thread_id": node.thread_id,
        "kept": row is not None,
        "from": "" if at is None else f"round {at}" if isinstance(at, int) else f"checkpoint …{at[-8:]}",
        "stop_reason": row.stop_reason if row else None,
        "style": STYLES[reason_style(row.stop_reason if row else None)],
        "rounds": row.rounds if row else 0,
        "score": row.score if row else None,
        "tokens": row.total_tokens if row else 0,
        "cost": "unknown" if row and row.cost_usd is None else money(row.cost_usd) if row else "",
    }


def _guide(lasts: Sequence[bool]) -> str:
    return f"… {len(lasts)} forks deep: " if len(lasts) > DEEPEST else guide(lasts)
