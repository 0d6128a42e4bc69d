"""Test of batch invariance at run time: a request's results do not depend on the other requests of its batch.

`model` and `products` are designed for that; the test also covers functions that they cannot choose, such as numpy's
exponential function.
"""

import numpy as np

from agentflow.rl.micro.kv_cache import BLOCK
from agentflow.rl.micro.model import MicroConfig, MicroModel
from agentflow.rl.micro.products import one_blas_thread

LENGTHS = (3, 19, BLOCK + 5)


_TRIED: dict[MicroConfig, bool] = {}


def batch_invariant(model: MicroModel) -> bool:
    """Return whether models of this shape are batch-invariant in this process; tested once per shape."""
    if model.config not in _TRIED:
        with one_blas_thread:
            _TRIED[model.config] = _tried(model)
    return _TRIED[model.config]


def _tried(model: MicroModel) -> bool:
    """Return whether a decoding step has the same bits in a batch with split prompts as alone with whole prompts."""
    chance = np.random.default_rng(0)
    lengths = [min(length, model.config.positions - 1) for length in LENGTHS]
    ids = [chance.integers(0, model.config.vocab_size, length + 1) for length in lengths]
    last, positions = np.array([one[-1] for one in ids]), np.array(lengths)
    together = model.new_cache()
    for slot, one in enumerate(ids):
        cut = len(one) // 3
        model.prefill(together, slot, one[:cut].tolist(), 0)
        model.prefill(together, slot, one[cut:-1].tolist(), cut)
    step = model.step(together, last, positions)
    for slot, one in enumerate(ids):
        alone = model.new_cache()
        model.prefill(alone, 0, one[:-1].tolist(), 0)
        if not np.array_equal(model.step(alone, last[[slot]], positions[[slot]])[0], step[slot]):
            return False
    return True
