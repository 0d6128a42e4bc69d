"""The pytest plugin of `make test`: no torch, and no process but the sandbox's, since both take long on a busy machine.

Tests that need torch, or what trains with it, are skipped as if it were not installed. Tests that start a process are
marked so and left out; one that is not marked fails.
"""

import sys
from collections.abc import Iterator

import pytest

for package in ("torch", "transformers", "verl", "ray"):
    sys.modules[package] = None  # type: ignore[assignment]

STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"}
"""Python's audit events for the start of a process."""
_testing = False


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    if _testing and event in STARTS and "fork_server" not in str(arguments):
        raise RuntimeError(f"this test needs @pytest.mark.process: {event} {arguments[:2]}")


sys.addaudithook(_refuse)


@pytest.fixture(autouse=True)
def _no_process() -> Iterator[None]:
    global _testing
    _testing = True
    yield
    _testing = False


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    started = [item for item in items if item.get_closest_marker("process")]
    items[:] = [item for item in items if not item.get_closest_marker("process")]
    config.hook.pytest_deselected(items=started)
