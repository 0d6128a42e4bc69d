"""Collection of cyclic garbage in a process with many objects.

With hundreds of runs under way, Python's search for garbage in cycles takes a third of the processor's time, and with
tens of thousands of records more than half of the time of reading them. It finds little.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG = 10_000
"""Number of new objects after which they are searched; with Python's 700, that is at every turn of a run."""


def collect_rarely() -> None:
    """Search for garbage rarely from now on, and not among the objects that there are."""
    gc.freeze()
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Search for garbage rarely until the end of the block."""
    before = gc.get_threshold()
    collect_rarely()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
