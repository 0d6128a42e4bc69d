"""Adherence to servers' rate limits.

A refusal that names a time to wait (429 with Retry-After) holds back every request to that server, not only the refused
one. Otherwise, of thirty requests in flight, each would be refused in turn.
"""

import asyncio
import random
import time
from collections.abc import Mapping

LONGEST = 120.0
"""Maximum wait in seconds. If a server asks for more, the request is given up."""
TRIES = 8
"""Maximum number of attempts for a request that is refused each time."""


class Pace:
    """The time from which each server accepts requests again."""

    def __init__(self) -> None:
        self._open_at: dict[str, float] = {}

    async def keep(self, server: str) -> None:
        """Wait until `server` accepts requests."""
        while (seconds := self._open_at.get(server, 0.0) - time.monotonic()) > 0:  # noqa: ASYNC110
            # Another refusal may extend the wait, so an event cannot signal its end. Jitter spreads the requests.
            await asyncio.sleep(seconds + random.uniform(0, min(seconds, 1.0)))

    def refused(self, server: str, seconds: float) -> bool:
        """Hold back requests to `server` for that time. Return False if the time is too long to wait."""
        if seconds > LONGEST:
            return False
        self._open_at[server] = max(self._open_at.get(server, 0.0), time.monotonic() + seconds)
        return True


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait, or None if it gives none or another form than seconds."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    return None
