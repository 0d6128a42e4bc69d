"""`agentflow mcp` as other assistants meet it: the official client over stdio and HTTP, and our own."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

import agentflow
from agentflow.tools.external import load
from agentflow.tools.mcp.session import close_sessions
from agentflow.tools.run import run_tool
from agentflow.tools.sandbox import execute
from tests import command_line
from tests.fake_openai import FakeOpenAI
from tests.processes import running
from tests.sandboxes import new_processes
from tests.scripted import modules
from tests.waiting import LAST_RESORT, until_async

HOME = str(Path(agentflow.__file__).parents[1])
COMMAND = [sys.executable, "-m", "agentflow", "mcp"]
ATLAS = "Use 5, 8, 8 and 10 once each with + - * / to make 24."


def makes_24(said: str) -> bool:
    answer, _, sure = said.partition("\n")
    assert sure.startswith("(Confidence 0.")
    numbers = sorted(map(int, re.findall(r"\d+", answer)))
    return numbers == [5, 8, 8, 10] and not re.search(r"[^\d+*/() -]", answer) and abs(eval(answer) - 24) < 1e-9


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": HOME, **more}


@asynccontextmanager
async def over_stdio(*arguments: str, mode: Any = "auto", errors: Any = sys.__stderr__) -> AsyncIterator[Client]:
    command, *first = COMMAND
    server = StdioServerParameters(command=command, args=[*first, *arguments], env=environment(), cwd=HOME)
    async with Client(stdio_client(server, errlog=errors), mode=mode) as client:
        yield client


@contextmanager
def serving(*arguments: str, **variables: str) -> Iterator[str]:
    """The URL of a server over HTTP on a free port."""
    command = ("mcp", "--http", "--port", 0, *arguments)
    with running(*command, stderr=subprocess.PIPE, env=environment(**variables)) as server:
        yield server.stderr.readline().split(" at ")[1].split()[0]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.mark.parametrize(("transport", "mode"), [("stdio", "legacy"), ("http", "auto")])
async def test_ask(transport: str, mode: Any, url: str) -> None:
    """The answer comes out of python_coder, so the sandbox works below the server; progress comes turn by turn.

    A server over stdio leaves no process behind when the client goes.
    """
    started = new_processes()
    told: list[tuple[float, float | None, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append((done, total, message))

    async with over_stdio(mode=mode) if transport == "stdio" else Client(url, mode=mode) as client:
        (tool,) = (await client.list_tools()).tools
        assert (tool.name, tool.input_schema["required"]) == ("ask", ["question"])
        said = await client.call_tool("ask", {"question": ATLAS}, progress_callback=progress)
        assert not said.is_error
        assert makes_24(said.content[0].text)  # type: ignore[union-attr]
        assert [done for done, _, _ in told] == list(range(1, len(told) + 1))
        assert {total for _, total, _ in told} == {10}
        assert any(str(message).startswith("python_coder: ") for _, _, message in told)
        assert not any("failed" in str(message) for _, _, message in told)
        empty = await client.call_tool("ask", {"question": " "})
        assert empty.is_error
        assert "the question is empty" in empty.content[0].text  # type: ignore[union-attr]
    await until_async(lambda: not started())


async def test_our_own_client_can_ask_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start servers below `apart`, without capabilities, so that python_coder needs a tier that works so."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    try:
        (tool,) = await load(f"mcp:stdio:{sys.executable} -m agentflow mcp")
        result = await run_tool(tool, {"question": ATLAS}, LAST_RESORT)
        assert result.status == "ok", result.output
        assert makes_24(result.output)
    finally:
        await asyncio.to_thread(close_sessions)


# A client that gives up


class Endless:
    """A model whose second program does not end; `running` are the processes since it was written."""

    def __init__(self) -> None:
        self.programs = 0
        self.running: Callable[[], set[int]] = set

    def executor(self, body: dict[str, Any]) -> str:
        self.programs += 1
        if self.programs == 1:
            return '{"code": "print(1)"}'
        self.running = new_processes()
        return '{"code": "while True: pass"}'


@pytest.mark.parametrize(("transport", "mode"), [("stdio", "auto"), ("http", "legacy")])
async def test_a_call_that_is_cancelled_ends_the_run(transport: str, mode: Any) -> None:
    if problem := execute.unavailable():
        pytest.skip(problem)
    script = Endless()
    plan = "Sub-Goal: compute\nTool: python_coder\nContext: none"
    replies = modules(planner=plan, executor=script.executor, verifier="Verdict: continue")
    with FakeOpenAI(replies) as model:
        arguments = ("--model", f"openai-compatible:any@{model.base_url}", "--tools", "tests.patient:python_coder")
        if transport == "stdio":
            async with over_stdio(*arguments, mode=mode) as client:
                await cancelled(client, model, script)
        else:
            with serving(*arguments) as url:
                async with Client(url, mode=mode) as client:
                    await cancelled(client, model, script)


async def cancelled(client: Client, model: FakeOpenAI, script: Endless) -> None:
    call = asyncio.create_task(client.call_tool("ask", {"question": "How long?"}))
    await until_async(lambda: script.running())
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until_async(lambda: not script.running())
    asked = len(model.requests)
    assert (await client.call_tool("ask", {"question": " "})).is_error  # it still answers
    assert len(model.requests) == asked  # and the run that was given up asks nothing any more


# What goes where


NOISY = (Path(__file__).parent / "cases/noisy.py.txt").read_text()


def test_stdout_carries_the_protocol_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    meta = {"progressToken": "p"}
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    sent = [
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "ask", "arguments": {"question": "?"}, "_meta": meta}},
    ]
    plan = "Sub-Goal: shout\nTool: shout\nContext: hello"
    with FakeOpenAI(modules(planner=plan, generator="Answer: HELLO")) as model:
        options = ["--model", f"openai-compatible:any@{model.base_url}", "--tools", "noisy:shout"]
        with subprocess.Popen(
            [*COMMAND, *options], cwd=tmp_path, env=environment(PYTHONPATH=f"{HOME}:{tmp_path}"), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as server:  # fmt: skip
            assert server.stdin
            assert server.stdout
            for message in sent:
                server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
                server.stdin.flush()
            received = [json.loads(server.stdout.readline())]
            while received[-1].get("id") != 2:
                received.append(json.loads(server.stdout.readline()))
            rest, errors = server.communicate(timeout=LAST_RESORT)
    assert rest == ""
    assert [message["jsonrpc"] for message in received] == ["2.0"] * len(received)
    assert received[-1]["result"]["content"][0]["text"] == "HELLO"
    assert [message["params"]["progress"] for message in received if "method" in message] == [1]
    for line in ("loaded", "by descriptor", "called", "by a process"):
        assert line in errors
    assert server.returncode == 0


def test_ctrl_c_ends_it_though_it_waits_for_a_line() -> None:
    """The handler is Python's own, whatever the shell below makes of SIGINT."""
    program = (
        "import signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.argv[1:] = ['mcp']\nfrom agentflow.cli import main\nmain()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], env=environment(), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as server:  # fmt: skip
        assert server.stdin
        assert server.stdout
        server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}) + "\n")
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["id"] == 1
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=LAST_RESORT) == 130
        assert server.stderr
        assert server.stderr.read() == "interrupted\n"


# Whom it serves over HTTP


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example:80"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Content-Type": "text/plain"}, 400),
    ],
)
def test_a_web_page_cannot_use_it(headers: dict[str, str], status: int, url: str) -> None:
    common = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert httpx.post(url, content=body, headers={**common, **headers}).status_code == status


async def test_a_key_is_asked_for() -> None:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    with serving("--host", "0.0.0.0", AGENTFLOW_MCP_KEY="sesame") as url:
        url = url.replace("0.0.0.0", "127.0.0.1")
        headers = {"Authorization": "Bearer sesame", "Host": "a-name-of-this-machine"}
        async with httpx2.AsyncClient() as http:
            assert (await http.post(url, json={})).status_code == 401
            assert (await http.post(url, json={}, headers={"Authorization": "Bearer no"})).status_code == 401
        async with (
            httpx2.AsyncClient(headers=headers, timeout=LAST_RESORT) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            assert [tool.name for tool in (await client.list_tools()).tools] == ["ask"]


def test_a_port_that_is_taken(url: str) -> None:
    port = url.removesuffix("/mcp").rpartition(":")[2]
    done = command_line.call("mcp", "--http", "--port", port)
    assert (done.exit_code, "choose another --port" in done.stderr) == (2, True)
