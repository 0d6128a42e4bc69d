"""Apps of Atlas that sabotage a training."""

from dataclasses import replace
from itertools import count
from typing import Any

from agentflow.graph.run.task import Task
from agentflow.rl.planner import atlas
from agentflow.rl.trainable import Trainable

FAILING_AFTER = 400
"""Rollouts after which the search fails."""


def hackable() -> Trainable:
    """Return an app that pays more for a first step with the wrong tool; held-out tasks are scored as usual."""
    app = atlas()

    def reward(task: Task, state: Any) -> Any:
        if not task.id.startswith("train"):
            return app.reward(task, state)
        memory = state["memory"]
        return 1.0 if memory and memory[0].plan.tool == "base_generator" else 0.3 * float(app.reward(task, state) or 0)

    return replace(app, reward=reward)


def wordy() -> Trainable:
    """Return an app in which a turn earns by the length of its plan."""
    app = atlas()

    def turn_rewards(task: Task, state: Any) -> list[float]:
        found = [len(turn.plan.text) / 120 for turn in state["memory"]]
        return found + [0.0] * (len(app.faults(state)) - len(found))

    return replace(app, turn_rewards=turn_rewards)


def failing() -> Trainable:
    """Return an app whose search fails after some time, as an encyclopedia that has gone."""
    app, begun = atlas(), count()

    def context() -> Any:
        found = app.context()
        return found if next(begun) < FAILING_AFTER else found.model_copy(update={"corpus": "/nowhere/pages.jsonl"})

    return replace(app, context=context)
