"""OpenInference's spans of all that LangChain runs, sent to a collector by OTLP over HTTP or written to a file of it.

The spans are the library's, which writes its own attributes and those of OpenTelemetry's conventions for generative AI.
What it tells a span goes through `_Span`, which strikes out secrets and, without `content`, whatever is not known to be
free of prompts and answers.

A collector that is down must not delay a run: spans are sent by a separate thread, the wait at the end is at most
FLUSH_SECONDS, and lost spans are reported in one warning.
"""

import base64
import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from langgraph.errors import GraphBubbleUp
from openinference.instrumentation import TraceConfig
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from wrapt import ObjectProxy

from agentflow.graph.models.loading import MODULE
from agentflow.graph.tracing.errors import TracingError
from agentflow.tools.redaction import MESSAGE, redacted, redacted_data
from agentflow.tools.result import ToolFailure
from agentflow.version import __version__

FLUSH_SECONDS = 1.5
"""Longest wait for the collector when tracing ends, in seconds."""

FREE_OF_CONTENT = (
    "openinference.span.kind",
    *("session.id", "user.id", "metadata", "agent.name", "tool.name", "tool_call.id"),
    *("llm.model_name", "llm.provider", "llm.system", "llm.finish_reason", "llm.token_count."),
    *("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.conversation.id", "gen_ai.agent.name"),
    *("gen_ai.request.", "gen_ai.response.", "gen_ai.usage.", "gen_ai.tool.name", "gen_ai.tool.call.id"),
)
"""Beginnings of the attributes that hold no prompts, answers, arguments and results."""

PARAMETERS = "llm.invocation_parameters"
SAMPLING = {"model", "model_name", "temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "stop"}
"""The parameters of a call that hold no content, as its tools do."""

_LONGEST_MESSAGE = 500
"""Most characters of an error's text."""

_log = logging.getLogger(__name__)

_NOBODY = logging.NullHandler()
"""Handler of OpenTelemetry's log. Without a handler, Python prints a line on stderr for each retry."""


@contextmanager
def otel_tracing(to: str = "", *, content: bool) -> Iterator[None]:
    """Trace to the collector at a URL, such as http://127.0.0.1:4318, or to a file of OTLP JSON, inside the block.

    Without `to`, spans go to the provider that the application has set up, or else to the collector of OpenTelemetry's
    environment variables (default: localhost:4318). Raises TracingError.
    """
    if LangChainInstrumentor().is_instrumented_by_opentelemetry:
        raise TracingError("OpenInference traces this process already; trace to one otel target", code="traced_twice")
    theirs = trace.get_tracer_provider()
    if not to and isinstance(theirs, TracerProvider):
        with _instrumented(theirs, content=content):
            yield
        return
    exporter = _exporter(to)
    counting = _Counting(exporter)
    name = os.environ.get("OTEL_SERVICE_NAME") or "agentflow"
    resource = Resource.create({"service.name": name, "service.version": __version__})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    processor = SimpleSpanProcessor if isinstance(exporter, OtlpFile) else BatchSpanProcessor
    provider.add_span_processor(processor(counting))
    logging.getLogger("opentelemetry").addHandler(_NOBODY)
    try:
        with _instrumented(provider, content=content):
            yield
    finally:
        sending = threading.Thread(target=provider.shutdown, daemon=True)
        sending.start()
        sending.join(FLUSH_SECONDS)
        if sending.is_alive():
            exporter.shutdown()  # abandons the request that is under way
        if counting.lost:
            place = to or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or "localhost:4318"
            _log.warning(
                "%d spans were lost: no collector took them at %s; is it running?", counting.lost, redacted(place)
            )


@contextmanager
def _instrumented(provider: TracerProvider, *, content: bool) -> Iterator[None]:
    instrumentor = LangChainInstrumentor()
    config = TraceConfig(enable_genai_semconv=True)
    instrumentor.instrument(tracer_provider=_Provider(provider, content=content), config=config)
    try:
        yield
    finally:
        instrumentor.uninstrument()


class _Provider:
    """Provider whose tracers make spans without secrets."""

    def __init__(self, provider: TracerProvider, *, content: bool) -> None:
        self._provider = provider
        self._content = content

    def get_tracer(self, *args: Any, **more: Any) -> "_Tracer":
        """Return a tracer."""
        return _Tracer(self._provider.get_tracer(*args, **more), content=self._content)


class _Tracer:
    """Tracer whose spans are `_Span`s. Those without a parent continue the trace of the environment's TRACEPARENT."""

    def __init__(self, tracer: trace.Tracer, *, content: bool) -> None:
        self._tracer = tracer
        self._content = content
        known = {name.lower(): os.environ[name] for name in ("TRACEPARENT", "TRACESTATE") if name in os.environ}
        self._outside = TraceContextTextMapPropagator().extract(known)

    def start_span(self, name: str, context: Any = None, *, attributes: Any = None, **more: Any) -> "_Span":
        """Start a span."""
        if context is None and not trace.get_current_span().get_span_context().is_valid:
            context = self._outside
        span = _Span(self._tracer.start_span(redacted(name), context, **more), content=self._content)
        span.set_attributes(attributes or {})
        return span


class _Span(ObjectProxy):  # type: ignore[type-arg]  # its generic is for type checkers only
    """A span without secrets; and without prompts and answers, unless they are asked for."""

    def __init__(self, span: trace.Span, *, content: bool) -> None:
        super().__init__(span)
        self._self_content = content
        self._self_error: tuple[str, str] | None = None

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Set each attribute."""
        for name, value in attributes.items():
            self.set_attribute(name, value)

    def set_attribute(self, name: str, value: Any) -> None:
        """Set an attribute; and the module, if it is LangChain's metadata."""
        if name == PARAMETERS and not self._self_content:
            value = json.dumps({key: one for key, one in json.loads(value).items() if key in SAMPLING})
        elif not self._self_content and not name.startswith(FREE_OF_CONTENT):
            return
        self.__wrapped__.set_attribute(name, _clean(value))
        if name == "metadata":
            known = json.loads(value)
            if module := known.get(MODULE) or known.get("langgraph_node"):
                self.__wrapped__.set_attribute("agentflow.module", _clean(module))

    def record_exception(self, exception: BaseException, *_: object, **__: object) -> None:
        """Take note of an error, but not of its traceback. A pause for a person is none."""
        if not isinstance(exception, GraphBubbleUp):
            kind = exception.error.value if isinstance(exception, ToolFailure) else type(exception).__name__
            self._self_error = kind, str(exception)

    def add_event(self, name: str, attributes: Mapping[str, Any] | None = None, *_: object, **__: object) -> None:
        """Take note of an error that is no Exception, which the library tells in this way; it has no other events."""
        if attributes and "exception.type" in attributes:
            self._self_error = attributes["exception.type"], attributes["exception.message"]

    def set_status(self, *_: object) -> None:
        """Set the status, with the class of the error and the beginning of its text."""
        if not self._self_error:
            self.__wrapped__.set_status(trace.StatusCode.OK)
            return
        kind, text = self._self_error
        self.__wrapped__.set_attribute("error.type", kind)
        message = redacted(" ".join(text.split()), MESSAGE)[:_LONGEST_MESSAGE]
        self.__wrapped__.set_status(trace.StatusCode.ERROR, message or kind)


def _clean(value: Any) -> Any:
    """Return an attribute without secrets. In JSON, each text is looked at as it is and not as JSON writes it."""
    if isinstance(value, str) and value.startswith(("{", "[")):
        with suppress(ValueError):
            return json.dumps(redacted_data(json.loads(value)), ensure_ascii=False)
    return redacted_data(value)


class _Counting(SpanExporter):
    """Exporter that counts the spans that it could not send."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans; called by the sending thread."""
        self.lost += len(spans)
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self.lost -= len(spans)
        return result

    def shutdown(self) -> None:
        """Abandon the current request."""
        self._exporter.shutdown()


class OtlpFile(SpanExporter):
    """Exporter that appends OTLP JSON, a request a line, as a collector's file exporter does."""

    def __init__(self, path: str) -> None:
        """Raises OSError."""
        self._path = Path(path)
        self._path.touch()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write spans, in one piece, since others may write to the file too."""
        request = MessageToDict(encode_spans(spans))
        for span in (one for of in request["resourceSpans"] for scope in of["scopeSpans"] for one in scope["spans"]):
            # OTLP's ids are in hex, where protobuf's JSON has base64.
            for name in span.keys() & {"traceId", "spanId", "parentSpanId"}:
                span[name] = base64.b64decode(span[name]).hex()
        with self._path.open("ab", buffering=0) as file:
            file.write(json.dumps(request).encode() + b"\n")
        return SpanExportResult.SUCCESS


def _exporter(to: str) -> SpanExporter:
    if to.endswith(".jsonl"):
        try:
            return OtlpFile(to)
        except OSError as error:
            raise TracingError(
                f"cannot write to {to} ({error.strerror}); choose another file", code="unwritable"
            ) from error
    scheme, _, host = to.partition("://")
    if to and not (scheme in ("http", "https") and host):
        raise TracingError(
            f"otel:{redacted(to)} is neither a collector nor a file; write otel:http://HOST:4318 or otel:FILE.jsonl",
            code="bad_url",
        )
    try:
        return OTLPSpanExporter(f"{to.rstrip('/')}/v1/traces" if to else None)
    except ValueError as error:  # an environment variable of OpenTelemetry's is wrong
        raise TracingError(
            f"OpenTelemetry cannot be set up ({redacted(str(error))}); see OTEL_EXPORTER_*", code="setup_failed"
        ) from error
