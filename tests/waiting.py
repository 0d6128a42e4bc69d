"""Wait for another process or thread. The time limit is a last resort, which no machine is too busy for."""

import asyncio
import time
from collections.abc import Callable

LAST_RESORT = 300.0
"""Seconds. Whoever waits this long waits for something that does not come."""


def until(holds: Callable[[], object]) -> None:
    """Return when the condition holds."""
    deadline = time.monotonic() + LAST_RESORT
    while not holds():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


async def until_async(holds: Callable[[], object]) -> None:
    """Return when the condition holds; the event loop runs meanwhile."""
    deadline = time.monotonic() + LAST_RESORT
    while not holds():
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.02)
