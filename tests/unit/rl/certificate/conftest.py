"""A run and the contents of its certificate."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from agentflow.rl.certificate.contents import Contents


@pytest.fixture
def run(tmp_path: Path) -> Path:
    # Imported late, as in the next one: other tests of this folder need no verl.
    from tests.unit.rl.certificate.runs import write_run

    return write_run(tmp_path)


@pytest.fixture
def certified(run: Path) -> "Contents":
    from agentflow.rl.certificate.contents import contents_of

    return contents_of(run)
