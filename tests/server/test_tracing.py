"""Runs can be traced to any OTLP collector, without a word of what was asked or written unless that is wanted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.server.tracing import Tracing, instrument

WORDS = ("SECRETTASK", "SECRETDRAFT", "SECRETCRITIQUE", "SECRETREVISION", "SECRETERROR")


def graph() -> Any:
    replies = ["SECRETDRAFT", "SECRETCRITIQUE: too short.", "SECRETREVISION", RuntimeError("SECRETERROR")]
    return build_refine_graph(ScriptedModel(replies))


def traced(exporter: InMemorySpanExporter, run: Any, **options: Any) -> list[Any]:
    with instrument(exporter=exporter, **options):
        out = run(graph(), {"task": "SECRETTASK"})
        assert out["stop_reason"] == "failed"
    return list(exporter.get_finished_spans())


def told(spans: list[Any]) -> str:
    return "\n".join(span.to_json() for span in spans)


@pytest.fixture
def run(request: pytest.FixtureRequest) -> Any:
    import asyncio

    def invoke(graph: Any, given: Any) -> Any:
        return graph.invoke(given) if request.param == "invoke" else asyncio.run(graph.ainvoke(given))

    return invoke


both = pytest.mark.parametrize("run", ["invoke", "ainvoke"], indirect=True)


@both
def test_texts_are_hidden(run: Any) -> None:
    """A collector learns which nodes and models ran, how long and with how many tokens, and no text."""
    spans = traced(InMemorySpanExporter(), run)
    names = {span.name for span in spans}
    assert {"refine", "prepare", "generate", "feedback", "check"} <= names
    assert not [word for word in WORDS if word in told(spans)]
    models = [span for span in spans if span.attributes.get("openinference.span.kind") == "LLM"]
    assert len(models) == 4
    assert models[0].attributes["llm.token_count.completion"] == 1
    assert "RuntimeError" in str(models[-1].attributes["exception.type"])
    assert len({span.context.trace_id for span in spans}) == 1


@both
def test_texts_are_shown_on_request(run: Any) -> None:
    """Whoever asks for texts finds the task, the drafts and the critique in the spans."""
    said = told(traced(InMemorySpanExporter(), run, show_texts=True))
    assert not [word for word in WORDS if word not in said]


def test_nothing_is_traced_before_or_after() -> None:
    """Importing and running redraft traces nothing, and a closed tracing has ended."""
    assert not LangChainInstrumentor().is_instrumented_by_opentelemetry
    exporter = InMemorySpanExporter()
    with instrument(exporter=exporter):
        pass
    graph().invoke({"task": "SECRETTASK"})
    assert not exporter.get_finished_spans()


@pytest.fixture
def collector(record: Any) -> Any:
    """An HTTP server that keeps what is posted to it."""
    return record({"POST .*": {}})


def test_spans_reach_a_collector(collector: Any) -> None:
    """An OTLP collector gets the spans over HTTP, at its usual path."""
    with instrument(collector.url, service_name="trips") as tracing:
        graph().invoke({"task": "SECRETTASK"})
        assert tracing.flush()
    assert {one.path for one in collector.asked} == {"/v1/traces"}
    body = collector.told
    assert b"trips" in body
    assert b"generate" in body
    assert b"SECRET" not in body


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_server_can_be_traced(collector: Any, forking: Any, tmp_path: Path) -> None:
    """`redraft serve --otlp URL` sends spans and scores of its runs there, also those that are left when it ends."""
    replies = tmp_path / "replies.jsonl"
    replies.write_text('"SECRETDRAFT"\n"no issues"\n', encoding="utf-8")
    serve = ("serve", "--port", "0", "--db", "memory", "--model", f"scripted:{replies}")
    traced = ("--otlp", collector.url, "--otlp-scores")
    command = ["-c", "from redraft.faces.cli.main import main; main()", *serve, *traced]
    with forking.start(command, stderr=subprocess.PIPE) as server:
        assert server.stderr
        told = server.stderr.readline()
        try:
            url = re.search(r"http://\S+?:\d+", told)
            assert url, told + server.stderr.read()
            asked = {"assistant_id": "refine", "input": {"task": "SECRETTASK"}}
            assert httpx.post(f"{url[0]}/runs/wait", json=asked, timeout=30).json()["answer"] == "SECRETDRAFT"
        finally:
            server.terminate()
            server.wait(20)
    body = collector.told
    assert b"generate" in body
    assert b"SECRET" not in body
    scores = [one.json["data"][0] for one in collector.to("POST /v1/span_annotations")]
    assert [(one["name"], one["result"]["score"]) for one in scores] == [("self", 1), ("accepted", 1)]


@pytest.mark.parametrize("endpoint", ["", "localhost:4318", "ftp://host", "http://", "http://me:key@host", "http://[x"])
def test_a_wrong_address_is_refused(endpoint: str) -> None:
    """What is no collector's address is refused before anything is traced, and a key in it is not repeated."""
    with pytest.raises(ValueError, match=r"such as http://127\.0\.0\.1:4318") as refused:
        instrument(endpoint)
    assert "me:key" not in str(refused.value)
    assert not LangChainInstrumentor().is_instrumented_by_opentelemetry


def test_one_tracing_at_a_time() -> None:
    """A second tracing is refused, since it would silently get nothing."""
    with instrument(exporter=InMemorySpanExporter()) as first:
        with pytest.raises(RuntimeError, match="traced already"):
            instrument(exporter=InMemorySpanExporter())
        assert isinstance(first, Tracing)
    with pytest.raises(ValueError, match="one of them"):
        instrument()


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, the error says what to install."""
    monkeypatch.setitem(sys.modules, "openinference.instrumentation.langchain", None)
    with pytest.raises(ImportError, match=r"\.\[otel\]"):
        instrument(exporter=InMemorySpanExporter())
