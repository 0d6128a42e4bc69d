"""Expects a reader of untrusted text to take linear time: twice the CPU time for twice the text, not four times."""

import gc
import math
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from heapq import nlargest
from types import FrameType

from tests.attacks import Attack

Run = Callable[[str], object]

SIZE, LIMIT = 50_000, 30.0
"""Characters of the shorter text, and CPU seconds after which a reader counts as one that never ends."""
LINEAR = 3.0
"""Between the growth of a linear reader, 2, and of a quadratic one, 4."""
FAST = 0.2e-6
"""CPU seconds a character: what takes less needs no second look."""
PAIRS, WORST = 5, 3
"""Pairs of runs that `growth` compares, and attacks that `slowest` chooses."""


class _TooLong(Exception):
    pass


def assert_linear(read: Run, attacks: Iterable[Attack], size: int = SIZE) -> None:
    """Expect that the time of `read` grows no faster than the text, in each attack.

    What grows faster is measured again: a busy machine slows the longer runs alone now and then, not three times.
    """
    for attack in attacks:
        assert any(growth(read, attack, size, LIMIT) < LINEAR for _ in range(3)), attack


def growth(run: Run, attack: Attack, size: int, limit: float) -> float:
    """The factor by which CPU time grows from `size` to twice as many characters: 2 if linear, 4 if quadratic.

    0 if the longer text is ever read fast, and infinity if it is stopped after `limit`. The shortest of a few runs of
    each counts, made in turn, since other load only adds time.
    """
    short, long = attack.text(size), attack.text(2 * size)
    shorts, longs = [], []
    for _ in range(PAIRS):
        longs.append(seconds(run, long, limit))
        if longs[-1] <= FAST * 2 * size:
            return 0.0
        if longs[-1] == math.inf:
            return math.inf
        shorts.append(seconds(run, short, limit))
    return min(longs) / min(shorts)


def slowest(run: Run, attacks: Iterable[Attack], small: int, limit: float) -> list[Attack]:
    """The WORST attacks by CPU seconds at `small` characters."""
    return nlargest(WORST, attacks, key=lambda attack: seconds(run, attack.text(small), limit))


def seconds(run: Run, text: str, limit: float = LIMIT) -> float:
    """The CPU seconds of `run(text)`, or infinity if it is stopped after `limit`.

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
