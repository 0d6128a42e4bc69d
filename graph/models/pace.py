"""Keeps to a server's rate limit. One refusal that says when to come back (429 with Retry-After) holds back every
request to that server, not only the refused one: of thirty that are under way, each would be refused in its turn."""

import asyncio
import random
import time
from collections.abc import Mapping

LONGEST = 120.0
"""Seconds that are waited at most; a server that asks for more is not waited for."""
TRIES = 8
"""Requests that are made at most of one that is refused each time."""


class Pace:
    """Since when each server may be asked again."""

    def __init__(self) -> None:
        self._open_at: dict[str, float] = {}

    async def keep(self, server: str) -> None:
        """Returns when `server` may be asked."""
        while (seconds := self._open_at.get(server, 0.0) - time.monotonic()) > 0:  # noqa: ASYNC110
            # Another refusal may come meanwhile, so that no event tells the end; and not all go on at the same moment.
            await asyncio.sleep(seconds + random.uniform(0, min(seconds, 1.0)))

    def refused(self, server: str, seconds: float) -> bool:
        """Holds `server` back for as long as it asks; False if that is too long to be waited for."""
        if seconds > LONGEST:
            return False
        self._open_at[server] = max(self._open_at.get(server, 0.0), time.monotonic() + seconds)
        return True


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that a server asks to wait, None if it does not say, or in another form than seconds."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    return None
