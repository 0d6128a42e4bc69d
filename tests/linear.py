"""Expects a reader of untrusted text to take linear time: for four times the text four times as long, not sixteen."""

import gc
import math
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from heapq import nlargest
from statistics import median
from types import FrameType

from tests.attacks import Attack

Run = Callable[[str], object]

SIZE, LIMIT = 25_000, 30.0
"""Characters of the shorter text, and CPU seconds after which a reader counts as one that never ends."""
TIMES = 4
"""Lengths of the longer text in those of the shorter."""
LINEAR = 8.0
"""Between the growth of a linear reader, 4, and of a quadratic one, 16."""
FAST = 0.2e-6
"""CPU seconds a character: what takes less needs no second look."""
PAIRS, WORST = 3, 3
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
    """The factor by which CPU time grows from `size` to four times as many characters: 4 if linear, 16 if quadratic.

    0 if the longer text is ever read fast, and infinity if it is stopped after `limit`. Of a few pairs of runs the one
    in the middle counts: what else runs on the core slows most pairs alike.
    """
    short, long = attack.text(size), attack.text(TIMES * size)
    ratios = []
    for _ in range(PAIRS):
        taken = seconds(run, long, limit)
        if taken <= FAST * TIMES * size:
            return 0.0
        if taken == math.inf:
            return math.inf
        ratios.append(taken / seconds(run, short, limit))
    return median(ratios)


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
