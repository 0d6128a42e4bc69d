"""An OpenAI-compatible server without weights, in its own process, that costs almost no time.

The client's address determines the replies, so that one server serves every contender:

    http://127.0.0.1:PORT/<milliseconds>/<way>/<calls>/v1

The server waits for the given time and calls the tool `look_up`; the last of the given number of calls is the answer.
The way is `tools` for OpenAI's tool calls, or `text` for text only. The assistant messages in the request tell which
call it is. A model name that is a module of AgentFlow gets that module's reply. A request with `return_token_ids` gets
ids and log-probabilities in vLLM's format: PROMPT tokens in, REPLY tokens out, for any text. Requests are not parsed;
the relevant parts are found in their bytes.
"""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

PROMPT, REPLY = 256, 64
"""Tokens of a call that requests ids."""

FINAL = "The library of Fupoz was founded in 1907."

MODULES = {
    "analyst": "The year in which a library was founded is asked for.",
    "planner": "Sub-Goal: find the library's founding\nTool: look_up\nContext: the library of Fupoz",
    "executor": '{"text": "the library of Fupoz"}',
    "verifier": "Analysis: The library is found, its founder is missing.\nVerdict: continue",
    "generator": f"Answer: {FINAL}",
}

_MODEL = re.compile(rb'"model": ?"(\w+)"')


@cache
def response(module: str, way: str, last: bool, ids: bool) -> bytes:
    """Return a complete HTTP response."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if module in MODULES:
        message["content"] = MODULES[module]
    elif not last and way == "text":
        message["content"] = MODULES["planner"]
    elif not last:
        function = {"name": "look_up", "arguments": '{"text": "the library of Fupoz"}'}
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
    else:
        message["content"] = FINAL
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
    usage = {"prompt_tokens": PROMPT, "completion_tokens": REPLY, "total_tokens": PROMPT + REPLY}
    body = {"id": "1", "object": "chat.completion", "created": 0, "model": module or "none", "usage": usage}
    if ids:
        tokens = [{"token": " a", "logprob": -0.01 * n, "bytes": [32, 97], "top_logprobs": []} for n in range(REPLY)]
        choice |= {"token_ids": list(range(1000, 1000 + REPLY)), "logprobs": {"content": tokens}}
        body["prompt_token_ids"] = list(range(2000, 2000 + PROMPT))
    text = json.dumps({**body, "choices": [choice]}, separators=(",", ":")).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
    return head.encode() + text


def answer(path: str, body: bytes) -> tuple[float, bytes]:
    """Return the seconds to wait, and the response."""
    _, milliseconds, way, calls, *_ = path.split("/")
    last = body.count(b'"assistant"') >= int(calls) - 1
    return float(milliseconds) / 1000, response(_module(body), way, last, b'"return_token_ids"' in body)


def _module(body: bytes) -> str:
    found = _MODEL.search(body)
    return found[1].decode() if found else ""


class _Connection(asyncio.Protocol):
    """One client; requests of a connection are answered one after the other."""

    def __init__(self) -> None:
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._received[:end])
            _, _, length = head.lower().partition(b"content-length:")
            size = int(length.split(b"\r\n")[0] or 0)
            if len(self._received) < end + 4 + size:
                return
            body = bytes(self._received[end + 4 : end + 4 + size])
            del self._received[: end + 4 + size]
            self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        path = head.split(b" ", 2)[1].decode()
        seconds, reply = answer(path, body)
        if seconds:
            asyncio.get_running_loop().call_later(seconds, self._transport.write, reply)
        else:
            self._transport.write(reply)


async def serve() -> None:
    """Serve until killed; the first line of output is the port."""
    server = await asyncio.get_running_loop().create_server(_Connection, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def running() -> Iterator[str]:
    """Run a server in its own process inside the block; yields its address."""
    command = [sys.executable, "-m", "benchmarks.speed.server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - ours
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.send_signal(signal.SIGTERM)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with suppress(KeyboardInterrupt, SystemExit):
        asyncio.run(serve())
