"""Groups: the trajectories of one question at one step, with their advantages, and with their tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean, mean, stdev
from typing import Any

from pydantic import ValidationError

from agentflow.rl.algorithms import algorithm_of
from agentflow.rl.rollout.token_inspector import terms, trajectories
from agentflow.rl.rollout.tokens import TokenStep
from agentflow.view.query import Named, cells


def groups(named: Sequence[Named], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the groups of a step, those with the widest spread of advantages first."""
    flow = settings.get("flow") or {}
    members: dict[str, list[dict[str, Any]]] = {}
    for name, row in named:
        faults = sum(bool(error) for error in row.errors)
        advantage = fmean(row.advantages) if row.advantages else None
        found = {**cells(name, row), "advantage": advantage, "advantages": row.advantages, "status": row.status}
        members.setdefault(row.task, []).append({**found, "calls": row.calls, "faults": faults})
    listed = [_group(task, trajectories) for task, trajectories in members.items()]
    return {
        "formula": _formula(flow),
        "credited": any(row.advantages for _, row in named),
        "penalty": (flow.get("algorithm") or {}).get("penalty", 0),
        "mask_cut_off": flow.get("mask_cut_off", False),
        "groups": sorted(listed, key=lambda group: (group["settled"], -group["spread"])),
    }


def _formula(flow: Mapping[str, Any]) -> str:
    """Return the algorithm's formula, or "" for settings of another version."""
    try:
        return algorithm_of(flow.get("algorithm") or {}).formula
    except ValidationError:
        return ""


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


def tokens(step: TokenStep, task: str, named: Sequence[Named]) -> dict[str, Any]:
    """Return the page's data of one group's tokens. `named` are the rollouts of the step."""
    traces = {row.rollout: cells(name, row) for name, row in named if row.rollout}
    question = next((row.question for _, row in named if row.task == task), task)
    shown = [{**asdict(one), "trace": traces.get(one.rollout)} for one in trajectories(step, task)]
    return {"question": question, "terms": terms(step), "trajectories": shown}
