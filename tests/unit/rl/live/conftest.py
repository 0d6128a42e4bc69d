"""The journals of a server that learns, which are closed at the end."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agentflow.rl.live.journal import Traffic
from agentflow.rl.live.versions import Versions


@pytest.fixture
def versions(tmp_path: Path) -> Iterator[Versions]:
    with closing(Versions(tmp_path, lambda decision: None)) as found:
        yield found


@pytest.fixture
def traffic(tmp_path: Path) -> Iterator[Traffic]:
    with closing(Traffic(tmp_path)) as found:
        yield found
