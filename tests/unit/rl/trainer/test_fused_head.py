"""Log-probabilities and gradients of verl's fused kernels under FSDP2, with an output layer of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy
from transformers import Qwen2Config, Qwen2ForCausalLM
from verl.models.transformers.monkey_patch import patch_forward_with_backends
from verl.utils import fsdp_utils

from agentflow.rl.trainer import fused_head  # noqa: F401  what mends them

TOKENS, TEMPERATURE = 600, 0.7  # more than the 512 that the kernel computes at a time


@pytest.fixture
def one_rank(tmp_path: Path) -> Iterator[None]:
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Qwen2ForCausalLM:
    monkeypatch.setattr(Qwen2ForCausalLM, "forward", Qwen2ForCausalLM.forward)  # verl replaces that of the class
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    kind = {"num_key_value_heads": 1, "tie_word_embeddings": False, "attn_implementation": "sdpa"}
    return Qwen2ForCausalLM(Qwen2Config(vocab_size=97, **kind, **shape))


def sharded(model: Qwen2ForCausalLM) -> None:
    patch_forward_with_backends(model, use_fused_kernels=True, fused_kernels_backend="torch")
    precision = MixedPrecisionPolicy(param_dtype=torch.float32, reduce_dtype=torch.float32)
    options = {"mesh": init_device_mesh("cpu", (1,)), "mp_policy": precision, "reshard_after_forward": True}
    fsdp_utils.apply_fsdp2(model, options, {})


@pytest.mark.filterwarnings("ignore")
def test_they_are_those_of_the_logits(one_rank: None, model: Qwen2ForCausalLM) -> None:
    ids = torch.randint(97, (1, TOKENS))
    labels = ids.roll(-1, 1)
    known = {"input_ids": ids, "position_ids": torch.arange(TOKENS)[None]}
    logits = model(**known).logits / TEMPERATURE
    expected = logits.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    expected.sum().backward()
    gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    sharded(model)
    found = model(**known, temperature=TEMPERATURE, return_dict=True, shift_labels=labels).log_probs
    found.sum().backward()
    torch.testing.assert_close(found, expected)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad.full_tensor(), gradients[name], rtol=1e-4, atol=1e-4)
