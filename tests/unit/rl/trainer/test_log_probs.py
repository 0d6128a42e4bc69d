"""Log-probabilities and their gradients: of verl's fused kernels under FSDP2, and of ours in their place."""

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy
from transformers import Qwen2ForCausalLM
from verl.models.transformers.monkey_patch import patch_forward_with_backends
from verl.utils import fsdp_utils
from verl.utils.torch_functional import logprobs_from_logits_v2

from agentflow.rl.trainer import fused_head, platform  # noqa: F401  the first mends verl's kernels
from tests.unit.rl.trainer.tensors import tiny

TOKENS, TEMPERATURE = 600, 0.7  # more than the 512 that the kernel computes at a time


@pytest.mark.filterwarnings("ignore")
def test_those_of_the_fused_kernels_are_those_of_the_logits(one_rank: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Qwen2ForCausalLM, "forward", Qwen2ForCausalLM.forward)  # verl replaces that of the class
    model = tiny(97, num_hidden_layers=1, tie_word_embeddings=False)
    ids = torch.randint(97, (1, TOKENS))
    labels = ids.roll(-1, 1)
    known = {"input_ids": ids, "position_ids": torch.arange(TOKENS)[None]}
    logits = model(**known).logits / TEMPERATURE
    expected = logits.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    expected.sum().backward()
    gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    patch_forward_with_backends(model, use_fused_kernels=True, fused_kernels_backend="torch")
    precision = MixedPrecisionPolicy(param_dtype=torch.float32, reduce_dtype=torch.float32)
    options = {"mesh": init_device_mesh("cpu", (1,)), "mp_policy": precision, "reshard_after_forward": True}
    fsdp_utils.apply_fsdp2(model, options, {})
    found = model(**known, temperature=TEMPERATURE, return_dict=True, shift_labels=labels).log_probs
    found.sum().backward()
    torch.testing.assert_close(found, expected)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad.full_tensor(), gradients[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_log_probabilities_are_verls_whatever_is_computed_at_a_time(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """verl's sums one token at a time: a fifth of a training step of the micro model."""
    torch.manual_seed(0)
    monkeypatch.setattr(platform, "LOGITS", 3 * 11)  # three tokens at a time; the last time one
    found = torch.randn(7, 11, dtype=dtype)
    expected = found.clone()
    labels = torch.randint(11, (7,))
    gains = []
    for log_probs, logits in ((platform.log_probs, found), (logprobs_from_logits_v2, expected)):
        logits.requires_grad_()
        gains.append(log_probs(logits, labels))
        gains[-1].sum().backward()
    torch.testing.assert_close(gains[0], gains[1], rtol=0, atol=1e-6)
    torch.testing.assert_close(found.grad, expected.grad, rtol=0, atol=1e-6)


def test_log_probabilities_of_bfloat16_logits_are_not_rounded_to_it() -> None:
    logits = torch.randn(7, 11, generator=torch.Generator().manual_seed(0)).bfloat16()
    labels = torch.arange(7)
    expected = logits.float().log_softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(platform.log_probs(logits, labels), expected, rtol=0, atol=1e-6)
