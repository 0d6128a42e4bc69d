"""A LangSmith server on loopback, as far as an exporter talks to it: what it is sent is kept, for a test to look at."""

import json
import re
from collections import defaultdict
from email.message import Message
from email.parser import BytesParser
from typing import Any
from urllib.parse import parse_qs
from uuid import uuid4

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

NOW = "2026-01-01T00:00:00+00:00"


class FakeLangSmith:
    """Datasets, examples, sessions, runs and feedback, in memory."""

    def __init__(self, server: HTTPServer) -> None:
        self.url = server.url_for("").rstrip("/")
        self.keys: set[str | None] = set()
        self.datasets: dict[str, dict[str, Any]] = {}
        self.examples: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        self.sessions: dict[str, dict[str, Any]] = {}
        self.runs: list[dict[str, Any]] = []
        self.feedback: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        """All requests in the order of arrival."""
        server.expect_request(re.compile("/.*")).respond_with_handler(self._answer)

    def _answer(self, request: Request) -> Response:
        self.keys.add(request.headers.get("x-api-key"))
        self.bodies.append(request.get_data())
        for method, path, handler in (
            ("GET", r"/info", self._info),
            ("GET", r"/datasets", self._find_dataset),
            ("POST", r"/datasets", self._new_dataset),
            ("GET", r"/examples", self._list_examples),
            ("POST", r"/v1/platform/datasets/([^/]+)/examples", self._new_examples),
            ("POST", r"/sessions", self._new_session),
            ("PATCH", r"/sessions/([^/]+)", self._update_session),
            ("POST", r"/runs/batch", self._new_runs),
            ("POST", r"/feedback", self._new_feedback),
        ):
            if request.method == method and (found := re.fullmatch(path, request.path)):
                return handler(request, *found.groups())
        return _json({"detail": f"no {request.method} {request.path}"}, 404)

    def _info(self, request: Request) -> Response:
        return _json({"version": "0.12.0", "instance_flags": {"dataset_examples_multipart_enabled": True}})

    def _find_dataset(self, request: Request) -> Response:
        [name] = parse_qs(request.query_string.decode())["name"]
        return _json([one for one in self.datasets.values() if one["name"] == name])

    def _new_dataset(self, request: Request) -> Response:
        given = json.loads(request.data)
        made = {**given, "id": str(uuid4()), "created_at": NOW, "modified_at": NOW}
        self.datasets[made["id"]] = made
        return _json(made)

    def _list_examples(self, request: Request) -> Response:
        query = parse_qs(request.query_string.decode())
        [dataset], [offset] = query["dataset"], query.get("offset", ["0"])
        return _json(list(self.examples[dataset].values())[int(offset) :])

    def _new_examples(self, request: Request, dataset: str) -> Response:
        found: dict[str, dict[str, Any]] = defaultdict(dict)
        for name, content in _parts(request):
            own, _, field = name.partition(".")
            found[own][field or "example"] = json.loads(content)
        for own, fields in found.items():
            given = {**fields["example"], "inputs": fields["inputs"], "outputs": fields.get("outputs")}
            self.examples[dataset][own] = {
                **given,
                "id": own,
                "dataset_id": dataset,
                "created_at": NOW,
                "modified_at": NOW,
            }
        return _json({"count": len(found), "example_ids": list(found)})

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

    def _new_feedback(self, request: Request) -> Response:
        self.feedback.append(json.loads(request.data))
        return _json({})


def _parts(request: Request) -> list[tuple[str, bytes]]:
    head = f"Content-Type: {request.content_type}\r\n\r\n".encode()
    message: Message = BytesParser().parsebytes(head + request.get_data())
    parts = message.get_payload()
    assert isinstance(parts, list)
    return [
        (str(part.get_param("name", header="content-disposition")), part.get_payload(decode=True))
        for part in parts
        if isinstance(part, Message)
    ]


def _json(content: Any, status: int = 200) -> Response:
    return Response(json.dumps(content), status, content_type="application/json")
