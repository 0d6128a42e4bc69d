"""Ray actor that builds the trainer and the rollout workers of a run, and lets them train."""

import ray
import transfer_queue as tq
from omegaconf import DictConfig, OmegaConf, open_dict

from agentflow.rl.trainer.flow_trainer import FlowTrainer
from agentflow.rl.trainer.loops import FlowLoops


@ray.remote(num_cpus=1)
class FlowRunner:
    """Ray actor that drives a training run, on any node of the cluster."""

    def run(self, config: DictConfig) -> None:
        """Train until the last step."""
        OmegaConf.set_struct(config, False)
        config.transfer_queue.enable = True
        OmegaConf.resolve(config)
        tq.init(config.transfer_queue)
        try:
            trainer = FlowTrainer(config)
            trainer.init()
            with open_dict(config):  # verl makes it a struct again
                config.rollout_addresses = trainer.llm_server_manager.get_addresses()
            loops = FlowLoops.create(
                config=config,
                llm_client=trainer.get_llm_client(),
                teacher_client=trainer.get_teacher_client(),
                reward_loop_worker_handles=trainer.get_reward_handles(),
            )
            trainer.health_check = loops.check
            trainer.restarted = loops.restarted
            trainer.fit(loops)
            trainer.logger.finish(exit_code=0)
        finally:
            tq.close()
