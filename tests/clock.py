"""A clock that a test advances: what takes an hour is over at once, and a busy machine takes no time away."""

import asyncio
import time

import pytest

HOUR = 3600.0


class Clock:
    """Stands in for `time.time`; event loops that are advanced keep pace with it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ahead, self._read = 0.0, time.time
        monkeypatch.setattr(time, "time", lambda: self._read() + self._ahead)

    def advance(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        """Let `seconds` pass, also for the timeouts of `loop`; call it on the loop's thread."""
        self._ahead += seconds
        read = loop.time
        loop.time = lambda: read() + seconds  # type: ignore[method-assign]

    async def hang(self, *_: object) -> str:
        """Never return; an hour passes meanwhile."""
        self.advance(asyncio.get_running_loop(), HOUR)
        await asyncio.Event().wait()
        raise AssertionError
