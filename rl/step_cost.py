"""Seconds and memory of a training step of a preset, from the rollouts of a preview.

On a CPU, the model's passes over a row of usual length are timed on this machine, a row at a time, which is more than
rows with a common prompt take. For GPUs, it is the arithmetic of `estimate` with the tokens that were seen. Neither
holds the time of tools, of other models and of moving weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from omegaconf import DictConfig

from agentflow.rl.estimate import Rollouts, estimate
from agentflow.rl.local_policy import LocalPolicy
from agentflow.rl.packing import TrainingSample
from agentflow.rl.preview import Preview
from agentflow.rl.settings import SettingsError

FORWARD, GRADIENT = 2, 4
"""Floating-point operations per parameter and token."""

STATES = 16
"""Bytes per parameter: weights, gradients and Adam's moments in single precision."""


@dataclass(frozen=True)
class StepCost:
    """Estimate of a step."""

    rollouts: int
    sampling: float
    """Seconds."""
    training: float
    """Seconds."""
    memory: float
    """Bytes on each device, at least."""
    basis: str
    """Source of the figures: a measurement or an estimate."""


@dataclass(frozen=True)
class _Work:
    rollouts: int
    rows: float
    """Training rows of a rollout."""
    forward: float
    """Tokens of these rows."""
    sampled: float
    """Sampled tokens of a rollout."""
    passes: int
    """Forward passes besides that of the update: the old log-probabilities, and the reference's."""


def cost_of(preview: Preview, config: DictConfig, policy: LocalPolicy) -> StepCost | None:
    """Return the cost of a step of a composed configuration; None where it cannot be told."""
    work = _work(preview, config)
    if work is None:
        return None
    return _measured(work, policy, preview.rows) if config.trainer.device == "cpu" else _estimated(work, config)


def _measured(work: _Work, policy: LocalPolicy, rows: Sequence[TrainingSample]) -> StepCost:
    by_length = sorted(rows, key=lambda row: len(row.prompt_ids) + len(row.response_ids))
    usual = by_length[len(rows) // 2]
    per_token, per_row = policy.timed([*usual.prompt_ids, *usual.response_ids])
    update, forward = work.rows * per_row, work.rows * per_row * FORWARD / (FORWARD + GRADIENT)
    return StepCost(
        rollouts=work.rollouts,
        sampling=work.rollouts * (work.sampled * per_token + forward),
        training=work.rollouts * (update + work.passes * forward),
        memory=policy.parameters * STATES,
        basis="measured on one core of this machine",
    )


def _estimated(work: _Work, config: DictConfig) -> StepCost | None:
    """Return the cost on a preset's GPUs; None if the sizes of its model are not known."""
    sampled = round(work.sampled)
    try:
        found = estimate(config, rollouts=Rollouts(turns=1, prompt=round(work.forward) - sampled, reply=sampled))
    except SettingsError:
        return None
    return StepCost(
        rollouts=work.rollouts,
        sampling=found.sampling,
        training=found.log_probs + found.update,
        memory=max(found.updating, found.rolling),
        basis=f"an estimate for {found.gpus} H100",
    )


def _work(preview: Preview, config: DictConfig) -> _Work | None:
    played = [one for one in preview.trajectories if one.calls]
    if not played:
        return None
    calls = sum(len(one.calls) for one in played)
    rows, forward = len(preview.rows), preview.forward_tokens
    if not config.flow.pack_turns:
        rows, forward = calls, preview.unpacked_tokens
    actor, correction = config.actor_rollout_ref.actor, config.algorithm.get("rollout_correction") or {}
    return _Work(
        rollouts=config.questions * config.rollouts,
        rows=rows / len(played),
        forward=forward / len(played),
        sampled=preview.sampled_tokens / len(played),
        passes=(not correction.get("bypass_mode", False)) + bool(actor.use_kl_loss and actor.kl_loss_coef),
    )
