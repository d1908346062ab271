"""Prometheus metrics of runs and calls, counted when each ends: of all callers, and of each by itself. Internal."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request, Response
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from ...state import STOP_REASONS, Event, Usage
from ...state.stopping import rounds_allowed
from ...state.summary import attempts, current_run, summary_of
from ...state.usage import add_usage
from ..engine.engine import Engine
from ..engine.ownership import LOCAL
from ..engine.runs import Caller, Run
from .guards import OPERATOR, KnownCaller

__all__ = ["MetricsByCaller", "RunMetrics", "router"]

SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900)
GAINS = (0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1)
THREADS_REMEMBERED = 10_000

router = APIRouter()


class RunMetrics:
    """Counts the runs of one server, in a registry of its own.

    Args:
        engine: Whose queue is shown; `None` shows none.
    """

    def __init__(self, engine: Engine | None) -> None:
        # Not the library's global one, in which a second server of this process would clash with the first.
        self.registry = CollectorRegistry()
        # How many events of a thread were counted: a run that goes on with it pays for what came after.
        self._counted: OrderedDict[str, int] = OrderedDict()

        def counter(name: str, what: str, *labels: str) -> Counter:
            return Counter(f"redraft_{name}", what, ["assistant", *labels], registry=self.registry)

        def histogram(name: str, what: str, buckets: Sequence[float]) -> Histogram:
            return Histogram(f"redraft_{name}", what, ["assistant"], buckets=buckets, registry=self.registry)

        self._runs = counter(
            "runs", "Runs that ended, by stop reason, or by status where they gave no answer.", "ended"
        )
        self._refined = counter("refined_runs", "Runs that ended with an answer after at least one revision.")
        self._early = counter("early_terminations", "Runs that were done before their rounds were used up.")
        self._rounds = counter("rounds", "Revisions.")
        self._calls = counter("model_calls", "Model calls, those that failed too, whatever made them.")
        self._tokens = counter("tokens", "Tokens of all model calls.", "direction")
        self._cost = counter("cost_usd", "Dollars of the calls whose price is known.")
        self._unpriced = counter("unpriced_runs", "Runs whose cost is not known.")
        self._gain = histogram("quality_improvement", "Score of the answer less that of the first draft.", GAINS)
        self._refining = histogram(
            "refinement_overhead_seconds", "Seconds in calls after the first draft: judging and revising.", SECONDS
        )
        self._serving = histogram("server_overhead_seconds", "Seconds of a run that were spent in no call.", SECONDS)
        self._latency = histogram("run_seconds", "Seconds by the clock from request to end.", SECONDS)
        self._waiting = histogram("run_wait_seconds", "Seconds that a run waited for its turn.", SECONDS)
        self._engine = engine
        if engine is None:
            return
        self._queue = Gauge(
            "redraft_queue_length",
            "Runs that wait for their turn, in whichever process of the database they were asked for.",
            registry=self.registry,
        )
        Gauge("redraft_runs_under_way", "Runs that are under way.", registry=self.registry).set_function(
            lambda: engine.queue.running
        )

    async def count_queue(self) -> None:
        """Look how many runs wait."""
        if self._engine is not None:
            self._queue.set(await self._engine.queue.queued())

    def called(self, run: Run, used: Usage) -> None:
        """Count a call of a run: when it is made, since a call may outlive the run that was cancelled meanwhile."""
        self._calls.labels(run.assistant).inc(used["calls"])
        self._tokens.labels(run.assistant, "input").inc(used["input_tokens"])
        self._tokens.labels(run.assistant, "output").inc(used["output_tokens"])
        if used["cost_usd"] is not None:
            self._cost.labels(run.assistant).inc(used["cost_usd"])

    def finished(self, run: Run, output: Mapping[str, Any] | None) -> None:
        """Count a run that has ended.

        Args:
            run: The run.
            output: What its graph gave, or `None`.
        """
        output = output or {}
        events: list[Event] = output.get("events") or []
        reason = output.get("stop_reason") if run.status == "success" else None
        # Known words only: what a state holds can be any text, and each new label is kept for ever.
        ended = reason if reason in STOP_REASONS else run.status
        self._runs.labels(run.assistant, ended).inc()
        end = run.ended_at or time.time()
        begin = run.started_at or end
        self._latency.labels(run.assistant).observe(max(0.0, end - run.submitted_at))
        self._waiting.labels(run.assistant).observe(max(0.0, begin - run.submitted_at))
        self._count_usage(run, events, seconds=end - begin)
        if reason in STOP_REASONS:
            self._count_refinement(run, output, events)

    def _count_usage(self, run: Run, events: list[Event], *, seconds: float) -> None:
        counted = self._counted.pop(run.thread_id, None)
        if not run.stateless and events:
            self._counted[run.thread_id] = len(events)
            if len(self._counted) > THREADS_REMEMBERED:
                self._counted.popitem(last=False)
        fresh = current_run(events) if counted is None or counted > len(events) else events[counted:]
        name = run.assistant
        self._rounds.labels(name).inc(sum(event["kind"] == "revision" for event in fresh))
        if run.used["cost_usd"] is None:
            self._unpriced.labels(name).inc()
        if events:
            in_calls = add_usage(event["usage"] for event in fresh)["seconds"]
            self._serving.labels(name).observe(max(0.0, seconds - in_calls))

    def _count_refinement(self, run: Run, output: Mapping[str, Any], events: list[Event]) -> None:
        name = run.assistant
        rounds = output.get("rounds") or 0
        if rounds:
            self._refined.labels(name).inc()
        limits: Mapping[str, Any] = next((event["limits"] for event in reversed(events) if event.get("limits")), {})
        if output["stop_reason"] in ("accepted", "undecided", "no_progress") and rounds < rounds_allowed(limits):
            self._early.labels(name).inc()
        drafts = attempts(events)
        best = summary_of(events).answer
        if best and best.score is not None and drafts[0].score is not None:
            self._gain.labels(name).observe(best.score - drafts[0].score)
        task = current_run(events)
        drafted = next((at for at, event in enumerate(task) if event["kind"] == "draft"), len(task))
        self._refining.labels(name).observe(add_usage(event["usage"] for event in task[drafted + 1 :])["seconds"])


class MetricsByCaller:
    """The metrics of all callers together, and of each by itself.

    Args:
        engine: Of the server.
    """

    def __init__(self, engine: Engine) -> None:
        self.whole = RunMetrics(engine)
        self._own: dict[Caller, RunMetrics] = {}

    def called(self, run: Run, used: Usage) -> None:
        """Count a call, as `RunMetrics.called`; in whatever thread it was made."""
        for metrics in {self.whole, self.of(run.caller)}:
            metrics.called(run, used)

    def finished(self, run: Run, output: Mapping[str, Any] | None) -> None:
        """Count a run that has ended, as `RunMetrics.finished`."""
        for metrics in {self.whole, self.of(run.caller)}:
            metrics.finished(run, output)

    def of(self, caller: Caller) -> RunMetrics:
        """Return the metrics that a caller may see: of their own runs, or of all for a lone caller and the operator."""
        if caller in SEES_ALL:
            return self.whole
        # Of two threads that make them at once, both get the ones that are kept.
        return self._own.get(caller) or self._own.setdefault(caller, RunMetrics(None))


SEES_ALL = (LOCAL, OPERATOR)


@router.get("/metrics", include_in_schema=False)
async def metrics(request: Request, caller: KnownCaller) -> Response:
    """Return the caller's numbers in Prometheus' text format."""
    own: RunMetrics = request.app.state.metrics.of(caller)
    await own.count_queue()
    return Response(generate_latest(own.registry), media_type=CONTENT_TYPE_LATEST)
