"""Many tasks on one graph: as many at once as its models bear, each result kept as it comes. Internal."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import sqlite3
import sys
from collections import deque
from contextlib import AbstractContextManager, aclosing, nullcontext
from itertools import count
from pathlib import Path
from queue import Empty
from time import perf_counter
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from ..models.hedging import HEDGES, Hedges
from ..nodes.runtime.batch import Batch, BatchProgress, GivenUpError, ManyResult, task_in
from ..nodes.runtime.pace import Pace, WatchedRun, at_pace
from ..state.collector import tuned_gc
from ..state.dual import finish
from ..state.masking import masked
from ..state.storage.journal import UnkeptReplyError
from ..state.storage.lease_keeper import LOOK_S
from ..state.summary import usage_total
from ..state.threads.kind import compared, kind_of
from ..state.threads.thread import BusyThreadError, Thread
from ..state.usage import NO_USAGE, Usage, add_usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["BatchProgress", "GivenUpError", "ManyResult", "Outcome", "arun_many", "run_many", "run_one"]

LOG = logging.getLogger("redraft")
WAITS = "it waits for a person: answer its thread, and start again"


class Outcome(TypedDict):
    """A run that came back, or the error that ended it. JSON can hold it."""

    output: dict[str, Any] | None
    """The graph's output; `None` where it raised."""
    error: str | None
    """The error's type and message."""
    usage: Usage
    """Tokens, dollars and calls, also where it raised."""
    seconds: float
    """Seconds that it took here; time before a resume is not counted."""


async def run_one(graph: Any, given: Mapping[str, Any], *, thread_id: str, config: Mapping[str, Any]) -> Outcome:
    """Run a graph and return its outcome. A stored thread goes on from its checkpoint, and earlier costs count.

    A thread that another process runs is waited for. One that was killed on another machine, or in a container that was
    started again, holds its thread until its lease expires.

    Args:
        graph: It has a checkpointer where runs are to be resumed.
        given: Its input.
        thread_id: Where it is worked on.
        config: What else its config holds.

    Raises:
        ConnectionError: The database was lost, or is full. That says nothing about the task, so it is no outcome.
    """
    start = perf_counter()
    config = {**config, "configurable": {"thread_id": thread_id}}
    try:
        for looked in count():
            try:
                output = await _run(graph, given, thread_id, config)
                break
            except BusyThreadError as error:
                if not error.elsewhere:
                    raise
                if not looked:
                    LOG.warning("%s; waiting until that has ended, or its lease has expired", error)
                await asyncio.sleep(LOOK_S)
    except Exception as error:
        # A database that is lost or full says nothing about the task, so it must not count as a failure of it.
        if _of_storage(error):
            raise ConnectionError(f"the checkpoints can't be kept: {error}") from error
        events = (await graph.aget_state(config)).values.get("events") if graph.checkpointer else None
        # It lands in files of results, which are passed around and never encrypted.
        message = masked(f"{type(error).__name__}: {error}")
        unrecorded: Usage = getattr(error, "redraft_usage", NO_USAGE)
        used = add_usage([usage_total(events or []), unrecorded])
        return Outcome(output=None, error=message, usage=used, seconds=perf_counter() - start)
    return Outcome(output=output, error=None, usage=output.get("usage") or NO_USAGE, seconds=perf_counter() - start)


async def _run(graph: Any, given: Mapping[str, Any], thread_id: str, config: Mapping[str, Any]) -> dict[str, Any]:
    graph_input: Any = given
    if graph.checkpointer and await graph.checkpointer.aget_tuple(config) is not None:
        graph_input, config = await Thread(graph, thread_id).aready(), compared(config)  # type: ignore[arg-type]
    # A call that was paid for is on the disk before the next one begins.
    return dict(await graph.ainvoke(graph_input, config, durability="sync" if graph.checkpointer else None))


def _of_storage(error: Exception) -> bool:
    """Return True if an error comes from the database of the threads."""
    postgres = sys.modules.get("psycopg")  # not imported by runs on SQLite
    return isinstance(error, (UnkeptReplyError, sqlite3.Error)) or bool(postgres and isinstance(error, postgres.Error))


async def arun_many(
    graph: Any,
    tasks: Iterable[str | Mapping[str, Any]],
    *,
    out: str | Path | None = None,
    concurrency: int | None = None,
    limits: Mapping[str, Any] | None = None,
    hedge: bool = False,
    on_progress: Callable[[BatchProgress, ManyResult | None], None] = lambda *_: None,
) -> list[ManyResult]:
    """Run a graph on many tasks as `run_many` does, in the caller's event loop.

    Args:
        graph: As in `run_many`, like the rest.
        tasks: What to run it on.
        out: Where results are kept.
        concurrency: Runs at once.
        limits: Of each run.
        hedge: Whether slow calls are asked twice.
        on_progress: Called as results come.

    Raises:
        ValueError: As `run_many`, like the other errors.

    Example:
        >>> import asyncio
        >>> from redraft import arun_many, build_refine_graph, uses_words
        >>> from redraft.models import ScriptedModel
        >>> graph = build_refine_graph(ScriptedModel(["Rain."]), verifiers=[uses_words("rain")])
        >>> asyncio.run(arun_many(graph, ["Write about rain."]))[0]["answer"]
        'Rain.'
    """
    given: Any = {"out": out, "concurrency": concurrency, "limits": limits, "on_progress": on_progress}
    with _entered(graph) as built, Batch(tasks, **given, made_by=_made_by(built)) as batch:
        await _work(built, batch.todo, batch.name, Pace(concurrency), batch.add, hedge=hedge)
        return batch.results()


def run_many(
    graph: Any,
    tasks: Iterable[str | Mapping[str, Any]],
    *,
    out: str | Path | None = None,
    concurrency: int | None = None,
    processes: int = 1,
    limits: Mapping[str, Any] | None = None,
    hedge: bool = False,
    on_progress: Callable[[BatchProgress, ManyResult | None], None] = lambda *_: None,
) -> list[ManyResult]:
    """Run a graph on many tasks, as many at once as its models bear, and return their results in order.

    With `out` each result is on the disk as soon as it is there. Started again with the same tasks it goes on: what has
    a result is not run again, what failed is, and with a checkpointer a run that was cut off goes on where it was. What
    failed since a server asked for fewer calls is tried once more in any case, after the others.

    Args:
        graph: A compiled graph; or a function without arguments that returns one, or that is a context manager which
            gives one and closes its saver.
        tasks: Texts, or inputs of the graph; `id` in one names it, and is no part of the input.
        out: A JSONL file, one `ManyResult` a line, in the order in which they come.
        concurrency: Runs at once in each process. Default: it finds its own level, which halves when a server asks for
            fewer calls, and grows while that brings more of them a second.
        processes: With several, `graph` is a function that can be imported, each process calls it, and the saver is one
            that they share: a SQLite file or PostgreSQL.
        limits: Budgets and rounds of each run.
        hedge: Whether a call of an `openai:` or `http://` model that takes 1.5 times as long as 95% of those before it
            is asked again, and the first reply taken: 5% of all calls at most. The other is cancelled, and counted too.
        on_progress: Called with the progress, and the result that came; once at the beginning.

    Returns:
        A result for each task. One that raised has its `error`, and stops no other.

    Raises:
        ValueError: A task is none, an id stands twice, or `out` holds something else, or results of another graph
            (beside it, `out.run` says of which).
        GivenUpError: The first tasks all failed.
        RuntimeError: Another process writes `out`; or one of several ended, killed say: start again to go on.
        ConnectionError: The database was lost, or is full.
        OSError: There is no room for a result in `out`, which holds whole lines all the same.

    Example:
        >>> from redraft import build_refine_graph, run_many, uses_words
        >>> from redraft.models import ScriptedModel
        >>> graph = build_refine_graph(ScriptedModel(["Rain."] * 2), verifiers=[uses_words("rain")])
        >>> [result["stop_reason"] for result in run_many(graph, ["Write about rain.", "And again."])]
        ['accepted', 'accepted']
    """
    given: Any = {"out": out, "concurrency": concurrency, "limits": limits, "on_progress": on_progress}
    if processes == 1:
        return finish(arun_many(graph, tasks, hedge=hedge, **given))
    if processes < 1 or hasattr(graph, "ainvoke") or not callable(graph):
        raise ValueError("several processes each build the graph: give a function that can be imported, not a graph")
    with _entered(graph) as built:
        made_by = _made_by(built)
    with Batch(tasks, **given, made_by=made_by) as batch:
        _work_apart(graph, batch, processes, concurrency, hedge=hedge)
        return batch.results()


def _made_by(graph: Any) -> Mapping[str, Any]:
    return kind_of(graph).fingerprint if hasattr(graph, "channels") else {}


def _entered(graph: Any) -> AbstractContextManager[Any]:
    """Return what gives the graph, and closes what it needs."""
    built = graph if hasattr(graph, "ainvoke") or not callable(graph) else graph()
    if not isinstance(built, AbstractContextManager) and not hasattr(built, "checkpointer"):
        raise TypeError(f"a compiled graph, or a function that returns one, is run on many tasks, not {built!r:.200}")
    return built if isinstance(built, AbstractContextManager) else nullcontext(built)


async def _work(
    graph: Any,
    todo: Mapping[str, Any],
    name: str,
    pace: Pace,
    tell: Callable[[ManyResult, int, int], None],
    *,
    hedge: bool,
) -> None:
    """Run the tasks, and tell of each result as it comes."""
    hedges = Hedges()
    before = HEDGES.set(hedges if hedge else None)
    waiting = deque[tuple[str, Any, Usage | None]]((*one, None) for one in todo.items())
    some_worked = False

    async def one(job: tuple[str, Any, Usage | None]) -> ManyResult | None:
        task_id, given, earlier = job
        thread_id, watched = f"{name}/{task_id}", WatchedRun(pace)
        outcome = await run_one(graph, given, thread_id=thread_id, config={"callbacks": [watched]})
        output = outcome["output"] or {}
        error = outcome["error"] or output.get("error") or (WAITS if "__interrupt__" in output else None)
        if error and watched.refused and some_worked and earlier is None:
            waiting.append((task_id, given, outcome["usage"]))  # once more, after the others
            return None
        # A thread knows what it cost before.
        used = [outcome["usage"]] if earlier is None or graph.checkpointer else [earlier, outcome["usage"]]
        return _result(task_id, thread_id, given, {**outcome, "usage": add_usage(used), "error": error})

    try:
        with tuned_gc():
            async with aclosing(at_pace(pace, waiting, one)) as results:
                async for result in results:
                    if result is not None:
                        some_worked = some_worked or result["error"] is None
                        tell(result, pace.limit, hedges.twice)
    finally:
        HEDGES.reset(before)


def _result(task_id: str, thread_id: str, given: Mapping[str, Any], outcome: Outcome) -> ManyResult:
    output = outcome["output"] or {}
    return ManyResult(
        id=task_id,
        thread_id=thread_id,
        task=task_in(given),
        answer=output.get("answer") or "",
        stop_reason=output.get("stop_reason"),
        rounds=output.get("rounds") or 0,
        score=output.get("score"),
        accepted_by=output.get("accepted_by"),
        usage=outcome["usage"],
        seconds=round(outcome["seconds"], 3),
        error=outcome["error"],
    )


def _work_apart(
    graph: Callable[[], Any], batch: Batch, processes: int, concurrency: int | None, *, hedge: bool
) -> None:
    """Run the tasks of a batch in several processes, which build the graph each."""
    context = multiprocessing.get_context("spawn")
    told: Any = context.Queue()
    tasks = [*batch.todo.items()]
    shares = [dict(tasks[at::processes]) for at in range(min(processes, len(tasks)))]
    workers = [
        context.Process(
            target=_apart, args=(graph, share, batch.name, concurrency, told), kwargs={"hedge": hedge}, daemon=True
        )
        for share in shares
    ]
    levels: dict[int, tuple[int, int]] = {}
    try:
        for worker in workers:
            worker.start()
        working = len(workers)
        while working:
            try:
                number, result, level = told.get(timeout=1)
            except Empty:
                if dead := [one for one in workers if one.exitcode]:
                    raise RuntimeError(
                        f"a process of the batch ended with {dead[0].exitcode}; start again to go on"
                    ) from None
                continue
            if isinstance(result, Exception):
                raise result
            working -= result is None
            if result is not None:
                levels[number] = level
                batch.add(result, *map(sum, zip(*levels.values(), strict=True)))
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()


def _apart(
    graph: Callable[[], Any], share: dict[str, Any], name: str, concurrency: int | None, told: Any, *, hedge: bool
) -> None:
    """Work on a share of the tasks in a process of its own."""
    number, parent = multiprocessing.current_process().pid, multiprocessing.parent_process()

    async def work() -> None:
        with _entered(graph) as built:
            working = asyncio.create_task(
                _work(
                    built,
                    share,
                    name,
                    Pace(concurrency),
                    lambda result, *level: told.put((number, result, level)),
                    hedge=hedge,
                )
            )
            while not working.done():
                await asyncio.wait({working}, timeout=1)
                if parent is not None and not parent.is_alive():  # nobody would keep what is paid for
                    os._exit(1)
            await working

    try:
        asyncio.run(work())
        told.put((number, None, 0))
    except KeyboardInterrupt:  # the caller was interrupted too
        return
    except Exception as error:
        told.put((number, RuntimeError(f"{type(error).__name__}: {error}"), 0))
