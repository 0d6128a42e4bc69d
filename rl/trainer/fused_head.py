"""Log-probabilities by verl's fused kernels, for models whose input and output embeddings are not tied.

`model.external_lib` loads this module in every training worker. With `use_fused_kernels`, verl computes the
log-probabilities of a few hundred tokens at a time from the hidden states and the weight of the output layer. Under
FSDP2 it also makes that layer a unit of its own, whose weight is whole only while the layer itself is called, which
fused kernels never do: the forward pass mixes a tensor with a sharded one, and fails (verl 0.9.1,
verl/utils/fsdp_utils.py:549; mended after it by verl#7427). Here the layer stays in the root unit, as that of tied
models does, and is whole during the forward pass of the model.
"""

from collections.abc import Sequence
from typing import Any

import verl.utils.fsdp_utils

_units = verl.utils.fsdp_utils._select_fsdp2_wrap_targets


def units(model: Any, layers: Sequence[str]) -> list[Any]:
    """Return the modules that FSDP2 shards by themselves: those of verl without the output layer."""
    head = model.get_output_embeddings()
    return [module for module in _units(model, layers) if module is not head]


verl.utils.fsdp_utils._select_fsdp2_wrap_targets = units
