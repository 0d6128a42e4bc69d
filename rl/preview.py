"""Preview of a training: the model calls of a few rollouts by node, their rows and their groups."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentflow.rl.packing import Reason, TrainingSample, pack
from agentflow.rl.rollout import RolloutStatus, Trajectory


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
    def mismatches(self) -> Counter[Reason]:
        """Number of rows that could not continue an earlier one, by reason."""
        return Counter(row.mismatch.reason for row in self.rows if row.mismatch)

    @property
    def groups_with_signal(self) -> tuple[int, int]:
        """Number of tasks whose rollouts have different rewards, and of tasks with several rollouts that count."""
        rewards: dict[str, list[float]] = {}
        for one in self.trajectories:
            if one.status == RolloutStatus.OK:
                rewards.setdefault(one.trace.task.id, []).append(one.reward)
        several = [found for found in rewards.values() if len(found) > 1]
        return sum(len(set(found)) > 1 for found in several), len(several)


def packed(trajectory: Trajectory) -> Sequence[TrainingSample]:
    """Return the rows of a trajectory, packed without a limit."""
    longest = sum(len(call.prompt_ids) + len(call.response_ids) for call in trajectory.calls)
    return pack(trajectory.calls, limit=longest)


def remedies(preview: Preview, nodes: Sequence[str]) -> list[str]:
    """Return why nothing can be learnt from these rollouts, or what costs much, each with its remedy."""
    found = []
    if not any(use.learns for use in preview.nodes.values()):
        paths = ", ".join(f"'{path}'" for path in preview.nodes) or "no node"
        named = ", ".join(f"'{node}'" for node in nodes)
        found.append(f"no model call in {named or 'any node'} was seen; model calls are in {paths}")
    counted = [one for one in preview.trajectories if one.status == RolloutStatus.OK]
    if preview.trajectories and not counted:
        found.append(f"no rollout can be trained on: {preview.trajectories[0].trace.error}")
    if len(counted) > 1 and len({one.reward for one in counted}) == 1:
        found.append(
            f"every rollout has the reward {counted[0].reward:g}; try more tasks, easier ones, or a stronger model"
        )
    if unreadable := sum(use.unreadable for use in preview.nodes.values()):
        found.append(f"{unreadable} tool calls could not be read; the model may not know the format of its template")
    if preview.mismatches:
        reasons = ", ".join(f"{number} by {reason}" for reason, number in preview.mismatches.items())
        share = preview.unpacked_tokens / max(1, preview.forward_tokens)
        found.append(f"turns do not share a row ({reasons}); packing saves a factor of {share:.1f} as it is")
    return found
