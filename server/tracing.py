"""Traces of runs for an OTLP collector. Internal.

Who was called, how long it took, how many tokens; no texts unless asked for.

The spans are OpenInference's, which most tools that show model calls read. Nothing is sent before `instrument` is
called, and then only to the address it is given.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from ..nodes.runtime.traces import SHARED, PhoenixClient, wait_for_scores

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

__all__ = ["Tracing", "instrument", "phoenix_client"]

INSTALL = "traces need the extra otel: pip install '.[otel]' in a checkout"
TRACES_PATH = "/v1/traces"


class Tracing(AbstractContextManager["Tracing", None]):
    """The tracing that `instrument` began. `close`, or leaving its `with` block, flushes spans and stops tracing."""

    def __init__(self, provider: TracerProvider, scores: PhoenixClient | None) -> None:
        self._provider = provider
        self._scores = scores

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Send all spans so far; False where that took longer than this many seconds."""
        return self._provider.force_flush(int(timeout_s * 1000))

    def close(self) -> None:
        """Send what is left and stop tracing; a second call does nothing."""
        from openinference.instrumentation.langchain import LangChainInstrumentor

        instrumentor = LangChainInstrumentor()
        if instrumentor.is_instrumented_by_opentelemetry:
            instrumentor.uninstrument()
        if self._scores is not None and self._scores in SHARED:
            SHARED.remove(self._scores)
            with suppress(TimeoutError):
                wait_for_scores()
        self._provider.shutdown()

    def __exit__(self, *_: object) -> None:
        self.close()


def instrument(
    endpoint: str | None = None,
    *,
    show_texts: bool = False,
    service_name: str = "redraft",
    exporter: SpanExporter | None = None,
    scores: PhoenixClient | None = None,
) -> Tracing:
    """Return the tracing of every graph and model call that this process makes from now on.

    Args:
        endpoint: The collector, spoken to in OTLP over HTTP: `http://127.0.0.1:4318`, say; an address without a path
            gets `/v1/traces`. Headers such as a key are taken from `OTEL_EXPORTER_OTLP_HEADERS`.
        show_texts: Whether tasks, drafts, prompts, replies and error messages are sent too. OpenInference's variables
            (`OPENINFERENCE_HIDE_OUTPUTS=true` …) then still hide some of them.
        service_name: By what name the collector knows this process.
        exporter: Where spans go instead of an `endpoint`: any exporter of the OpenTelemetry SDK.
        scores: Logs critics' scores with the spans, where those go to Phoenix: a `phoenix.client.Client`.

    Raises:
        ImportError: The extra `otel` is not installed.
        ValueError: The endpoint is no http:// or https:// address, or not exactly one of `endpoint` and `exporter` is
            given.
        RuntimeError: Something in this process traces LangChain already.
    """
    try:
        from openinference.instrumentation import TraceConfig
        from openinference.instrumentation.langchain import LangChainInstrumentor
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ImportError(INSTALL) from error
    if (endpoint is None) == (exporter is None):
        raise ValueError("give an endpoint (http://127.0.0.1:4318, say) or an exporter, one of them")
    if exporter is None:
        exporter = _otlp(str(endpoint))
    instrumentor = LangChainInstrumentor()
    if instrumentor.is_instrumented_by_opentelemetry:
        raise RuntimeError("this process is traced already; close that tracing first")
    if show_texts:
        config = TraceConfig()
    else:
        from .span_texts import WithoutTexts

        # twice: the texts are not collected, and nothing but the attributes that hold none gets out
        exporter = WithoutTexts(exporter)
        config = TraceConfig(
            hide_inputs=True,
            hide_outputs=True,
            hide_prompts=True,
            hide_choices=True,
            hide_llm_invocation_parameters=True,
        )
    provider = TracerProvider(resource=Resource.create({"service.name": service_name}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    instrumentor.instrument(tracer_provider=provider, config=config)
    if scores is not None:
        SHARED.append(scores)
    return Tracing(provider, scores)


def phoenix_client(endpoint: str) -> PhoenixClient:
    """Return the client of the Phoenix whose collector this is; a key is taken from Phoenix's own variables.

    Raises:
        ImportError: The extra `phoenix` is not installed.
    """
    try:
        from phoenix.client import Client
    except ImportError as error:
        raise ImportError("scores need the extra phoenix: pip install '.[phoenix]' in a checkout") from error
    client: PhoenixClient = Client(base_url=urlunsplit(urlsplit(endpoint)._replace(path="", query="", fragment="")))
    return client


def _otlp(endpoint: str) -> Any:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise ImportError(INSTALL) from error
    try:
        url = urlsplit(endpoint)
        is_http = url.scheme in ("http", "https") and bool(url.hostname)
    except ValueError:
        is_http = False
    if not is_http or url.username is not None or url.password is not None:
        raise ValueError("the collector is an address such as http://127.0.0.1:4318, without a user or key in it")
    return OTLPSpanExporter(endpoint=urlunsplit(url._replace(path=url.path.rstrip("/") or TRACES_PATH)))
