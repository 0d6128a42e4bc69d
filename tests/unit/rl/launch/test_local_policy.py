from typing import Any

import pytest

pytest.importorskip("torch")
import torch

from agentflow.rl.launch.local_policy import LocalPolicy


def test_a_half_precision_checkpoint_is_timed_in_single_precision() -> None:
    """The seed is stored in half precision, whose update takes nine times as long: a step of 6 s was to take 91."""
    policy = LocalPolicy("embedded:seed")
    computed = set[torch.dtype]()

    def record(module: Any, inputs: Any, output: Any) -> None:
        computed.add(output.logits.dtype)

    policy._model.register_forward_hook(record)
    assert min(policy.timed([5] * 40)) > 0
    assert computed == {torch.float32}
