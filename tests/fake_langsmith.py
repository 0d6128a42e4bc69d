"""A LangSmith server on loopback, as far as an exporter talks to it: what it is sent is kept, for a test to look at."""

import json
import re
from typing import Any
from uuid import uuid4

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

NOW = "2026-01-01T00:00:00+00:00"


class FakeLangSmith:
    """Sessions and runs, in memory."""

    def __init__(self, server: HTTPServer) -> None:
        self.url = server.url_for("").rstrip("/")
        self.keys: set[str | None] = set()
        self.sessions: dict[str, dict[str, Any]] = {}
        self.runs: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        """All requests in the order of arrival."""
        server.expect_request(re.compile("/.*")).respond_with_handler(self._answer)

    def _answer(self, request: Request) -> Response:
        self.keys.add(request.headers.get("x-api-key"))
        self.bodies.append(request.get_data())
        for method, path, handler in (
            ("GET", r"/info", self._info),
            ("POST", r"/sessions", self._new_session),
            ("PATCH", r"/sessions/([^/]+)", self._update_session),
            ("POST", r"/runs/batch", self._new_runs),
        ):
            if request.method == method and (found := re.fullmatch(path, request.path)):
                return handler(request, *found.groups())
        return _json({"detail": f"no {request.method} {request.path}"}, 404)

    def _info(self, request: Request) -> Response:
        return _json({"version": "0.12.0"})

    def _new_session(self, request: Request) -> Response:
        given = json.loads(request.data)
        if any(given["name"] == one["name"] for one in self.sessions.values()):
            return _json({"detail": "Session already exists."}, 409)
        made = {**given, "start_time": NOW, "tenant_id": str(uuid4())}
        self.sessions[made["id"]] = made
        return _json(made)

    def _update_session(self, request: Request, session: str) -> Response:
        self.sessions[session] |= {name: value for name, value in json.loads(request.data).items() if value is not None}
        return _json(self.sessions[session])

    def _new_runs(self, request: Request) -> Response:
        sent = json.loads(request.data)
        self.runs += sent.get("post", [])
        ended = {run["id"]: run for run in sent.get("patch", [])}
        for run in self.runs:
            run |= ended.get(run["id"], {})
        return _json({}, 202)


def _json(content: Any, status: int = 200) -> Response:
    return Response(json.dumps(content), status, content_type="application/json")
