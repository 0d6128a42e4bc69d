"""MCP servers for real: one lasting session, errors as errors, and what happens when a server misbehaves."""

import asyncio
import json
import logging
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from langchain_core.tools import BaseTool

pytest.importorskip("mcp")

import agentflow
from agentflow.tools.card import ToolCard
from agentflow.tools.external import Unavailable, load
from agentflow.tools.mcp import session
from agentflow.tools.mcp.session import close_sessions
from agentflow.tools.result import ErrorClass, ToolResult
from agentflow.tools.run import run_tool
from agentflow.tools.sandbox import landlock
from tests import mcp_server
from tests.failing import fails
from tests.ports import free_port
from tests.processes import python
from tests.waiting import until, until_async

SERVER = Path(mcp_server.__file__)
STDIO = f"mcp:stdio:{sys.executable} {SERVER}"
NAMES = [
    "add", "count", "broken", "hang", "die", "freeze", "picture", "long", "measured", "erase", "planted", "reachable",
    "signalled",
]  # fmt: skip
SECRET = "sk-5f1d9c-not-for-servers"


@pytest.fixture(autouse=True, scope="module")
def _end_of_sessions() -> Iterator[None]:
    yield
    close_sessions()


@pytest.fixture(autouse=True)
def _pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    port = free_port()
    with _served(port):
        yield f"http://127.0.0.1:{port}/mcp"


@contextmanager
def _served(port: int) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, SERVER, str(port)], stderr=subprocess.DEVNULL)
    try:
        until(lambda: _listens(port))
        yield
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@pytest.fixture(params=["stdio", "http"])
def spec(request: pytest.FixtureRequest) -> str:
    return STDIO if request.param == "stdio" else f"mcp:{request.getfixturevalue('url')}"


async def tools(spec: str) -> dict[str, BaseTool]:
    return {tool.name: tool for tool in await load(spec)}


async def call(tool: BaseTool, seconds: float = 60, **arguments: object) -> ToolResult:
    return await run_tool(tool, arguments, seconds)


async def test_the_tools_of_a_server_and_what_they_return(spec: str) -> None:
    found = await tools(spec)
    assert list(found) == NAMES
    card = ToolCard.of(found["add"])
    assert (card.description, card.examples, card.made_up) == ("Adds two whole numbers.", [{"a": 1, "b": 1}], True)
    assert card.describe_arguments() == ["- a (integer)", "- b (integer)"]
    assert ToolCard.of(found["erase"]).limits == "It may change or delete what it works on."
    result = await call(found["add"], a=2, b=3)
    assert (result.status, result.output) == ("ok", "5")
    assert (await call(found["add"], a=2)).output == "b: Field required"
    assert (await call(found["add"], a="x", b=3)).error is ErrorClass.BAD_ARGUMENTS
    broken = await call(found["broken"])
    assert (broken.error, "no such city" in broken.output) == (ErrorClass.TOOL_ERROR, True)
    assert (await call(found["picture"])).output == "a square\n[image, image/png, 6 bytes]"
    assert (await call(found["measured"])).output == '{"degrees": 21}'
    assert len((await call(found["long"], size=2 << 20)).output) > 200_000
    imitation = (await call(found["planted"])).output
    assert imitation.startswith("[data from outside")
    assert all(line.startswith(">") for line in imitation.splitlines()[1:])
    assert "<|" not in imitation


async def test_a_call_that_hangs_is_given_up_and_the_session_lasts(spec: str) -> None:
    found = await tools(spec)
    before = (await call(found["count"])).output.split()
    assert (await call(found["hang"], 0.3)).error is ErrorClass.TIMEOUT
    after = (await call(found["count"])).output.split()
    assert (int(after[0]), after[1]) == (int(before[0]) + 1, before[1])


def test_one_process_serves_all_runs_at_once_and_on_many_event_loops() -> None:
    async def run() -> list[str]:
        found = await tools(STDIO)
        return [result.output for result in await asyncio.gather(*(call(found["count"]) for _ in range(5)))]

    said = [line.split() for _ in range(3) for line in asyncio.run(run())]
    assert len({process for _, process in said}) == 1
    assert len({number for number, _ in said}) == 15


async def test_a_server_that_dies_fails_the_call_and_is_started_again() -> None:
    found = await tools(STDIO)
    before = (await call(found["count"])).output.split()[1]
    died = await call(found["die"])
    assert died.error is ErrorClass.TOOL_ERROR
    assert "ended (Connection closed); the next call opens it again" in died.output
    number, after = (await call(found["count"])).output.split()
    assert (number, after != before) == ("1", True)


async def test_a_server_over_http_that_was_started_anew_goes_on() -> None:
    port = free_port()
    with _served(port):
        found = await tools(f"mcp:http://127.0.0.1:{port}/mcp")
        assert (await call(found["add"], a=1, b=2)).output == "3"
        assert (await call(found["die"])).error is ErrorClass.TOOL_ERROR
    assert (await call(found["add"], a=1, b=2)).error is ErrorClass.TOOL_ERROR
    with _served(port):
        assert (await call(found["add"], a=1, b=2)).output == "3"


async def test_a_server_that_froze_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "PROBE_SECONDS", 0.5)
    found = await tools(STDIO)
    before = (await call(found["count"])).output.split()[1]
    assert (await call(found["freeze"], 0.5)).error is ErrorClass.TIMEOUT
    after = (await call(found["count"])).output.split()[1]
    assert after != before
    await until_async(lambda: not _runs(int(before)))  # it is killed while the new one serves


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_command_line_goes_on_without_one_server_of_a_file(tmp_path: Path) -> None:
    good, bad = {"command": sys.executable, "args": [str(SERVER)]}, {"command": "no-such-command"}
    for servers, code in (({"good": good, "bad": bad}, 0), ({"bad": bad}, 2)):
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
        tools = f"python_coder,mcp:{tmp_path}/mcp.json"
        done = python("-m", "agentflow", "solve", "How many feet are 3 yards?", "--tools", tools, "--model", "embedded")
        assert (done.returncode, "no-such-command" in done.stderr) == (code, True), done.stderr


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    port = free_port()
    with fails(Unavailable, "unreachable", f"http://127.0.0.1:{port}/mcp"):
        await load(f"mcp:http://127.0.0.1:{port}/mcp")
    with fails(Unavailable, "missing_command", "no-such-command"):
        await load("mcp:stdio:no-such-command --flag")
    with fails(Unavailable, "unreachable", "no wish"):
        await load(f"""mcp:stdio:{sys.executable} -c "raise SystemExit('no wish to start')" """)


async def test_a_log_line_on_the_standard_output_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    program = f"print('starting', flush=True); import runpy; runpy.run_path('{SERVER}', run_name='__main__')"
    noisy = shlex.join([sys.executable, "-c", program])
    assert [tool.name for tool in await load(f"mcp:stdio:{noisy}")] == NAMES
    await load(f"mcp:stdio:{noisy}")
    assert [len(logging.Formatter().format(record).splitlines()) for record in caplog.records] == [1]


@pytest.mark.skipif(not landlock.abi(), reason="the system has no Landlock")
def test_no_secret_of_ours_is_reachable_from_a_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not in its environment, and not in /proc: the parent process has the secret from its very beginning."""
    command = {"command": sys.executable, "args": [str(SERVER)], "env": {"GIVEN": "${ITS_OWN}"}}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"s": command}}))
    program = (Path(__file__).parent / "cases/reachable.py.txt").read_text()
    home = str(Path(agentflow.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": home, "OPENAI_API_KEY": SECRET, "ITS_OWN": "for-the-server"}
    done = python("-W", "error", "-c", program, cwd=tmp_path, env=environment, check=True)
    assert "'GIVEN': 'for-the-server'" in done.stdout
    assert SECRET not in done.stdout
    assert done.stderr == ""


@pytest.mark.skipif(landlock.abi() < landlock.ABI_WITH_SIGNALS, reason="Landlock governs signals from ABI 6 on")
async def test_a_server_can_send_no_signal_to_other_processes() -> None:
    assert (await call((await tools(STDIO))["signalled"])).output == "none"


async def test_closing_ends_the_process() -> None:
    found = await tools(STDIO)
    process = int((await call(found["count"])).output.split()[1])
    await asyncio.to_thread(close_sessions)
    assert not _runs(process)
    assert (await call(found["count"])).output.split()[0] == "1"
