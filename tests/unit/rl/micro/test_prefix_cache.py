import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agentflow.rl.micro.kv_cache import Snapshot
from agentflow.rl.micro.prefix_cache import CachedSequence, PrefixCache

NOTHING = Snapshot(np.zeros(0, np.float32), np.zeros(0, np.float32))
TOKENS = st.lists(st.integers(0, 2), min_size=1, max_size=6)


def _shared(a: list[int], b: list[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


@given(st.lists(TOKENS, max_size=8), TOKENS, st.integers(0, 20))
def test_the_longest_prefix_is_found_within_the_bound(added: list[list[int]], prompt: list[int], bound: int) -> None:
    cache = PrefixCache(bound)
    for tokens in added:
        cache.add(CachedSequence(np.array(tokens, np.int64), NOTHING))
        assert cache.tokens <= bound
    known, sequence = cache.longest(np.array(prompt))
    held = [other.tokens.tolist() for other in cache._sequences]
    assert known == max((_shared(tokens, prompt) for tokens in held), default=0)
    assert sequence is None or sequence.tokens.tolist()[:known] == prompt[:known]
