"""Runs that a server runs for its callers are traced like those of a program."""

from __future__ import annotations

from typing import Any

import httpx
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from redraft.models import ScriptedModel
from redraft.server.tracing import instrument


def test_a_served_run_is_one_trace(served: Any) -> None:
    """A collector sees each run as one trace that names its thread, and neither the request nor the answer."""
    exporter = InMemorySpanExporter()
    with instrument(exporter=exporter):
        url, _ = served(ScriptedModel(["SECRETDRAFT", "no issues"]))
        asked = {"model": "redraft-refine", "messages": [{"role": "user", "content": "SECRETTASK"}]}
        got = httpx.post(f"{url}/v1/chat/completions", json=asked).json()
    spans = exporter.get_finished_spans()
    assert {span.name for span in spans} >= {"refine", "generate", "feedback", "check"}
    assert len({span.context.trace_id for span in spans}) == 1
    assert {span.attributes.get("session.id") for span in spans} == {got["metadata"]["thread_id"]}
    assert "SECRET" not in "".join(span.to_json() for span in spans)
