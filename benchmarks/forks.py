"""Atlas app whose rollouts fork where the planner is least sure, for `benchmarks.ways` (compare BPO).

Of a question's rollouts, every second one is a fork of the one before. It waits for that trunk to end, begins with its
responses before one call of the planner, and so repeats it up to that call and samples from there on: both make the
call in the same state. The call is the one with the highest mean of -log p over its tokens, an estimate of its entropy;
if it is the first, the fork is a rollout like any other. What comes before the call is trained on in both rollouts, so
that its advantages add up to that of the state that it leads to.

Forks gained too little to be a setting of the trainer, so the app changes `FlowAgentLoop`.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from statistics import mean
from typing import Any

from agentflow.graph.run.trace import append
from agentflow.rl.planner import atlas
from agentflow.rl.replay_log import Entry, ReplayLog, ReplayLogs, as_reply
from agentflow.rl.rollout import Trajectory
from agentflow.rl.trainable import Split, Trainable
from agentflow.rl.trainer.agent_loop import FlowAgentLoop, rollout_name

_trajectory = FlowAgentLoop._trajectory
_ended: dict[tuple[str, str], asyncio.Event] = defaultdict(asyncio.Event)
"""Set once a rollout has ended, by the file of its replay log and its name."""


def trunk_of(rollout: str) -> str:
    """Return the rollout that another one forks from; itself if it forks from none."""
    task, _, number = rollout.rpartition("/")
    return f"{task}/{int(number) // 2 * 2}"


def before_least_sure(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the responses before the policy's reply with the lowest mean log-probability."""
    replies = {place: as_reply(one.answer) for place, one in enumerate(entries) if one.kind == "policy"}
    return entries[: min(replies, key=lambda place: mean(replies[place].logprobs), default=0)]


async def forked(self: FlowAgentLoop, sampling_params: dict[str, Any], row: dict[str, Any]) -> Trajectory:
    """Run the task, of a fork from the middle of its trunk on."""
    path = self.log.replay_log_of(int(row["global_steps"]), row["extra_info"]["split"])
    name, trunk = rollout_name(row), trunk_of(rollout_name(row))
    if row["extra_info"]["split"] == "train" and trunk != name:
        await _ended[str(path), trunk].wait()
        told = [one for one in ReplayLogs(path) if one.rollout in (name, trunk)]
        if all(one.rollout == trunk for one in told):  # else its process was killed, and it goes on
            for one in before_least_sure(told):
                append(path, one.model_copy(update={"rollout": name}))
    try:
        return await _trajectory(self, sampling_params, row)
    finally:
        _ended[str(path), name].set()


def replay_log(self: FlowAgentLoop, step: int, split: Split, name: str) -> ReplayLog:
    """Return the replay log of a rollout as the file has it now."""
    return ReplayLogs(self.log.replay_log_of(step, split)).of(name)


def forks(**options: Any) -> Trainable:
    """Return the Atlas app, and have this process fork rollouts."""
    FlowAgentLoop._trajectory, FlowAgentLoop._replay_log = forked, replay_log  # type: ignore[method-assign]
    return atlas(**options)
