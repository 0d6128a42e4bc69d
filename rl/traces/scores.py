"""Rewards from what sources have: scores, thumbs, and the answer that a person corrected."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentflow.evals.scorers.free_text import free_text
from agentflow.evals.scorers.score import Decision
from agentflow.rl.traces.episode import Dropped, DropReason, Episode

UP = ("up", "thumbs_up", "thumbs up", "positive", "good", "like", "yes", "true", "\U0001f44d")
DOWN = ("down", "thumbs_down", "thumbs down", "negative", "bad", "dislike", "no", "false", "\U0001f44e")
THUMBS = {**dict.fromkeys(UP, 1.0), **dict.fromkeys(DOWN, 0.0)}


def reward_of(scores: Mapping[str, Any], place: str, dropped: Dropped) -> float | None:
    """Return the reward of a run's scores by name: `correct` if it is there, else the lowest; None if there is none."""
    found: dict[str, float] = {}
    for name, value in scores.items():
        if (number := _number(value)) is not None:
            found[name] = number
        elif value is not None:
            dropped[DropReason.BAD_SCORE].append(place)
    return found["correct"] if "correct" in found else min(found.values(), default=None)


def _number(value: Any) -> float | None:
    """Return a number from 0 to 1, a truth value or a thumb as a number; None for anything else."""
    if isinstance(value, str):
        return THUMBS.get(value.strip().lower())
    if isinstance(value, bool | int | float) and math.isfinite(value) and 0 <= value <= 1:
        return float(value)
    return None


def scored(episode: Episode, gold: str) -> Episode:
    """Return the episode with a reward, if it has none and a rule can decide: an answer that was corrected is wrong."""
    if episode.reward is not None or not episode.answer.strip():
        return episode
    if episode.edit.strip():
        return replace(episode, reward=float(episode.edit.split() == episode.answer.split()))
    if not gold.strip():
        return episode
    decision = free_text(episode.answer, [gold], episode.question).decision
    return episode if decision == Decision.UNDECIDED else replace(episode, reward=float(decision == Decision.CORRECT))
