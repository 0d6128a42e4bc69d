"""Settings of every test: strict checkpoints, Ctrl-C, and property tests that a busy machine cannot make flaky."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import settings
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from tests.capabilities import missing
from tests.waiting import LAST_RESORT

os.environ["LANGGRAPH_STRICT_MSGPACK"] = (
    "true"  # read when langgraph is first imported: only the state's types come back
)

if "PYTEST_XDIST_WORKER" in os.environ:  # the workers fill the cores already
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell ignores Ctrl-C for what it starts in the background, and so would every command that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("agentflow", deadline=None, max_examples=40)
settings.register_profile("thorough", deadline=None, max_examples=1000)  # --hypothesis-profile=thorough
settings.load_profile("agentflow")


@pytest.fixture
def never(httpserver: HTTPServer) -> Iterator[Any]:
    """A handler of `httpserver` that does not reply before the test is over."""
    over = threading.Event()

    def handle(request: Request) -> Response:
        over.wait(LAST_RESORT)
        return Response()

    yield handle
    over.set()
    # It answers one request after another: none that was given up reaches a later test.
    httpx.get(httpserver.url_for("/"), trust_env=False, timeout=None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what there is no time for, as CI says on a slow machine."""
    if time.time() > float(os.environ.get("TESTS_UNTIL", "inf")):
        pytest.skip("there is no time left")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List what this machine lacks, also of what only slow tests exercise, with the commands that install it."""
    if terminalreporter.config.pluginmanager.hasplugin("tests.quick"):
        return  # `make test`, which needs little
    if lacking := list(missing()):
        terminalreporter.section("not exercised on this machine", "-")
        for command in lacking:
            terminalreporter.write_line(command)
