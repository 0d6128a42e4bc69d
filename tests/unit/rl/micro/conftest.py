from pathlib import Path

import pytest

from tests.unit.rl.micro import checkpoint


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random checkpoint; not to be changed."""
    return checkpoint.write(tmp_path_factory.mktemp("checkpoint"))
