"""Commands `goal`, `apply`, `checkout` and `stop-hook`. Internal."""

from __future__ import annotations

import json
import secrets
import sys
from contextlib import suppress
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..faces.cli.options import (
    LIMITS,
    AsJson,
    CostBudget,
    Db,
    MaxOutputTokens,
    MaxRounds,
    Model,
    Prices,
    Temperature,
    ThreadId,
    TimeBudget,
    TokenBudget,
    given_limits,
)
from ..faces.problems import DEFAULT_DB, BadInputError, bad_input, command
from ..faces.sessions import any_reader, checked_thread_id, known_id, model_or_default, opened
from ..faces.views.console import Screen, say
from ..graphs.preset import ASK, HUMAN
from ..nodes.human import AskWhen
from ..state.events import DRAFT_KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .trees import Change, Trees

__all__ = ["apply", "check_work", "checkout", "goal", "stop_hook"]

DAY = 86_400
"""Seconds."""

Checks = Annotated[
    list[str],
    typer.Option("--check", metavar="COMMAND", help="Must end with 0, in a copy of the folder; may be repeated."),
]
Root = Annotated[Path, typer.Option("--dir", metavar="FOLDER", help="The folder that is judged.")]
Protect = Annotated[
    list[str] | None,
    typer.Option(metavar="PATTERN", help="Files that are put back after each round: tests/**; may be repeated."),
]
Plain = Annotated[bool, typer.Option("--plain", help="Run commands without a sandbox: they reach all that you can.")]


def goal(
    task: Annotated[str, typer.Argument(metavar="TASK", help="What is to be done in the folder.")],
    check: Checks,
    root: Annotated[
        Path, typer.Option("--dir", metavar="FOLDER", help="The folder; it is read, and not written.")
    ] = Path(),
    by: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC", help='Who works: a model, or a program: "claude -p {prompt}". Default: as --model says.'
        ),
    ] = None,
    protect: Protect = None,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "--file", metavar="PATTERN", help="What a model is shown; default: what a failure names, and what fits."
        ),
    ] = None,
    hidden: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COMMAND", help="Run once, at the end, on the answer; nobody is told of it. May be repeated."
        ),
    ] = None,
    human: Annotated[bool, typer.Option("--human", help=HUMAN.help)] = False,
    ask: Annotated[AskWhen | None, typer.Option("--ask", metavar="WHEN", help=ASK.help)] = None,
    model: Model = None,
    temperature: Temperature = None,
    max_output_tokens: MaxOutputTokens = None,
    prices: Prices = None,
    max_rounds: MaxRounds = None,
    token_budget: TokenBudget = None,
    time_budget: TimeBudget = None,
    cost_budget: CostBudget = None,
    plain: Plain = False,
    trees: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Where files are kept; default: beside the database.", rich_help_panel=LIMITS
        ),
    ] = None,
    thread: Annotated[str | None, typer.Option(metavar="ID", help="The thread.")] = None,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """Work on a folder until commands pass, in private copies; your files are changed by `redraft apply` alone.

    Each round a writer is let into a copy of the best files so far, and told what failed. The checks run in a sandbox
    without a network, where nothing but the copy is writable. Files named like a secret (.env, *.pem) are in no copy.
    """
    from ..faces.cli.running import finish, run_asking
    from ..faces.run_config import RunConfig
    from .boxed import require_box

    thread_id = checked_thread_id(thread) if thread is not None else f"goal-{secrets.token_hex(4)}"
    program = by if by and " " in by.strip() else None
    spec, note = ("local", None) if program else model_or_default(by or model)
    place = root.expanduser().resolve()
    kept = (trees or _store_beside(db)).expanduser().absolute()
    recipe = RunConfig.given(
        preset="folder",
        model=spec,
        temperature=temperature,
        max_output_tokens=max_output_tokens,
        prices=prices,
        human=human or None,
        ask=ask,
        checks=tuple(check),
        protect=tuple(protect or ()),
        by=program,
        files=tuple(files or ()),
        hidden=tuple(hidden or ()),
        root=str(place),
        trees=str(kept),
        plain=plain,
    )
    limits = given_limits(
        max_rounds=max_rounds, max_tokens=token_budget, max_seconds=time_budget, max_cost_usd=cost_budget
    )
    if not place.is_dir():
        raise BadInputError(f"there is no folder {str(place)!r}")
    if note:
        say(note)
    screen = Screen(as_json=as_json)
    with bad_input():
        require_box(plain=plain)
        graph = recipe.build(None)
    with opened(db, create=True) as saver:
        if saver.runs.get(thread_id) is not None:
            raise BadInputError(
                f"there is a thread {thread_id!r} already; go on with: {command('resume', thread_id, db=db)}"
            )
        start: dict[str, Any] = {"task": task, **({"limits": limits} if limits else {})}
        graph = graph.copy({"checkpointer": saver})
        told: dict[str, Any] = {"thread_id": thread_id, "recipe": recipe, "screen": screen, "db": db}
        values, question = run_asking(graph, start, **told)
        with suppress(ValueError):  # a thread that can't be read: all trees stay
            _prune(saver, kept, named=trees is not None)
        if not as_json:
            _show_end(screen, values, thread_id=thread_id, db=db)
    finish(screen, values, question, thread_id=thread_id, db=db)


def _store_beside(db: str) -> Path:
    """Return where the trees of a database's threads are kept."""
    return Path("redraft.trees" if "://" in db or db == "memory" else f"{db}.trees").expanduser().absolute()


def _prune(saver: Any, kept: Path, *, named: bool) -> None:
    """Remove the trees of threads that are gone, once a day; a store that the user named may be of other databases."""
    from ..faces.sessions import every_row
    from .drafts import read_draft
    from .trees import Trees

    marker = kept / "pruned"
    if named or (marker.exists() and time() - marker.stat().st_mtime < DAY):
        return
    wanted: set[str] = set()
    for row in every_row(saver.runs):
        if row.preset == "folder":
            values = _values_of(saver, row.thread_id)
            wanted |= {values["base_tree"]}
            drafts = [event for event in values.get("events") or () if event["kind"] in DRAFT_KINDS]
            wanted |= {read_draft(one["text"]).tree for one in drafts if one["text"]}
    Trees(kept).prune(wanted - {""})
    marker.touch()


def _show_end(screen: Screen, values: Mapping[str, Any], *, thread_id: str, db: str) -> None:
    if left_out := values.get("left_out"):
        screen.line((f"not in the copies: {', '.join(left_out[:8])}{' …' if len(left_out) > 8 else ''}", "dim"))
    if values.get("answer"):
        screen.line(("to your folder ", "bold"), command("apply", thread_id, db=db))


def apply(
    thread_id: ThreadId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Write without asking.")] = False,
    unaccepted: Annotated[
        bool, typer.Option("--unaccepted", help="Also where the checks did not accept the answer.")
    ] = False,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """Show what a thread changed in a folder, and write it there; refuse where the folder has changed since.

    What is in the folder and in no copy (.gitignore, secrets) stays as it is.
    """
    from .trees import shown

    trees, values, root = _thread_of(thread_id, db)
    base, tree = values["base_tree"], _tree_of(values, None)
    screen = Screen(as_json=as_json)
    if values.get("stop_reason") != "accepted" and not unaccepted:
        raise BadInputError(
            f"the checks did not accept the answer of {thread_id} ({values.get('stop_reason') or 'it has not ended'}): "
            "--unaccepted writes it all the same"
        )
    if not as_json:
        screen.block(trees.diff(base, tree, most=40_000) or "(nothing changed)")
    if not yes and not (sys.stdin.isatty() and typer.confirm(f"Write this to {root}?")):
        raise BadInputError("nothing was written: --yes writes without asking")
    with bad_input():
        changes = trees.apply(base, tree, root)
    screen.result(
        {"thread_id": thread_id, "folder": str(root), "changed": [shown(one.path) for one in changes]},
        lambda screen: screen.line(f"wrote {_files(changes)} to {root}"),
    )


def checkout(
    thread_id: ThreadId,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Made where it is not there; else it is empty.")],
    number: Annotated[
        int | None, typer.Option("--round", metavar="N", min=0, help="The round; default: the answer.")
    ] = None,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """Write the files of a round into an empty folder."""
    trees, values, _ = _thread_of(thread_id, db)
    tree = _tree_of(values, number)
    with bad_input():
        trees.write(tree, folder)
    screen = Screen(as_json=as_json)
    screen.result(
        {"thread_id": thread_id, "tree": tree, "folder": str(folder)}, lambda screen: screen.line(f"wrote {folder}")
    )


def _files(changes: Sequence[Change]) -> str:
    return f"{len(changes)} change{'s' if len(changes) != 1 else ''}"


def _thread_of(thread_id: str, db: str) -> tuple[Trees, dict[str, Any], Path]:
    """Return the store, the state and the folder of a thread about one."""
    from ..faces.run_config import RunConfig
    from .trees import Trees

    with opened(db, read_only=True) as saver:
        name = known_id(saver, thread_id)
        recipe = RunConfig.of_thread(saver, name)
        if recipe.preset != "folder":
            raise BadInputError(f"{name} is no thread about a folder, but of {recipe.preset}")
        values = _values_of(saver, name)
    if not values.get("base_tree"):
        raise BadInputError(f"{name} was stopped before its folder was read: redraft resume {name}")
    return Trees(recipe.options["trees"]), values, Path(recipe.options["root"])


def _values_of(saver: Any, thread_id: str) -> dict[str, Any]:
    """Return the state of a thread, with the tree of the folder as it was read; that is empty before then."""
    config: Any = {"configurable": {"thread_id": thread_id}}
    kept = saver.get_tuple(config)
    base = kept.checkpoint["channel_values"].get("base_tree", "") if kept else ""
    return {**any_reader(saver, thread_id).get_state(config).values, "base_tree": base}


def _tree_of(values: Mapping[str, Any], number: int | None) -> str:
    """Return the tree of a round, or of the answer."""
    from ..state.summary import attempts, best_draft
    from .drafts import read_draft

    drafts = attempts(values.get("events") or [])
    best = best_draft(values.get("events") or [])
    draft = best if number is None else next((one for one in drafts if one.round == number), None)
    if draft is None:
        raise BadInputError(
            "there is no such draft; rounds: " + (", ".join(str(one.round) for one in drafts) or "none")
        )
    return read_draft(draft.text).tree


def stop_hook(
    check: Checks,
    root: Root = Path(),
    max_stops: Annotated[
        int, typer.Option(metavar="N", min=1, help="Hold a session so often, and then let it end.")
    ] = 8,
    plain: Plain = False,
    db: Annotated[
        str | None, typer.Option(metavar="URL", help="Where stops are kept; default: stops.sqlite in the data folder.")
    ] = None,
) -> None:
    """Hold a coding agent's session until commands pass: a stop hook, as Claude Code calls it.

    Reads the hook's JSON from standard input. Where a check fails, it prints `{"decision": "block"}` with what failed,
    and the agent goes on; where all pass, or it was held --max-stops times, it prints nothing. Each stop is a round of
    the thread `stop-SESSION`, which `redraft show` shows.
    """
    from ..models.weights import data_dir
    from ..state.summary import latest_draft
    from ..state.threads.thread import Thread
    from .boxed import require_box
    from .graph import build_watch_graph

    with bad_input():
        said = json.loads(sys.stdin.read() or "{}")
        require_box(plain=plain)
    session = str(said.get("session_id") or "session") if isinstance(said, dict) else "session"
    place = db or str(data_dir() / "stops.sqlite")
    if db is None:
        data_dir().mkdir(parents=True, exist_ok=True)
    thread_id = checked_thread_id(f"stop-{session}")
    config: Any = {"configurable": {"thread_id": thread_id}}
    with opened(place, create=True) as saver:
        watch = build_watch_graph(root, trees=_store_beside(place), checks=check, plain=plain)
        graph: Any = watch.copy({"checkpointer": saver})
        kept = graph.get_state(config).values
        so_far = kept.get("rounds", 0)
        if kept.get("stop_reason") == "max_rounds" and so_far < max_stops:  # it was held, and has worked on
            output = Thread(graph, thread_id).resume({"max_rounds": so_far + 1})
        else:
            task = f"A session in {root.expanduser().resolve()}"
            output = graph.invoke({"task": task, "limits": {"max_rounds": 0}}, config)
    if output["stop_reason"] != "accepted" and output["rounds"] < max_stops:
        draft = latest_draft(output["events"])
        typer.echo(json.dumps({"decision": "block", "reason": draft.feedback if draft else str(output["error"])}))


def check_work(check: Checks, root: Root = Path(), plain: Plain = False) -> None:
    """Serve the tool `check_work` to an agent, over MCP on standard input and output: do the commands pass?"""
    try:
        from mcp.server.fastmcp import FastMCP
    except ImportError as error:
        raise BadInputError(f"this needs an extra: pip install '.[mcp]' in a checkout ({error})") from None
    from .boxed import require_box
    from .checks import failures

    folder = root.expanduser().resolve()
    with bad_input():
        require_box(plain=plain)
    server = FastMCP("redraft")

    def check_work() -> str:
        return failures(folder, check, plain=plain) or "All checks pass."

    told = f"Run {', '.join(f'`{line}`' for line in check)} on a copy of the folder, and say what fails."
    server.add_tool(check_work, description=told)
    server.run()
