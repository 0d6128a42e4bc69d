"""Worst-case CPU seconds of a function over a set of attack texts, and how they grow with the text's length."""

import gc
import math
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from heapq import nlargest
from types import FrameType

from benchmarks.expressions.texts import Attack

SIZE, SMALL, GOAL, LIMIT = 1_000_000, 4_000, 0.2, 20.0
PAIRS = 5
"""Pairs of runs that `growth` compares."""
WORST = 3
"""Number of slowest attacks on a small text that are run again at full size."""

Run = Callable[[str], object]


class _TooLong(Exception):
    pass


def seconds(run: Run, text: str, limit: float = LIMIT) -> float:
    """Return the CPU seconds of `run(text)`, or infinity if it is stopped after `limit`.

    Only the main thread can stop `re`. Garbage is not collected meanwhile, which takes time by the size of the heap.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGVTALRM, interrupt)
    collects = gc.isenabled()
    gc.disable()
    start = time.thread_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    try:
        with suppress(_TooLong):
            run(text)
            return time.thread_time() - start
        return math.inf
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if collects:
            gc.enable()
        signal.signal(signal.SIGVTALRM, before)


def slowest(run: Run, attacks: Iterable[Attack], small: int = SMALL, limit: float = LIMIT) -> list[Attack]:
    """Return the WORST attacks by CPU seconds at `small` characters."""
    return nlargest(WORST, attacks, key=lambda attack: seconds(run, attack.text(small), limit))


def worst(run: Run, attacks: Iterable[Attack]) -> tuple[float, str]:
    """Return the CPU seconds and the first 40 characters of the worst attack of SIZE characters."""
    texts = [attack.text(SIZE) for attack in slowest(run, attacks)]
    return max((seconds(run, text), text[:40]) for text in texts)


def growth(run: Run, attack: Attack, size: int, limit: float) -> float:
    """Return the factor by which CPU time grows from `size` to twice as many characters: 2 if linear, 4 if quadratic.

    Return 0 if the longer text ever takes less than GOAL allows for its length, and infinity if it is stopped after
    `limit`. The shortest of a few runs of each counts, made in turn, since other load only adds time.
    """
    short, long = attack.text(size), attack.text(2 * size)
    shorts, longs = [], []
    for _ in range(PAIRS):
        longs.append(seconds(run, long, limit))
        if longs[-1] <= GOAL * 2 * size / SIZE:
            return 0.0
        if longs[-1] == math.inf:
            return math.inf
        shorts.append(seconds(run, short, limit))
    return min(longs) / min(shorts)
