"""A receiver of OpenTelemetry's protocol on loopback: what arrives is decoded, for a test to look at."""

import gzip
import re
import threading
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response


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


class Receiver(HTTPServer):
    """A context manager: the server runs inside `with`."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1")
        self.spans: list[Span] = []
        self.bodies: list[bytes] = []
        self.arrived = threading.Condition()
        self.expect_request(re.compile("/.*")).respond_with_handler(self._take)

    @property
    def url(self) -> str:
        return self.url_for("").rstrip("/")

    def _take(self, request: Request) -> Response:
        sent = request.get_data()
        body = gzip.decompress(sent) if sent[:2] == b"\x1f\x8b" else sent
        with self.arrived:
            self.bodies.append(body)
            if request.path == "/v1/traces":
                self.spans += _spans(ExportTraceServiceRequest.FromString(body))
            self.arrived.notify_all()
        return Response()

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
