"""The examples of embedding, run as they stand, with the embedded model."""

import asyncio
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import agentflow
from agentflow.tools.sandbox import execute
from tests.cases import table

HOME = Path(agentflow.__file__).parents[1]
PRINTED = dict(table(__file__, "examples.txt"))
"""Output of each example; the embedded model is deterministic."""
COMPUTE = {"chain", "custom_node"}
ELSEWHERE = {"help_desk"}
"""Examples that another test runs."""


@pytest.mark.parametrize("name", [name for name in PRINTED if name != "mcp_client"])
def test_an_example_prints_what_it_should(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name in COMPUTE and (problem := execute.unavailable()):
        pytest.skip(problem)
    asyncio.run(import_module(f"examples.{name}").main())
    assert capsys.readouterr().out.splitlines() == PRINTED[name]


def test_an_example_is_a_program() -> None:
    """And starts one: the server, which the client finds by the current folder."""
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    if problem := execute.unavailable():
        pytest.skip(problem)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "examples.mcp_client"],
        cwd=HOME, env={**os.environ, "PYTHONPATH": str(HOME)}, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.stdout.splitlines(), done.stderr) == (PRINTED["mcp_client"], "")


def test_every_example_is_run() -> None:
    assert {path.stem for path in (HOME / "examples").glob("*.py")} == set(PRINTED) | ELSEWHERE
