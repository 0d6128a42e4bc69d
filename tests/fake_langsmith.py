"""A LangSmith server on loopback, as far as an exporter talks to it: what it is sent is kept, for a test to look at."""

import json
import re
from typing import Any
from uuid import uuid4

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response


class FakeLangSmith:
    """Its runs, in memory."""

    def __init__(self, server: HTTPServer) -> None:
        self.url = server.url_for("").rstrip("/")
        self.keys: set[str | None] = set()
        self.runs: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        """All requests in the order of arrival."""
        server.expect_request(re.compile("/.*")).respond_with_handler(self._answer)

    def _answer(self, request: Request) -> Response:
        self.keys.add(request.headers.get("x-api-key"))
        self.bodies.append(request.get_data())
        if request.path == "/info":
            return _json({"version": "0.12.0"})
        if request.path == "/runs/multipart":  # it is asked for a batch then
            return _json({}, 404)
        sent = json.loads(request.get_data())
        if request.path == "/runs/batch":
            self.runs += sent.get("post", [])
            ended = {run["id"]: run for run in sent.get("patch", [])}
            for run in self.runs:
                run |= ended.get(run["id"], {})
            return _json({}, 202)
        return _json({**sent, "start_time": "2026-01-01T00:00:00+00:00", "tenant_id": str(uuid4())})


def _json(content: Any, status: int = 200) -> Response:
    return Response(json.dumps(content), status, content_type="application/json")
