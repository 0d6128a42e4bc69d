"""Flow-GRPO's objective as a loss for verl's training workers, with verl's KL and entropy terms.

`token_weights` of each row come with the batch (see `agentflow.rl.algorithms.algorithm`), so that the loss is a plain
weighted sum. It does not depend on how a batch is split into micro-batches, ranks and packed rows, and padding has
weight 0.
"""

from typing import Any

import torch
from tensordict import TensorDict
from verl.trainer.ppo.core_algos import kl_penalty
from verl.utils.metric import AggregationType, Metric
from verl.workers.config import ActorConfig
from verl.workers.utils.padding import no_padding_2_padding


def surrogate(ratio: torch.Tensor, advantages: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """Compute min(rho A, clip(rho, 1 - low, 1 + high) A) per token, any shape (PPO, arXiv:1707.06347, equation 7)."""
    return torch.minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)


def supervised_loss(
    config: ActorConfig, model_output: dict[str, Any], data: TensorDict, dp_group: Any = None
) -> tuple[torch.Tensor, dict[str, Any]]:
    """Return the weighted mean of -A log pi and its metrics: the cross-entropy of the tokens to imitate.

    Fields and `dp_size` are those of `flow_grpo_loss`. Log-probabilities of the rollout are not read.
    """
    log_prob = no_padding_2_padding(model_output["log_probs"], data)
    fields = data.select("response_mask", "advantages", "token_weights").to_padded_tensor()
    weights = fields["token_weights"] * fields["advantages"] * fields["response_mask"].to(bool)
    loss = -(log_prob * weights).sum() * data["dp_size"]
    return loss, {"nll": Metric(value=loss.detach(), aggregation=AggregationType.SUM)}


def flow_grpo_loss(
    config: ActorConfig,
    model_output: dict[str, Any],
    data: TensorDict,
    dp_group: Any = None,
) -> tuple[torch.Tensor, dict[str, Any]]:
    """Return the negative objective of Flow-GRPO and its metrics; replaces verl's `ppo_loss`.

    Every field of `data` is a nested tensor [rows, response]. The factor `dp_size` undoes the averaging of gradients
    over ranks by torch.distributed.

    The KL term is estimated from the sampled tokens. With the presets' `low_var_kl+`, its value is the estimator k3,
    log(1/x) + x - 1 with x = pi_ref / pi, and its gradient is that of k2, (log x)^2 / 2. On policy, the expectation of
    k3 is KL(pi || pi_ref), and the expectation of the gradient of k2 is the gradient of KL(pi || pi_ref). The gradient
    of k3 itself (`low_var_kl`) is in expectation that of the reverse, KL(pi_ref || pi).
    """
    log_prob = no_padding_2_padding(model_output["log_probs"], data)
    ranks = data["dp_size"]
    optional = [name for name in ("ref_log_prob", "rollout_is_weights") if name in data]
    fields = data.select("response_mask", "old_log_probs", "advantages", "token_weights", *optional).to_padded_tensor()
    mask = fields["response_mask"].to(bool)
    weights = fields["token_weights"] * mask

    log_ratio = (log_prob - fields["old_log_probs"]).clamp(-20, 20)
    ratio, advantages = log_ratio.exp(), fields["advantages"]
    gain = surrogate(ratio, advantages, config.clip_ratio_low, config.clip_ratio_high)
    clipped = gain < ratio * advantages
    if "rollout_is_weights" in optional:
        gain = gain * fields["rollout_is_weights"]
    objective = (gain * weights).sum() * ranks
    metrics: dict[str, Any] = {
        "objective": Metric(value=objective.detach(), aggregation=AggregationType.SUM),
        "clip_fraction": Metric(value=(clipped * weights).sum().detach() * ranks, aggregation=AggregationType.SUM),
    }
    loss = -objective
    if config.use_kl_loss:
        divergence = kl_penalty(log_prob, fields["ref_log_prob"], config.kl_loss_type)
        kl = (divergence * weights).sum() * ranks
        metrics["kl"] = Metric(value=kl.detach(), aggregation=AggregationType.SUM)
        loss = loss + config.kl_loss_coef * kl
    if config.entropy_coeff:
        entropy = (no_padding_2_padding(model_output["entropy"], data) * weights).sum() * ranks
        loss = loss - config.entropy_coeff * entropy
    return loss, metrics
