"""Liveness check of the servers that hold the policy's weights, without which no rollout can continue."""

from collections.abc import Sequence
from typing import Any

import ray


class WorkerDied(RuntimeError):
    """A process that rollouts depend on has died."""


class Watch:
    """Non-blocking liveness check of Ray actors."""

    def __init__(self, actors: Sequence[Any] = ()) -> None:
        self._asked = {actor.__ray_ready__.remote(): actor for actor in actors}

    def check(self) -> None:
        """Raise WorkerDied if an actor is known to have died."""
        if not self._asked:
            return
        answered, _ = ray.wait(list(self._asked), num_returns=len(self._asked), timeout=0)
        for sign in answered:
            actor = self._asked.pop(sign)
            try:
                ray.get(sign)
            except ray.exceptions.RayActorError as error:
                raise WorkerDied("the server of the policy has died: killed, or out of memory") from error
            self._asked[actor.__ray_ready__.remote()] = actor
