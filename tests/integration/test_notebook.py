"""examples/first_steps.ipynb runs from top to bottom, as a kernel would run it."""

import ast
import asyncio
import json
import os
import subprocess
import sys
from inspect import iscoroutine
from pathlib import Path
from typing import Any

import pytest

from agentflow.tools.sandbox import execute
from tests.pages import ROOT

NOTEBOOK = json.loads((ROOT / "examples/first_steps.ipynb").read_text())
CELLS = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]

pytestmark = pytest.mark.slow


def shell(command: str, folder: Path) -> str:
    """Run a line that begins with "!"."""
    agentflow, *arguments = command.split()
    assert agentflow == "agentflow"
    done = subprocess.run(
        [sys.executable, "-m", "agentflow", *arguments],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


async def test_it_runs_from_top_to_bottom(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("verl", reason="the extra train is not installed")
    if problem := execute.unavailable():
        pytest.skip(problem)
    names: dict[str, Any] = {}
    printed = []
    for cell in CELLS:
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


def test_it_is_kept_without_outputs() -> None:
    cells = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] or cell["execution_count"] for cell in cells)
