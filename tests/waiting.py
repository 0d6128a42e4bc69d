"""Wait for another process or thread, for as long as it takes: pytest's own limit is the last resort."""

import asyncio
import time
from collections.abc import Callable

LAST_RESORT = 3600.0
"""Seconds, where a call has to name some: more than pytest lets a test take."""


def until(holds: Callable[[], object]) -> None:
    """Return when the condition holds."""
    while not holds():
        time.sleep(0.02)


async def until_async(holds: Callable[[], object]) -> None:
    """Return when the condition holds; the event loop runs meanwhile."""
    while not holds():  # noqa: ASYNC110 - another process or thread sets no event of this loop
        await asyncio.sleep(0.02)
