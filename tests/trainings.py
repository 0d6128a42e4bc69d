"""Folders of trainings for tests, written by what a training writes them with."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentflow.evals.episode import Episode, EpisodeTurn, append
from agentflow.rl.rollout import Fate, RolloutRecord
from agentflow.rl.trainable import Split
from agentflow.rl.training_log import TrainingLog


def rollout(
    step: int,
    split: Split,
    task: str,
    reward: float,
    *,
    fate: Fate = Fate.OK,
    question: str = "",
    answer: str = "the answer",
    turns: Sequence[EpisodeTurn] = (),
) -> RolloutRecord:
    """A rollout of `task`."""
    error = {"error": "down"} if fate == Fate.ENDPOINT_FAILED else {}
    episode = Episode(
        question=question or f"What is {task}?",
        analysis="the analysis",
        answer=answer,
        status="failed" if error else "answered",
        turns=list(turns),
        **error,
    )
    calls = max(1, len(turns))
    counts = {"calls": calls, "prompt_tokens": 30 * calls, "sampled_tokens": 10 * calls}
    return RolloutRecord(
        step=step, split=split, task=task, family="sums", gold="2", fate=fate, reward=reward, episode=episode, **counts
    )


def write_step(out: Path, step: int, rollouts: Sequence[RolloutRecord]) -> None:
    """A training step and its line."""
    log = TrainingLog(out)
    log.begin(step, "train")
    for record in rollouts:
        append(log.rollouts / f"{step:06d}-train.jsonl", record)
    reward = sum(record.reward for record in rollouts) / len(rollouts)
    metrics = {"reward": reward, "turns": 1.5, "tool_error_rate": 0.1, "sampled_tokens": 50, "actor/kl": 0.01 * step}
    log.step(step, metrics, {"step": 2.0, "gen": 1.0, "update_actor": 0.5})


def write_validation(out: Path, step: int, rollouts: Sequence[RolloutRecord]) -> None:
    """A validation and its line."""
    log = TrainingLog(out)
    log.begin(step, "test")
    for record in rollouts:
        append(log.rollouts / f"{step:06d}-test.jsonl", record)
    log.validation(step)


def begin(out: Path, steps: int, **flow: Any) -> Path:
    """The folder of a training that is about to begin."""
    TrainingLog(out).rewind(0)
    settings = {"preset": "atlas-cpu", "steps": steps, "questions": 2, "rollouts": 4, "lr": 1e-4, "kl": 0.003}
    (out / "settings.json").write_text(json.dumps({**settings, "options": {}, "flow": flow}))
    return out
