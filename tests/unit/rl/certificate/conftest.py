"""A run and the contents of its certificate."""

from pathlib import Path

import pytest

from agentflow.rl.certificate.contents import Contents, contents_of
from tests.unit.rl.certificate.runs import write_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path)


@pytest.fixture
def certified(run: Path) -> Contents:
    return contents_of(run)
