"""One task through a trainable graph: what was sampled on the way, the reward, and how it ended.

Whatever goes wrong is the rollout's fate, never a reward: an endpoint that is down, a judge that cannot tell, a tool
that hangs or a fault in the graph must not be learnt from as if the policy had been wrong.
"""

import asyncio
import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel

from agentflow.evals.episode import Episode
from agentflow.graph.models.spec import ModelError
from agentflow.rl.policy import Generate, PromptTooLong, serving
from agentflow.rl.tape import Answer, Tape, answered, playing, taped
from agentflow.rl.trace import Call, TraceCollector
from agentflow.rl.trainable import Graph, Split, Task, Trainable


class Fate(StrEnum):
    """How a rollout ended. Only OK has a reward."""

    OK = "ok"
    UNDECIDED = "undecided"
    """The reward could not tell right from wrong."""
    ENDPOINT_FAILED = "endpoint_failed"
    """A model, the judge's included, did not answer."""
    TOO_LONG = "too_long"
    """The conversation outgrew what the policy may read."""
    TIMED_OUT = "timed_out"
    CRASHED = "crashed"
    """The graph or the reward raised something else."""


@dataclass(frozen=True)
class Trajectory:
    """A rollout that ended."""

    id: str
    task: Task
    fate: Fate
    reward: float
    """0.0 unless the fate is OK."""
    calls: list[Call]
    faults: list[bool]
    """Of each call, whether it led to a format or tool error."""
    turn_rewards: list[float]
    """Of each call, what it earned by itself."""
    episode: Episode
    seconds: float
    trunk: str = ""
    """The rollout that it was forked from (`agentflow.rl.forks`); itself or nothing if from none."""
    given: int = 0
    """How many of its first calls it was told, and are not its own."""

    @property
    def own_calls(self) -> list[Call]:
        """The calls that are trained on."""
        return self.calls[self.given :]

    @property
    def cut_off(self) -> bool:
        """Whether a reply of the policy ended at its length limit."""
        return any(call.finish_reason == "length" for call in self.own_calls)


class RolloutRecord(BaseModel):
    """A rollout as a line of rollouts/*.jsonl."""

    id: str = ""
    """As in the rows of tokens/*.jsonl.gz."""
    step: int
    split: Split
    task: str
    family: str
    gold: str
    fate: Fate
    reward: float
    calls: int
    """Model calls that are trained on."""
    prompt_tokens: int
    sampled_tokens: int
    turn_rewards: list[float] = []
    """What each of these calls earned by itself; none where they earned nothing."""
    episode: Episode

    @classmethod
    def of(cls, trajectory: Trajectory, step: int, split: Split) -> "RolloutRecord":
        """The record of a trajectory."""
        return cls(
            id=trajectory.id,
            step=step,
            split=split,
            task=trajectory.task.id,
            family=trajectory.task.family,
            gold=trajectory.task.gold,
            fate=trajectory.fate,
            reward=trajectory.reward,
            calls=len(trajectory.own_calls),
            prompt_tokens=sum(len(call.prompt_ids) for call in trajectory.own_calls),
            sampled_tokens=sum(len(call.response_ids) for call in trajectory.own_calls),
            turn_rewards=trajectory.turn_rewards if any(trajectory.turn_rewards) else [],
            episode=trajectory.episode,
        )


async def run(app: Trainable, graph: Graph, task: Task, generate: Generate, *, id: str, seconds: float) -> Trajectory:
    """Runs `task`; `generate` answers the policy's calls, and `seconds` is all the time that graph and reward have."""
    collector, start = TraceCollector(id, app.nodes), time.perf_counter()
    fate, reward, faults, earned = Fate.OK, 0.0, list[bool](), list[float]()
    try:
        async with asyncio.timeout(seconds):
            with serving(generate):
                config: RunnableConfig = {"callbacks": [collector], "metadata": {"rollout": id}}
                state = await graph.ainvoke(app.inputs(task), config, context=app.context())
            episode = app.episode(task, state)
            faults = list(app.faults(state))
            earned = list(app.turn_rewards(task, state))
            decided = await _reward(app, task, state, episode)
        fate, reward = (Fate.UNDECIDED, 0.0) if decided is None else (Fate.OK, float(decided))
    except TimeoutError:
        fate, episode = Fate.TIMED_OUT, _broken(task, f"the rollout took longer than {seconds:g} s")
    except PromptTooLong as error:
        fate, episode = Fate.TOO_LONG, _broken(task, str(error))
    except ModelError as error:
        fate, episode = Fate.ENDPOINT_FAILED, _broken(task, str(error))
    except Exception as error:
        # The boundary of a rollout: whatever a foreign graph or reward raises is this rollout's, and training goes on.
        fate, episode = Fate.CRASHED, _broken(task, " ".join(f"{type(error).__name__}: {error}".split()))
    taken = round(time.perf_counter() - start, 3)
    calls = collector.calls
    faults = (faults + [False] * len(calls))[: len(calls)]
    earned = (earned + [0.0] * len(calls))[: len(calls)]
    ended = episode.model_copy(update={"seconds": taken})
    return Trajectory(id, task, fate, reward, calls, faults, earned, ended, taken)


async def run_on_tape(
    app: Trainable, graph: Graph, task: Task, policy: Callable[[], Generate], tape: Tape, *, seconds: float, tries: int
) -> Trajectory:
    """Runs `task` with the answers that `tape` has, and keeps those that come anew.

    A run whose model or judge did not answer is tried again, `tries` times in all, each with a `policy()` of its own;
    only what was not answered is asked again.
    """
    for number in range(1, tries + 1):
        tape.rewind()
        with playing(tape):
            trajectory = await run(app, graph, task, taped(policy()), id=uuid4().hex, seconds=seconds)
        if trajectory.fate != Fate.ENDPOINT_FAILED or number == tries:
            break
    trunk, given = tape.forked
    return replace(trajectory, trunk=trunk, given=given)


async def _reward(app: Trainable, task: Task, state: Any, episode: Episode) -> float | None:
    """Of the final state. What has to be waited for asks somebody, whose answer belongs on the tape."""
    found = app.reward(task, state)
    if not inspect.isawaitable(found):
        return found

    async def ask() -> Answer:
        return {"reward": await found}

    try:
        told = await answered("reward", [task.id, episode.answer], ask)
    finally:
        if inspect.iscoroutine(found):
            found.close()  # where the tape knew
    return None if told["reward"] is None else float(told["reward"])


def _broken(task: Task, reason: str) -> Episode:
    return Episode(question=task.question, status="failed", error=reason)
