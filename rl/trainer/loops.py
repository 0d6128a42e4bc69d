"""Rollout workers that survive a crash: a dead worker is restarted, and its rollouts resume from their replay logs.

verl starts rollouts without waiting for them and then polls for their results. A worker that was killed, for example by
the operating system when memory runs out, never delivers any, and the trainer would poll forever. So between two polls
every worker is asked for its process id. If the id has changed, the unfinished prompts of the previous process are
submitted again.
"""

import os
from typing import Any

import ray
import transfer_queue as tq
from tensordict import TensorDict
from verl.trainer.ppo.v1 import AgentLoopManagerTQ
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ
from verl.utils.tensordict_utils import index_select_tensor_dict

from agentflow.graph.run.garbage import collect_rarely
from agentflow.rl.trainer.watch import WorkerDied

RESTARTS = 3
"""Maximum restarts of one worker; more indicate a fault of the run."""


class FlowLoopWorker(AgentLoopWorkerTQ.__ray_actor_class__):  # type: ignore[misc]
    """verl's worker with its process id, which identifies a restart."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._begun: set[str] = set()
        collect_rarely()

    async def process(self) -> int:
        """Return the process id."""
        return os.getpid()

    async def _run_prompt(self, prompt: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        """Run a question's rollouts, once per process: Ray may repeat a call during which the worker died."""
        if prompt["uid"] not in self._begun:
            self._begun.add(prompt["uid"])
            await super()._run_prompt(prompt, *args, **kwargs)


class FlowLoops(AgentLoopManagerTQ):  # type: ignore[misc]
    """verl's worker manager, which also keeps the prompts that each worker was given."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = ray.remote(max_restarts=RESTARTS, max_task_retries=RESTARTS)(FlowLoopWorker)
        self._given: list[tuple[Any, TensorDict]] = []
        self._asked: dict[Any, Any] = {}
        self._processes: dict[Any, int] = {}
        self.restarted: list[str] = []
        """Descriptions of restarted workers; the caller that records them clears the list."""

    async def _init_agent_loop_workers(self) -> None:
        """Start the workers.

        References to their constructor arguments are kept: Ray frees the objects once the workers run, but a restart
        needs them again.
        """
        names = ("config", "llm_client", "teacher_client", "reward_loop_worker_handles")
        given = {name: getattr(self, name) for name in names}
        self._kept = {name: ray.put(value) for name, value in given.items()}
        self.__dict__.update(self._kept)
        await super()._init_agent_loop_workers()
        self.__dict__.update(given)

    def generate_sequences(self, prompts: TensorDict) -> None:
        """Start rollouts of `prompts`; called by verl."""
        chunks = prompts.chunk(len(self.agent_loop_workers))
        given = list(zip(self.agent_loop_workers, chunks, strict=False))
        unfinished = _unfinished()
        self._given = [(worker, chunk) for worker, chunk in self._given if not unfinished.isdisjoint(chunk["uid"])]
        self._given.extend(given)
        ray.get([worker.generate_sequences.remote(chunk) for worker, chunk in given])

    def check(self) -> None:
        """Resubmit the unfinished prompts of restarted workers. Raises WorkerDied if one cannot be restarted."""
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
            return  # the worker is restarting
        except ray.exceptions.RayActorError as error:
            raise WorkerDied(f"{name} dies again and again: killed, or out of memory") from error
        if (before := self._processes.setdefault(worker, process)) != process:
            self._processes[worker] = process
            self.restarted.append(f"{name}: process {before} died, process {process} takes its place")
            self._go_on(worker)

    def _go_on(self, worker: Any) -> None:
        unfinished = _unfinished()
        for owner, chunk in self._given:
            places = [place for place, uid in enumerate(chunk["uid"]) if uid in unfinished]
            if owner is worker and places:
                worker.generate_sequences.remote(index_select_tensor_dict(chunk, places))


def _unfinished() -> set[str]:
    """Return the ids of the prompts whose rollouts have not ended."""
    listed = tq.kv_list() or {}
    return {key for tags in listed.values() for key, tag in tags.items() if tag.get("status") in ("pending", "running")}
