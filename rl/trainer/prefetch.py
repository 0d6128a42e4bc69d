"""Rollouts of later steps that run while a step is trained, with a bound on their staleness.

The rollouts of step s begin with step s - max_staleness, so the weights that sample them are at most `max_staleness`
updates older than those that they train. Step s trains on all of them, however long they take, and on no others, so
that no rollout is thrown away and short ones are not preferred. The engine takes new weights between two requests, also
in the middle of a rollout.

Of verl's asynchronous trainers, `colocate_async` puts the engine to sleep while it trains, and `separate_async` needs
GPUs for the engine alone and NCCL between them and the trainer's.
"""

from types import SimpleNamespace
from typing import Any

from omegaconf import DictConfig
from verl.trainer.ppo.v1 import PPOTrainerSync
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer


class PrefetchingTrainer(PPOTrainerSync):  # type: ignore[misc]
    """verl's synchronous trainer, whose rollouts begin `config.max_staleness` steps early."""

    global_steps: int
    train_dataloader: Any

    def __init__(self, config: DictConfig) -> None:
        super().__init__(config)
        self._begun = 0
        """The last step whose rollouts have begun."""
        self._positions: dict[int, Any] = {}
        """Position of the data loader before the batch of each step that began early."""

    def on_train_begin(self) -> None:
        """Note the step that training starts from."""
        super().on_train_begin()
        self._begun = self.global_steps - 1

    def prepare_step(self) -> dict[str, float]:
        """Begin the rollouts of the steps that are due: this one's, and of later ones up to the bound."""
        last = min(self.global_steps + self.config.max_staleness, self.total_training_steps)
        while self._begun < last:
            self._begun += 1
            self.begin_rollouts(self._begun)
        return {}

    def begin_rollouts(self, step: int) -> None:
        """Begin the rollouts of a step."""
        if step > self.global_steps:
            self._positions[step] = self.train_dataloader.state_dict()
        current, self.global_steps = self.global_steps, step  # verl marks prompts with it
        try:
            self._add_batch_to_generate()
        finally:
            self.global_steps = current

    def _build_replay_buffer(self) -> ReplayBuffer:
        buffer = super()._build_replay_buffer()
        ended = buffer._sampleable_terminal_keys

        def due(partition: str, evicted: Any) -> set[str]:
            """Return the tasks whose rollouts have ended, without those of later steps."""
            steps = buffer.prompt_global_steps[partition]
            return {task for task in ended(partition, evicted) if steps[task] <= self.global_steps}

        buffer._sampleable_terminal_keys = due
        return buffer

    def _save_checkpoint(self) -> None:
        """Save a checkpoint; a run that resumes from it begins the rollouts of the next step again."""
        loader = self.train_dataloader
        self._positions = {step: position for step, position in self._positions.items() if step > self.global_steps}
        if (position := self._positions.get(self.global_steps + 1)) is not None:
            # verl saves the loader's own position, which is after the batches of the steps that began early.
            self.train_dataloader = SimpleNamespace(state_dict=lambda: position)
        try:
            super()._save_checkpoint()
        finally:
            self.train_dataloader = loader
