"""A unit test starts no process but the sandbox's, unless it is marked so: it takes long on a busy machine."""

import sys
from collections.abc import Iterator

import pytest

STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"}
"""Python's audit events for the start of a process."""
_refusing = False


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    if _refusing and event in STARTS and "fork_server" not in str(arguments):
        raise RuntimeError(f"this test needs @pytest.mark.process: {event} {arguments[:2]}")


sys.addaudithook(_refuse)


@pytest.fixture(autouse=True)
def _no_process(request: pytest.FixtureRequest) -> Iterator[None]:
    global _refusing
    _refusing = request.node.get_closest_marker("process") is None
    yield
    _refusing = False
