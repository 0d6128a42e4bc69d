"""The processes that rollouts run in: one that dies is started again, and its rollouts go on from their replay logs.

verl starts rollouts without waiting for them and then looks for their results. A worker that was killed, by the
operating system for its memory or by anybody, brings none, and the trainer would look for ever. So between two looks
every worker is asked which process it is. Where that is another one than before, it gets once more what its predecessor
had not finished.
"""

import os
from typing import Any

import ray
import transfer_queue as tq
from tensordict import TensorDict
from verl.trainer.ppo.v1 import AgentLoopManagerTQ
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ
from verl.utils.tensordict_utils import index_select_tensor_dict

from agentflow.rl.trainer.watch import WorkerDied

RESTARTS = 3
"""How often one worker is started again; more, and something is wrong with the run."""


class FlowLoopWorker(AgentLoopWorkerTQ.__ray_actor_class__):  # type: ignore[misc]
    """verl's worker, which can be told from its successor."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._begun: set[str] = set()

    async def process(self) -> int:
        """Which process this is."""
        return os.getpid()

    async def _run_prompt(self, prompt: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        """A question's rollouts, once in a process: Ray may repeat a call that the worker died in."""
        if prompt["uid"] not in self._begun:
            self._begun.add(prompt["uid"])
            await super()._run_prompt(prompt, *args, **kwargs)


class FlowLoops(AgentLoopManagerTQ):  # type: ignore[misc]
    """verl's manager of the workers, which knows what each of them is at."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = ray.remote(max_restarts=RESTARTS, max_task_retries=RESTARTS)(FlowLoopWorker)
        self._given: list[tuple[Any, TensorDict]] = []
        self._step: tuple[int, bool] = (-1, False)
        self._asked: dict[Any, Any] = {}
        self._processes: dict[Any, int] = {}
        self.restarted: list[str] = []
        """Workers that were started again, in words; whoever records them clears the list."""

    async def _init_agent_loop_workers(self) -> None:
        """Starts the workers. What they are built from is kept: Ray forgets it once they run, and their successors need
        it too."""
        names = ("config", "llm_client", "teacher_client", "reward_loop_worker_handles")
        given = {name: getattr(self, name) for name in names}
        self._kept = {name: ray.put(value) for name, value in given.items()}
        self.__dict__.update(self._kept)
        await super()._init_agent_loop_workers()
        self.__dict__.update(given)

    def generate_sequences(self, prompts: TensorDict) -> None:
        """Called by verl to start rollouts."""
        step = int(prompts["global_steps"]), "validate" in prompts and bool(prompts["validate"])
        if step != self._step:
            self._step = step
            self._given.clear()
        chunks = prompts.chunk(len(self.agent_loop_workers))
        given = list(zip(self.agent_loop_workers, chunks, strict=False))
        self._given.extend(given)
        ray.get([worker.generate_sequences.remote(chunk) for worker, chunk in given])

    def check(self) -> None:
        """Gives a worker that was started again what is unfinished. Raises WorkerDied if one cannot be started."""
        for worker in self.agent_loop_workers:
            if worker not in self._asked:
                self._asked[worker] = worker.process.remote()
        answered, _ = ray.wait(list(self._asked.values()), num_returns=len(self._asked), timeout=0)
        for worker, answer in list(self._asked.items()):
            if answer in answered:
                del self._asked[worker]
                self._compare(worker, answer)

    def _compare(self, worker: Any, answer: Any) -> None:
        name = f"rollout worker {self.agent_loop_workers.index(worker)}"
        try:
            process = int(ray.get(answer))
        except ray.exceptions.ActorUnavailableError:
            return  # it is being started
        except ray.exceptions.RayActorError as error:
            raise WorkerDied(f"{name} dies again and again: killed, or out of memory") from error
        if (before := self._processes.setdefault(worker, process)) != process:
            self._processes[worker] = process
            self.restarted.append(f"{name}: process {before} died, process {process} takes its place")
            self._go_on(worker)

    def _go_on(self, worker: Any) -> None:
        listed = tq.kv_list() or {}
        unfinished = {
            key for tags in listed.values() for key, tag in tags.items() if tag.get("status") in ("pending", "running")
        }
        for owner, chunk in self._given:
            places = [place for place, uid in enumerate(chunk["uid"]) if uid in unfinished]
            if owner is worker and places:
                worker.generate_sequences.remote(index_select_tensor_dict(chunk, places))
