"""Waiting for another thread."""

import time
from collections.abc import Callable


def wait_for(condition: Callable[[], bool]) -> None:
    """Return when `condition` holds; fail after half a minute."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)
