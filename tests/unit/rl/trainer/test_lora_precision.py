"""Which weights of a model with an adapter are kept in which precision."""

from types import SimpleNamespace

import pytest

pytest.importorskip("verl")
pytest.importorskip("peft")

import torch
from verl.workers.engine.fsdp.transformer_impl import FSDPEngine

import agentflow.rl.trainer.lora_precision  # noqa: F401
from tests.unit.rl.trainer.tensors import tiny

LORA = {"lora_rank": 2, "lora_alpha": 2, "target_modules": "all-linear", "target_parameters": None}


@pytest.mark.parametrize(
    ("mixed", "frozen"),
    [(None, torch.bfloat16), ({"param_dtype": "bf16"}, torch.bfloat16), ({"param_dtype": "fp32"}, torch.float32)],
)
def test_only_what_is_frozen_is_kept_as_it_is_computed_with(mixed: dict[str, str] | None, frozen: torch.dtype) -> None:
    """A rounded adapter would lose its updates, and rounded rotary angles the places of tokens."""
    given = SimpleNamespace(**LORA, exclude_modules=None, lora_adapter_path=None)
    engine = SimpleNamespace(engine_config=SimpleNamespace(mixed_precision=mixed), model_config=given)
    built = FSDPEngine._build_lora_module(engine, tiny(16))
    kinds = {trained: set[torch.dtype]() for trained in (True, False)}
    for parameter in built.parameters():
        kinds[parameter.requires_grad].add(parameter.dtype)
    assert kinds == {True: {torch.float32}, False: {frozen}}
    assert {buffer.dtype for buffer in built.buffers() if buffer.is_floating_point()} == {torch.float32}
