"""Spans without a word that anybody wrote: names, times and counts only. Internal."""

from __future__ import annotations

import json
from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Status

from ..nodes.runtime.traces import VERDICTS

__all__ = ["WithoutTexts"]

KEPT = ("openinference.span.kind", "llm.model_name", "llm.provider", "llm.system", "tool.name", "session.id")
KEPT_COUNTS = ("llm.token_count.", "llm.cost.")
METADATA = "metadata"
NUMBERS = ("round", "rounds", "score")
NAMES = ("critic", "verdict", "stop_reason", "rejected", "thread_id")
"""Metadata of a run that redraft itself writes; a caller's own may hold anything."""


class WithoutTexts(SpanExporter):
    """Hands spans on with the attributes that hold no text: what is not known to be harmless stays here.

    Of an error only the type is kept; its message may quote a draft.

    Args:
        exporter: Sends them.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export the spans without their texts."""
        return self._exporter.export([_bare(span) for span in spans])

    def shutdown(self) -> None:
        """Shut the exporter down."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Flush the exporter; False where that took too long."""
        return self._exporter.force_flush(timeout_millis)


def _bare(span: ReadableSpan) -> ReadableSpan:
    attributes = {
        name: value for name, value in (span.attributes or {}).items() if name in KEPT or name.startswith(KEPT_COUNTS)
    }
    if own := _own_metadata(str((span.attributes or {}).get(METADATA, ""))):
        attributes[METADATA] = json.dumps(own)
    errors = [kind for event in span.events if (kind := (event.attributes or {}).get("exception.type"))]
    if errors:
        attributes["exception.type"] = errors[-1]
    return ReadableSpan(
        name=span.name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=attributes,
        links=(),
        kind=span.kind,
        instrumentation_scope=span.instrumentation_scope,
        status=Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
    )


def _own_metadata(metadata: str) -> dict[str, object]:
    try:
        values = json.loads(metadata)
    except ValueError:
        return {}
    return {name: value for name, value in values.items() if _is_ours(name, value)} if isinstance(values, dict) else {}


def _is_ours(name: str, value: object) -> bool:
    if isinstance(value, str):
        return name in NAMES or (name.startswith("verdict_of.") and value in VERDICTS.values())
    return name in NUMBERS and isinstance(value, int | float)
