"""Sabotage of the micro engine: it keeps the weights of the start (`model.external_lib`)."""

from typing import Any

from agentflow.rl.trainer.micro_rollout import MicroRollout

update_weights = MicroRollout.update_weights


async def only_first(self: MicroRollout, weights: Any, global_steps: int | None = None, **options: Any) -> None:
    """Send the weights of step 0; later ones are read, as every rank must, and dropped."""
    if not global_steps:
        await update_weights(self, weights, global_steps, **options)
    else:
        for _ in weights:
            pass


MicroRollout.update_weights = only_first  # type: ignore[method-assign]
