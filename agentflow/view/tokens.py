"""The tokens of a group: each trajectory with its trace."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from agentflow.rl.token_inspector import terms, trajectories
from agentflow.rl.tokens import TokenStep
from agentflow.view.query import Named, cells


def tokens(step: TokenStep, task: str, named: Sequence[Named]) -> dict[str, Any]:
    """Return the page's data of one group's tokens. `named` are the rollouts of the step."""
    traces = {row.rollout: cells(name, row) for name, row in named if row.rollout}
    question = next((row.question for _, row in named if row.task == task), task)
    shown = [{**asdict(one), "trace": traces.get(one.rollout)} for one in trajectories(step, task)]
    return {"question": question, "terms": terms(step), "trajectories": shown}
