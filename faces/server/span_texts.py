"""Spans without a word that anybody wrote: names, times and counts only. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["WithoutTexts"]

KEPT = ("openinference.span.kind", "llm.model_name", "llm.provider", "llm.system", "tool.name", "session.id")
KEPT_COUNTS = ("llm.token_count.", "llm.cost.")


class WithoutTexts(SpanExporter):
    """Hands spans on with the attributes that hold no text: what is not known to be harmless stays here.

    An error is told by its type; its message may quote a draft.

    Args:
        exporter: Sends them.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Return what the exporter says about the spans without their texts."""
        return self._exporter.export([_bare(span) for span in spans])

    def shutdown(self) -> None:
        """Shut the exporter down."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Return whether the exporter sent everything in time."""
        return self._exporter.force_flush(timeout_millis)


def _bare(span: ReadableSpan) -> ReadableSpan:
    attributes = {
        name: value for name, value in (span.attributes or {}).items() if name in KEPT or name.startswith(KEPT_COUNTS)
    }
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
