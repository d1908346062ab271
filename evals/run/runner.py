"""The runner of a method on a dataset: problems worked on at once within rate limits, one result each. Internal."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import aclosing
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.tracers.context import register_configure_hook

from ...graphs.many import BatchProgress, GivenUpError, Outcome, run_one
from ...nodes.arguments import checked_count
from ...nodes.runtime.pace import Pace, WatchedRun, at_pace
from ...state.collector import tuned_gc
from .result_record import ResultRecord, failed_record, result_record

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from langchain_core.outputs import LLMResult

    from ..datasets.dataset import Dataset, Problem
    from .methods import Method
    from .run_folder import ResultFile

__all__ = ["RATE_LIMITS", "GivenUpError", "Outcome", "Progress", "RateLimits", "run_all", "run_method", "run_problem"]


async def run_problem(
    method: Method, task: str, *, limits: Mapping[str, Any], thread_id: str, pace: Pace | None = None
) -> Outcome:
    """Run a problem and return its outcome. A stored thread goes on from its checkpoint, and earlier costs count.

    Args:
        method: Its graph has a checkpointer where runs are to be resumed.
        task: What the graph is given; the gold answer is neither known nor needed here.
        limits: Budgets and rounds.
        thread_id: Where it is worked on.
        pace: Is told what becomes of its calls. Where a server asked for fewer, what failed is tried once more.

    Raises:
        ConnectionError: The database was lost, or is full.
    """
    # Without any, those that the graph was built with hold.
    given = {"task": task, **({"limits": dict(limits)} if limits else {})}
    metadata = {"redraft_preset": method.name}
    watched = None if pace is None else WatchedRun(pace)
    config: Any = {"metadata": metadata, **({"callbacks": [watched]} if watched else {})}
    outcome = await run_one(method.graph, given, thread_id=thread_id, config=config)
    if outcome["error"] and watched and watched.refused:
        return await run_one(method.graph, given, thread_id=thread_id, config=config)
    return outcome


def _scored(outcome: Outcome, dataset: Dataset, problem: Problem, *, oracle: bool = False) -> ResultRecord:
    """Return the result of a problem. The gold answer is looked at here, after the run, and nowhere before.

    Args:
        outcome: What became of it.
        dataset: Scores it.
        problem: The problem.
        oracle: Whether the method knows the gold answers.
    """
    named: Any = {
        "question_id": problem.id,
        "question": problem.task,
        "ground_truth": dataset.shown_gold(problem),
        "gold": dataset.plain_gold(problem),
    }
    if outcome["output"] is None:
        message = outcome["error"] or "it came to no answer"
        return failed_record(message, **named, usage=outcome["usage"], seconds=outcome["seconds"], oracle=oracle)
    return result_record(
        outcome["output"],
        read_answer=dataset.read_answer,
        is_correct=lambda solution: dataset.verdict(problem, solution),
        **named,
    )


class Progress(BatchProgress):
    """The progress of a method on a dataset."""

    def add(self, record: ResultRecord, *, known: bool = False) -> None:
        """Count a problem."""
        self.count(
            good=bool(record.is_correct),
            failed=record.error is not None,
            tokens=record.total_tokens,
            cost_usd=record.cost_usd,
            known=known,
        )


async def run_method(
    method: Method,
    dataset: Dataset,
    results: ResultFile,
    *,
    concurrency: int | None = None,
    rate_limits: RateLimits | None = None,
    limits: Mapping[str, Any] | None = None,
    run_id: str,
    on_progress: Callable[[Progress, ResultRecord | None], None] = lambda *_: None,
) -> Progress:
    """Run every problem that has no result yet, and write each result as it comes.

    A problem whose thread is stored goes on from its checkpoint, and what it paid for before counts. When this is
    cancelled, what is under way stays in its thread.

    Args:
        method: Its graph has a checkpointer where runs are to be resumed.
        dataset: The problems.
        results: Open; holds what was finished before.
        concurrency: How many problems are worked on at once, 1 or more. Default: it finds its level, as `run_many`.
        rate_limits: For all of them together.
        limits: Budgets for each problem; the method's rounds are put over them.
        run_id: Distinguishes the threads of this run.
        on_progress: Called with the progress after each problem, and once at the beginning.

    Raises:
        ValueError: `concurrency` is below 1.
        GivenUpError: The first problems all failed.
    """
    checked_count("concurrency", 1 if concurrency is None else concurrency, least=1)
    given, pace = {**(limits or {}), **method.limits}, Pace(concurrency)

    async def solve(thread_id: str, task: str) -> Outcome:
        # A context variable belongs to a task, so each worker's task sets it.
        RATE_LIMITS.set(rate_limits)
        return await run_problem(method, task, limits=given, thread_id=thread_id, pace=pace)

    with tuned_gc():
        return await run_all(
            dataset,
            results,
            solve,
            run_id=run_id,
            pace=pace,
            oracle=method.oracle,
            on_progress=on_progress,
        )


async def run_all(
    dataset: Dataset,
    results: ResultFile,
    solve: Callable[[str, str], Awaitable[Outcome]],
    *,
    run_id: str,
    pace: Pace,
    oracle: bool = False,
    on_progress: Callable[[Progress, ResultRecord | None], None],
) -> Progress:
    """Solve every problem that has no result yet, so many at once, and write each result as it comes.

    Args:
        dataset: The problems; it scores the outcomes.
        results: Open; holds what was finished before.
        solve: Runs a task in the thread of this id.
        run_id: Distinguishes the threads of this run.
        pace: How many problems are worked on at once.
        oracle: Whether the method knows the gold answers.
        on_progress: Called with the progress after each problem, and once at the beginning.

    Raises:
        GivenUpError: The first problems all failed.
    """
    progress = Progress(len(dataset.problems))
    for problem in dataset.problems:
        if problem.id in results.records:
            progress.add(results.records[problem.id], known=True)
    on_progress(progress, None)
    waiting = deque(problem for problem in dataset.problems if problem.id not in results.records)

    async def work(problem: Problem) -> ResultRecord:
        outcome = await solve(f"{run_id}/{problem.id}", problem.task)
        # Hidden tests run in the sandbox, which would hold up all other problems here.
        return await asyncio.to_thread(_scored, outcome, dataset, problem, oracle=oracle)

    async with aclosing(at_pace(pace, waiting, work)) as records:
        async for record in records:
            results.add(record)
            progress.add(record)
            progress.at_once = pace.limit
            on_progress(progress, record)
            if progress.hopeless:
                fresh = progress.done - progress.known
                raise GivenUpError(f"the first {fresh} problems all failed; the last one: {record.error}")
    return progress


class RateLimits(AsyncCallbackHandler):
    """Makes each call of a model below it wait for its turn, while it is the current `RATE_LIMITS`.

    How many tokens a call takes is known only when it has answered: what is above the rate delays the next ones.

    Args:
        rpm: Requests a minute, or `None` for any number.
        tpm: Tokens a minute, in and out together, or `None` for any number.

    Raises:
        ValueError: At build: a rate is not above 0.
        ImportError: At build: the extra `evals` is not installed.
    """

    # Otherwise LangChain logs what a callback raises, and the call goes on unlimited.
    raise_error = True

    def __init__(self, *, rpm: float | None = None, tpm: float | None = None) -> None:
        try:
            from aiolimiter import AsyncLimiter
        except ImportError as error:
            raise ImportError(f'rate limits need an extra: pip install ".[evals]" in a checkout ({error})') from None
        for name, rate in (("rpm", rpm), ("tpm", tpm)):
            if rate is not None and not rate > 0:
                raise ValueError(f"{name} must be above 0, not {rate!r}")
        # One at once where less than one a minute is allowed: the bucket must hold a whole request.
        self._requests = None if rpm is None else AsyncLimiter(max(rpm, 1), max(60.0, 60 / rpm))
        self._tokens = None if tpm is None else AsyncLimiter(tpm, 60)

    async def on_chat_model_start(self, serialized: Any, messages: Any, **_: Any) -> None:
        """Wait for the turn of a call."""
        if self._requests is not None:
            await self._requests.acquire()

    async def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        """Take what the call used out of the minute's tokens; where they are gone, wait."""
        if self._tokens is None:
            return
        message = getattr(response.generations[0][0], "message", None) if response.generations else None
        used = message.usage_metadata if isinstance(message, AIMessage) else None
        left = float(used["total_tokens"]) if used else 0.0
        while left > 0:
            # A limiter refuses more at once than it holds, so a long call is taken in parts.
            part = min(left, self._tokens.max_rate)
            await self._tokens.acquire(part)
            left -= part


RATE_LIMITS: ContextVar[RateLimits | None] = ContextVar("redraft_rate_limits", default=None)
# From here on LangChain adds the current limits to every call below, an agent's and a critic's too.
register_configure_hook(RATE_LIMITS, inheritable=True)
