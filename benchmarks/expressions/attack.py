"""How long a reader takes at worst, in CPU seconds."""

import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from heapq import nlargest
from types import FrameType

from benchmarks.expressions.texts import Attack

SIZE, SMALL, GOAL, LIMIT = 1_000_000, 4_000, 0.2, 20.0
WORST = 3
"""Attacks, of those that take longest at SMALL, that are tried at SIZE."""


class _TooLong(Exception):
    pass


def seconds(run: Callable[[str], object], text: str, limit: float = LIMIT) -> float:
    """CPU seconds of `run(text)`; interrupted after `limit`, which `re` allows in the main thread."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGVTALRM, interrupt)
    start = time.thread_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    try:
        with suppress(_TooLong):
            run(text)
        return time.thread_time() - start
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def worst(
    run: Callable[[str], object], attacks: Iterable[Attack], size: int = SIZE, limit: float = LIMIT
) -> tuple[float, str]:
    """The most CPU seconds that an attack takes at `size`, and how its text begins; the slowest at SMALL are tried."""
    slowest = nlargest(WORST, attacks, key=lambda attack: seconds(run, attack.text(SMALL), limit))
    return max((seconds(run, text, limit), text[:40]) for text in (attack.text(size) for attack in slowest))
