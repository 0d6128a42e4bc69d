"""The number of programs that run at a time in this process. The others wait.

A program takes a few descriptors of the host, so most are left for other uses. It may also use all the memory allowed
to it, so programs only start while memory suffices for all that run. One program may always run.
"""

import contextlib
import resource
import threading
from collections.abc import Iterator

from agentflow.tools.sandbox import memory
from agentflow.tools.sandbox.limits import SLOTS

_DESCRIPTORS = 8
"""Host descriptors reserved per program. It takes at most seven while it starts, and three later."""
_TICK = 0.2
"""Seconds between a waiter's checks of the memory, and of whether its caller has cancelled."""


class Turns:
    """Turns of programs, usable from any thread."""

    def __init__(self) -> None:
        self._ended = threading.Condition()
        self._running = 0
        self._promised = 0

    @contextlib.contextmanager
    def turn(self, memory_bytes: int, cancelled: threading.Event) -> Iterator[bool]:
        """Wait for a turn and hold it within the block. Yield False if `cancelled` was set first."""
        with self._ended:
            while not cancelled.is_set() and not self._fits(memory_bytes):
                self._ended.wait(_TICK)
            had = not cancelled.is_set()
            self._running += had
            self._promised += memory_bytes * had
        try:
            yield had
        finally:
            with self._ended:
                self._running -= had
                self._promised -= memory_bytes * had
                self._ended.notify()

    def _fits(self, memory_bytes: int) -> bool:
        if not self._running:
            return True
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        slots = SLOTS if descriptors == resource.RLIM_INFINITY else min(SLOTS, descriptors // _DESCRIPTORS)
        return self._running < slots and self._promised + memory_bytes <= memory.available()
