"""verl's training worker with a teacher in the place of the reference model (`agentflow.rl.algorithms.opd`)."""

from dataclasses import replace
from typing import Any

from omegaconf import OmegaConf
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker


class TeacherWorker(ActorRolloutRefWorker):  # type: ignore[misc]
    """verl's worker whose reference model has the weights in the folder `actor_rollout_ref.teacher`."""

    def ref_worker_cls(self, config: Any) -> TrainingWorker:
        """Build the worker of the reference model; verl calls this attribute with the policy's configuration."""
        model = omega_conf_to_dataclass(OmegaConf.merge(self.config.model, {"path": self.config.teacher}))
        model.mtp = config.model_config.mtp
        return TrainingWorker(config=replace(config, model_config=model))
