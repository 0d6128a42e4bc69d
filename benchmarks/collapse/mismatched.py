"""Sabotage of the micro engine: it samples with rounded weights (`model.external_lib`)."""

from typing import Any

from agentflow.rl.trainer.micro_rollout import MicroRollout

STEP = 0.05
"""Distance of two weights that differ after rounding."""

update_weights = MicroRollout.update_weights


async def rounded(self: MicroRollout, weights: Any, global_steps: int | None = None, **options: Any) -> None:
    """Send rounded weights."""
    coarse = ((name, (tensor / STEP).round() * STEP) for name, tensor in weights)
    await update_weights(self, coarse, global_steps, **options)


MicroRollout.update_weights = rounded  # type: ignore[method-assign]
