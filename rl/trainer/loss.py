"""Flow-GRPO's objective as a loss for verl's training workers, with verl's KL and entropy terms.

`token_weights` of each row come with the batch (see `agentflow.rl.algorithms.algorithm`), so that the loss is a plain
weighted sum. It does not depend on how a batch is split into micro-batches, ranks and packed rows, and padding has
weight 0.
"""

from collections.abc import Callable
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


def ppo(
    log_ratio: torch.Tensor, advantages: torch.Tensor, mask: torch.Tensor, low: float, high: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the objective of each token, and whether it is clipped, as PPO defines them; both [rows, response].

    Args:
        log_ratio: log pi - log pi_old of each token, with its gradient [rows, response].
        advantages: Advantage of each token [rows, response].
        mask: Whether each token was sampled [rows, response].
        low: Distance below 1 at which the ratio is clipped.
        high: Distance above 1 at which it is clipped.
    """
    ratio = log_ratio.exp()
    gain = surrogate(ratio, advantages, low, high)
    return gain, gain < ratio * advantages


def gspo(
    log_ratio: torch.Tensor, advantages: torch.Tensor, mask: torch.Tensor, low: float, high: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the same with one ratio for each call, the geometric mean of its tokens' (GSPO, arXiv:2507.18071, eq. 7).

    A call is a run of sampled tokens: between two calls of a row, there are tokens that the policy only read.
    """
    return ppo(_mean_of_calls(log_ratio, mask), advantages, mask, low, high)


def cispo(
    log_ratio: torch.Tensor, advantages: torch.Tensor, mask: torch.Tensor, low: float, high: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the same with the clipped ratio as a constant weight of A log pi (CISPO, arXiv:2506.13585, equation 4).

    A clipped token keeps its gradient. log pi is counted from log pi_old, which changes the value and not the gradient.
    """
    ratio = log_ratio.detach().exp()
    weight = ratio.clamp(1 - low, 1 + high)
    return weight * advantages * log_ratio, weight != ratio


OBJECTIVES = {"ppo": ppo, "gspo": gspo, "cispo": cispo}
"""Objective of each token by the setting `flow.objective`. While pi = pi_old, their gradients are the same."""


def _mean_of_calls(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the mean of `values` over each run of masked tokens, at each of its tokens [rows, response]."""
    begins = mask & ~torch.nn.functional.pad(mask, (1, 0))[:, :-1]
    # The tokens before the first call are in run 0, whose mean is not used.
    run = begins.cumsum(1)
    zeros = values.new_zeros(len(mask), mask.shape[1] + 1)
    total, size = (zeros.scatter_add(1, run, each) for each in (values * mask, mask.to(values.dtype)))
    return (total / size.clamp(min=1)).gather(1, run)


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
    objective_of: Callable[..., tuple[torch.Tensor, torch.Tensor]] = ppo,
) -> tuple[torch.Tensor, dict[str, Any]]:
    """Return the negative objective of Flow-GRPO and its metrics; replaces verl's `ppo_loss`.

    `objective_of` is one of OBJECTIVES.

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
    gain, clipped = objective_of(log_ratio, fields["advantages"], mask, config.clip_ratio_low, config.clip_ratio_high)
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
