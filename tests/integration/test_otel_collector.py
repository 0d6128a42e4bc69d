"""Traces through a real collector: rotel receives them as Jaeger or Grafana's would, and passes them on to the test.

`make test-otel` installs it; it is a wheel with a binary, in a venv of its own.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.otlp import Receiver
from tests.ports import free_port

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")
ROTEL = find_spec("rotel")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(ROTEL is None, reason="rotel is not installed; see make test-otel"),
]

SECONDS = 90.0


def wait_until_open(port: int, server: subprocess.Popen[bytes]) -> None:
    while True:
        assert server.poll() is None, "the collector has ended"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def collector(receiver: Receiver, tmp_path: Path) -> Iterator[str]:
    """The address of a collector that passes on to `receiver`."""
    assert ROTEL is not None
    assert ROTEL.origin is not None
    http, grpc = free_port(), free_port()
    options = {
        "otlp-http-endpoint": f"127.0.0.1:{http}",
        "otlp-grpc-endpoint": f"127.0.0.1:{grpc}",
        "exporter": "otlp",
        "otlp-exporter-endpoint": receiver.url,
        "otlp-exporter-protocol": "http",
        "log-file": str(tmp_path / "log"),
        "pid-file": str(tmp_path / "pid"),
    }
    command = [Path(ROTEL.origin).with_name("rotel-agent"), "start", *(f"--{k}={v}" for k, v in options.items())]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until_open(http, server)
        yield f"http://127.0.0.1:{http}"
    finally:
        server.terminate()
        server.wait(SECONDS)


def test_a_collector_takes_what_the_command_line_sends(collector: str, receiver: Receiver) -> None:
    question = "How many years lie between the publication of Song of Fupoz and that of Song of Gotonub?"
    command = [sys.executable, "-m", "agentflow", "solve", question, "--model", "atlas-oracle", "--tracing", "otel"]
    done = subprocess.run(
        command,
        env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": collector, "OTEL_SERVICE_NAME": "mine"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    receiver.wait_for("invoke_agent agentflow", SECONDS)
    [root] = [span for span in receiver.spans if not span.parent]
    assert root.attributes["agentflow.status"] == "answered"
    assert {span.trace for span in receiver.spans} == {root.trace}
    assert {span.service for span in receiver.spans} == {"mine"}
    assert {span.attributes["gen_ai.tool.name"] for span in receiver.spans if span.name.startswith("execute_tool")} == {
        "wikipedia_search",
        "python_coder",
    }
    with receiver.arrived:
        assert receiver.arrived.wait_for(lambda: "gen_ai.client.operation.duration" in receiver.metrics, SECONDS)
