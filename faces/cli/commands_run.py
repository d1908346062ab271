"""Commands `run`, `resume`, `fork` and `demo`, which call a model. Internal."""

from __future__ import annotations

import dataclasses
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..._files import read_file
from ..problems import DEFAULT_DB, BadInputError, bad_input, command
from ..sessions import any_reader, checked_thread_id, known, model_or_default, opened
from ..views.console import Screen, say
from .asking import can_ask
from .options import (
    LIMITS,
    MODELS,
    AllowChanges,
    AsJson,
    CostBudget,
    Db,
    DemoModel,
    MaxRounds,
    Patience,
    PromptFile,
    ThreadId,
    TimeBudget,
    TokenBudget,
    TrustRecipe,
    given_limits,
)
from .running import finish, go_on, run_asking, trusted_recipe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...state import Thread
    from ...state.storage.index import RunRow
    from ..run_config import RunConfig

__all__ = ["demo", "fork", "resume", "run"]


def run(
    task: Annotated[str, typer.Argument(metavar="TASK", help="What to write; - reads it from standard input.")],
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
    draft: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A first draft of your own: it begins with feedback on this one.")
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="What the answer must meet, for a judge to tell; may be repeated."),
    ] = None,
    thread: Annotated[
        str | None, typer.Option(metavar="ID", help="The thread; one that exists is given a new task.")
    ] = None,
    *,
    limits: dict[str, Any],  # as `with_preset_options` gives them, and what the recipe is made of
    written: dict[str, Any],
) -> None:
    """Write, get feedback, check and refine until it is right or a limit says stop."""
    if task == "-":
        with bad_input():
            task = read_file(task, stdin=True)
    if not task.strip():
        raise BadInputError("the task is empty: say what is to be written")
    if draft is not None and not draft.strip():
        raise BadInputError("the draft is blank: leave --draft out, and one is written")
    thread_id = checked_thread_id(thread) if thread is not None else f"run-{secrets.token_hex(4)}"
    if "as_stated" in (written["flags"].get("verifiers") or ()):
        written["flags"] = {**written["flags"], "verifiers": _with_stated(written["flags"]["verifiers"], task)}
    recipe, graph_alone = recipe_given(**written)
    if require and recipe.verifiers and not (recipe.critics or recipe.options.get("human")):
        say("nobody here can tell whether what is required is met: name a judge with --critic self, or --critic MODEL")
    screen = Screen(as_json=as_json)
    if recipe.options.get("human") and db == "memory" and not can_ask(screen):
        raise BadInputError("--human needs somebody at a terminal, or a --db that keeps the run until it is answered")
    with opened(db, create=True) as saver:
        built = graph_alone.copy({"checkpointer": saver})
        task_input: dict[str, Any] = {"task": task, **({"limits": limits} if limits else {})}
        if draft is not None:
            task_input["draft"] = draft
        if require:
            task_input["require"] = require
        values, question = run_asking(built, task_input, thread_id=thread_id, recipe=recipe, screen=screen, db=db)
    finish(screen, values, question, thread_id=thread_id, db=db)


def _with_stated(verifiers: Sequence[str], task: str) -> list[str]:
    """Return the verifiers with those that the task says in place of `as_stated`, and say which they are.

    Each has advice of its own for who mends a draft, and they stay with the thread.
    """
    from ...nodes.verify.stated import stated_requirements

    stated = stated_requirements(task)
    if not stated:
        say("the task says nothing of its answer that as_stated can check")
        return [*verifiers]
    say("\n".join(["checked, as the task says:", *(f"  {one['text']}" for one in stated)]))
    names = [name for one in stated for name in one["verifiers"]]
    return [*dict.fromkeys([name for name in verifiers if name != "as_stated"] + names)]


def recipe_given(
    graph: str, model: str | None, recipe_file: Path | None, prompts: Path | None, flags: Mapping[str, Any]
) -> tuple[RunConfig, Any]:
    """Return the recipe that flags and a file say, and its graph without a saver. What is to be known of it is said.

    A wrong spec is thus refused before a database is made.

    Args:
        graph: The preset.
        model: Spec of the writer.
        recipe_file: Says what no flag says.
        prompts: A file of prompts.
        flags: Fields and options by their names; one that is `None` or false is not given.
    """
    from ...nodes.verify.verifiers import RETIRED, verifier
    from ...nodes.writing.prompt_files import builder_prompts
    from ..run_config import RunConfig, read_recipe, small_model_options

    with bad_input():
        written = read_recipe(recipe_file) if recipe_file else {}
    spec, note = model_or_default(model or written.get("model"))
    with bad_input():
        # The texts and not the path go into the recipe: a thread goes on with what it began with.
        texts = builder_prompts(prompts) if prompts else {}
    graph = written.get("preset", graph) if graph == "refine" else graph
    by_flag = {name: value for name, value in flags.items() if value is not None and value is not False}
    preset = {"preset": graph, "model": spec, **texts}
    recipe = RunConfig.given(**{**small_model_options(spec, graph), **written, **by_flag, **preset})
    if note and recipe.asks_model:
        say(note)
    if recipe.critics and recipe.verifiers and recipe.options.get("critics_after") != "always":
        say("with --verify the programs decide; --critic is asked only with --critics-after always")
    with bad_input():
        for wrong in RETIRED.intersection(recipe.verifiers):
            verifier(wrong)  # refused: only threads that name it already may go on with it
        return recipe, recipe.build(None)


def resume(
    thread_id: ThreadId,
    max_rounds: MaxRounds = None,
    token_budget: TokenBudget = None,
    time_budget: TimeBudget = None,
    cost_budget: CostBudget = None,
    patience: Patience = None,
    allow_changes: AllowChanges = False,
    trust_recipe: TrustRecipe = False,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """Go on with a thread that was interrupted, killed, failed or forked, or that waits for you; or give it more room.

    Nothing that is finished is paid again. Limits that are not named stay as they were.
    """
    from ...state import Thread
    from ...state.threads.snapshots import state_of

    screen = Screen(as_json=as_json)
    limits = given_limits(
        max_rounds=max_rounds,
        max_tokens=token_budget,
        max_seconds=time_budget,
        max_cost_usd=cost_budget,
        patience=patience,
    )
    with opened(db) as saver:
        thread_id, row = known(saver, thread_id)
        if limits or row is None or row.stop_reason in (None, "failed", "quarantined"):
            values, question = go_on(
                saver,
                thread_id,
                lambda thread: thread.ready(limits or None, allow_changes=allow_changes),
                screen=screen,
                db=db,
                trust=trust_recipe,
                row=row,
            )
        else:
            with bad_input():
                thread = Thread(any_reader(saver, thread_id), thread_id)
                values, question = dict(state_of(thread.graph, thread.config).values), None
            say(f"thread {thread_id} is finished ({row.stop_reason}); {_what_now(row, db)}")
    finish(screen, values, question, thread_id=thread_id, db=db)


def fork(
    thread_id: ThreadId,
    at: Annotated[
        str,
        typer.Option(
            metavar="ROUND|CHECKPOINT", help="A round (0 is the first draft), best, last, or a checkpoint's id."
        ),
    ],
    feedback: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What to change; all drafts must meet it from then on.")
    ] = None,
    verify: Annotated[
        list[str] | None,
        typer.Option(metavar="SPEC", help="A program that tells if a draft meets the feedback; may be repeated."),
    ] = None,
    draft: Annotated[str | None, typer.Option(metavar="TEXT", help="Replaces that draft; it is judged anew.")] = None,
    model: Annotated[
        str | None, typer.Option(metavar="SPEC", help="Goes on with another model.", rich_help_panel=MODELS)
    ] = None,
    prompts: PromptFile = None,
    max_rounds: Annotated[
        int | None, typer.Option(metavar="N", help="Revisions at most, from the first.", rich_help_panel=LIMITS)
    ] = None,
    new_id: Annotated[str | None, typer.Option("--as", metavar="NEWID", help="Id of the new thread.")] = None,
    run_now: Annotated[bool, typer.Option("--run", help="Run the new thread at once.")] = False,
    trust_recipe: TrustRecipe = False,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """Start a thread in the middle of another, which stays, with other feedback, draft, model, prompts or limits."""
    from ...nodes.writing.prompt_files import builder_prompts
    from ...state import Thread
    from ...state.threads.kind import kind_of
    from ..run_config import RunConfig

    screen = Screen(as_json=as_json)
    limits = given_limits(max_rounds=max_rounds) or None
    named = None if new_id is None else checked_thread_id(new_id)
    with opened(db) as saver:
        thread_id, row = known(saver, thread_id)
        parents = RunConfig.of_thread(saver, thread_id, row)
        reader = any_reader(saver, thread_id, parents)
        # The recipe is written anew then, and signed as this user's: a foreign one must be agreed to before.
        if model is not None or prompts is not None or parents.of_fork() != parents:
            parents = trusted_recipe(saver, thread_id, screen=screen, trust=trust_recipe)
        recipe = parents.of_fork()
        # A pipeline's fork goes on with another preset, which is known when it is built to run.
        fingerprint: Mapping[str, Any] = {}
        if model is not None or prompts is not None:
            with bad_input():
                recipe = recipe if model is None else recipe.with_model(model)
                if prompts is not None:
                    recipe = recipe.with_prompts(builder_prompts(prompts))
                # A wrong spec is refused before anything is written.
                fingerprint = kind_of(recipe.build(None)).fingerprint
        with bad_input():
            where = int(at) if at.isdecimal() else at
            forked = Thread(reader, thread_id).fork(
                at=where, feedback=feedback, verifiers=verify or (), draft=draft, limits=limits, thread_id=named
            )
        if recipe != parents:
            _keep_recipe(forked, recipe, fingerprint)
        branch = forked.thread_id
        if run_now:
            values, question = go_on(saver, branch, Thread.ready, screen=screen, db=db, trust=trust_recipe)
    if run_now:
        finish(screen, values, question, thread_id=branch, db=db)
        return
    following = command("resume", branch, db=db)
    screen.result(
        {"thread_id": branch, "parent": thread_id, "at": at, "resume": following},
        lambda screen: screen.line("wrote thread ", (branch, "bold"), ", run it with: ", (following, "cyan")),
    )


def demo(model: DemoModel = None, db: Db = DEFAULT_DB, as_json: AsJson = False) -> None:
    """Refine six bundled tasks live, on the embedded model unless you name another. Needs no key.

    A model this small fails at some of them; the table at the end says at which.
    """
    from .demo import in_a_sentence, run_demo, show_results

    screen = Screen(as_json=as_json)
    with opened(db, create=True) as saver:
        results = run_demo(saver, model=model or "local", screen=screen, db=db)
    data = {"tasks": [dataclasses.asdict(result) for result in results], "summary": in_a_sentence(results)}
    screen.result(data, lambda screen: show_results(screen, results, db=db))


def _keep_recipe(forked: Thread, recipe: RunConfig, fingerprint: Mapping[str, Any]) -> None:
    """Write a fork's own recipe and fingerprint: `Thread.fork` gives it its parent's."""
    from ...state.events import record
    from ...state.summary import rounds

    snapshot = forked.graph.get_state(forked.config)
    if not snapshot.next:
        raise BadInputError(f"the fork {forked.thread_id!r} has nothing left to run")
    point = forked.kind.fork_point(snapshot, snapshot.config["configurable"]["checkpoint_id"])
    change = {
        "kind": "change",
        "round": rounds(snapshot.values["events"]),
        "by": "caller",
        "fingerprint": fingerprint,
        "text": f"goes on as {recipe.preset} with {recipe.model}",
    }
    forked.graph.update_state(
        {**forked.config, "metadata": recipe.metadata()},
        record(snapshot.values, change),
        as_node=point.as_node,
    )


def _what_now(row: RunRow, db: str) -> str:
    """Describe the ways to go on with a thread that came to its end."""
    reason = str(row.stop_reason)
    if row.preset == "pipeline" and not reason.endswith("_budget"):
        return "all its steps are done, and new limits change nothing"
    if reason == "accepted":
        going_on = command("fork", row.thread_id, "--at", "ROUND", "--feedback", "TEXT", "--run", db=db)
        return f"an accepted answer stays, whatever the limits; a branch goes on from a draft: {going_on}"
    if reason == "human":
        return "new limits, such as --max-rounds, open it again"
    return "new limits, such as --max-rounds, give it more room"
