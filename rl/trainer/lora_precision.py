"""A LoRA adapter in single precision over a base that is kept in the precision in which it is computed with.

`model.external_lib` loads this module in every training worker. FSDP keeps all weights in single precision, since
updates far smaller than a weight would else be rounded away, and computes with copies in `mixed_precision.param_dtype`.
A frozen base has no updates: in bfloat16, it takes half the memory, and not a bit of a result differs. verl's
`model_dtype=bf16` would cast the adapter and the angles of rotary embeddings as well (verl 0.9.1,
verl/workers/engine/fsdp/transformer_impl.py:373). FSDP2 shards both precisions side by side.
"""

from typing import Any

from verl.utils.torch_dtypes import PrecisionType
from verl.workers.engine.fsdp.transformer_impl import FSDPEngine

_build_lora_module = FSDPEngine._build_lora_module


def build_lora_module(engine: FSDPEngine, module: Any) -> Any:
    """Return the model with verl's adapter, and its frozen weights in the precision of computing."""
    module = _build_lora_module(engine, module)
    precision = (engine.engine_config.mixed_precision or {}).get("param_dtype", "bf16")
    for parameter in module.parameters():
        if not parameter.requires_grad:
            parameter.data = parameter.data.to(PrecisionType.to_dtype(precision))
    return module


FSDPEngine._build_lora_module = build_lora_module
