"""Preview of a training: the model calls of a few rollouts by node, their rows and their groups."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agentflow.graph.run.runner import Graph
from agentflow.graph.run.task import Task
from agentflow.rl.algorithms.algorithm import Rollout
from agentflow.rl.algorithms.signal import Share, groups_with_signal
from agentflow.rl.chat import Generate
from agentflow.rl.node_paths import learns
from agentflow.rl.packing import Reason, TrainingSample, pack
from agentflow.rl.rehearsal import naming_errors
from agentflow.rl.rollout import RolloutStatus, Trajectory, run
from agentflow.rl.trainable import Trainable


@dataclass
class NodeUse:
    """The model calls at one path."""

    calls: int = 0
    learns: bool = False
    prompt_tokens: int = 0
    sampled_tokens: int = 0
    unreadable: int = 0


@dataclass
class Preview:
    """Rollouts as training would use them."""

    trajectories: list[Trajectory] = field(default_factory=list)

    @property
    def nodes(self) -> dict[str, NodeUse]:
        """Model calls by path; tokens are known of nodes that learn."""
        found: dict[str, NodeUse] = {}
        for trajectory in self.trajectories:
            for path, number in trajectory.model_calls.items():
                found.setdefault(path, NodeUse()).calls += number
            for call in trajectory.calls:
                use = found.setdefault(call.node, NodeUse())
                use.learns = True
                use.prompt_tokens += len(call.prompt_ids)
                use.sampled_tokens += len(call.response_ids)
                use.unreadable += call.unreadable
        return found

    @property
    def statuses(self) -> Counter[RolloutStatus]:
        """Number of rollouts by status."""
        return Counter(trajectory.status for trajectory in self.trajectories)

    @property
    def rows(self) -> list[TrainingSample]:
        """Training rows of all rollouts, packed without a limit."""
        return [row for one in self.trajectories for row in packed(one)]

    @property
    def forward_tokens(self) -> int:
        """Tokens that a training step would compute for these rollouts."""
        return sum(len(row.prompt_ids) + len(row.response_ids) for row in self.rows)

    @property
    def unpacked_tokens(self) -> int:
        """Tokens that it would compute if every call were a row."""
        return sum(len(call.prompt_ids) + len(call.response_ids) for one in self.trajectories for call in one.calls)

    @property
    def sampled_tokens(self) -> int:
        """Tokens that the policy sampled."""
        return sum(len(call.response_ids) for one in self.trajectories for call in one.calls)

    @property
    def breaks(self) -> dict[Reason, tuple[int, int]]:
        """Number of rows that could not continue an earlier one, and the tokens that they compute again, by reason."""
        found: dict[Reason, tuple[int, int]] = {}
        for row in self.rows:
            if row.mismatch:
                rows, tokens = found.get(row.mismatch.reason, (0, 0))
                found[row.mismatch.reason] = rows + 1, tokens + row.mismatch.position
        return found

    @property
    def groups_with_signal(self) -> Share:
        """Number of tasks with several rollouts that count, and of those whose rewards differ."""
        return groups_with_signal(
            [
                Rollout(
                    group=one.trace.task.id,
                    reward=one.reward,
                    lengths=[len(call.response_ids) for call in one.calls],
                    turn_rewards=one.turn_rewards,
                    faults=one.faults,
                )
                for one in self.trajectories
                if one.status == RolloutStatus.OK
            ]
        )


def packed(trajectory: Trajectory) -> Sequence[TrainingSample]:
    """Return the rows of a trajectory, packed without a limit."""
    longest = sum(len(call.prompt_ids) + len(call.response_ids) for call in trajectory.calls)
    return pack(trajectory.calls, limit=longest)


async def play(
    app: Trainable,
    graph: Graph,
    tasks: Sequence[Task],
    policy: Generate,
    *,
    rollouts: int,
    seconds: float,
    on_rollout: Callable[[Trajectory], None] = lambda trajectory: None,
) -> Preview:
    """Play so many rollouts of each task, one after another; `on_rollout` gets each that has ended."""
    named, preview = naming_errors(app), Preview()
    for task in tasks:
        for number in range(rollouts):
            found = await run(named, graph, task, policy, id=f"{task.id}/{number}", seconds=seconds)
            preview.trajectories.append(found)
            on_rollout(found)
    return preview


def obstacles(preview: Preview, nodes: Sequence[str]) -> list[str]:
    """Return why nothing can be learnt from these rollouts, each with its remedy; empty if something can."""
    if preview.nodes and not any(learns(path.split("/"), nodes) for path in preview.nodes):
        paths = ", ".join(f"'{path}'" for path in preview.nodes)
        named = ", ".join(f"'{node}'" for node in nodes)
        return [f"no model call in {named} was seen; model calls are in {paths}, which --nodes can name"]
    counted = [one for one in preview.trajectories if one.status == RolloutStatus.OK]
    if not counted:
        errors = Counter(one.trace.error or "its reward is None" for one in preview.trajectories)
        return [f"no rollout can be trained on: {error} ({number} of them)" for error, number in errors.items()]
    if not any(use.learns for use in preview.nodes.values()):
        return ["no reply of the policy was seen; it answers LangChain's chat models and the openai SDK"]
    if len(counted) > 1 and len({one.reward for one in counted}) == 1:
        reward = f"{counted[0].reward:g}"
        return [f"every rollout has the reward {reward}; try more tasks, easier or harder ones, or a stronger model"]
    return []


def notes(preview: Preview) -> list[str]:
    """Return what costs much or may fail, each with its remedy."""
    found = []
    if unreadable := sum(use.unreadable for use in preview.nodes.values()):
        found.append(f"{unreadable} tool calls could not be read; the model may not know the format of its template")
    for reason, (rows, tokens) in preview.breaks.items():
        share = tokens / preview.forward_tokens
        found.append(
            f"{rows} rows do not continue an earlier one ({reason}), which computes {tokens:,} tokens again "
            f"({share:.0%} of all)"
        )
    return found
