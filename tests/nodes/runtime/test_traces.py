"""Traces say round, critic, verdict and stop reason, and critics' scores reach the tool that shows the trace."""

from __future__ import annotations

import json
import logging
import os
import sys
import uuid
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.langchain import LangChainTracer
from langfuse import Langfuse
from langfuse.langchain import CallbackHandler
from langsmith import Client
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from phoenix.client import Client as PhoenixClient
from redraft import build_refine_graph, model_critic, uses_words, verifier_critic
from redraft.models import ScriptedModel
from redraft.nodes import phoenix_feedback
from redraft.nodes.runtime.traces import wait_for_scores
from redraft.server.tracing import instrument

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "lsv2_pt_0123456789abcdef0123456789abcdef"
PROJECT = str(uuid.uuid4())
BATCHES = {
    **dict.fromkeys(["size_limit", "scale_up_qsize_trigger", "scale_down_nempty_trigger"], 100),
    **{"use_multipart_endpoint": False, "scale_up_nthreads_limit": 1, "size_limit_bytes": 20_000_000},
}
LANGSMITH = {
    "GET /info": {"version": "0.13.0", "batch_ingest_config": BATCHES},
    "GET /sessions": [{"id": PROJECT, "tenant_id": PROJECT, "name": "trips", "reference_dataset_id": None}],
    "POST /(runs/batch|feedback)": {},
}


def graph() -> Any:
    """One round: a verifier turns the first draft down, and a model is asked about both."""
    critics = [
        verifier_critic(uses_words("river")),
        model_critic(ScriptedModel(["Too short.", "no issues"]), name="judge"),
    ]
    return build_refine_graph(ScriptedModel(["SECRETDRAFT", "a river"]), critics=critics, critics_after="always")


def run(*callbacks: Any, to: Any = None) -> dict[str, Any]:
    config: Any = {"callbacks": list(callbacks), "configurable": {"thread_id": "T-1"}}
    found: dict[str, Any] = (to or graph()).invoke({"task": "SECRETTASK"}, config)
    wait_for_scores()
    return found


class Kept(BaseTracer):
    """Any tracer of LangChain's."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[tuple[str, dict[str, Any]]] = []

    def _persist_run(self, run: Any) -> None:
        pass

    def _end_trace(self, run: Any) -> None:
        self.steps.append((run.name, run.extra["metadata"]))
        super()._end_trace(run)


def told(metadata: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if not name.startswith(("l", "checkpoint"))}


def test_any_tracer_is_told_rounds_and_verdicts() -> None:
    """Every tracer of LangChain's finds round, critic, verdict, stop reason and thread in the metadata of its runs."""
    tracer = Kept()
    assert run(tracer)["stop_reason"] == "accepted"
    thread = {"thread_id": "T-1"}
    turned_down = {"round": 0, "verdict_of.uses_words": "rejected", "verdict_of.judge": "rejected"}
    taken = {"round": 1, "verdict_of.uses_words": "accepted", "verdict_of.judge": "accepted"}
    end = {"verdict": "accepted", "score": 1.0, "stop_reason": "accepted"}
    models = [told(about) for name, about in tracer.steps if name == "ScriptedModel"]
    assert [(one.get("critic"), one["round"]) for one in models] == [(None, 0), ("judge", 0), (None, 1), ("judge", 1)]
    assert [(name, told(about)) for name, about in tracer.steps if name != "ScriptedModel"] == [
        ("prepare", thread),
        ("generate", {**thread, "round": 0}),
        ("feedback", {**thread, **turned_down}),
        ("check", {**thread, "round": 0, "verdict": "rejected", "score": 0.0}),
        ("refine", {**thread, "round": 1}),
        ("feedback", {**thread, **taken}),
        ("check", {**thread, "round": 1, **end}),
        ("refine", {**thread, "rounds": 1, **end}),
    ]


@pytest.fixture
def langsmith(record: Any) -> Iterator[Any]:
    server = record(LANGSMITH)
    client = Client(api_url=server.url, api_key=KEY)
    yield server, LangChainTracer(client=client, project_name="trips")
    client.cleanup()


def test_scores_reach_langsmith(langsmith: Any) -> None:
    """In LangSmith each draft's run has its critics' scores, and the whole run whether it was accepted."""
    server, tracer = langsmith
    run(tracer)
    tracer.client.flush()
    names = {
        one["id"]: (one["name"], one.get("parent_run_id"))
        for batch in server.to("POST /runs/batch")
        for one in batch.json["post"]
    }
    scores = [one.json for one in server.to("POST /feedback")]
    assert [(names[one["run_id"]][0], one["key"], one["score"], one["value"]) for one in scores] == [
        ("generate", "uses_words", 0, "rejected"),
        ("generate", "judge", 0, "rejected"),
        ("refine", "uses_words", 1, "accepted"),
        ("refine", "judge", 1, "accepted"),
        ("refine", "accepted", 1, "accepted"),
    ]
    assert names[scores[-1]["run_id"]][1] is None
    assert [one["feedback_source"]["type"] for one in scores[:2]] == ["api", "model"]
    assert {one["session_id"] for one in scores} == {PROJECT}
    assert not [one for one in server.to("POST /feedback") if b"SECRET" in one.body or KEY.encode() in one.body]


def test_scores_reach_langfuse(record: Any) -> None:
    """In Langfuse each draft's observation has its critics' scores, and the trace whether it was accepted."""
    server = record({"POST .*": {}})
    client = Langfuse(public_key="pk-lf-1", secret_key=KEY, base_url=server.url)
    run(CallbackHandler(public_key="pk-lf-1"))
    client.flush()
    client.shutdown()
    scores = [one for sent in server.to("POST /api/public/scores") for one in sent.json]
    assert [(one["name"], one["value"], one["metadata"]["round"]) for one in scores] == [
        ("uses_words", 0, 0),
        ("judge", 0, 0),
        ("uses_words", 1, 1),
        ("judge", 1, 1),
        ("accepted", 1, 1),
    ]
    assert len({one["observationId"] for one in scores[:4]}) == 2
    assert "observationId" not in scores[4]
    assert b"SECRET" not in b"".join(one.body for one in server.to("POST /api/public/scores"))
    spans = b"".join(one.body for one in server.to("POST .*/traces"))
    assert b"langfuse.observation.metadata.stop_reason" in spans
    assert KEY.encode() not in server.told


def test_scores_reach_phoenix(record: Any) -> None:
    """Phoenix's spans are annotated with the critics' scores; without texts they still say round and verdict."""
    exporter = InMemorySpanExporter()
    server = record({"POST /v1/span_annotations": {"data": []}})
    with instrument(exporter=exporter):
        run(phoenix_feedback(PhoenixClient(base_url=server.url, api_key=KEY)))
    spans = {format(span.context.span_id, "016x"): span for span in exporter.get_finished_spans()}
    scores = [one for sent in server.to("POST /v1/span_annotations") for one in sent.json["data"]]
    assert [
        (spans[one["span_id"]].name, one["name"], one["annotator_kind"], one["result"]["score"]) for one in scores
    ] == [
        ("generate", "uses_words", "CODE", 0),
        ("generate", "judge", "LLM", 0),
        ("refine", "uses_words", "CODE", 1),
        ("refine", "judge", "LLM", 1),
        ("refine", "accepted", "CODE", 1),
    ]
    whole = json.loads(spans[scores[-1]["span_id"]].attributes["metadata"])
    assert whole == {"thread_id": "T-1", "rounds": 1, "verdict": "accepted", "score": 1.0, "stop_reason": "accepted"}
    assert "SECRET" not in "".join(span.to_json() for span in spans.values())
    assert b"SECRET" not in server.told
    with pytest.raises(TypeError, match=r"phoenix\.client\.Client"):
        phoenix_feedback(object())  # type: ignore[arg-type]
    assert not LangChainInstrumentor().is_instrumented_by_opentelemetry


def test_a_service_that_is_away_changes_no_run(record: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Where scores can't be sent the run goes on as it would, and the log says so once, without an address or a key."""
    address = record({}).url.replace("//", "//me:hidden@")
    with instrument(exporter=InMemorySpanExporter()), caplog.at_level(logging.WARNING, "redraft"):
        found = run(phoenix_feedback(PhoenixClient(base_url=address)))
    assert (found["answer"], found["stop_reason"]) == ("a river", "accepted")
    said = [record.getMessage() for record in caplog.records if "score" in record.getMessage()]
    assert said == ["a score could not be sent, and the run goes on without it: HTTPStatusError"]


def test_a_run_without_a_tracer_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that nobody traces, streamed or not, imports nothing of this."""
    monkeypatch.setitem(sys.modules, "redraft.nodes.runtime.traces", None)
    assert graph().invoke({"task": "x"})["stop_reason"] == "accepted"
    assert list(graph().stream({"task": "x"}, stream_mode=["custom", "updates"]))


@pytest.mark.skipif("REDRAFT_TEST_PHOENIX" not in os.environ, reason="REDRAFT_TEST_PHOENIX names no Phoenix server")
def test_a_real_phoenix_shows_rounds_and_scores() -> None:
    """In Phoenix itself (`arize-phoenix serve`) a run's spans say round and verdict, and have their critics' scores."""
    address, thread = os.environ["REDRAFT_TEST_PHOENIX"], f"T-{uuid.uuid4()}"
    client = PhoenixClient(base_url=address)
    with instrument(address) as tracing:
        config: Any = {"callbacks": [phoenix_feedback(client)], "configurable": {"thread_id": thread}}
        graph().invoke({"task": "SECRETTASK"}, config)
        assert tracing.flush()
        wait_for_scores()
    found: list[Any] = []
    for _ in range(40):  # it takes in spans and annotations in batches
        spans = [
            span
            for span in client.spans.get_spans(project_identifier="default", limit=200)
            if span["attributes"].get("session.id", span["attributes"].get("metadata.thread_id")) == thread
        ]
        found = client.spans.get_span_annotations(spans=spans, project_identifier="default") if spans else []
        if len(found) == 5:
            break
        Event().wait(0.5)
    names = {span["context"]["span_id"]: span["name"] for span in spans}
    assert sorted((names[one["span_id"]], one["name"], one["result"]["score"]) for one in found) == [
        ("generate", "judge", 0.0),
        ("generate", "uses_words", 0.0),
        ("refine", "accepted", 1.0),
        ("refine", "judge", 1.0),
        ("refine", "uses_words", 1.0),
    ]
    (whole,) = [span for span in spans if "metadata.stop_reason" in span["attributes"] and span["name"] == "refine"]
    assert whole["attributes"]["metadata.rounds"] == 1
