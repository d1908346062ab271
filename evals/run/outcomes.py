"""What became of one problem, as plain data: run in one place, scored in another, where the gold answers are."""

from __future__ import annotations

import sqlite3
import sys
from time import perf_counter
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from ...state.masking import masked
from ...state.storage.journal import UnkeptReplyError
from ...state.summary import usage_total
from ...state.threads.thread import Thread
from .records import failed_record, result_record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...state.usage import Usage
    from ..datasets.problems import Dataset, Problem
    from .methods import Method
    from .records import ResultRecord

__all__ = ["Outcome", "run_problem", "scored"]


class Outcome(TypedDict):
    """A run that came back, or the error that ended it. JSON can hold it."""

    output: dict[str, Any] | None
    """What the graph returned; `None` where it raised."""
    error: str | None
    """The error's type and message."""
    usage: Usage
    """What it cost, also where it raised."""
    seconds: float
    """How long it took here; time before a resume is not counted."""


async def run_problem(method: Method, task: str, *, limits: Mapping[str, Any], thread_id: str) -> Outcome:
    """Return what became of a problem. A thread that is stored goes on from its checkpoint; what it paid for counts.

    Args:
        method: Its graph has a checkpointer where runs are to be resumed.
        task: What the graph is given; the gold answer is neither known nor needed here.
        limits: Budgets and rounds.
        thread_id: Where it is worked on.

    Raises:
        ConnectionError: The database was lost, or is full. That says nothing about the problem, so it is no outcome.
    """
    start = perf_counter()
    config: Any = {"configurable": {"thread_id": thread_id}, "metadata": {"redraft_preset": method.name}}
    graph: Any = method.graph
    try:
        given: Any = {"task": task, "limits": dict(limits)}
        if graph.checkpointer and await graph.checkpointer.aget_tuple(config) is not None:
            given = await Thread(graph, thread_id).aready()
        # A call that was paid for is on the disk before the next one begins.
        output = dict(await graph.ainvoke(given, config, durability="sync" if graph.checkpointer else None))
    except Exception as error:
        if _of_storage(error):
            raise ConnectionError(f"the checkpoints can't be kept: {error}") from error
        events = (await graph.aget_state(config)).values.get("events") if graph.checkpointer else None
        said = masked(f"{type(error).__name__}: {error}")
        return Outcome(output=None, error=said, usage=usage_total(events or []), seconds=perf_counter() - start)
    return Outcome(output=output, error=None, usage=output["usage"], seconds=perf_counter() - start)


def _of_storage(error: Exception) -> bool:
    """Return whether an error comes from where threads are kept."""
    postgres = sys.modules.get("psycopg")  # not imported by runs on SQLite
    return isinstance(error, (UnkeptReplyError, sqlite3.Error)) or bool(postgres and isinstance(error, postgres.Error))


def scored(outcome: Outcome, dataset: Dataset, problem: Problem, *, oracle: bool = False) -> ResultRecord:
    """Return the result of a problem. The gold answer is looked at here, after the run, and nowhere before.

    Args:
        outcome: What became of it.
        dataset: Scores it.
        problem: The problem.
        oracle: Whether the method knows the gold answers.
    """
    named: Any = {"question_id": problem.id, "question": problem.task, "ground_truth": dataset.shown_gold(problem)}
    if outcome["output"] is None:
        said = outcome["error"] or "it came to no answer"
        return failed_record(said, **named, usage=outcome["usage"], seconds=outcome["seconds"], oracle=oracle)
    return result_record(
        outcome["output"],
        read_answer=dataset.read_answer,
        is_correct=lambda solution: dataset.is_correct(problem, solution),
        **named,
    )
