"""The first program of the README, as an editor and a type checker see it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ROOT, program
from tests.waiting import LAST_RESORT

pytest.importorskip("mypy")


def test_it_passes_mypy_strict(tmp_path: Path) -> None:
    """The settings are those of `make types`, whose cache makes this quick; without a cache it takes a minute."""
    file = tmp_path / "first.py"
    file.write_text(program(ROOT / "README.md"))
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LAST_RESORT, check=False)
    assert done.returncode == 0, done.stdout
