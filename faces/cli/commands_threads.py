"""Commands that read: `threads`, `history`, `show`, `tree`, `replay`, `diff` and `html`. Internal."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..problems import DEFAULT_DB, BadInputError, ProblemError, RunStoppedError, bad_input
from ..sessions import any_reader, every_row, known_id, listing, opened, read_thread
from ..views.console import Screen
from ..views.drafts import ReadThread, diff_facts, read_values
from ..views.timeline import timeline_facts, tree_facts, tree_table
from ..views.wording import checked_reason
from .options import AsJson, Db, ThreadId, TrustRecipe
from .running import outcome_data
from .thread_views import (
    branch_data,
    drafts_data,
    model_of,
    prompt_data,
    recipe_of,
    show_diff,
    show_drafts,
    show_history,
    show_prompts,
    show_replay,
    show_threads,
)

if TYPE_CHECKING:
    from ...state.threads.kind import SentPrompt

__all__ = ["diff", "file_name", "history", "html", "profile", "replay", "show", "threads", "tree"]


def threads(
    limit: Annotated[int, typer.Option(metavar="N", help="How many, the newest first.")] = 50,
    stopped: Annotated[
        str | None, typer.Option(metavar="REASON", help="Only those that stopped so; unfinished: those that did not.")
    ] = None,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """List the threads of a database, the newest first."""
    wanted = "running" if checked_reason(stopped) == "unfinished" else stopped
    with listing(db) as saver, bad_input():
        rows = saver.runs.list(limit=limit, stop_reason=wanted)
        sizes = saver.sizes([row.thread_id for row in rows])
        states = saver.under_way([row.thread_id for row in rows if row.stop_reason is None])
    data = [
        {
            **dataclasses.asdict(row),
            "state": states.get(row.thread_id),
            "recipe": recipe_of(row),
            "model": model_of(row),
            "bytes": sizes[row.thread_id],
        }
        for row in rows
    ]
    Screen(as_json=as_json).result(data, lambda screen: show_threads(screen, rows, sizes, states, stopped=stopped))


def history(thread_id: ThreadId, db: Db = DEFAULT_DB, as_json: AsJson = False) -> None:
    """Show every step of a thread with its checkpoint, what it added to the record, tokens, seconds and verdicts."""
    thread_id, steps = read_thread(db, thread_id, "plain_history", lambda thread: thread.history())
    facts = timeline_facts(thread_id, steps)
    costs = {key.removeprefix("total_"): value for key, value in facts.items() if key.startswith("total_")}
    data = {"thread_id": thread_id, "steps": [dataclasses.asdict(step) for step in steps], "total": costs}
    data["requirements"] = facts["requirements"]
    Screen(as_json=as_json).result(
        data, lambda screen: show_history(screen, steps, facts=facts, thread_id=thread_id, db=db)
    )


def profile(
    thread_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID…]", help="Threads; default: all of the database, as one.")
    ] = None,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """Show where the seconds and tokens of runs went: who wrote, who judged, programs and saving, people.

    Of an evaluation it is the database in its folder: `redraft profile --db results/self-refine/runs.sqlite`.
    """
    from ...state import Thread
    from ..views.where_time_went import profile_of
    from .thread_views import show_profile

    with opened(db, read_only=True) as saver, bad_input():
        ids = [known_id(saver, name) for name in thread_ids or ()] or [row.thread_id for row in every_row(saver.runs)]
        data = profile_of(Thread(any_reader(saver, one), one).history() for one in ids)
    Screen(as_json=as_json).result(data, lambda screen: show_profile(screen, data))


def show(
    thread_id: ThreadId,
    number: Annotated[int | None, typer.Option("--round", metavar="N", help="Only this round's draft.")] = None,
    prompts: Annotated[
        bool, typer.Option("--prompts", help="The prompts too, as models were asked with them; none is asked now.")
    ] = False,
    trust_recipe: TrustRecipe = False,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """Show what a thread came to: its task, every draft with what was said about it, and the answer."""
    thread_id, values = read_thread(db, thread_id, "plain_state", read_values)
    with bad_input():
        drafts = drafts_data(values, number)
    data = drafts if number is None else drafts["drafts"][0]
    screen = Screen(as_json=as_json)
    sent = _prompts(thread_id, number, db, screen, trust=trust_recipe) if prompts else []
    told = {"prompts": [prompt_data(one) for one in sent]} if prompts else {}

    def show_all(screen: Screen) -> None:
        show_drafts(screen, values, drafts, thread_id=thread_id, db=db, whole=number is None)
        show_prompts(screen, sent)

    screen.result({"thread_id": thread_id, **data, **told}, show_all)


def _prompts(thread_id: str, number: int | None, db: str, screen: Screen, *, trust: bool) -> list[SentPrompt]:
    """Return what models were asked with, of one round or all; the graph is built, and not run."""
    from ...state import Thread
    from .running import trusted_recipe

    with opened(db, read_only=True) as saver, bad_input():
        graph = trusted_recipe(saver, thread_id, screen=screen, trust=trust).build(saver)
        return [one for one in Thread(graph, thread_id).prompts() if number in (None, one.round)]


def tree(thread_id: ThreadId, db: Db = DEFAULT_DB, as_json: AsJson = False) -> None:
    """Show the branches that a thread is part of: its ancestors, and all that was forked from them."""
    # Here, since `threads` reads no history.
    from ...state.dual import drive
    from ...state.threads.history import family, grow_tree

    thread_id, branch = read_thread(db, thread_id, "plain_state", lambda thread: thread.tree())
    if isinstance(branch, dict):  # the state, read without LangGraph; the tables have its family too
        with listing(db) as saver:
            branch = grow_tree(thread_id, drive(family(saver.runs, thread_id)))
    Screen(as_json=as_json).result(
        branch_data(branch), lambda screen: screen.put(tree_table(tree_facts(branch, thread_id)))
    )


def replay(thread_id: ThreadId, db: Db = DEFAULT_DB, as_json: AsJson = False) -> None:
    """Recompute a thread's result from its record, without a model call; exit with 1 where they disagree."""
    thread_id, replayed = read_thread(db, thread_id, "plain_replay", lambda thread: thread.replay())
    task = next((event["text"] for event in reversed(replayed.output["events"]) if event["kind"] == "task"), "")
    output = outcome_data({"task": task, **replayed.output}, thread_id=thread_id)
    data = {"matches": replayed.matches, "differences": list(replayed.differences), **output}
    Screen(as_json=as_json).result(data, lambda screen: show_replay(screen, replayed, thread_id=thread_id))
    if not replayed.matches:
        raise RunStoppedError(f"the record of thread {thread_id} and its result disagree")


def diff(
    thread_id: ThreadId,
    other: Annotated[str | None, typer.Argument(metavar="ID2", help="Compare with this thread's answer.")] = None,
    before: Annotated[int | None, typer.Option(metavar="N", help="Round of the draft that is compared.")] = None,
    after: Annotated[int | None, typer.Option(metavar="N", help="Round of the draft it is compared with.")] = None,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """Compare two drafts word by word, with the critique that led from one to the other.

    Without rounds, they are the first and the best of a thread, or the best of two threads.
    """
    first = ReadThread(*read_thread(db, thread_id, "plain_state", read_values))
    second = ReadThread(*read_thread(db, other, "plain_state", read_values)) if other is not None else None
    if second is not None and second.thread_id == first.thread_id and before is None and after is None:
        raise BadInputError("both are the same thread; name one, or two rounds with --before and --after")
    with bad_input():
        facts = diff_facts(first, second, before=before, after=after)
    data = {
        "threads": [first.thread_id, (second or first).thread_id],
        "rounds": [facts["before"]["round"], facts["after"]["round"]],
        "before": facts["before_text"],
        "after": facts["after_text"],
        "changes": [{"kind": kind, "text": text} for kind, text in facts["changes"]],
        **({"fields": facts["fields"]} if "fields" in facts else {}),
        "because": [{"round": reason["round"], "critiques": reason["events"]} for reason in facts["reasons"]],
    }
    Screen(as_json=as_json).result(data, lambda screen: show_diff(screen, facts))


def html(
    thread_id: ThreadId,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Where the page goes; else ID.html.")
    ] = None,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """Write one page with everything about a thread: drafts and what changed, steps, the path, scores, branches.

    It needs no network and runs no script; what models wrote is shown as text.
    """
    from ..views.run_page import write_run_page

    with opened(db, read_only=True) as saver, bad_input():
        thread_id = known_id(saver, thread_id)
        page = out or Path(f"{file_name(thread_id)}.html")
        if page.is_file() and not page.read_bytes()[:15].lower().startswith(b"<!doctype html>"):
            raise BadInputError(
                f"{str(page)!r} is there already and is no page: it would be lost; name another with -o"
            )
        written = write_run_page(_drawable(saver, thread_id), page)
    data = {"thread_id": thread_id, "page": str(written)}
    Screen(as_json=as_json).result(data, lambda screen: screen.line(("wrote ", "dim"), str(written)))


def _drawable(saver: Any, thread_id: str) -> Any:
    """Return a thread on the graph of its recipe, for its drawing; where that can't be built here, or would
    open files that somebody else named, on the loop.

    No model is built, so no key is needed.
    """
    from ...state import Thread
    from ..run_config import RunConfig

    graph = any_reader(saver, thread_id)
    # An extra or a file of it is not here, say: the page names the steps that its drawing lacks.
    with suppress(ProblemError, ValueError, TypeError, LookupError, OSError, ImportError, RuntimeError):
        recipe, own = RunConfig.kept(saver, thread_id)
        if own or not recipe.reaches():
            graph = recipe.silent().build(saver)
    return Thread(graph, thread_id)


def file_name(thread_id: str) -> str:
    """Return a file's name for a thread: its id, where that can be one, else what is left of it and a hash."""
    name = re.sub(r"[^\w.-]+", "-", thread_id).strip(".-")[:LONGEST_NAME]
    return name if name == thread_id else f"{name or 'run'}-{hashlib.sha256(thread_id.encode()).hexdigest()[:8]}"


LONGEST_NAME = 80
