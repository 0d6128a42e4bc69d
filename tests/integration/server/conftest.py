"""The real LangGraph server with our langgraph.json, started once for all tests of this folder in one process."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from agentflow.evals.atlas.families import Problem, questions
from agentflow.graph.grants import ENDPOINTS, FILES
from agentflow.graph.origin_guard import ORIGINS
from tests.fake_openai import FakeOpenAI, Fault, Reply
from tests.ports import free_port
from tests.scripted import modules
from tests.waiting import LAST_RESORT

pytest.importorskip("langgraph_api", reason="the extra studio is not installed")

from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

ROOT = Path(__file__).parents[3]
LANGGRAPH = Path(sys.executable).with_name("langgraph")
KEY = "sk-planted-4711"
"""The operator's key, which no client may ever see."""


class Server(NamedTuple):
    url: str
    model: str
    """Spec of a model on loopback whose address is granted; it answers any question in one turn."""
    endpoint: FakeOpenAI
    hangs: threading.Event
    """Set when that model has been asked a question with "#hang#" in it, which it never answers."""
    granted: Path
    """A folder that is granted."""


def environment(**more: str) -> dict[str, str]:
    """This process's environment without anybody's keys: the server has to start without."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    return {**kept, "LANGGRAPH_CLI_NO_ANALYTICS": "1", "LANGSMITH_TRACING": "false", **more}


MULTIPLIES = modules(
    planner="Sub-Goal: compute it\nTool: python_coder\nContext: print(6 * 7)",
    executor='{"code": "print(6 * 7)"}',
    follow_up="Standalone question: What is 6 * 7 times two?",
    generator="Answer: 42",
)


def _reply(hangs: threading.Event, body: dict[str, Any]) -> Reply:
    if "Question: #hang#" not in body["messages"][-1]["content"]:
        return MULTIPLIES(body)
    hangs.set()
    return Fault.HANG


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """It runs in a directory of its own, for what it writes."""
    home, granted = tmp_path_factory.mktemp("server"), tmp_path_factory.mktemp("granted")
    shutil.copy(ROOT / "langgraph.json", home)
    port, log, hangs = free_port(), home / "log", threading.Event()
    command = [LANGGRAPH, "dev", "--no-browser", "--no-reload", "--port", str(port), "--n-jobs-per-worker", "10"]
    with FakeOpenAI(partial(_reply, hangs)) as endpoint, log.open("w") as out:
        grants = {ENDPOINTS: endpoint.base_url, FILES: str(granted), ORIGINS: "https://granted.example"}
        process = subprocess.Popen(
            command,
            cwd=home,
            env=environment(OPENAI_COMPATIBLE_API_KEY=KEY, **grants),
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_until_up(url, process, log)
            yield Server(url, f"openai-compatible:fake-model@{endpoint.base_url}", endpoint, hangs, granted)
        finally:
            _stop(process)


def _wait_until_up(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    while process.poll() is None:
        try:
            if httpx.get(f"{url}/ok", timeout=60).status_code == 200:
                return
        except httpx.TransportError:
            pass  # not listening yet
        time.sleep(0.2)
    pytest.fail(f"the server did not start; its log:\n{log.read_text()}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    for stop in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, stop)
            process.wait(60)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


@pytest.fixture
async def client(server: Server) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=server.url, timeout=LAST_RESORT) as client:
        yield client


@pytest.fixture
async def assistant(client: LangGraphClient) -> str:
    """The id of the assistant that the server made for the agent."""
    [found] = await client.assistants.search(graph_id="agentflow")
    return str(found["assistant_id"])


@pytest.fixture(scope="session")
def question() -> Problem:
    """One that takes several turns and two tools."""
    return next(found for found in questions("test", 12) if len({step.tool for step in found.steps}) > 1)


CONTEXT: dict[str, Any] = {"model": "atlas-oracle", "corpus": "atlas"}
"""A model that needs no training or key, with its encyclopedia."""


def asked(question: Problem) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question.question}]}
