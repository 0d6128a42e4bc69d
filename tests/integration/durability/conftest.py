"""The databases that the tests of this folder run on."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.durability import postgres


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A server for all tests of the session."""
    if reason := postgres.missing():
        pytest.skip(reason)
    home = Path(tempfile.mkdtemp(prefix="agentflow-pg-"))  # pytest's own folders are closed to other users
    home.chmod(0o755)
    try:
        with postgres.server(home / "server") as url:
            yield url
    finally:
        shutil.rmtree(home)


@pytest.fixture(params=["sqlite", "postgres"])
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The spec of each database in turn."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'threads.sqlite'}"
    return str(request.getfixturevalue("postgres_url"))
