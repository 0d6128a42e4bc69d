"""Expects a reader of untrusted text to take linear time: twice the CPU time for twice the text, not four times."""

from collections.abc import Callable, Iterable

from benchmarks.expressions.attack import growth
from benchmarks.expressions.texts import Attack

SIZE, LIMIT = 50_000, 2.0
"""Characters of the shorter text, and CPU seconds after which a reader of either text is stopped."""
LINEAR = 3.0
"""Between the growth of a linear reader, 2, and of a quadratic one, 4."""


def assert_linear(read: Callable[[str], object], attacks: Iterable[Attack], size: int = SIZE) -> None:
    """Expect that the time of `read` grows no faster than the text, in each attack."""
    for attack in attacks:
        assert growth(read, attack, size, LIMIT) < LINEAR, attack
