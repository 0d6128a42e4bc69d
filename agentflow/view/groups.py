"""Groups: the trajectories of one question at one step, with the advantages that they were trained with.

They are computed from the recorded rewards as the trainer computes them (rl/flow_grpo.py), by the run's own settings.
"""

from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

from pydantic import BaseModel, ConfigDict

from agentflow.rl.credit import turn_advantages
from agentflow.rl.flow_grpo import EPSILON, Baseline, Credit, Scale, Statistics, advantages
from agentflow.view.query import Named, cells
from agentflow.view.rows import Row


class Estimator(BaseModel):
    """The part of a training's settings that says what an advantage is; its defaults are those of Flow-GRPO."""

    model_config = ConfigDict(extra="ignore")

    credit: Credit = "trajectory"
    statistics: Statistics = "trajectory"
    baseline: Baseline = "mean"
    scale: Scale = "std"
    penalty: float = 0.0
    mask_cut_off: bool = False

    def words(self) -> str:
        """How it is computed, in a formula."""
        if self.credit == "turn":
            return "A of a turn = R − mean(R of the others), R = r + what is earned from it on; below: mean over turns"
        over = "the question's trajectories" if self.statistics == "trajectory" else "the calls of the question"
        mean = {"mean": "mean(r)", "leave-one-out": "mean(r of the others)", "batch": "mean(r of the step)"}
        centred = f"r − {mean[self.baseline]}"
        spread = {"std": "std(r)", "batch": "std of the step"}
        return (
            f"A = {centred} over {over}"
            if self.scale == "none"
            else (f"A = ({centred}) / ({spread[self.scale]} + {EPSILON:g}) over {over}")
        )


def credit(rows: Sequence[Row], estimator: Estimator) -> list[float | None]:
    """The advantage of each rollout of a step; None for one that is left out of training."""
    counted = [number for number, row in enumerate(rows) if row.fate == "ok" and row.calls]
    if estimator.credit == "turn":
        of = _by_turn({number: rows[number] for number in counted})
    else:
        of = _by_trajectory(rows, counted, estimator)
    return [of.get(number) for number in range(len(rows))]


def _by_trajectory(rows: Sequence[Row], counted: Sequence[int], estimator: Estimator) -> dict[int, float]:
    each = [number for number in counted for _ in range(rows[number].calls)]
    population = counted if estimator.statistics == "trajectory" else each
    found = advantages(
        [float(rows[number].reward or 0) + sum(rows[number].earned) for number in population],
        [rows[number].task for number in population],
        [True] * len(population),
        baseline=estimator.baseline,
        scale=estimator.scale,
    )
    return dict(zip(population, found.tolist(), strict=True))


def _by_turn(rows: Mapping[int, Row]) -> dict[int, float]:
    found = turn_advantages(
        [float(row.reward or 0) for row in rows.values()],
        [row.earned or (0.0,) * row.calls for row in rows.values()],
        [row.task for row in rows.values()],
    )
    return {number: float(turns.mean()) for number, turns in zip(rows, found, strict=True)}


def groups(named: Sequence[Named], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The groups of a step: those that teach something first, the widest spread first."""
    estimator = Estimator.model_validate(settings.get("flow") or {})
    rows = [row for _, row in named]
    members: dict[str, list[dict[str, Any]]] = {}
    for (name, row), advantage in zip(named, credit(rows, estimator), strict=True):
        faults = sum(bool(error) for error in row.errors)
        found = {**cells(name, row), "advantage": advantage, "fate": row.fate, "calls": row.calls, "faults": faults}
        members.setdefault(row.task, []).append(found)
    listed = [_group(task, trajectories) for task, trajectories in members.items()]
    return {
        "formula": estimator.words(),
        "penalty": estimator.penalty,
        "mask_cut_off": estimator.mask_cut_off,
        "groups": sorted(listed, key=lambda group: (group["settled"], -group["spread"])),
    }


def _group(task: str, trajectories: list[dict[str, Any]]) -> dict[str, Any]:
    rewards = [one["reward"] for one in trajectories if one["reward"] is not None]
    return {
        "task": task,
        "question": trajectories[0]["question"],
        "family": trajectories[0]["family"],
        "gold": trajectories[0]["gold"],
        "mean": mean(rewards) if rewards else None,
        "spread": stdev(rewards) if len(rewards) > 1 else 0.0,
        "settled": not any(one["advantage"] for one in trajectories),
        "trajectories": trajectories,
    }
