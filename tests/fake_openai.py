"""An OpenAI-compatible server on loopback whose replies are scripted, for tests that need the wire.

It runs in threads of its own, so that tests may use any number of event loops. A script is a function of the request's
JSON body; it returns the reply's text, or an iterator of its pieces, which are streamed as they come, or
`(status, body)`, or `(status, body, headers)`, or a `Fault`::

    with FakeOpenAI(lambda body: "4") as server:
        load_model(f"openai-compatible:any@{server.base_url}")
        ...
        assert server.bodies[0]["temperature"] == 0
"""

import json
import re
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from tests.ports import free_port
from tests.waiting import LAST_RESORT

USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


class Fault(Enum):
    RESET = auto()
    """The connection is reset before a reply."""
    CUT = auto()
    """Cut the reply off in the middle of its JSON or stream."""
    QUIET_CUT = auto()
    """A stream ends properly, as far as HTTP goes, before the reply is finished."""
    HANG = auto()
    """No reply, ever."""


Reply = str | Iterator[str] | tuple[int, Any] | tuple[int, Any, dict[str, str]] | Fault
Script = Callable[[dict[str, Any]], Reply]


@dataclass(frozen=True)
class Request:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class FakeOpenAI:
    """A context manager: the server runs inside `with`."""

    def __init__(
        self, script: Script, models: tuple[str, ...] = ("fake-model",), context_length: int | None = None
    ) -> None:
        self.script = script
        self.models = models
        self.context_length = context_length
        """Length that vLLM would list, if any."""
        self.requests: list[Request] = []
        """Every chat completion asked for, in order of arrival."""
        self.lists = 0
        """Number of requests that listed the models."""
        self.closing = threading.Event()
        self._server = _Server(self)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [request.body for request in self.requests]

    def __enter__(self) -> "FakeOpenAI":
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()


def completion(model: str, text: str, finish_reason: str = "stop") -> dict[str, Any]:
    """The JSON of a chat completion."""
    message = {"role": "assistant", "content": text}
    return {
        "id": "fake",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        "usage": USAGE,
    }


def chunks(model: str, text: str) -> Iterator[dict[str, Any]]:
    """The JSON of a streamed chat completion, a word at a time; the last two have its finish reason and its tokens."""
    return _chunks(model, re.findall(r"\s*\S+\s*|\s+", text))


def _chunks(model: str, pieces: Iterable[str]) -> Iterator[dict[str, Any]]:
    for piece in pieces:
        yield _chunk(model, {"content": piece}, None)
    yield _chunk(model, {}, "stop")
    yield {**_chunk(model, {}, None), "choices": [], "usage": USAGE}


def _chunk(model: str, delta: dict[str, str], finish_reason: str | None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {"id": "fake", "object": "chat.completion.chunk", "created": 0, "model": model, "choices": [choice]}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, fake: FakeOpenAI) -> None:
        self.fake = fake
        super().__init__(("127.0.0.1", free_port()), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client that was killed is no fault
            super().handle_error(request, client_address)

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # without HTTPServer's look-up of the host's name
        self.server_name, self.server_port = self.server_address[:2]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = 10
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        fake = self.server.fake
        fake.lists += 1
        length = {"max_model_len": fake.context_length} if fake.context_length else {}
        self._send(200, {"object": "list", "data": [{"id": name, "object": "model", **length} for name in fake.models]})

    def do_POST(self) -> None:
        fake = self.server.fake
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        fake.requests.append(Request(self.path, dict(self.headers), body))
        match fake.script(body):
            case str() as text if body.get("stream"):
                self._stream(chunks(body["model"], text), cut=None)
            case Iterator() as pieces:
                self._stream(_chunks(body["model"], pieces), cut=None)
            case str() as text:
                self._send(200, completion(body["model"], text))
            case (int() as status, answer):
                self._send(status, answer)
            case (int() as status, answer, headers):
                self._send(status, answer, headers)
            case Fault() as fault:
                self._fail(fault, body)

    def _fail(self, fault: Fault, body: dict[str, Any]) -> None:
        self.close_connection = True
        if fault is Fault.HANG:
            self.server.fake.closing.wait(LAST_RESORT)
        elif fault is Fault.RESET:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        elif body.get("stream"):
            self._stream([*chunks(body["model"], "this breaks off")][:2], cut=fault)
        else:
            text = json.dumps(completion(body["model"], "this breaks off")).encode()
            self._start(200, {"Content-Type": "application/json", "Content-Length": str(len(text))})
            self.wfile.write(text[: len(text) // 2])

    def _send(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        """`body` as JSON, or as it is when it is text or bytes."""
        text = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
        self._start(status, {"Content-Type": "application/json", "Content-Length": str(len(text)), **(headers or {})})
        self.wfile.write(text)

    def _stream(self, events: Iterable[dict[str, Any]], cut: Fault | None) -> None:
        self._start(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
        for event in events:
            self._chunk(f"data: {json.dumps(event)}\n\n")
        if cut is None:
            self._chunk("data: [DONE]\n\n")
        if cut is not Fault.CUT:
            self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, text: str) -> None:
        self.wfile.write(f"{len(text.encode()):x}\r\n{text}\r\n".encode())
        self.wfile.flush()

    def _start(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
