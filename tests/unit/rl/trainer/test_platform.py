import pytest
import torch
from verl.utils.torch_functional import logprobs_from_logits_v2

from agentflow.rl.trainer import platform


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_log_probabilities_are_verls_whatever_is_computed_at_a_time(
    dtype: "torch.dtype", monkeypatch: pytest.MonkeyPatch
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
