"""Prometheus is told how runs ended, how often and how much refining helped, and what it cost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from redraft.graphs.loop import build_refine_graph
from redraft.models import PriceTable, ScriptedModel
from redraft.nodes import uses_words
from redraft.nodes.critics.critics import verifier_critic
from redraft.server.api.metrics import RunMetrics
from redraft.server.engine.runs import Caller, Run
from redraft.state import Thread, open_checkpointer
from redraft.state.usage import NO_USAGE

PRICES = PriceTable({"scripted": {"input_per_mtok": 0.0, "output_per_mtok": 1_000_000.0}})


@pytest.fixture
def metrics() -> RunMetrics:
    queue = SimpleNamespace(queued=AsyncMock(return_value=3), running=2)
    return RunMetrics(SimpleNamespace(queue=queue))  # type: ignore[arg-type]


def graph(*replies: str, saver: Any = None, prices: Any = PRICES) -> Any:
    critics = [verifier_critic(uses_words("river", "lamp"))]
    return build_refine_graph(ScriptedModel(list(replies)), critics=critics, checkpointer=saver, prices=prices)


def ended(output: Any, status: Any = "success", **fields: Any) -> tuple[Run, Any]:
    named = {"id": "r", "thread_id": "t", "assistant": "refine", "caller": Caller("local"), "created_at": ""}
    clock = {"submitted_at": 100.0, "started_at": 103.0, "ended_at": 105.0}
    used = {"used": (output or {}).get("usage") or NO_USAGE}
    return Run(**{**named, **clock, **used, **fields}, status=status, output=output), output


def count(metrics: RunMetrics, run: Run, output: Any) -> None:
    """Count a run as a server does: its calls when they were made, and the run when it has ended."""
    metrics.called(run, run.used)
    metrics.finished(run, output)


def value(metrics: RunMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"redraft_{name}", labels)


def of_refine(metrics: RunMetrics, name: str, **labels: str) -> float | None:
    return value(metrics, name, assistant="refine", **labels)


def test_a_refined_run(metrics: RunMetrics) -> None:
    """A run that a revision mended counts as refined and early, with its gain, tokens and dollars."""
    count(metrics, *ended(graph("A river.", "A river, a lamp.").invoke({"task": "Write."})))
    assert of_refine(metrics, "runs_total", ended="accepted") == 1
    assert of_refine(metrics, "refined_runs_total") == 1
    assert of_refine(metrics, "early_terminations_total") == 1
    assert of_refine(metrics, "rounds_total") == 1
    assert of_refine(metrics, "quality_improvement_sum") == 0.5
    assert of_refine(metrics, "tokens_total", direction="output") == 6
    assert of_refine(metrics, "cost_usd_total") == pytest.approx(6.0)
    assert of_refine(metrics, "unpriced_runs_total") is None
    assert of_refine(metrics, "run_seconds_sum") == 5.0
    assert of_refine(metrics, "run_wait_seconds_sum") == 3.0
    assert 0 < (of_refine(metrics, "refinement_overhead_seconds_sum") or 0) < 1
    assert 1 < (of_refine(metrics, "server_overhead_seconds_sum") or 0) < 2


def test_a_run_that_used_up_its_rounds(metrics: RunMetrics) -> None:
    """A run that nothing accepted is neither early nor better, and an unknown price is no price of 0."""
    replies = ["A boat.", "A ship.", "A raft."]
    count(metrics, *ended(graph(*replies, prices=PriceTable()).invoke({"task": "Write.", "limits": {"max_rounds": 2}})))
    assert of_refine(metrics, "runs_total", ended="max_rounds") == 1
    assert of_refine(metrics, "early_terminations_total") is None
    assert of_refine(metrics, "quality_improvement_sum") == 0
    assert of_refine(metrics, "unpriced_runs_total") == 1
    assert of_refine(metrics, "cost_usd_total") is None


def test_a_first_draft_that_is_accepted(metrics: RunMetrics) -> None:
    """A run without a revision is early, and not refined."""
    count(metrics, *ended(graph("A river, a lamp.").invoke({"task": "Write."})))
    assert of_refine(metrics, "refined_runs_total") is None
    assert of_refine(metrics, "early_terminations_total") == 1
    assert of_refine(metrics, "refinement_overhead_seconds_sum") < 0.5


def test_what_a_thread_pays_is_counted_once(metrics: RunMetrics) -> None:
    """A run that goes on with a thread adds only the revisions that it made itself."""
    with open_checkpointer("memory") as saver:
        thread = Thread(graph("A boat.", "A river.", "A lamp, a river.", saver=saver), "t")
        count(metrics, *ended(thread.graph.invoke({"task": "Write.", "limits": {"max_rounds": 0}}, thread.config)))
        assert of_refine(metrics, "rounds_total") == 0
        count(metrics, *ended(thread.resume({"max_rounds": 2})))
        assert of_refine(metrics, "rounds_total") == 2
        count(metrics, *ended(thread.resume()))
    assert of_refine(metrics, "rounds_total") == 2
    assert of_refine(metrics, "runs_total", ended="accepted") == 2


@pytest.mark.parametrize("status", ["error", "timeout", "interrupted"])
def test_runs_without_an_answer(metrics: RunMetrics, status: str) -> None:
    """A run that gave no answer is counted by its status, and says nothing about quality."""
    count(metrics, *ended(None, status))
    assert of_refine(metrics, "runs_total", ended=status) == 1
    assert of_refine(metrics, "quality_improvement_count") is None


async def test_the_queue_is_shown_as_it_is_now(metrics: RunMetrics) -> None:
    """How many runs wait and how many are under way is looked up when it is asked for."""
    await metrics.count_queue()
    assert value(metrics, "queue_length") == 3
    assert value(metrics, "runs_under_way") == 2


def test_metrics_are_served(served: Any) -> None:
    """Prometheus reads the numbers at `/metrics`."""
    url, _ = served(ScriptedModel(["A boat.", "no issues", RuntimeError("SECRET")]))
    for _ in range(2):
        asked = {"model": "redraft-refine", "messages": [{"role": "user", "content": "Write."}]}
        httpx.post(f"{url}/v1/chat/completions", json=asked)
    got = httpx.get(f"{url}/metrics")
    assert got.headers["content-type"].startswith("text/plain; version=")
    families = {family.name for family in text_string_to_metric_families(got.text)}
    assert {"redraft_runs", "redraft_tokens", "redraft_run_seconds", "redraft_queue_length"} <= families
    assert 'redraft_runs_total{assistant="refine",ended="accepted"} 1.0' in got.text
    assert 'redraft_runs_total{assistant="refine",ended="error"} 1.0' in got.text
    assert "redraft_queue_length 0.0" in got.text
    assert "SECRET" not in got.text


def test_metrics_need_the_token(served: Any) -> None:
    """Where the server has tokens, its numbers are for who has one."""
    token = "a-token-of-16-or-more"
    url, _ = served(ScriptedModel([]), tokens=(token,))
    assert httpx.get(f"{url}/metrics").status_code == 401
    assert httpx.get(f"{url}/metrics", headers={"Authorization": f"Bearer {token}"}).status_code == 200
