"""Runs at the shell: a graph is run, shown as it happens, its result printed, and always left resumable. Internal."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import typer

from ...state.threads.answers import newest_question
from ..problems import BadInputError, ReaderGoneError, RunStoppedError, Stopping, bad_input, command
from ..views.console import LiveRun, Screen, one_line, show_requirements
from ..views.wording import STOP_WORDS, amount, money, reason_style, score_of, seconds, tokens_of
from .asking import ask_person, can_ask, how_to_answer, keep_edit, show_waiting, typed_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig

    from ...state import Thread
    from ...state.storage.index import RunRow
    from ..run_config import RunConfig

    Start: TypeAlias = Mapping[str, Any] | Callable[[], Any] | None

__all__ = [
    "RESULT_KEYS",
    "finish",
    "go_on",
    "outcome_data",
    "run_asking",
    "run_graph",
    "show_outcome",
    "sources_of",
    "trusted_recipe",
]

RESULT_KEYS = ("answer", "stop_reason", "rounds", "score", "accepted_by", "oracle", "requirements", "usage", "error")
STOPPED_FROM_OUTSIDE = 143
"""The exit code of a run that `redraft stop` ended: that of a SIGTERM, which asks for the same."""
UNACCEPTED = 3
"""The exit code of a run that came to its end with an answer that those who judge did not accept."""


def run_graph(
    graph: Any,
    start: Start,
    *,
    thread_id: str,
    recipe: RunConfig,
    screen: Screen,
    db: str,
    watch: type[LiveRun] = LiveRun,
    printed: set[int] | None = None,
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Run a thread to its end or to a question for a person, printing it as it happens.

    Args:
        graph: A compiled graph with a checkpointer.
        start: The task and limits of a new run, what `Thread.ready` says to go on with, or what answers a person's
            question. A callable is called for it, in a thread, once this process is the one that runs the thread.
        thread_id: The thread.
        recipe: Kept with the run.
        screen: Where progress goes.
        db: Named in what is said about resuming.
        watch: Prints what happens.
        printed: The rounds whose drafts are printed are added to it.

    Returns:
        The values of its state, and the question that it waits with.

    Raises:
        BadInputError: Somebody else runs the thread right now, or `start` makes no sense.
        RunStoppedError: Before the first draft the model raised, the run was interrupted, `redraft stop` asked it to
            stop, or nobody reads what it prints. The thread is kept.
    """
    from langgraph.errors import GraphDrained

    from ...state.threads.kind import compared
    from ...state.threads.lease import LeaseHolder

    config: RunnableConfig = {"configurable": {"thread_id": thread_id}, "metadata": recipe.metadata()}
    if callable(start):  # it is what `Thread` says to go on with
        config = compared(config)
    values: dict[str, Any] = {}
    interrupts: Sequence[Any] = ()

    async def follow() -> None:
        nonlocal values, interrupts
        async with AsyncExitStack() as stack:
            with bad_input():
                control = await stack.enter_async_context(LeaseHolder(graph.checkpointer).leased(thread_id))
                # Only now, since nobody else can change the thread any more.
                begun = await asyncio.to_thread(start) if callable(start) else start
            live = watch(screen, stack.enter_context(screen.thinking()), printed)
            # One stream of two kinds: progress to show, and the state, of which the last one is the result.
            async for mode, item in graph.astream(
                begun, config, stream_mode=["custom", "values"], durability="sync", control=control
            ):
                if mode == "custom":
                    live.item(item)
                    continue
                interrupts = item.pop("__interrupt__", ())
                values = item or values
                # Between steps, and not within one: what a step pays for is kept at its end only.
                if live.gone:
                    raise live.gone

    try:
        asyncio.run(follow())  # asynchronously, since Ctrl-C can then end a call that is under way
    # It is worded for the user already; the last clause would make a failed run of it.
    except BadInputError:
        raise
    except KeyboardInterrupt:
        saved = graph.checkpointer.get_tuple(config) is not None
        raise interrupted(thread_id, db, saved=saved) from None
    except GraphDrained as drained:
        hint = _how_to_resume(thread_id, db, saved=True)
        raise RunStoppedError(f"{drained.reason}; {hint}", exit_code=STOPPED_FROM_OUTSIDE) from None
    except ReaderGoneError as gone:
        if not graph.get_state(config).next:
            raise  # it had come to its end
        hint = _how_to_resume(thread_id, db, saved=True)
        raise RunStoppedError(f"stopped, since {gone}; {hint}", exit_code=gone.exit_code) from None
    except Exception as error:
        hint = _how_to_resume(thread_id, db, saved=graph.checkpointer.get_tuple(config) is not None)
        from ...state.masking import masked

        line = one_line(masked(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__))[:500]
        raise RunStoppedError(f"the run failed: {line}; {hint}") from error
    return values or dict(graph.get_state(config).values), newest_question(interrupts) if interrupts else None


def run_asking(
    graph: Any, start: Start, *, thread_id: str, recipe: RunConfig, screen: Screen, db: str
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Run a thread, asking whoever sits at the terminal wherever it waits for a person.

    Returns:
        The values of its state, and the question that it waits with: nobody is at a terminal, or whoever is leaves the
        answer for later.

    Raises:
        BadInputError: As `run_graph`; or the question was answered elsewhere before it was answered here. It says where
            a draft that was edited for it is kept.
        RunStoppedError: As `run_graph`.
    """
    printed: set[int] = set()
    reply: dict[str, Any] | None = None
    while True:
        try:
            values, question = run_graph(
                graph, start, thread_id=thread_id, recipe=recipe, screen=screen, db=db, printed=printed
            )
        except BadInputError as refused:
            raise BadInputError(f"{refused}{keep_edit(reply or {})}", details=refused.details) from refused
        if question is None or not can_ask(screen):
            return values, question
        try:
            reply = ask_person(screen, question, printed=question["round"] in printed)
        except KeyboardInterrupt:
            raise interrupted(thread_id, db, saved=True) from None
        if reply is None:
            return values, question
        from ...state import Thread

        # With round and person, so that it never answers a later question.
        start = partial(Thread(graph, thread_id).ready_answer, reply, at=question["round"], by=question["by"])


def go_on(
    saver: Any,
    thread_id: str,
    ready: Callable[[Thread], Any],
    *,
    screen: Screen,
    db: str,
    trust: bool = False,
    row: RunRow | None = None,
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Run a thread on with the graph of its recipe, and return the result of `run_asking`.

    Args:
        saver: The database.
        thread_id: The thread.
        ready: Returns the input to go on with: `Thread.ready`, or an answer by `Thread.ready_answer`.
        screen: Where progress goes.
        db: Named in what is said about resuming.
        trust: A recipe that somebody else wrote is followed without a question.
        row: Of the thread, where it was read already.

    Raises:
        BadInputError: The thread has no recipe, its recipe can't be built here or is somebody else's, somebody else
            runs the thread right now, or as `ready`.
        RunStoppedError: As `run_graph`.
    """
    from ...state import Thread

    recipe = trusted_recipe(saver, thread_id, screen=screen, trust=trust, row=row)
    with bad_input():
        thread = Thread(recipe.build(saver), thread_id)
    start = partial(ready, thread)
    return run_asking(thread.graph, start, thread_id=thread_id, recipe=recipe, screen=screen, db=db)


def trusted_recipe(saver: Any, thread_id: str, *, screen: Screen, trust: bool, row: RunRow | None = None) -> RunConfig:
    """Return the recipe of a thread, which the user wrote on this machine, reaches nothing, or is agreed to.

    Args:
        saver: The database.
        thread_id: The thread.
        screen: Where the user is asked, if somebody sits at it.
        trust: The user has agreed already.
        row: Of the thread, where it was read already.

    Raises:
        BadInputError: As `RunConfig.of_thread`; or the user does not agree, or nobody can be asked.
    """
    from ..run_config import RunConfig

    recipe, own = RunConfig.kept(saver, thread_id, row)
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
    screen.result(
        data, lambda screen: show_outcome(screen, values, data.get("sources", ()), thread_id=thread_id, db=db)
    )
    if values.get("stop_reason") == "failed":
        hint = "nothing of it is kept" if db == "memory" else f"go on with: {command('resume', thread_id, db=db)}"
        raise RunStoppedError(f"thread {thread_id} failed after its first draft; {hint}")
    if values.get("stop_reason") not in (None, "accepted") and _judged(values):
        raise typer.Exit(UNACCEPTED)


def _judged(values: Mapping[str, Any]) -> bool:
    """Tell if somebody judges the last draft of a run: nobody does where all steps of a pipeline are its end."""
    from ...state.summary import run_options

    options = run_options(values.get("events") or [])
    return bool(options.get("asks", options.get("judge_last")))


def interrupted(thread_id: str, db: str, *, saved: bool) -> RunStoppedError:
    """Return the error that ends a command on Ctrl-C or SIGTERM."""
    return RunStoppedError(f"interrupted; {_how_to_resume(thread_id, db, saved=saved)}", exit_code=Stopping.exit_code())


def _how_to_resume(thread_id: str, db: str, *, saved: bool) -> str:
    if db == "memory" or not saved:
        return "nothing of it is kept"
    return f"thread {thread_id} is kept, go on with: {command('resume', thread_id, db=db)}"


BESIDES = ("self_critique", "hidden")
"""What some commands find out beside the result."""


def _show_hidden(screen: Screen, values: Mapping[str, Any]) -> None:
    """Print what the checks said that no writer was told of."""
    accepted = "accepted" if values.get("stop_reason") == "accepted" else "not accepted"
    for one in values["hidden"]:
        says = "passed" if one["accepted"] else "failed"
        screen.line(("hidden ", "bold"), f"{accepted} by the checks that it could see, {says} {one['check']!r}")


def outcome_data(values: Mapping[str, Any], *, thread_id: str) -> dict[str, Any]:
    """Return the result of a run as JSON holds it."""
    from ...state.typed_answer import structured_response

    data = {"thread_id": thread_id, "task": values.get("task") or "", **{key: values.get(key) for key in RESULT_KEYS}}
    if sources := sources_of(values):
        data["sources"] = sources
    data |= structured_response(values.get("events") or [])
    return {**data, **{key: values[key] for key in BESIDES if key in values}}


def show_outcome(
    screen: Screen, values: Mapping[str, Any], sources: Sequence[Mapping[str, Any]], *, thread_id: str, db: str
) -> None:
    """Print the answer with the sources that it cites, why the run stopped, and what it cost."""
    reason = values.get("stop_reason")
    usage = values.get("usage") or {}
    screen.line("")
    screen.line(("answer", "bold"))
    screen.block(values.get("answer") or "(none: nothing was drafted)", indent=2)
    for source in sources:
        places = [
            source["source"] or "unnamed source",
            *(f"{key} {source[key]}" for key in ("page", "line") if key in source),
        ]
        address = f" · {source['url']}" if "url" in source else ""
        screen.line((f"  [{source['number']}] {', '.join(places)}{address}", "dim"))
    screen.line("")
    why = values.get("error") or _why(values) or STOP_WORDS.get(reason, "")
    by = f" by {values['accepted_by']}" if reason == "accepted" else "" if reason is None else f": {why}"
    screen.line((str(reason or "unfinished"), f"bold {reason_style(reason)}"), by)
    facts = [amount(values.get("rounds") or 0, "round"), f"score {score_of(values.get('score'))}"]
    if usage:
        facts += [tokens_of(usage), money(usage["cost_usd"]), seconds(usage["seconds"])]
    screen.line((" · ".join(facts), "dim"))
    show_requirements(screen, values.get("requirements") or ())
    if "hidden" in values:
        _show_hidden(screen, values)
    if db != "memory":
        screen.line(("thread ", "dim"), thread_id, (f" · {command('history', thread_id, db=db)}", "dim"))


def _why(values: Mapping[str, Any]) -> str:
    """Return the record's own words on the end of a run without rounds, such as a pipeline's, or without a decision."""
    events = values.get("events") or []
    if values.get("stop_reason") not in ("max_rounds", "undecided") or not events or events[-1]["kind"] != "verdict":
        return ""
    text: str = events[-1]["text"].rstrip(".")
    return text[:1].lower() + text[1:]


def sources_of(values: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the sources that the answer cites."""
    # What reads a record is imported with it.
    from ...state.retrievals import cited_sources

    return cited_sources(values.get("answer") or "", values.get("events") or [])
