"""The number of programs that run at a time in this process. The others wait in the order of their requests.

A program takes a few descriptors of the host, so most are left for other uses. It may also use all the memory allowed
to it, so programs only start while memory suffices for all that run. One program may always run.
"""

import contextlib
import os
import resource
import threading
from collections import deque
from collections.abc import Iterator

from agentflow.tools.sandbox import memory

SLOTS = 64
"""Maximum number of concurrent programs."""

_DESCRIPTORS = 8
"""Host descriptors reserved per program. It takes at most seven while it starts, and three later."""
_TICK = 0.1
"""Seconds between the first waiter's checks of the memory, and of whether its caller has cancelled."""
_BEHIND = 1.0
"""The same interval for later waiters, who would otherwise keep each other awake."""


class Turns:
    """The queue of waiting programs, usable from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._running = 0
        self._promised = 0

    @contextlib.contextmanager
    def turn(self, memory_bytes: int, cancelled: threading.Event) -> Iterator[bool]:
        """Wait for a turn and hold it within the block. Yield False if `cancelled` was set first."""
        if not self._wait(memory_bytes, cancelled):
            yield False
            return
        try:
            yield True
        finally:
            with self._lock:
                self._running -= 1
                self._promised -= memory_bytes
                self._wake_first()

    def _wait(self, memory_bytes: int, cancelled: threading.Event) -> bool:
        woken = threading.Event()
        with self._lock:
            self._waiting.append(woken)
        while True:
            with self._lock:
                first = self._waiting[0] is woken
                had = first and self._fits(memory_bytes)
                if had or cancelled.is_set():
                    self._waiting.remove(woken)
                    self._running += had
                    self._promised += memory_bytes * had
                    self._wake_first()
                    return had
                woken.clear()
            woken.wait(_TICK if first else _BEHIND)

    def _wake_first(self) -> None:
        if self._waiting:
            self._waiting[0].set()

    def _fits(self, memory_bytes: int) -> bool:
        if not self._running:
            return True
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        slots = SLOTS if descriptors == resource.RLIM_INFINITY else min(SLOTS, descriptors // _DESCRIPTORS)
        return self._running < slots and self._promised + memory_bytes <= memory.available()


def turns() -> Turns:
    """Return the queue of this process."""
    return _turns


def _renew() -> None:
    """Create a new queue in a forked process, where the waiting threads do not exist."""
    global _turns
    _turns = Turns()


_turns = Turns()
os.register_at_fork(after_in_child=_renew)
