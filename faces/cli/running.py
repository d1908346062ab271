"""Runs at the shell: a graph is run, shown as it happens, and left resumable whatever happens. Internal."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import typer

from ..problems import BadInputError, ReaderGoneError, RunStoppedError, Stopping, bad_input, command
from ..views.console import one_line
from ..views.live import LiveRun
from .asking import ask_person, can_ask, how_to_answer, keep_edit, show_waiting, typed_line
from .outcomes import outcome_data, show_outcome

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from langchain_core.runnables import RunnableConfig

    from ...state import Thread
    from ..run_config import RunConfig
    from ..views.console import Screen

    Given: TypeAlias = Mapping[str, Any] | Callable[[], Awaitable[Any]] | None

__all__ = [
    "finish",
    "go_on",
    "go_on_with_answer",
    "run_asking",
    "run_graph",
    "trusted_recipe",
]

MODES = ("custom", "values")
STOPPED_FROM_OUTSIDE = 143
"""The exit code of a run that `redraft stop` ended: that of a SIGTERM, which asks for the same."""
UNACCEPTED = 3
"""The exit code of a run that came to its end with an answer that those who judge did not accept."""


def run_graph(
    graph: Any,
    given: Given,
    *,
    thread_id: str,
    recipe: RunConfig,
    screen: Screen,
    db: str,
    watch: type[LiveRun] = LiveRun,
) -> dict[str, Any]:
    """Run a thread to its end, printing it as it happens, and return the values of its state.

    Args:
        graph: A compiled graph with a checkpointer.
        given: The task and limits of a new run, what `Thread.ready` says to go on with, or what answers a person's
            question. A callable is awaited for it once this process is the one that runs the thread.
        thread_id: The thread.
        recipe: Kept with the run.
        screen: Where progress goes.
        db: Named in what is said about resuming.
        watch: Prints what happens.

    Raises:
        BadInputError: Somebody else runs the thread right now, or `given` makes no sense.
        RunStoppedError: Before the first draft the model raised, the run was interrupted, `redraft stop` asked it to
            stop, or nobody reads what it prints. The thread is kept.
    """
    from langgraph.errors import GraphDrained

    from ...state import Thread
    from ...state.threads.record_checks import compared

    config: RunnableConfig = {"configurable": {"thread_id": thread_id}, "metadata": recipe.metadata()}
    if callable(given):  # it is what `Thread` says to go on with
        config = compared(config)
    values: dict[str, Any] = {}

    async def follow() -> dict[str, Any]:
        found: dict[str, Any] = {}
        async with AsyncExitStack() as stack:
            with bad_input():
                control = await stack.enter_async_context(Thread(graph, thread_id).astoppable())
                # Only now, since nobody else can change the thread any more.
                begun = await given() if callable(given) else given
            live = watch(screen, stack.enter_context(screen.thinking()))
            # One stream of two kinds: progress to show, and the state, of which the last one is the result.
            async for mode, item in graph.astream(
                begun, config, stream_mode=list(MODES), durability="sync", control=control
            ):
                if mode == "values":
                    found = {name: value for name, value in item.items() if name != "__interrupt__"}
                    live.check_reader()
                else:
                    live.item(item)
        return found

    try:
        values = asyncio.run(follow())  # asynchronously, since Ctrl-C can then end a call that is under way
    # It is worded for the user already; the last clause would make a failed run of it.
    except BadInputError:
        raise
    except KeyboardInterrupt:
        kept = graph.checkpointer.get_tuple(config) is not None
        raise interrupted(thread_id, db, kept=kept) from None
    except GraphDrained as drained:
        hint = _how_to_resume(thread_id, db, kept=True)
        raise RunStoppedError(f"{drained.reason}; {hint}", exit_code=STOPPED_FROM_OUTSIDE) from None
    except ReaderGoneError as gone:
        if not graph.get_state(config).next:
            raise  # it had come to its end
        hint = _how_to_resume(thread_id, db, kept=True)
        raise RunStoppedError(f"stopped, since {gone}; {hint}", exit_code=gone.exit_code) from None
    except Exception as error:
        hint = _how_to_resume(thread_id, db, kept=graph.checkpointer.get_tuple(config) is not None)
        raise RunStoppedError(f"the run failed: {_error_line(error)}; {hint}") from error
    return values or dict(graph.get_state(config).values)


def run_asking(
    graph: Any, given: Given, *, thread_id: str, recipe: RunConfig, screen: Screen, db: str
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Run a thread, asking who sits at the terminal wherever it waits for a person.

    Returns:
        The values of its state, and the question that it waits with: nobody is at a terminal, or whoever is leaves the
        answer for later.

    Raises:
        BadInputError: As `run_graph`; or the question was answered elsewhere before it was answered here. It says where
            a draft that was edited for it is kept.
        RunStoppedError: As `run_graph`.
    """
    from ...state import Thread

    thread = Thread(graph, thread_id)
    shown: set[int] = set()

    class Watch(LiveRun):
        def item(self, item: Mapping[str, Any]) -> None:
            super().item(item)
            if item.get("kind") in {"draft", "revision"}:
                shown.add(item["round"])

    reply: dict[str, Any] | None = None
    while True:
        try:
            values = run_graph(graph, given, thread_id=thread_id, recipe=recipe, screen=screen, db=db, watch=Watch)
        except BadInputError as refused:
            raise BadInputError(f"{refused}{keep_edit(reply or {})}", details=refused.details) from refused
        question = thread.question()
        if question is None or not can_ask(screen):
            return values, question
        try:
            reply = ask_person(screen, question, shown=question["round"] in shown)
        except KeyboardInterrupt:
            raise interrupted(thread_id, db, kept=True) from None
        if reply is None:
            return values, question
        # With round and person, so that it never answers a later question.
        given = partial(thread.aready_answer, reply, at=question["round"], by=question["by"])


def go_on(
    saver: Any,
    thread_id: str,
    limits: Mapping[str, Any],
    *,
    screen: Screen,
    db: str,
    trust: bool = False,
    allow_changes: bool = False,
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Resume a thread with the graph of its recipe, and return what `run_asking` returns.

    Args:
        saver: The database.
        thread_id: The thread.
        limits: Changed ones.
        screen: Where progress goes.
        db: Named in what is said about resuming.
        trust: A recipe that somebody else wrote is followed without a question.
        allow_changes: The thread goes on also where the recipe makes another graph now than it did.

    Raises:
        BadInputError: The thread has no recipe, its recipe can't be built here or is somebody else's, or somebody else
            runs the thread right now.
        RunStoppedError: As `run_graph`.
    """
    thread, recipe = _rebuilt(saver, thread_id, screen=screen, trust=trust)
    given = partial(thread.aready, limits or None, allow_changes=allow_changes)
    return run_asking(thread.graph, given, thread_id=thread_id, recipe=recipe, screen=screen, db=db)


def go_on_with_answer(
    saver: Any,
    thread_id: str,
    reply: Mapping[str, Any],
    *,
    at: int | None,
    by: str | None,
    screen: Screen,
    db: str,
    trust: bool = False,
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Answer the question that a thread waits with, run it on, and return what `run_asking` returns.

    Raises:
        BadInputError: As `go_on`; or the thread waits for nobody, not with the draft of round `at`, or for another
            person than `by`.
        RunStoppedError: As `run_graph`.
    """
    thread, recipe = _rebuilt(saver, thread_id, screen=screen, trust=trust)
    given = partial(thread.aready_answer, reply, at=at, by=by)
    return run_asking(thread.graph, given, thread_id=thread_id, recipe=recipe, screen=screen, db=db)


def _rebuilt(saver: Any, thread_id: str, *, screen: Screen, trust: bool) -> tuple[Thread, RunConfig]:
    from ...state import Thread

    recipe = trusted_recipe(saver, thread_id, screen=screen, trust=trust)
    with bad_input():
        return Thread(recipe.build(saver), thread_id), recipe


def trusted_recipe(saver: Any, thread_id: str, *, screen: Screen, trust: bool) -> RunConfig:
    """Return the recipe of a thread, which the user wrote on this machine, reaches nothing, or is agreed to.

    Args:
        saver: The database.
        thread_id: The thread.
        screen: Where the user is asked, if somebody sits at it.
        trust: The user has agreed already.

    Raises:
        BadInputError: As `RunConfig.of_thread`; or the user does not agree, or nobody can be asked.
    """
    from ..run_config import RunConfig

    recipe, own = RunConfig.kept(saver, thread_id)
    reached = [] if own or trust else recipe.reaches()
    if not reached:
        return recipe
    why = f"the recipe of thread {thread_id!r} was not written by you on this machine, or was changed since"
    if not can_ask(screen):
        raise BadInputError(f"{why}; it would {', '.join(reached)}: if you trust whoever wrote it, add --trust-recipe")
    screen.line((f"{why}. It would:", "yellow"))
    for what in reached:
        screen.line(f"- {what}", indent=2)
    # All but a plain yes is a no, the end of the input too.
    if (typed_line(screen, "go on? [y/N] ") or "").strip().casefold() in ("y", "yes"):
        return recipe
    raise BadInputError("nothing was run")


def finish(
    screen: Screen, values: dict[str, Any], question: dict[str, Any] | None = None, *, thread_id: str, db: str
) -> None:
    """Print the result of a run, or what it waits for; one that failed ends the command with 1, and one whose answer
    was judged and not accepted with 3.

    Args:
        screen: Where to.
        values: Of the state.
        question: What a person is asked; the run goes on when that is answered.
        thread_id: The thread.
        db: Where it is kept.
    """
    data = outcome_data(values, thread_id=thread_id)
    if question is not None and db == "memory":
        raise RunStoppedError("nobody answered, and nothing of the run is kept")
    if question is not None:
        waiting = {**question, "answer_with": how_to_answer(question, thread_id=thread_id, db=db)}
        screen.result(
            {**data, "waiting": waiting},
            lambda screen: show_waiting(screen, question, thread_id=thread_id, db=db),
        )
        return
    screen.result(data, lambda screen: show_outcome(screen, values, thread_id=thread_id, db=db))
    if values.get("stop_reason") == "failed":
        hint = "nothing of it is kept" if db == "memory" else f"go on with: {command('resume', thread_id, db=db)}"
        raise RunStoppedError(f"thread {thread_id} failed after its first draft; {hint}")
    if values.get("stop_reason") not in (None, "accepted") and _judged(values):
        raise typer.Exit(UNACCEPTED)


def _judged(values: Mapping[str, Any]) -> bool:
    """Return whether somebody judges the last draft of a run: nobody does where all steps of a pipeline are its end."""
    from ...state.summary import run_options

    options = run_options(values.get("events") or [])
    return bool(options.get("asks", options.get("judge_last")))


def interrupted(thread_id: str, db: str, *, kept: bool) -> RunStoppedError:
    """Return the error that ends a command on Ctrl-C or SIGTERM."""
    return RunStoppedError(f"interrupted; {_how_to_resume(thread_id, db, kept=kept)}", exit_code=Stopping.exit_code())


def _how_to_resume(thread_id: str, db: str, *, kept: bool) -> str:
    if db == "memory" or not kept:
        return "nothing of it is kept"
    return f"thread {thread_id} is kept, go on with: {command('resume', thread_id, db=db)}"


def _error_line(error: Exception) -> str:
    from ...state.masking import masked

    return one_line(masked(f"{type(error).__name__}: {error}") if str(error) else type(error).__name__)[:500]
