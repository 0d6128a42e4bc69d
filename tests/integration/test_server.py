"""The graph behind the real LangGraph server, as Studio, the SDK and other graphs meet it. Needs the extra `studio`."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentflow.evals.atlas.families import Question, questions
from agentflow.graph.context import Context

pytest.importorskip("langgraph_api", reason="the extra studio is not installed")

from langgraph.pregel.remote import RemoteGraph
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[2]
LANGGRAPH = Path(sys.executable).with_name("langgraph")
START_SECONDS = 120
CONTEXT = {"model": "atlas-oracle", "corpus": "atlas"}
"""A model that is there without training or key, and the encyclopedia that it knows."""


def _environment() -> dict[str, str]:
    """This process's environment without anybody's keys: the server has to start without."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    return {**kept, "LANGGRAPH_CLI_NO_ANALYTICS": "1", "LANGSMITH_TRACING": "false"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of our langgraph.json, in a directory of its own for what it writes."""
    home = tmp_path_factory.mktemp("server")
    shutil.copy(ROOT / "langgraph.json", home)
    port = _free_port()
    command = [LANGGRAPH, "dev", "--no-browser", "--no-reload", "--port", str(port), "--n-jobs-per-worker", "10"]
    log = home / "log"
    with log.open("w") as out:
        server = subprocess.Popen(
            command,
            cwd=home,
            env=_environment(),
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        _wait_until_up(f"http://127.0.0.1:{port}", server, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        _stop(server)


def _wait_until_up(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            if httpx.get(f"{url}/ok", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass  # not listening yet
        time.sleep(0.2)
    pytest.fail(f"the server did not start; its log:\n{log.read_text()}")


def _stop(server: subprocess.Popen[bytes]) -> None:
    for stop in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(server.pid, stop)
            server.wait(10)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


@pytest.fixture
async def client(url: str) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=url) as client:
        yield client


@pytest.fixture
async def assistant(client: LangGraphClient) -> str:
    """The id of the assistant that the server made for our graph."""
    [found] = await client.assistants.search()
    assert found["graph_id"] == "agentflow"
    return found["assistant_id"]


@pytest.fixture(scope="module")
def question() -> Question:
    """One that takes several turns and two tools."""
    return next(found for found in questions("test", 12) if len({step.tool for step in found.steps}) > 1)


def asked(question: Question) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question.question}]}


def test_the_configuration_is_valid(tmp_path: Path) -> None:
    shutil.copy(ROOT / "langgraph.json", tmp_path)
    run = subprocess.run(
        [LANGGRAPH, "validate"],
        cwd=tmp_path,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "warning" not in (run.stdout + run.stderr).lower()


async def test_studio_sees_every_setting_with_its_help(client: LangGraphClient, assistant: str) -> None:
    schemas = await client.assistants.get_schemas(assistant)
    properties = schemas["context_schema"]["properties"]
    assert set(properties) == set(Context.model_fields)
    for name, setting in properties.items():
        assert setting["title"] != name
        assert len(setting["description"]) > 15, name
    turns, seconds = properties["max_turns"], properties["max_seconds"]
    assert (turns["minimum"], turns["maximum"], turns["default"]) == (1, 100, 10)
    assert seconds["exclusiveMinimum"] == 0
    assert set(schemas["input_schema"]["properties"]) == {"messages"}


async def test_studio_sees_the_graph(client: LangGraphClient, assistant: str) -> None:
    drawn = await client.assistants.get_graph(assistant)
    edges = {(edge["source"], edge["target"]) for edge in drawn["edges"]}
    loop = {("planner", "executor"), ("executor", "verifier"), ("verifier", "planner"), ("verifier", "generator")}
    assert loop <= edges
    assert ("__start__", "analyst") in edges


async def test_a_question_streams_the_updates_of_its_nodes(client: LangGraphClient, question: Question) -> None:
    thread = await client.threads.create()
    updates: list[tuple[str, dict[str, Any]]] = []
    async for part in client.runs.stream(
        thread["thread_id"], "agentflow", input=asked(question), context=CONTEXT, stream_mode="updates"
    ):
        assert part.event in ("metadata", "updates"), part.data
        if part.event == "updates":
            updates += part.data.items()

    turns = len(question.steps)
    assert [node for node, _ in updates] == ["analyst", *["planner", "executor", "verifier"] * turns, "generator"]
    remembered = [turn for node, update in updates if node == "verifier" for turn in update["memory"]]
    assert [turn["turn"] for turn in remembered] == [*range(1, turns + 1)]
    assert [turn["plan"]["tool"] for turn in remembered] == [step.tool for step in question.steps]
    assert [turn["verdict"]["signal"] for turn in remembered] == [*["continue"] * (turns - 1), "stop"]
    assert updates[-1][1]["answer"] == question.answer

    state = await client.threads.get_state(thread["thread_id"])
    assert len(state["values"]["memory"]) == turns
    assert state["values"]["messages"][-1]["content"].endswith(question.answer)


async def test_it_is_a_remote_graph(client: LangGraphClient, question: Question) -> None:
    state = await RemoteGraph("agentflow", client=client).ainvoke(asked(question), context=CONTEXT)
    assert isinstance(state, dict)
    assert state["status"] == "answered"
    assert state["answer"] == question.answer


async def test_a_setting_out_of_range_fails_the_run_and_says_which(client: LangGraphClient, question: Question) -> None:
    with pytest.raises(Exception, match="max_turns"):
        await RemoteGraph("agentflow", client=client).ainvoke(asked(question), context={**CONTEXT, "max_turns": 0})
