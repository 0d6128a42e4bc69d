"""How many programs run at a time in this process, whoever asks; the others wait, first come first served.

A program takes a few descriptors of the host, of which it leaves most to others, and may take all the memory that it is
allowed: programs are started as long as all that run could have it. One program may always run.
"""

import contextlib
import os
import resource
import threading
from collections import deque
from collections.abc import Iterator

from agentflow.tools.sandbox import memory

SLOTS = 64
"""Most programs at a time."""

_DESCRIPTORS = 8
"""Share of one program in the host's descriptors: it takes at most seven while it starts, and three later."""
_TICK = 0.1
"""Seconds between looks of the first in line at the memory, and at whether its caller has given up."""
_BEHIND = 1.0
"""The same for those behind it, who would else keep each other awake."""


class Turns:
    """Usable from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._running = 0
        self._promised = 0

    @contextlib.contextmanager
    def turn(self, memory_bytes: int, cancelled: threading.Event) -> Iterator[bool]:
        """Waits for a turn, and holds it within the block; False if `cancelled` was set first."""
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
    """Those of this process."""
    return _turns


def _renew() -> None:
    """A process that this one forked has its own: those who wait are not there."""
    global _turns
    _turns = Turns()


_turns = Turns()
os.register_at_fork(after_in_child=_renew)
