"""How often a process with many runs searches for garbage."""

import gc
from contextlib import suppress

from agentflow.graph.run.garbage import YOUNG, rarely_collected


def test_garbage_is_searched_for_rarely_until_the_block_ends_whatever_ends_it() -> None:
    before = gc.get_threshold()
    with suppress(KeyError), rarely_collected():
        assert gc.get_threshold() == (YOUNG, *before[1:])
        assert gc.get_freeze_count() > 0
        raise KeyError
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
