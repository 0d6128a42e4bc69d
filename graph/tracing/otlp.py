"""Export of spans and metrics, to a collector by OTLP over HTTP or to the providers that the application has set up.

A collector that is down must not delay a run: spans are sent by a separate thread, the wait at the end is at most
FLUSH_SECONDS, and lost spans are reported in one warning.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from agentflow.graph.tracing.errors import TracingError
from agentflow.graph.tracing.operation import Sink
from agentflow.graph.tracing.spans import SpanSink
from agentflow.tools.redaction import redacted
from agentflow.version import __version__

FLUSH_SECONDS = 1.5
"""Longest wait for the collector when tracing ends, in seconds."""

_log = logging.getLogger(__name__)

_NOBODY = logging.NullHandler()
"""Handler of OpenTelemetry's log. Without a handler, Python prints a line on stderr for each retry."""


@contextmanager
def otel_tracing(url: str = "", *, content: bool) -> Iterator[Sink]:
    """Yield a sink that sends to the collector at `url`, such as http://127.0.0.1:4318.

    Without `url`, it sends to the OpenTelemetry providers that the application has set up, or else to the collector of
    OpenTelemetry's environment variables (default: localhost:4318). Raises TracingError.
    """
    theirs = trace.get_tracer_provider()
    if not url and isinstance(theirs, TracerProvider):
        yield SpanSink(theirs, metrics.get_meter_provider(), content=content)
        return
    _check(url)
    logging.getLogger("opentelemetry").addHandler(_NOBODY)
    traces, numbers = (f"{url.rstrip('/')}/v1/{kind}" if url else None for kind in ("traces", "metrics"))
    try:
        spans, measures = CountingExporter(OTLPSpanExporter(traces), url), OTLPMetricExporter(numbers)
    except ValueError as error:  # an environment variable of OpenTelemetry's is wrong
        raise TracingError(
            f"OpenTelemetry cannot be set up ({redacted(str(error))}); see OTEL_EXPORTER_*", code="setup_failed"
        ) from error
    resource = _resource()
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(spans))
    meters = MeterProvider([PeriodicExportingMetricReader(measures)], resource, shutdown_on_exit=False)
    try:
        yield SpanSink(tracers, meters, content=content)
    finally:
        _close({tracers.shutdown: spans.exporter.shutdown, meters.shutdown: measures.shutdown})
        spans.say_if_lost()


class CountingExporter(SpanExporter):
    """Exporter that counts the spans that it could not send."""

    def __init__(self, exporter: SpanExporter, url: str) -> None:
        self.exporter = exporter
        self._to = url or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or "localhost:4318"
        self._under_way = 0
        self._lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans; called by the sending thread."""
        self._under_way = len(spans)
        result = self.exporter.export(spans)
        self._under_way = 0
        if result is not SpanExportResult.SUCCESS:
            self._lost += len(spans)
        return result

    def shutdown(self) -> None:
        """Abandon the current request."""
        self.exporter.shutdown()

    def say_if_lost(self) -> None:
        """Log one warning if spans were lost."""
        if lost := self._lost + self._under_way:
            _log.warning("%d spans were lost: no collector took them at %s; is it running?", lost, redacted(self._to))


def _close(shutdowns: dict[Callable[[], Any], Callable[[], Any]]) -> None:
    """Send the remaining data concurrently in bounded time, then abandon unfinished requests."""
    threads = {threading.Thread(target=shut, daemon=True): give_up for shut, give_up in shutdowns.items()}
    for thread in threads:
        thread.start()
    watch = threading.Event()
    timer = threading.Timer(FLUSH_SECONDS, watch.set)
    timer.daemon = True
    timer.start()
    for thread, give_up in threads.items():
        while thread.is_alive() and not watch.is_set():
            thread.join(0.02)
        if thread.is_alive():
            give_up()
    timer.cancel()


def _check(url: str) -> None:
    if not url:
        return
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        parsed = httpx.URL()
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise TracingError(
            f"otel:{redacted(url)} is no address of a collector; write otel:http://HOST:4318", code="bad_url"
        )


def _resource() -> Resource:
    name = os.environ.get("OTEL_SERVICE_NAME") or "agentflow"
    return Resource.create({"service.name": name, "service.version": __version__})
