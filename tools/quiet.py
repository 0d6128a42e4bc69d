"""Code without its warnings, in one thread at a time."""

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_ALONE = threading.RLock()


@contextmanager
def without_warnings(category: type[Warning] = Warning) -> Iterator[None]:
    """Ignore the warnings of a category.

    The filters that `warnings.catch_warnings` saves and restores are those of all threads. Of two threads at once, one
    would be warned after all, and the other would leave its filters behind.
    """
    with _ALONE, warnings.catch_warnings():
        warnings.simplefilter("ignore", category)
        yield
