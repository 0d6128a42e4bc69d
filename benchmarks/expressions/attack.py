"""Worst-case CPU seconds of a function over a set of attack texts."""

import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from heapq import nlargest
from types import FrameType

from benchmarks.expressions.texts import Attack

SIZE, SMALL, GOAL, LIMIT = 1_000_000, 4_000, 0.2, 20.0
WORST = 3
"""Number of slowest attacks at SMALL characters that are run again at full size."""


class _TooLong(Exception):
    pass


def seconds(run: Callable[[str], object], text: str, limit: float = LIMIT) -> float:
    """Return the CPU seconds of `run(text)`, stopped after `limit`; `re` can be stopped in the main thread only."""

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
    """Return the CPU seconds and the first 40 characters of the worst attack of `size` characters.

    Only the attacks that are slowest at SMALL characters run at full size.
    """
    slowest = nlargest(WORST, attacks, key=lambda attack: seconds(run, attack.text(SMALL), limit))
    return max((seconds(run, text, limit), text[:40]) for text in (attack.text(size) for attack in slowest))
