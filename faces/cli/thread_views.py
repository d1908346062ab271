"""Terminal views of threads. Internal.

A list, a tree of forks, steps, drafts, a replay, and what differs between two drafts.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ...models.specs import model_name
from ...state.events import DRAFT_KINDS
from ...state.threads.diffs import Change, Diff
from ..problems import command
from ..sessions import listing
from ..views.console import Screen, one_line, plain_table, safe, show_event, show_requirements, terminal_width
from ..views.timeline import stop_text
from ..views.wording import (
    amount,
    cost_words,
    money,
    moved,
    percent,
    reason_style,
    score_of,
    seconds,
    size,
    stripped_words,
)
from .running import RESULT_KEYS, show_outcome, sources_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...state.storage.index import RunRow
    from ...state.threads.history import HistoryStep, ThreadTree
    from ...state.threads.kind import SentPrompt
    from ...state.threads.replay import Replay

__all__ = [
    "branch_data",
    "drafts_data",
    "model_of",
    "prompt_data",
    "recipe_of",
    "show_diff",
    "show_drafts",
    "show_history",
    "show_profile",
    "show_prompts",
    "show_replay",
    "show_threads",
]


LEAST = 0.005
"""Share of the time from which on a line says where it went."""
WIDE = 110
"""Characters of a screen that has room for all columns."""


def show_threads(
    screen: Screen,
    rows: Sequence[RunRow],
    sizes: Mapping[str, int],
    states: Mapping[str, str],
    *,
    stopped: str | None = None,
) -> None:
    """Print one line a thread, or that there is none that `stopped` so; on a wide screen with model and size."""
    if not rows:
        none = {
            None: 'no threads here yet; start one with: redraft run "Write …"',
            "unfinished": "no thread here is unfinished",
        }
        screen.line(none.get(stopped, f"no thread here stopped: {stopped}"))
        return
    wide = terminal_width() >= WIDE
    names = ["thread", "moved", "stopped", "rounds", "score", "tokens", *(("size", "model") if wide else ()), "task"]
    table = plain_table(*names, right=("rounds", "score", "tokens", "size"))
    table.columns[0].overflow = "fold"
    table.columns[1].no_wrap = table.columns[2].no_wrap = True
    table.columns[-1].no_wrap, table.columns[-1].overflow, table.columns[-1].ratio = True, "ellipsis", 1
    for row in rows:
        table.add_row(
            Text(safe(row.thread_id), style="bold"),
            Text(moved(row.updated_at), style="dim"),
            stop_text(row.stop_reason or states.get(row.thread_id)),
            str(row.rounds),
            score_of(row.score),
            f"{row.total_tokens:,}",
            *((size(sizes[row.thread_id]), Text(safe(model_of(row) or ""))) if wide else ()),
            Text(one_line(row.task), style="dim" if row.recipe is None else ""),
        )
    screen.put(table)
    if any(row.stop_reason is None and states.get(row.thread_id) != "running" for row in rows):
        screen.line(("unfinished threads, and those that wait for you, go on with: redraft resume ID", "dim"))
    if any(row.recipe is None for row in rows):
        screen.line(("threads whose task is dim were built in Python; only Python can resume them", "dim"))


def prompt_data(sent: SentPrompt) -> dict[str, Any]:
    """Return what a model was asked with as JSON has it."""
    messages = [{"role": message.type, "content": message.content} for message in sent.messages]
    return {"round": sent.round, "kind": sent.kind, "by": sent.by, "messages": messages}


def show_prompts(screen: Screen, prompts: Sequence[SentPrompt]) -> None:
    """Print what models were asked with, a heading and the messages of each."""
    for one in prompts:
        screen.line()
        screen.line((f"prompt of round {one.round}, {one.kind} by {one.by}", "bold"))
        for message in one.messages:
            screen.line((f"{message.type}:", "dim"), indent=2)
            screen.block(str(message.text), indent=4)


def recipe_of(row: RunRow) -> Any:
    """Return the recipe that a thread was begun with as JSON has it, or as text; `None` for one built in Python."""
    try:
        return json.loads(row.recipe) if row.recipe else None
    except ValueError:
        return row.recipe


def model_of(row: RunRow) -> str | None:
    """Return the name of the model that a thread was begun with; `None` where its graph was built in Python."""
    recipe = recipe_of(row)
    spec = recipe.get("model") if isinstance(recipe, dict) else None
    return model_name(spec) if isinstance(spec, str) else None


def branch_data(branch: ThreadTree) -> dict[str, Any]:
    """Return a branch and all below it as JSON holds them."""
    row = dataclasses.asdict(branch.row) if branch.row else {}
    columns = ("fork_at", "stop_reason", "rounds", "score", "total_tokens", "created_at")
    return {
        "thread_id": branch.thread_id,
        **{key: row.get(key) for key in columns},
        "children": [branch_data(child) for child in branch.children],
    }


def show_profile(screen: Screen, data: Mapping[str, Any]) -> None:
    """Print where time and tokens went, as `profile_of` says: who called models, then what else took time."""
    whole = max(data["seconds"], sum(row["usage"]["seconds"] for row in data["models"]), 1e-9)
    names = ("where", "who", "calls", "time", "share", "tokens in", "cached", "out", "cost")
    table = plain_table(*names, right=names[2:])
    for row in data["models"]:
        usage = row["usage"]
        read = usage.get("cache_read_tokens", 0)
        counts = [f"{count:,}" for count in (usage["input_tokens"], read, usage["output_tokens"])]
        took = [seconds(usage["seconds"]), percent(usage["seconds"] / whole)]
        table.add_row(row["node"], safe(row["by"]), f"{usage['calls']:,}", *took, *counts, money(usage["cost_usd"]))
    for node, took in data["rest"].items():
        if took < LEAST * whole:
            continue
        table.add_row(node, "programs, saving", "", seconds(took), percent(took / whole), "", "", "", "")
    screen.put(table)
    spent = [amount(data["threads"], "thread"), seconds(data["seconds"])]
    spent += [amount(data["usage"]["total_tokens"], "token"), money(data["usage"]["cost_usd"])]
    spent += [f"{seconds(data['person_seconds'])} for a person"] if data["person_seconds"] else []
    screen.line(("in all: ", "bold"), " · ".join(spent))


def show_history(
    screen: Screen, steps: Sequence[HistoryStep], *, facts: Mapping[str, Any], thread_id: str, db: str
) -> None:
    """Print every step: the node, its checkpoint, and the events it added; then what all cost, and the verdict.

    Args:
        screen: Where to.
        steps: Of the thread, oldest first.
        facts: What `timeline_facts` makes of them.
        thread_id: Named in what is said about going on.
        db: Likewise.
    """
    for step in steps:
        following = f" → {', '.join(step.next)}" if step.next else ""
        screen.line(
            (f"{step.step:>3} ", "dim"),
            (step.node or "start", "bold"),
            (following, "dim"),
            ("  " + step.checkpoint_id, "dim"),
        )
        for event in step.events:
            show_event(screen, event, indent=6)
    if facts["ours"]:
        spent = [amount(facts["total_calls"], "call"), amount(facts["total_tokens"], "token")]
        spent += [*cost_words(facts), seconds(facts["total_seconds"])]
        reason = facts["stop_reason"]
        ending = f" · {reason}" if reason else ""
        screen.line(("in all: ", "bold"), " · ".join(spent), (ending, reason_style(reason)))
    show_requirements(screen, facts["requirements"])
    if steps and not steps[-1].stop_reason:
        show_next(screen, thread_id, db=db)
    screen.line(("fork a round with: ", "dim"), command("fork", thread_id, "--at", "0", "--feedback", "…", db=db))


def drafts_data(values: Mapping[str, Any], number: int | None = None) -> dict[str, Any]:
    """Return a thread's result and the drafts of its task, each with what was said about it.

    Args:
        values: The state's values, as `read_values` gives them.
        number: Only the draft of this round.

    Raises:
        ValueError: There is no such draft, or the thread holds no record of ours.
    """
    from ...state.summary import current_run, summary_of, wishes

    events = values.get("events")
    if not events:
        raise ValueError("this thread holds no record of a refinement run; has it begun?")
    summary = summary_of(events)
    best, written = summary.answer, [event for event in current_run(events) if event["kind"] in DRAFT_KINDS]
    stripped = {event["round"]: event["stripped"] for event in written if event.get("stripped")}
    drafts = [
        {
            "round": draft.round,
            "by": draft.by,
            "revises": draft.base,
            "text": draft.text,
            "accepted": draft.accepted,
            "score": draft.score,
            "best": best is not None and draft.round == best.round,
            "stripped": stripped.get(draft.round, {}),
            "critiques": [dict(critique) for critique in draft.critiques],
        }
        for draft in summary.attempts
        if number is None or draft.round == number
    ]
    if number is not None and not drafts:
        rounds = [draft.round for draft in summary.attempts]
        raise ValueError(f"there is no draft of round {number}; there are drafts of rounds {rounds}")
    return {
        "task": values.get("task") or "",
        "limits": values.get("limits"),
        **{key: values.get(key) for key in RESULT_KEYS},
        "wishes": wishes(events),
        "requirements": summary.requirements,
        "drafts": drafts,
        "rejected": [dict(event) for event in written if event.get("rejected") and number in (None, event["round"])],
    }


def show_drafts(
    screen: Screen, values: Mapping[str, Any], data: Mapping[str, Any], *, thread_id: str, db: str, whole: bool
) -> None:
    """Print the drafts, and with `whole` the task before and the result after them."""
    if whole:
        screen.line(("task", "bold"))
        screen.block(data["task"], indent=2)
        for wish in data["wishes"]:
            screen.line(("wanted: ", "dim"), one_line(wish), indent=2)
    for draft in data["drafts"]:
        better = " · the best" if draft["best"] and len(data["drafts"]) > 1 else ""
        screen.line(
            (f"round {draft['round']}", "bold"), (f" · {draft['by']} · score {score_of(draft['score'])}{better}", "dim")
        )
        screen.block(draft["text"], indent=2)
        if taken_off := stripped_words(draft):
            screen.line((taken_off, "dim"), indent=2)
        for critique in draft["critiques"]:
            show_event(screen, critique)
    for event in data["rejected"]:
        show_event(screen, event)
    if not whole:
        return
    if values.get("stop_reason"):
        show_outcome(screen, values, sources_of(values), thread_id=thread_id, db=db)
    else:
        show_requirements(screen, data["requirements"])
        show_next(screen, thread_id, db=db)


def show_next(screen: Screen, thread_id: str, *, db: str) -> None:
    """Print where a thread stands that has not ended, and the command that goes on from there."""
    with listing(db) as saver:
        stands, name = NEXT[saver.under_way([thread_id]).get(thread_id)]
    screen.line((stands, "yellow"), command(name, thread_id, db=db))


NEXT = {
    None: ("unfinished; go on with: ", "resume"),
    "waiting": ("waits for a person; be asked with: ", "resume"),
    "running": ("is being run right now; stop it after its step with: ", "stop"),
}


def show_replay(screen: Screen, replayed: Replay, *, thread_id: str) -> None:
    """Print what the record says, and whether the result agrees."""
    show_outcome(screen, replayed.output, sources_of(replayed.output), thread_id=thread_id, db="memory")
    screen.line("")
    if replayed.matches:
        screen.line(("✓ ", "green"), "the record and the result agree; no model was called")
        return
    screen.line(("✗ ", "red"), "the record and the result disagree; no model was called")
    for difference in replayed.differences:
        screen.line(f"- {difference}", indent=2)


def show_diff(screen: Screen, facts: Mapping[str, Any]) -> None:
    """Print why the draft was changed, and both texts as one: removed words struck through in red, added ones green;
    in brackets without colour.
    """
    for reason in facts["reasons"]:
        screen.line((f"because of what was said about round {reason['round']}", "dim"))
        for event in reason["events"]:
            show_event(screen, event)
    if facts["same"]:
        screen.line(("the two drafts are the same", "dim"))
        return
    diff = Diff(
        facts["before_text"],
        facts["after_text"],
        tuple(Change(*change) for change in facts["changes"]),
        facts.get("fields", ()),
    )
    if diff.fields or not screen.out.is_terminal or screen.out.no_color or not shutil.get_terminal_size().columns:
        screen.block(str(diff))
        return
    styles = {"same": "", "removed": "red strike", "added": "green"}
    screen.put(Text.assemble(*((safe(change.text), styles[change.kind]) for change in diff.changes)))
