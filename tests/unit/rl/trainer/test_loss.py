"""What the loss adds to the equations (test_step.py): the KL term's expectation, and metrics."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu

from agentflow.rl.settings import compose_settings
from agentflow.rl.trainer.loss import flow_grpo_loss
from tests.unit.rl.trainer.tensors import nested

BETA = 0.04
ACTOR: Any = SimpleNamespace(
    clip_ratio_low=0.2,
    clip_ratio_high=0.3,
    use_kl_loss=True,
    kl_loss_type=compose_settings("atlas-cpu", []).actor_rollout_ref.actor.kl_loss_type,
    kl_loss_coef=BETA,
    entropy_coeff=0.0,
)
"""The fields of verl's actor configuration that the loss reads, with the presets' kind of KL."""


def single(now: torch.Tensor, weights: list[float], **columns: list[float]) -> tuple[Any, dict[str, Any]]:
    """The loss of rows of one token each; `now` [rows] may carry a gradient. Old and reference are `now` by default."""
    known = {"old_log_probs": now.tolist(), "ref_log_prob": now.tolist(), "token_weights": weights}
    known |= {"response_mask": [1.0] * len(now), "advantages": [0.0] * len(now), **columns}
    data = TensorDict({name: nested([[v] for v in column], torch.float64) for name, column in known.items()}, len(now))
    data["prompts"], data["responses"] = nested([[1.0, 2.0, 3.0]] * len(now)), nested([[1.0]] * len(now))
    tu.assign_non_tensor(data, dp_size=1)
    # The model's log-probability of a token stands at the token before it.
    rows = torch.nn.functional.pad(now[:, None], (2, 1)).flatten()
    output = {"log_probs": torch.nested.nested_tensor_from_jagged(rows, torch.arange(0, len(rows) + 1, 4))}
    loss, metrics = flow_grpo_loss(ACTOR, output, data)
    return loss, {name: metric.aggregate() for name, metric in metrics.items()}


@pytest.mark.parametrize("seed", range(5))
def test_the_expected_gradient_of_the_kl_term_is_the_gradient_of_kl(seed: int) -> None:
    """In expectation over the policy: every token of a small vocabulary is a row, weighted by its probability."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(7, generator=generator, dtype=torch.float64).requires_grad_()
    reference = torch.randn(7, generator=generator, dtype=torch.float64).log_softmax(0)
    now = logits.log_softmax(0)
    loss, metrics = single(now, now.detach().exp().tolist(), ref_log_prob=reference.tolist())
    kl = (now.exp() * (now - reference)).sum()
    assert metrics["kl"] == pytest.approx(kl.item(), abs=1e-6)
    (estimated,) = torch.autograd.grad(loss, logits, retain_graph=True)
    (exact,) = torch.autograd.grad(BETA * kl, logits)
    assert estimated.tolist() == pytest.approx(exact.tolist(), abs=1e-6)


def test_importance_weights_are_not_counted_as_clipped() -> None:
    """Only the last of four tokens of equal weight has a ratio beyond its clip."""
    now = torch.tensor([-1.0, -1.0, -1.0, -0.5], dtype=torch.float64)
    told = {"old_log_probs": [-1.0] * 4, "advantages": [1.0, -1.0, 1.0, 1.0]}
    _, metrics = single(now, [0.25] * 4, rollout_is_weights=[0.5, 2.0, 1.0, 1.0], **told)
    assert metrics["clip_fraction"] == pytest.approx(0.25)
