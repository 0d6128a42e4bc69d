import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("verl")

from agentflow.rl.trainer import platform  # noqa: E402


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
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
    for log_probs, logits in ((platform.log_probs, found), (platform._log_probs, expected)):
        logits.requires_grad_()
        gains.append(log_probs(logits, labels))
        gains[-1].sum().backward()
    torch.testing.assert_close(gains[0], gains[1], rtol=0, atol=1e-6)
    torch.testing.assert_close(found.grad, expected.grad, rtol=0, atol=1e-6)
