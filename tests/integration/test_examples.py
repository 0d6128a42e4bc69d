"""The examples of embedding, run as they stand, with the embedded model."""

import ast
import asyncio
import json
import os
from importlib import import_module
from inspect import iscoroutine
from pathlib import Path
from typing import Any

import pytest

import agentflow
from agentflow.tools.sandbox import execute
from tests.cases import table
from tests.processes import python

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
    done = python("-W", "error", "-m", "examples.mcp_client", cwd=HOME, env={**os.environ, "PYTHONPATH": str(HOME)})
    assert (done.stdout.splitlines(), done.stderr) == (PRINTED["mcp_client"], "")


def test_every_example_is_run() -> None:
    assert {path.stem for path in (HOME / "examples").glob("*.py")} == set(PRINTED) | ELSEWHERE


# The notebook

NOTEBOOK = json.loads((HOME / "examples/first_steps.ipynb").read_text())
CELLS = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def shell(command: str, folder: Path) -> str:
    """Run a line that begins with "!"."""
    agentflow, *arguments = command.split()
    assert agentflow == "agentflow"
    done = python("-m", "agentflow", *arguments, cwd=folder, env={**os.environ, "PYTHONPATH": str(HOME)})
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.slow
async def test_the_notebook_runs_from_top_to_bottom_as_in_a_kernel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("verl", reason="the extra train is not installed")
    if problem := execute.unavailable():
        pytest.skip(problem)
    names: dict[str, Any] = {}
    printed = []
    for cell in ("".join(one["source"]) for one in CELLS):
        first, _, rest = cell.partition("\n")
        if first.startswith("%%writefile "):
            (tmp_path / first.split()[1]).write_text(rest)
        elif first.startswith("!"):
            printed.append(await asyncio.to_thread(shell, first[1:], tmp_path))
        else:
            done = eval(compile(cell, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
            if iscoroutine(done):
                await done
            printed.append(capsys.readouterr().out)
    asked, embedded, evaluated, tried = printed
    assert (asked.splitlines()[-1], embedded.strip()) == ("9", "15")
    assert [line.split()[0] for line in evaluated.splitlines()] == ["embedded:seed", "embedded"]
    assert "2 of 2 tasks" in tried


def test_the_notebook_is_kept_without_outputs() -> None:
    assert not any(cell["outputs"] or cell["execution_count"] for cell in CELLS)
