"""Notices when a process that holds the policy's weights has died, which no rollout can go on without."""

from collections.abc import Sequence
from typing import Any

import ray


class WorkerDied(RuntimeError):
    """A process that rollouts need is gone."""


class Watch:
    """Asks Ray actors for a sign of life, without waiting for it."""

    def __init__(self, actors: Sequence[Any] = ()) -> None:
        self._asked = {actor.__ray_ready__.remote(): actor for actor in actors}

    def check(self) -> None:
        """Raises WorkerDied if an actor has died since the last look or was dead then."""
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
