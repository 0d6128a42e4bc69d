"""A receiver of OpenTelemetry's protocol on loopback: what arrives is decoded, for a test to look at."""

import gzip
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue


@dataclass(frozen=True)
class Span:
    name: str
    trace: str
    id: str
    parent: str
    """"" for a root."""
    attributes: dict[str, Any]
    service: str
    status: str
    """The text of its error."""


@dataclass
class Receiver:
    """A context manager: the server runs inside `with`."""

    spans: list[Span] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    arrived: threading.Condition = field(default_factory=threading.Condition)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "Receiver":
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.take(self.path, gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def take(self, path: str, body: bytes) -> None:
        with self.arrived:
            self.bodies.append(body)
            if path == "/v1/traces":
                self.spans += _spans(ExportTraceServiceRequest.FromString(body))
            self.arrived.notify_all()

    def wait_for(self, name: str, seconds: float) -> None:
        """Wait until a span of that name has arrived."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: any(span.name == name for span in self.spans), seconds), self.spans


def _spans(request: ExportTraceServiceRequest) -> list[Span]:
    return [
        Span(
            name=span.name,
            trace=span.trace_id.hex(),
            id=span.span_id.hex(),
            parent=span.parent_span_id.hex(),
            attributes={pair.key: _value(pair.value) for pair in span.attributes},
            status=span.status.message,
            service=next(_value(one.value) for one in of.resource.attributes if one.key == "service.name"),
        )
        for of in request.resource_spans
        for scope in of.scope_spans
        for span in scope.spans
    ]


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind) if kind else None
