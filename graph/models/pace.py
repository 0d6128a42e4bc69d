"""Patience with servers that refuse requests for now: one gate for all requests to a server.

A refusal holds back every request to that server, not only the refused one. Otherwise, of thirty requests in flight,
each would be refused in turn. The gate stays closed for as long as the server asks (`tools.web.rate_limits`), and where
that is too short, or nothing is said, for a time that doubles. A server that accepts some requests is waited for; one
that has refused all for a while is given up.
"""

import time
from asyncio import sleep
from collections import defaultdict
from dataclasses import dataclass
from random import uniform

LONGEST = 120.0
"""Maximum wait in seconds. If a server asks for more, the request is given up."""
TRIES = 8
"""Refusals in a row, of requests that had waited, after which requests are given up."""
FIRST = 1.0
"""Seconds of the first pause of our own; each further one is twice as long."""


@dataclass
class _Gate:
    closed_at: float = float("-inf")
    open_at: float = float("-inf")
    refusals: int = 0
    """Refusals in a row of requests that were sent after the gate had opened."""


class Pace:
    """The gates of all servers."""

    def __init__(self) -> None:
        self._gates = defaultdict[str, _Gate](_Gate)
        self.waited = 0.0
        """Seconds for which gates were closed."""

    async def keep(self, server: str) -> float:
        """Wait until `server` accepts requests. Return the time of `time.monotonic` then."""
        gate = self._gates[server]
        while (seconds := gate.open_at - time.monotonic()) > 0:  # noqa: ASYNC110
            # Another refusal may extend the wait, so an event cannot signal its end. Jitter spreads the requests.
            await sleep(seconds + uniform(0, min(seconds, 1.0)))
        return time.monotonic()

    def accepted(self, server: str) -> None:
        """Take note that `server` has accepted a request."""
        self._gates[server].refusals = 0

    def refused(self, server: str, sent: float, seconds: float | None) -> bool:
        """Close the gate after the refusal of a request that was sent at `sent`, for the `seconds` that the server
        asks. Return False if the request is given up.
        """
        gate, now = self._gates[server], time.monotonic()
        if now - gate.open_at > LONGEST:
            gate.refusals = 0  # those were another time's
        if sent >= gate.closed_at:
            gate.refusals += 1
        if gate.refusals >= TRIES or (seconds or 0.0) > LONGEST:
            return False
        # Where the server names a time, pauses of our own begin after it was too short.
        doubled = gate.refusals - (1 if seconds is None else 2)
        pause = max(seconds or 0.0, FIRST * 2**doubled if doubled >= 0 else 0.0)
        if now + pause > gate.open_at:
            self.waited += now + pause - max(now, gate.open_at)
            gate.closed_at, gate.open_at = now, now + pause
        return True


PACE = Pace()
"""The gates of this process."""
