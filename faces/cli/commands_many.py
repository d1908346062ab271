"""Command `run-many`: one graph on many tasks, each result kept as it comes. Internal."""

from __future__ import annotations

import json
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..._files import read_file
from ..problems import DEFAULT_DB, BadInputError, RunStoppedError, bad_input
from ..sessions import opened
from ..views.batch_bar import batch_bar
from ..views.console import Screen
from ..views.wording import amount, money
from .commands_run import recipe_given
from .options import AsJson, Db

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..run_config import RunConfig

__all__ = ["run_many"]


def run_many(
    tasks: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="JSONL with a `task` in each line, and an `id` where you want to name it; or a text with a task in "
            "each line. - reads standard input.",
        ),
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Results, one in a line, as they come. Where it has some, it goes on.")
    ] = Path("results.jsonl"),
    concurrency: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Runs at once in each process. Default: more and more, until that brings no more calls a second, or "
            "a server asks for fewer.",
        ),
    ] = None,
    processes: Annotated[
        int, typer.Option(metavar="N", min=1, help="For more runs than one core can hold; they share the database.")
    ] = 1,
    hedge: Annotated[
        bool,
        typer.Option(
            "--hedge",
            help="Ask again where a call of an openai: or http:// model takes 1.5 times as long as 95% of those before "
            "it, and take the first reply: 5% of all calls at most, which are counted twice.",
        ),
    ] = False,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
    *,
    limits: dict[str, Any],  # as `with_preset_options` gives them, and what the recipe is made of
    written: dict[str, Any],
) -> None:
    """Run one graph on many tasks, and write each result as it comes.

    The same command goes on after Ctrl-C, a crash or a failure: what has a result stays, what failed is run again, and
    a run that was cut off goes on from its checkpoint. Budgets are each run's own. It ends with 1 where a run failed.
    """
    recipe, _ = recipe_given(**written)
    if recipe.options.get("human"):
        raise BadInputError("--human asks about one answer at a time: use `redraft run`")
    if db == "memory" and processes > 1:
        raise BadInputError("several processes share a database: name a --db other than memory")
    inputs = _read(tasks)
    screen = Screen(as_json=as_json)
    build = partial(_given, recipe, db)
    from ...graphs.many import GivenUpError
    from ...graphs.many import run_many as run_all
    from ...state.usage import add_usage

    with bad_input(), batch_bar(screen, out.name, "accepted") as show:
        try:
            results = run_all(
                build,
                inputs,
                out=out,
                concurrency=concurrency,
                processes=processes,
                limits=limits,
                hedge=hedge,
                on_progress=show,
            )
        except KeyboardInterrupt:
            why = f"stopped; what is done is in {out}, and the same command goes on"
            raise RunStoppedError(why, exit_code=130) from None
        except (GivenUpError, ConnectionError) as error:
            raise RunStoppedError(f"{error}; the same command goes on") from None
    failed = [result for result in results if result["error"] is not None]
    used = add_usage([result["usage"] for result in results])
    accepted = sum(result["stop_reason"] == "accepted" for result in results)
    summary = {"out": str(out), "tasks": len(results), "accepted": accepted, "failed": len(failed), "usage": used}

    def show_summary(screen: Screen) -> None:
        screen.line(
            f"{amount(len(results), 'task')}, {accepted} accepted, {len(failed)} failed, "
            f"{used['total_tokens']:,} tokens, {money(used['cost_usd'])}"
        )
        for result in failed[:5]:
            screen.line((f"  {result['id']}: {result['error']}", "dim"))
        screen.line(("wrote ", "dim"), str(out))

    screen.result(summary, show_summary)
    if failed:
        raise typer.Exit(1)


def _read(path: Path) -> list[Any]:
    """Return the tasks of a file."""
    with bad_input():
        text = read_file(path, stdin=True)
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise BadInputError(f"{path} holds no task")
    if not all(line.lstrip().startswith("{") for _, line in lines):
        return [line.strip() for _, line in lines]
    tasks = []
    for number, line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadInputError(f"{path}, line {number}: not JSON: {error}") from None
        if not isinstance(row.get("task"), str):
            what = "its `task` is no text" if "task" in row else "it has no `task`"
            raise BadInputError(f"{path}, line {number}: {what}")
        tasks.append({name: row[name] for name in ("id", "task", "draft", "require", "limits") if name in row})
    return tasks


@contextmanager
def _given(recipe: RunConfig, db: str) -> Iterator[Any]:
    """Give the graph of a recipe on a database; each process calls it."""
    with opened(db, create=True) as saver:
        yield (
            recipe.build(None, checkpoints="round")
            .copy({"checkpointer": saver})
            .with_config(metadata=recipe.metadata())
        )
